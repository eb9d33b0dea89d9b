"""The source `url` against servers of our own on this machine."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from answerkey.cli import main
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import UrlSource, pin_source
from answerkey.datasets.storage import open_cache_folder
from answerkey.errors import DataError, SpecError

ROWS = b'{"q": "one", "answer": "A"}\n{"q": "two", "answer": "B"}\n'


@dataclass
class Reply:
    """What the server says at a path; `length` is what it claims, `status` may change from call to call."""

    body: bytes = ROWS
    headers: dict[str, str] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=lambda: [200])
    length: int | str | None = None

    def take_status(self) -> int:
        """Return the next status; the last one stays."""
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


class Handler(BaseHTTPRequestHandler):
    """Answers as its server was told."""

    server: Server

    def do_GET(self) -> None:
        """Answer."""
        self.server.asked.append((self.path, dict(self.headers)))
        reply = self.server.replies.get(self.path.split("?")[0], Reply(b"", statuses=[404]))
        status = reply.take_status()
        etag = f'"{sha256(reply.body).hexdigest()[:8]}"'
        if status == 200 and self.headers.get("If-None-Match") == etag:
            status = 304
        self.send_response(status)
        body = reply.body if status == 200 else b""
        length = len(body) if reply.length is None else reply.length
        headers = {"ETag": etag, **({} if length == "none" else {"Content-Length": str(length)})}
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A web server on this machine; `scheme` is what its address begins with."""

    scheme = "http"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: dict[str, Reply] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        """The address."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's signature
        """Say nothing about clients that hang up."""


@pytest.fixture
def serve() -> Iterator[Callable[[], Server]]:
    """Return a function that starts a server; all are stopped afterwards."""
    servers: list[Server] = []

    def start() -> Server:
        server = Server()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("answerkey.datasets.web.WAITS", (0.0, 0.0))


@pytest.fixture
def web(serve: Callable[[], Server]) -> Server:
    """Return a server with one file."""
    server = serve()
    server.replies["/data/quiz.jsonl"] = Reply()
    return server


def read(url: str, **fields: Any) -> list[dict[str, object]]:  # noqa: ANN401 - the fields of the source
    """Return the rows at an address."""
    return UrlSource(url, **fields).read(name="x").samples.frame.rows(named=True)


def test_a_file_is_fetched_once_while_it_stays_the_same(web: Server) -> None:
    """The second time the server is asked whether it changed; a change is seen."""
    url = f"{web.url}/data/quiz.jsonl"
    assert [row["q"] for row in read(url)] == ["one", "two"]
    assert [row["q"] for row in read(url)] == ["one", "two"]
    assert [headers.get("If-None-Match") is not None for _, headers in web.asked] == [False, True]
    web.replies["/data/quiz.jsonl"] = Reply(b'{"q": "three"}\n')
    assert read(url) == [{"q": "three"}]


def test_a_file_with_a_known_hash_is_not_looked_up_again(web: Server) -> None:
    """The content is kept by its hash, whatever it was called."""
    digest = sha256(ROWS).hexdigest()
    read(f"{web.url}/data/quiz.jsonl", sha256=digest)
    web.replies.clear()
    assert len(read(f"{web.url}/elsewhere.jsonl", sha256=digest)) == 2
    assert len(web.asked) == 1


def test_a_content_that_was_damaged_is_fetched_again(web: Server, tmp_path: Path) -> None:
    """The hash is compared on every use."""
    digest = sha256(ROWS).hexdigest()
    read(f"{web.url}/data/quiz.jsonl", sha256=digest)
    (tmp_path / "cache" / "answerkey" / "downloads" / f"{digest}.jsonl").write_bytes(b"{}")
    assert len(read(f"{web.url}/data/quiz.jsonl", sha256=digest)) == 2
    assert len(web.asked) == 2


def test_the_wrong_hash_is_refused(web: Server) -> None:
    """E214 shows both; nothing is kept under the wrong one."""
    with pytest.raises(
        DataError, match=f"has the sha256 {sha256(ROWS).hexdigest()}, and {'0' * 64}"
    ) as caught:
        read(f"{web.url}/data/quiz.jsonl", sha256="0" * 64)
    assert caught.value.code == "E214"


@pytest.mark.parametrize("length", [None, "none"])
def test_a_file_that_is_too_large_is_refused(web: Server, length: str | None) -> None:
    """By what the server says, or as soon as more has come; nothing is left in the cache."""
    web.replies["/big.csv"] = Reply(b"q\n" + b"x" * 1_200_000, length=length)
    with pytest.raises(DataError, match="is larger than 1 MB") as caught:
        read(f"{web.url}/big.csv", max_megabytes=1)
    assert caught.value.hint == "allow more with `max_megabytes: 2`"
    assert list(open_cache_folder("downloads").glob("*")) == []
    assert len(read(f"{web.url}/big.csv", max_megabytes=2)) == 1


def test_a_file_that_ends_early_is_not_taken_for_whole(web: Server) -> None:
    """Three attempts, then E214."""
    web.replies["/cut.csv"] = Reply(b"q\none\n", length=100)
    with pytest.raises(DataError, match="ended after 6 of 100 bytes"):
        read(f"{web.url}/cut.csv")
    assert len(web.asked) == 3


def test_passing_trouble_is_waited_for_and_other_trouble_is_not(web: Server) -> None:
    """503 twice, then the file; 403 at once."""
    web.replies["/data/quiz.jsonl"] = Reply(statuses=[503, 503, 200])
    assert len(read(f"{web.url}/data/quiz.jsonl")) == 2
    web.replies["/no.csv"] = Reply(statuses=[403])
    with pytest.raises(DataError, match=r"cannot be fetched: status 403 \(Forbidden\)"):
        read(f"{web.url}/no.csv")
    assert len(web.asked) == 4


def test_redirects_are_few_and_safe(web: Server, serve: Callable[[], Server]) -> None:
    """Another server of this machine will do; `http` elsewhere will not, nor will more than five."""
    other = serve()
    other.replies["/real.jsonl"] = Reply()
    web.replies["/a.jsonl"] = Reply(statuses=[302], headers={"Location": f"{other.url}/real.jsonl"})
    web.replies["/b.jsonl"] = Reply(
        statuses=[302], headers={"Location": "http://data.example/real.jsonl?key=secret"}
    )
    web.replies["/loop.jsonl"] = Reply(statuses=[302], headers={"Location": "/loop.jsonl"})
    assert len(read(f"{web.url}/a.jsonl")) == 2
    with pytest.raises(DataError, match=r"to `http://data\.example/real\.jsonl`, which is not https"):
        read(f"{web.url}/b.jsonl")
    with pytest.raises(DataError, match="redirects more than 5 times"):
        read(f"{web.url}/loop.jsonl")


def test_nobody_there_is_told() -> None:
    """E214 without a traceback."""
    with pytest.raises(DataError, match=r"cannot be fetched: .*refused") as caught:
        read("http://127.0.0.1:9/x.csv")
    assert caught.value.hint == "try again later"


def test_offline_the_last_known_content_is_read(web: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked; what was never fetched is refused."""
    url = f"{web.url}/data/quiz.jsonl"
    read(url)
    monkeypatch.setenv("ANSWERKEY_OFFLINE", "1")
    assert len(read(url)) == 2
    with pytest.raises(DataError, match="has not been fetched yet, and nothing is fetched now"):
        read(f"{web.url}/other.jsonl")
    assert len(web.asked) == 1


