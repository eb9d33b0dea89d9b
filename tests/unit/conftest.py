"""A server on this machine that speaks as Amazon S3 does, and one that answers as it is told."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from xml.etree import ElementTree as ET

import pytest

#: What must never be seen anywhere.
CANARY = "canary-7f3a-secret-access-key"
TOKEN_CANARY = "canary-session-token-91bc"  # noqa: S105 - a text to look out for
_numbers = count(1)
#: Asks a server of this machine whatever proxies the environment names.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
#: Headers that reach the server behind another.
HANDED_ON = {"authorization", "range", "if-match", "if-none-match", "content-encoding"}


@dataclass(frozen=True)
class Bucket:
    """A bucket of its own on the server.

    Objects are put and read without the library under test.
    """

    endpoint: str
    name: str

    @property
    def url(self) -> str:
        """The address of the bucket."""
        return f"s3://{self.name}"

    def put(self, key: str, content: bytes) -> str:
        """Write an object and return its address."""
        self._ask("PUT", f"/{self.name}/{key}", content)
        return f"{self.url}/{key}"

    def get(self, key: str) -> bytes:
        """Return an object."""
        return self._ask("GET", f"/{self.name}/{key}")

    def remove(self, key: str) -> None:
        """Remove an object."""
        self._ask("DELETE", f"/{self.name}/{key}")

    def list(self, prefix: str = "") -> list[str]:
        """Return the keys below a prefix."""
        listing = ET.fromstring(self._ask("GET", f"/{self.name}?list-type=2&prefix={prefix}"))  # noqa: S314 - of our own server
        return sorted(node.text or "" for node in listing.iter() if node.tag.endswith("}Key"))

    def read_all(self, prefix: str) -> dict[str, bytes]:
        """Return the objects below a prefix, by what follows it."""
        return {key[len(prefix) + 1 :]: self.get(key) for key in self.list(f"{prefix}/")}

    def make(self) -> Bucket:
        """Make the bucket."""
        self._ask("PUT", f"/{self.name}")
        return self

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        # A form, which the library would call it, or a caller without a name is treated otherwise.
        headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS test:test"}
        request = urllib.request.Request(f"{self.endpoint}{path}", content, headers, method=method)  # noqa: S310 - loopback
        with DIRECT.open(request, timeout=120) as reply:
            body: bytes = reply.read()
            return body


@pytest.fixture(scope="session", autouse=True)
def cloud_keys() -> Iterator[None]:
    """Set every name once, before any thread of Polars reads the environment.

    A test may only put another value under a name that is there: to add one while Polars works ends
    the process. Nobody listens at the endpoint until a test names another.
    """
    settings = {
        "AWS_ACCESS_KEY_ID": "AKIACANARY000000",
        "AWS_SECRET_ACCESS_KEY": CANARY,
        "AWS_SESSION_TOKEN": TOKEN_CANARY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/no/such/file",
        "AWS_SHARED_CREDENTIALS_FILE": "/no/such/file",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that names an endpoint in the environment; keys are canaries."""
    return lambda endpoint: monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)


@pytest.fixture
def bucket(s3_server: str, cloud: Callable[[str], None]) -> Bucket:
    """Return a new bucket on a server that the environment names."""
    cloud(s3_server)
    return Bucket(s3_server, f"bucket-{next(_numbers)}-{time.time_ns()}").make()


@dataclass
class Faulty:
    """The statuses that a server answers, by method and ending of path, and the headers it saw."""

    statuses: dict[tuple[str, str], int] = field(default_factory=dict)
    behind: str = ""
    headers: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    """Answers with the status that it is told, or hands on to the server behind it."""

    server: FaultyServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        behaviour = self.server.behaviour
        behaviour.headers.append(str(self.headers))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        for (method, ending), status in behaviour.statuses.items():
            if self.command == method and path.endswith(ending):
                self._fail(status)
                return
        self._hand_on(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815 - the library's names

    def _fail(self, status: int) -> None:
        if status == 0:
            self.close_connection = True
            self.connection.close()
            return
        code = {403: "AccessDenied", 500: "InternalError"}.get(status, "Unknown")
        message = f"<Message>said by the server: {CANARY}</Message>"
        body = f"<Error><Code>{code}</Code>{message}</Error>".encode()
        if self.command == "HEAD":
            body = b""
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(body))}
        self._send(status, headers, body)

    def _hand_on(self, body: bytes) -> None:
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() in HANDED_ON or name.lower().startswith("x-amz-")
        }
        headers["Content-Type"] = "application/octet-stream"
        url = f"{self.server.behaviour.behind}{self.path}"
        request = urllib.request.Request(url, body or None, headers, method=self.command)  # noqa: S310 - loopback
        try:
            with DIRECT.open(request, timeout=120) as reply:
                self._send(reply.status, reply.headers, reply.read())
        except urllib.error.HTTPError as error:
            with error:
                self._send(error.code, error.headers, error.read())

    def _send(self, status: int, headers: Mapping[str, str] | Message, body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"connection", "transfer-encoding"}:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class FaultyServer(ThreadingHTTPServer):
    """A server in front of the S3 server; `behaviour` says what it does."""

    daemon_threads = True

    def __init__(self, behaviour: Faulty) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about clients that hang up."""


@pytest.fixture
def faulty(s3_server: str, cloud: Callable[[str], None]) -> Iterator[Faulty]:
    """Return how a server answers that stands before the S3 server, and that the environment
    names.
    """
    behaviour = Faulty(behind=s3_server)
    server = FaultyServer(behaviour)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    cloud(f"http://127.0.0.1:{server.server_address[1]}")
    yield behaviour
    server.shutdown()
    server.server_close()
