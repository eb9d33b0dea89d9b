"""Seconds and refused requests against endpoints that take only so many requests.

A server on this machine, in a process of its own, answers after 50 ms. It refuses what is above a
number at once, or above a rate; or it works on a few requests and lets the others wait. `ideal` is
how long the calls take for who knows the limit. The exit code is 1 when a promise is missed.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from aiohttp import web
from asking import REPLY, build_call

from answerkey.models.calls import CallSettings
from answerkey.models.client import ModelClient
from answerkey.models.providers import APIS, Connection

SECONDS = 0.05
#: What the calls may take beyond the ideal, and the share of requests that may be refused after the
#: first.
MOST_TIME, MOST_REFUSED, FIRST = 1.25, 0.03, 8


@dataclass(frozen=True)
class Case:
    """An endpoint: it takes `most` at once, `rate` a second, and works on `slots` at a time."""

    name: str
    calls: int
    ideal: float
    most: int = 1_000
    rate: float = 1e9
    slots: int = 1_000
    status: int = 429
    retry_after: str = ""

    @property
    def has_promise(self) -> bool:
        """Whether the project makes a promise for this case."""
        return self.rate == 1e9  # noqa: PLR2004 - without a rate


CASES = (
    Case("ten at once, 429", 800, 4.0, most=10),
    Case("ten at once, 429, Retry-After: 1", 1_600, 8.0, most=10, retry_after="1"),
    Case("ten at once, 503", 800, 4.0, most=10, status=503),
    Case("ten at once, 529", 800, 4.0, most=10, status=529),
    Case("three at once, 429", 400, 6.7, most=3),
    Case("forty at once, 429", 4_000, 5.0, most=40),
    Case("100 a second, 429", 1_000, 9.9, rate=100),
    Case("10 a second, 429, Retry-After: 1", 150, 14.0, rate=10, retry_after="1"),
    Case("eight work, others wait", 800, 5.0, slots=8),
    Case("no limit, 64 at once", 8_000, 6.25),
)


def serve(case: Case, pipe: Pipe) -> None:
    """Answer as the case says until this process is ended.

    A word from the pipe asks for the counts.
    """
    body = json.dumps(REPLY).encode()
    headers = {"Retry-After": case.retry_after} if case.retry_after else {}
    under_way = sent = refused = 0
    tokens, paid_at = 10.0, time.monotonic()
    slots = asyncio.Semaphore(case.slots)

    async def answer(request: web.BaseRequest) -> web.Response:
        nonlocal under_way, sent, refused, tokens, paid_at
        await request.read()
        sent += 1
        now = time.monotonic()
        tokens, paid_at = min(10.0, tokens + (now - paid_at) * case.rate), now
        if under_way >= case.most or tokens < 1:
            refused += 1
            return web.json_response(
                {"error": {"message": "too many"}}, status=case.status, headers=headers
            )
        tokens -= 1
        under_way += 1
        try:
            async with slots:
                await asyncio.sleep(SECONDS)
        finally:
            under_way -= 1
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        runner = web.ServerRunner(web.Server(answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        pipe.send(runner.addresses[0][1])
        while await asyncio.to_thread(pipe.recv):
            pipe.send((sent, refused))

    asyncio.run(run())


@contextmanager
def start_server(case: Case) -> Iterator[tuple[str, Pipe]]:
    """Yield the address of a server in a process of its own, and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(case, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1/chat/completions", here
    finally:
        process.kill()
        process.join()


def measure(case: Case) -> tuple[float, int, int, int]:
    """Return the seconds, the requests sent and refused, and how many may be under way in the
    end.
    """
    with start_server(case) as (url, pipe):
        connection = Connection("bench", APIS["chat"], url, "bench")
        with ModelClient(connection, CallSettings()) as client:
            calls = [build_call(connection, number) for number in range(case.calls)]
            begun = time.perf_counter()
            completions = client.complete(calls)
            seconds = time.perf_counter() - begun
        if any(completion.text != "B" for completion in completions):
            raise SystemExit(f"{case.name}: a call was not answered")
        pipe.send("counts")
        sent, refused = pipe.recv()
    return seconds, sent, refused, client.endpoint.concurrency.limit


def main() -> int:
    """Print the table; return 1 when a promise is not kept."""
    print(f"{'endpoint':<34} {'calls':>5} {'ideal':>7} {'ours':>7} {'refused':>7} {'at once':>7}")
    is_kept = True
    for case in CASES:
        seconds, sent, refused, limit = measure(case)
        is_good = seconds <= MOST_TIME * case.ideal and refused <= MOST_REFUSED * sent + FIRST
        is_kept &= is_good or not case.has_promise
        row = f"{case.name:<34} {case.calls:>5} {case.ideal:>5.1f} s {seconds:>5.1f} s"
        row = f"{row} {refused / sent:>7.1%} {limit:>7}"
        print(row if is_good or not case.has_promise else f"{row}  MISSED", flush=True)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
