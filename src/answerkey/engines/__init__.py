"""Engines: an engine applies a function to every chunk and knows nothing about the work itself."""

from __future__ import annotations

from answerkey.engines.local import Engine, Spread, count_cores
from answerkey.errors import EngineError, listing, suggest

__all__ = ["ENGINES", "Engine", "Spread", "count_cores", "open_engine"]


ENGINES = ("local", "ray")


def open_engine(name: str = "local", address: str | None = None) -> Engine:
    """Return the engine with this name, at the address of a cluster.

    EngineError E601 if there is none.
    """
    if name == "ray":
        from answerkey.engines.ray_engine import RayEngine

        return RayEngine(address)
    if name not in ENGINES:
        near = suggest(name, ENGINES)
        raise EngineError(
            "E601", f"unknown engine `{name}`", hint=near or f"engines: {listing(ENGINES)}"
        )
    if address is not None:
        message = f"`--ray-address {address}` does not apply to the engine `local`"
        raise EngineError("E601", message, hint="add `--engine ray`, or leave the address out")
    return Engine()