def test_a_compressed_file_and_a_stated_format(web: Server) -> None:
    """The ending of the address tells the format, or the source does."""
    web.replies["/q.jsonl.gz"] = Reply(gzip.compress(ROWS))
    web.replies["/download"] = Reply(ROWS)
    assert len(read(f"{web.url}/q.jsonl.gz")) == 2
    assert len(read(f"{web.url}/download", format="jsonl")) == 2
    with pytest.raises(DataError, match="the ending of `download` names no format"):
        read(f"{web.url}/download")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://data.example/x.csv", "E108"),
        ("ftp://data.example/x.csv", "E108"),
        ("file:///etc/passwd", "E108"),
        ("https://me:pw@data.example/x.csv", "E117"),
        ("https:///x.csv", "E108"),
    ],
)
def test_only_safe_addresses_are_taken(url: str, code: str) -> None:
    """https, or this machine, and without a password in it."""
    with pytest.raises(SpecError) as caught:
        UrlSource(url)
    assert caught.value.code == code
    assert "pw" not in str(caught.value)


def test_a_pinned_source_has_the_hash_and_no_query(web: Server) -> None:
    """What may be a key in the address is in no run folder; the rows are found by their hash."""
    source = UrlSource(f"{web.url}/data/quiz.jsonl?signature=secret")
    pinned = pin_source(source)
    assert isinstance(pinned, UrlSource)
    assert (pinned.url, pinned.sha256) == (f"{web.url}/data/quiz.jsonl", sha256(ROWS).hexdigest())
    web.replies.clear()
    assert open_dataset(pinned, name="x").fingerprint
    stored = b"".join(
        path.read_bytes() for path in open_cache_folder("downloads").rglob("*") if path.is_file()
    )
    assert b"secret" not in stored


def test_a_run_on_an_address_is_explained_after_it_changed(
    web: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--dataset` takes an address; the run holds no query and is read again as it was."""
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text(
        "key: t\ndisplay_name: T\ndescription: D\ndefinition:\n  scorers:\n    - type: string_equals_mcqa\n"
        '      ground_truth_choice: "{{ sample.answer }}"\n      choices: [A, B]\n'
    )
    Path("said.jsonl").write_text('{"completion": "A"}\n{"completion": "A"}\n')
    url = f"{web.url}/data/quiz.jsonl?signature=secret"
    words = ["score", "task.yaml", "--dataset", url, "--completions", "said.jsonl", "--out", "out", "-q"]
    assert main(words) == 0
    web.replies.clear()
    assert main(["explain", "out", "2", "-q"]) == 0
    for path in Path("out").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()
    manifest = json.loads(Path("out/run.json").read_text())
    assert manifest["tasks"][0]["dataset"]["file"] == f"{web.url}/data/quiz.jsonl"


@pytest.fixture
def secure(web: Server) -> tuple[Server, trustme.CA]:
    """Return the server behind TLS, and the authority that vouches for it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    web.socket = context.wrap_socket(web.socket, server_side=True)
    web.scheme = "https"
    return web, authority


def test_https_needs_a_certificate_that_is_trusted(
    secure: tuple[Server, trustme.CA], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E214 for one that nobody vouches for; `SSL_CERT_FILE` names further authorities."""
    server, authority = secure
    url = f"{server.url}/data/quiz.jsonl"
    with pytest.raises(DataError, match="does not prove who it is") as caught:
        read(url)
    assert "SSL_CERT_FILE" in str(caught.value.hint)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert len(read(url)) == 2


def test_https_does_not_lead_to_http(
    secure: tuple[Server, trustme.CA],
    serve: Callable[[], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even on this machine: what was safe stays safe."""
    server, authority = secure
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    server.replies["/a.jsonl"] = Reply(statuses=[302], headers={"Location": f"{serve().url}/b.jsonl"})
    with pytest.raises(DataError, match="which is not https"):
        read(f"{server.url}/a.jsonl")
