"""Shards on threads: for work in which Python's lock is free."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Shard = TypeVar("Shard")
Part = TypeVar("Part")
#: So many shards for each core are handed out before the first of them is waited for.
AHEAD = 2


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def do_nothing() -> None:
    """Stop nothing."""


def map_threads(
    function: Callable[[Shard], Part],
    shards: Iterable[Shard],
    count: int,
    stop: Callable[[], None] = do_nothing,
) -> Iterator[Part]:
    """Yield the function's value for each shard in order, with `count` shards under way at a time.

    Whatever ends it, an error, Ctrl-C, or nobody asking for more: what is under way is finished first, or
    ended by `stop`, and nothing else is begun.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix="answerkey-shard")
    waiting: deque[Future[Part]] = deque()
    try:
        for shard in shards:
            waiting.append(pool.submit(function, shard))
            if len(waiting) >= AHEAD * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        stop()
        pool.shutdown(wait=True, cancel_futures=True)
