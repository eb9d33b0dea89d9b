"""Functions that are called at the same time, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from answerkey.errors import Stop

Key = TypeVar("Key")
Result = TypeVar("Result")

#: So many functions are under way at a time.
MAX_THREADS = 32
#: The calling thread wakes up this often, so that Ctrl-C is heard.
SIGNAL_SECONDS = 0.25


def call_together(functions: Mapping[Key, Callable[[], Result]]) -> dict[Key, Result]:
    """Return what each function returns.

    Ctrl-C, and an error of one, stop the others: it is raised when all have ended.
    """
    stop = Stop()

    def follow(function: Callable[[], Result]) -> Result:
        with stop.followed():
            return function()

    pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="answerkey-run")
    try:
        futures = {key: pool.submit(follow, function) for key, function in functions.items()}
        while wait(futures.values(), SIGNAL_SECONDS, FIRST_EXCEPTION).not_done:
            for future in futures.values():
                if future.done():
                    future.result()
        return {key: future.result() for key, future in futures.items()}
    except BaseException as error:
        stop.message = getattr(error, "message", "interrupted")
        raise
    finally:
        pool.shutdown(cancel_futures=True)
