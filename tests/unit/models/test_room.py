"""The laws of the room for large replies: bounded, never stuck, and given back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from answerkey.models.client import Client
from answerkey.models.connections import Connection
from answerkey.models.limits import Limits
from answerkey.models.retrying import Reply
from answerkey.models.room import LARGE_BODIES, SMALL_BODY, Room
from answerkey.models.styles import OPENAI_CHAT

MEGABYTE = 1 << 20


@dataclass(eq=False)
class Slow:
    """A connection that only notes whether it reads."""

    reads: bool = True

    def pause(self) -> None:
        """Read no more."""
        self.reads = False

    def go_on(self) -> None:
        """Read again."""
        self.reads = True


def test_small_bodies_never_wait() -> None:
    """What every reply may have needs no room."""
    room = Room(most=0)
    readers = [Slow() for _ in range(100)]
    for reader in readers:
        room.grow(reader, SMALL_BODY)
    assert all(reader.reads for reader in readers)


def test_the_oldest_goes_on_and_the_others_wait_for_it() -> None:
    """In a full room one body still arrives; when it has left, the next one does."""
    room = Room(most=2 * MEGABYTE)
    first, second, third = Slow(), Slow(), Slow()
    for reader in (first, second, third):
        room.grow(reader, MEGABYTE)
    room.grow(first, 5 * MEGABYTE)
    room.grow(second, MEGABYTE + 1)
    assert [first.reads, second.reads, third.reads] == [True, False, False]
    room.leave(first)
    assert [second.reads, third.reads] == [True, False]
    room.leave(second)
    assert third.reads


def test_room_is_given_back_once() -> None:
    """Leaving twice, or without having come, changes nothing."""
    room = Room(most=MEGABYTE)
    first, second = Slow(), Slow()
    room.grow(first, MEGABYTE)
    room.leave(first)
    room.leave(first)
    room.leave(second)
    room.grow(second, MEGABYTE)
    room.grow(first, SMALL_BODY + 1)
    assert not first.reads
    room.leave(first)
    assert first.reads


def test_large_bodies_at_once_all_arrive_whole_and_connections_are_used_again() -> None:
    """More than the room holds, twice over the same connections: everything comes, nothing hangs."""
    size = 3 * MEGABYTE
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    talks: list[asyncio.Task[object] | None] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(asyncio.current_task())
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n{}")
            writer.write(head + b"x" * size)
            await writer.drain()
        writer.close()

    async def ask_twice() -> list[list[int]]:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(Connection("m", OPENAI_CHAT, f"http://127.0.0.1:{port}/", "m"), Limits())
        rounds = []
        for _ in range(2):
            came = await asyncio.gather(*(client.post(b"{}", seconds=30) for _ in range(12)))
            rounds.append([len(one.body) for one in came if isinstance(one, Reply)])
        await client.close()
        server.close()
        await asyncio.gather(*filter(None, talks), return_exceptions=True)
        await asyncio.sleep(0)
        return rounds

    assert 12 * size > LARGE_BODIES
    assert asyncio.run(ask_twice()) == [[size] * 12] * 2
    assert len(talks) == 12
