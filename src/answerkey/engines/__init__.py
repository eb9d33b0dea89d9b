"""Where work happens: an engine applies a function to every shard and knows nothing of what it does."""

from __future__ import annotations

from collections.abc import Callable

from answerkey.engines.local import Divisible, Engine, LocalEngine, Spread, count_cores
from answerkey.errors import EngineError, listing, suggest

__all__ = ["ENGINES", "Divisible", "Engine", "LocalEngine", "Spread", "count_cores", "open_engine"]


def _open_local(address: str | None) -> Engine:
    if address is not None:
        message = f"`--ray-address {address}` is of no use to the engine `local`"
        raise EngineError("E601", message, hint="add `--engine ray`, or leave the address out")
    return LocalEngine()


def _open_ray(address: str | None) -> Engine:
    from answerkey.engines.ray_engine import RayEngine

    return RayEngine(address)


#: Engines by name; each is opened with the address of a cluster, or none.
ENGINES: dict[str, Callable[[str | None], Engine]] = {"local": _open_local, "ray": _open_ray}


def open_engine(name: str = LocalEngine.name, address: str | None = None) -> Engine:
    """Return the engine with this name; EngineError E601 when there is none, or it is not installed."""
    if name in ENGINES:
        return ENGINES[name](address)
    near = suggest(name, ENGINES)
    raise EngineError("E601", f"unknown engine `{name}`", hint=near or f"engines: {listing(ENGINES)}")
