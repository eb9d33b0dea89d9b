"""The test server: an OpenAI-compatible endpoint on this machine, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from threading import Event, Thread
from types import TracebackType
from typing import ClassVar, Self

try:
    from aiohttp import web
except ImportError as error:
    raise ImportError("the test server needs aiohttp: pip install aiohttp") from error

from answerkey.testing.asked import Asked
from answerkey.testing.behaviour import Behaviour
from answerkey.testing.handling import Handling
from answerkey.testing.replies import Answers

HOST = "127.0.0.1"
_BACKLOG = 4096
_GRACE = 0.05
#: So many turns of the event loop, and everything that was begun with a connection is done.
_TURNS = 20


class TestServer:
    """A model's endpoint for tests: says and fails as it is told to, and counts what it was asked.

    Use it in a `with` statement, or call `start` and `stop`. It speaks the chat and the plain completions of
    OpenAI, files and batches, and the native APIs of Anthropic and Gemini, under any path prefix.
    """

    __test__: ClassVar[bool] = False  # its name begins like that of a test class

    def __init__(self, answers: Answers = "A", behaviour: Behaviour | None = None, *, port: int = 0) -> None:
        self._answers = answers
        self._behaviour = behaviour or Behaviour()
        self._asked = Asked()
        self._port = port
        self._is_ready = Event()
        self._trouble: OSError | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handling: Handling | None = None

    @property
    def root(self) -> str:
        """The address without a path: the base of the APIs of Anthropic and Gemini."""
        return f"http://{HOST}:{self._port}"

    @property
    def url(self) -> str:
        """The base URL in the way of OpenAI, as in `--model URL#name`."""
        return f"{self.root}/v1"

    @property
    def port(self) -> int:
        """The port; chosen by the system unless it was given."""
        return self._port

    @property
    def asked(self) -> Asked:
        """What the server was asked since it started, or since `forget`."""
        return self._asked

    def start(self) -> Self:
        """Start serving; return when requests are taken. Raise OSError when the port is not free."""
        self._thread = Thread(target=self._run, name="answerkey test server", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._trouble is not None:
            self._thread.join()
            raise self._trouble
        return self

    def stop(self) -> None:
        """Close all connections and stop; what is being answered is cut off. Twice does no harm."""
        if self._loop is not None and self._handling is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handling.is_over.set)
        if self._thread is not None:
            self._thread.join()

    def change(self, answers: Answers | None = None, **behaviour: object) -> None:
        """Change what is answered, or fields of the behaviour, from the next request on."""
        if answers is not None:
            self._answers = answers
        self._behaviour = replace(self._behaviour, **behaviour)  # type: ignore[arg-type]  # its own fields
        if self._handling is not None:
            self._handling.answers = self._answers
            self._handling.behaviour = self._behaviour

    def forget(self) -> None:
        """Begin to count anew; also how often each content was asked."""
        self._asked = Asked()
        if self._handling is not None:
            self._handling.asked = self._asked

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._trouble = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handling = Handling(self._answers, self._behaviour, self._asked)
        server = web.Server(self._handling.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_GRACE)
        with socket.create_server((HOST, self._port), backlog=_BACKLOG) as listener:
            try:
                await runner.setup()
                await web.SockSite(runner, listener, backlog=_BACKLOG).start()
                self._port = listener.getsockname()[1]
                self._is_ready.set()
                await self._handling.is_over.wait()
                await _cut_off(listener, server)
            finally:
                await runner.cleanup()


async def _cut_off(listener: socket.socket, server: web.Server) -> None:
    """Take no more connections and break those there are; what a client does not read is not waited for."""
    asyncio.get_running_loop().remove_reader(listener)
    await _turn()  # a connection that was just taken is not among the server's yet
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()
    await _turn()


async def _turn() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
