"""Where work happens: an engine applies a function to every shard and knows nothing of what it does."""

from answerkey.engines.engine import ENGINES, Divisible, Engine, LocalEngine, Spread, open_engine

__all__ = ["ENGINES", "Divisible", "Engine", "LocalEngine", "Spread", "open_engine"]
