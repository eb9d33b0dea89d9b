"""Calls per second of ours, journal included, beside a bare aiohttp client at the same concurrency.

A server on this machine, in a process of its own, answers after 0 or 50 ms. For each case both take
turns, and the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from aiohttp import ClientSession, TCPConnector, web

from answerkey.models.cache import CallCache, RunLedger
from answerkey.models.calls import Call, CallSettings, Limits, call_key
from answerkey.models.client import ModelClient
from answerkey.models.config import Secret
from answerkey.models.providers import APIS, Connection
from answerkey.models.store import CallStore

#: Concurrency, delay in seconds, requests per turn, and the least ratio that the project promises.
CASES = (
    (64, 0.05, 8_000, 0.8),
    (256, 0.05, 24_000, 0.8),
    (64, 0.0, 8_000, 0.5),
    (256, 0.0, 8_000, 0.5),
)
TURNS = 3
HEADERS = {"Authorization": "Bearer sk-0123456789abcdef"}
MESSAGE = {"role": "assistant", "content": "B"}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "bench",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 60, "completion_tokens": 1, "total_tokens": 61},
}
QUESTION = (
    "Which of these is the capital of Australia?\nA. Sydney\nB. Canberra\nC. Perth\nD. "
    "Hobart\n({number})"
)


def serve(delay: float, pipe: Pipe) -> None:
    """Answer every request after a delay, until this process is terminated."""
    body = json.dumps(REPLY).encode()

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        if delay:
            await asyncio.sleep(delay)
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        runner = web.ServerRunner(web.Server(answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        pipe.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def start_server(delay: float) -> Iterator[str]:
    """Yield the address of a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(delay, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1/chat/completions"
    finally:
        process.kill()
        process.join()


def build_messages(number: int) -> list[dict[str, str]]:
    """Return the messages of one question."""
    return [{"role": "user", "content": QUESTION.format(number=number)}]


def measure_bare(url: str, concurrent: int, count: int) -> float:
    """Return the requests per second of a bare client that sends the same and reads the JSON."""

    async def work(session: ClientSession, numbers: Iterator[int]) -> None:
        for number in numbers:
            body = {"model": "bench", "messages": build_messages(number)}
            async with session.post(url, json=body, headers=HEADERS) as reply:
                await reply.json()

    async def run() -> float:
        async with ClientSession(connector=TCPConnector(limit=concurrent)) as session:
            begun = time.perf_counter()
            numbers = iter(range(count))
            await asyncio.gather(*(work(session, numbers) for _ in range(concurrent)))
            return count / (time.perf_counter() - begun)

    return asyncio.run(run())


def measure_asker(url: str, concurrent: int, count: int) -> float:
    """Return the calls per second of the asker; keys, journal and slow start included."""
    headers = {name: Secret(value) for name, value in HEADERS.items()}
    connection = Connection("bench", APIS["chat"], url, "bench", headers, max_concurrent=concurrent)
    with tempfile.TemporaryDirectory() as folder:
        journal = CallStore(Path(folder) / "calls.sqlite")
        with ModelClient(
            connection,
            CallSettings(ledger=RunLedger(journal, CallCache("no-cache"), ""), limits=Limits()),
        ) as asker:
            begun = time.perf_counter()
            calls = [build_call(connection, number) for number in range(count)]
            asker.complete(calls)
            speed = count / (time.perf_counter() - begun)
        journal.close()
    return speed


def measure_all(url: str, concurrent: int, count: int) -> list[float]:
    """Return the requests per second of the bare client and of answerkey."""
    speeds = []
    for measure in (measure_bare, measure_asker):
        # Neither pays for looking through what is there before it begins.
        gc.collect()
        gc.freeze()
        speeds.append(measure(url, concurrent, count))
    return speeds


def build_call(connection: Connection, number: int) -> Call:
    """Return the call of one question."""
    messages = build_messages(number)
    return Call(call_key(connection, messages, 0), f"{number:06d}", 0, messages)


def main() -> int:
    """Print the table; return 1 when a promised ratio is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="how often each is measured")
    turns = parser.parse_args().turns
    print(
        "{:>8} {:>7} {:>9} {:>8} {:>6} {:>9}".format(
            "at once", "delay", "aiohttp/s", "ours/s", "ratio", "promised"
        )
    )
    is_kept = True
    for concurrent, delay, count, promised in CASES:
        with start_server(delay) as url:
            measured = [measure_all(url, concurrent, count) for _ in range(turns)]
        bare, ours = (max(speeds) for speeds in zip(*measured, strict=True))
        is_kept &= ours / bare >= promised
        case = f"{concurrent:>8} {delay * 1000:>4.0f} ms"
        print(f"{case} {bare:>9.0f} {ours:>8.0f} {ours / bare:>6.2f} {promised:>9.2f}", flush=True)
        work = f"requests of {delay * 1000:.0f} ms, {concurrent} at once"
        cells = [work, f"{ours:.0f}/s", "-", f"aiohttp alone: {bare:.0f}/s", f"{bare / ours:.2f}"]
        print("row:", " | ".join([*cells, f"{1 / promised:g}"]))
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
