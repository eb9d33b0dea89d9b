"""An event loop in a thread of its own: plain functions can ask, and connections live on in between."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Runs coroutines in its own thread until it is stopped; works inside a notebook's loop as well."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._is_over: asyncio.Event | None = None
        self._on_stop: Callable[[], Coroutine[Any, Any, None]] | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine; the thread is started with the first one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            self._is_ready.wait()
        if self._loop is None:
            work.close()
            raise RuntimeError("the event loop has been stopped")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function inside the loop, without waiting for it; nothing when there is no loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def stop_with(self, clean_up: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Say what is to be done last, before the loop ends."""
        self._on_stop = clean_up

    def stop(self) -> None:
        """Cancel what is running, clean up, and end the thread; twice does no harm."""
        if self._thread is None or self._loop is None:
            return
        over = self._is_over
        if over is not None:
            self.call(over.set)
        self._thread.join()
        self._loop = None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()
        self._is_ready.set()
        await self._is_over.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        if self._on_stop is not None:
            await self._on_stop()


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where uvloop is installed, else None for Python's own."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory
