"""Laws of what endpoints send: bytes of HTTP, answers in every API, lines of
batches.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import get_args

import polars as pl
from tests.samples import samples_from_frame, score_table

from answerkey.models.batch import read_lines
from answerkey.models.calls import Limits
from answerkey.models.http import HttpClient
from answerkey.models.logprobs import read_positions
from answerkey.models.providers import APIS, Connection
from answerkey.models.responses import (
    is_trace,
    parse_anthropic,
    parse_chat,
    parse_gemini,
    parse_text,
    read_body,
    read_message,
)
from answerkey.models.retry import (
    HttpReply,
    HttpRequest,
    NoReply,
    RetryVerdict,
    judge,
    read_retry_after,
)
from answerkey.scorers.choice_probabilities import ChoiceProbabilities, Normalise
from answerkey.types import Completion, Completions, CompletionStatus

from .law import Law, decode, list_stored, list_words, read_value

#: The most bytes of a body here.
MOST = 4_096
CONNECTION = Connection("m", APIS["chat"], "http://127.0.0.1:9/v1/chat/completions", "m")
Take = Callable[[Mapping[str, object]], Completion]
JSON_WORDS = [*list_words("reply"), b"9" * 400, b"[" * 50]


def require_completion(completion: Completion) -> None:
    """Require that a completion is one that every table and file can hold, with text if it is
    OK.
    """
    assert (completion.text is not None) == (completion.status is CompletionStatus.OK)
    assert (completion.error is not None) == (completion.status is CompletionStatus.ERROR)
    for count in (completion.prompt_tokens, completion.completion_tokens):
        assert count is None or 0 <= count < 1 << 63
    json.dumps([completion.reply, completion.logprobs, completion.prompt], allow_nan=False)
    table = Completions.build(["x"], [completion], source="live")
    (again,) = table
    assert (again.text, again.status) == (completion.text, completion.status)
    assert again.reply == completion.reply
    for place in read_positions(completion.logprobs):
        assert place.logprob is None or place.logprob <= 0
    if completion.logprobs is not None:
        check_probabilities(table)


def check_probabilities(table: Completions) -> None:
    """Require that log-probabilities, whatever they are, have a verdict without numbers that are
    none.
    """
    samples = samples_from_frame(pl.DataFrame({"truth": ["A"]}), pl.Series(["x"]))
    for normalise in get_args(Normalise):
        scorer = ChoiceProbabilities("{{ sample.truth }}", ["A", "B"], normalise=normalise)
        (score,) = score_table(scorer, samples, table).rows()
        for value in score.values.values():
            assert not isinstance(value, float) or math.isfinite(value)


def check_reply(take: Take, raw: bytes) -> None:
    """Require that a body of any status is a completion, and that it is decided what becomes of
    it.
    """
    status = (200, 200, 200, 201, 400, 429, 500, 302)[raw[0] % 8] if raw else 200
    require_completion(read_body(status, raw[1:], take))
    outcome = judge(HttpReply(status, {}, raw[1:]), lambda code, body: read_body(code, body, take))
    assert isinstance(outcome.verdict, RetryVerdict)
    require_completion(outcome.completion)


def check_batch(raw: bytes) -> None:
    """Require that each line of a batch's output that names a call is a completion."""
    for key, completion in read_lines(raw, CONNECTION):
        assert isinstance(key, str)
        require_completion(completion)


def check_message(raw: bytes) -> None:
    """Require that any value in a file is read as a completion, whatever its shape."""
    value = read_value(decode(raw))
    completion = read_message(value)
    assert completion.status is not CompletionStatus.ERROR
    require_completion(completion)
    is_trace(value)


async def receive(sent: bytes) -> HttpReply | NoReply:
    """Return what becomes of bytes that an endpoint sends before it closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(sent)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    client = HttpClient(Connection("m", APIS["chat"], url), Limits(max_bytes=MOST))
    try:
        return await client.send(HttpRequest(b"{}"), seconds=10)
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


_LOOP = asyncio.new_event_loop()


def check_http(sent: bytes) -> None:
    """Require that bytes are a reply or a trouble, and no more of a reply than is allowed."""
    outcome = _LOOP.run_until_complete(receive(sent))
    if isinstance(outcome, NoReply):
        require_completion(judge(outcome, lambda *_: Completion("")).completion)
        return
    assert len(outcome.body) <= MOST
    wait = read_retry_after(outcome.headers, 0.0)
    assert wait is None or wait >= 0
    verdict = judge(outcome, lambda code, body: read_body(code, body, parse_chat))
    require_completion(verdict.completion)


def _list_http() -> list[bytes]:
    body = b'{"choices": [{"message": {"content": "A"}}]}'
    refusal = b"HTTP/1.1 429 No\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
    later = b"Retry-After: Mon, 16 Nov 2026 00:00:00 GMT\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    return [
        head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        head + b"Connection: close\r\n\r\n" + body,
        b"HTTP/1.1 100 Continue\r\n\r\n" + refusal,
        b"HTTP/1.1 503 No\r\n" + later + b"content-length: 1\r\n\r\nx",
    ]


def make_laws() -> dict[str, Law]:
    """Return the laws of this module by name."""
    laws: dict[str, tuple[Callable[[bytes], None], int]] = {
        "reply_chat": (partial(check_reply, parse_chat), 100),
        "reply_text": (partial(check_reply, parse_text), 100),
        "reply_anthropic": (partial(check_reply, parse_anthropic), 100),
        "reply_gemini": (partial(check_reply, parse_gemini), 100),
        "recorded_reply": (check_message, 100),
        "batch_output": (check_batch, 80),
    }
    return {
        "http_reply": Law(check_http, _list_http, list_words("http"), 120),
        **{
            name: Law(check, partial(list_stored, name), JSON_WORDS, examples)
            for name, (check, examples) in laws.items()
        },
    }
