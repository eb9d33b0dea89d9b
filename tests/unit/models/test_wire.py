"""Laws of one connection: what it takes for a reply, and when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from answerkey.models.retrying import Reply, Trouble
from answerkey.models.room import Room
from answerkey.models.wire import KEEP_ALIVE_SECONDS, Address, Channel, Wire

ADDRESS = Address("127.0.0.1", 9, is_secure=False, path="/")


class Line:
    """A transport that notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_over = False

    def write(self, data: bytes) -> None:
        """Note what is sent."""
        self.done.append(data.decode())

    def abort(self) -> None:
        """Note the end."""
        self.done.append("abort")
        self.is_over = True

    def pause_reading(self) -> None:
        """Note the pause."""
        self.done.append("pause")

    def resume_reading(self) -> None:
        """Note the end of the pause."""
        self.done.append("resume")

    def is_closing(self) -> bool:
        """Say whether it was aborted."""
        return self.is_over


def converse(steps: Callable[[Channel, Line], Reply | Trouble | None]) -> Reply | Trouble | None:
    """Return what steps on a channel that has asked come to."""

    async def run() -> Reply | Trouble | None:
        channel, line = Channel("`host`", Room()), Line()
        channel.connection_made(cast("asyncio.Transport", line))
        channel.ask(b"GET", 1000)
        return steps(channel, line)

    return asyncio.run(run())


def answer_of(channel: Channel) -> Reply | Trouble:
    """Return what the channel has settled."""
    awaited = channel._awaited
    assert awaited is not None
    return awaited.result()


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    """Unless the connection breaks: then it is not known to be whole."""

    def end(error: Exception | None) -> Callable[[Channel, Line], Reply | Trouble]:
        def steps(channel: Channel, _line: Line) -> Reply | Trouble:
            channel.data_received(b"HTTP/1.1 200 OK\r\n\r\nwhole")
            channel.connection_lost(error)
            return answer_of(channel)

        return steps

    assert converse(end(None)) == Reply(200, {}, b"whole")
    broken = converse(end(ConnectionResetError()))
    assert broken == Trouble("reset", "`host` broke off in the middle of its reply")


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    """The reply that was asked for stands; the connection is not used again."""

    def steps(channel: Channel, line: Line) -> Reply | Trouble:
        channel.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nB")
        assert channel.is_resting
        channel.data_received(b"HTTP/1.1 200 OK\r\n")
        assert (channel.is_resting, line.done) == (False, ["GET", "abort"])
        return answer_of(channel)

    assert converse(steps) == Reply(200, {"content-length": "1"}, b"B")


def test_a_second_reply_in_the_same_bytes_adds_no_header_to_the_first() -> None:
    """How the body is packed, and how long to wait, is said by the reply itself alone."""

    def steps(channel: Channel, _line: Line) -> Reply | Trouble:
        first = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nB"
        channel.data_received(first + b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nretry-after: 9\r\n\r\n")
        return answer_of(channel)

    assert converse(steps) == Reply(200, {"content-length": "1"}, b"B")


def test_a_connection_that_is_closing_is_not_read_again() -> None:
    """The pause of one that was given up has no end."""

    def steps(channel: Channel, line: Line) -> None:
        channel.pause()
        channel.go_on()
        channel.pause()
        channel.give_up()
        channel.go_on()
        assert line.done == ["GET", "pause", "resume", "pause", "abort"]

    converse(steps)


def test_a_connection_that_has_rested_too_long_is_not_used() -> None:
    """The endpoint may have closed it; it is closed here, and the next one is looked at."""

    async def run() -> None:
        wire, lines = Wire(None, 1.0), [Line(), Line()]
        for line, since in zip(lines, (100.0, 100.0 - KEEP_ALIVE_SECONDS), strict=True):
            channel = Channel("`host`", Room())
            channel.connection_made(cast("asyncio.Transport", line))
            wire._keep(ADDRESS, channel, since)
        found = wire._find_resting(ADDRESS, 101.0)
        assert found is not None
        assert found._transport is cast("Any", lines[0])
        assert [line.done for line in lines] == [[], ["abort"]]
        assert wire._find_resting(ADDRESS, 101.0) is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("connect_seconds", "seconds", "why"),
    [
        (60.0, 0.01, "no whole reply from `127.0.0.1` within 0.01 s"),
        (0.01, 60.0, "`127.0.0.1` did not take the connection in time"),
    ],
)
def test_time_that_is_up_while_connecting_says_whose_it_was(
    connect_seconds: float, seconds: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the call, or that of connecting."""

    async def never(*_words: object, **_options: object) -> None:
        await asyncio.Event().wait()

    async def run() -> Reply | Trouble:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
        return await Wire(None, connect_seconds).exchange(ADDRESS, b"GET", 1000, seconds=seconds)

    assert asyncio.run(run()) == Trouble("timeout", why)
