"""The source `url` against servers of our own on this machine.

Proxies that the environment names.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import ssl
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
import pytest
from tests.lazy import trustme
from tests.projects import describe_solver, write_task
from tests.samples import read_cases, refuse

from answerkey.cli import main
from answerkey.datasets import storage
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.datasets.sources import pin_source
from answerkey.datasets.storage import allow_fetching, open_cache_folder
from answerkey.datasets.web import UrlSource
from answerkey.errors import DataError, SpecError

CASES = read_cases(__file__)

if TYPE_CHECKING:
    from tests.unit.datasets.conftest import Handler, Server

ROWS = b'{"q": "one", "answer": "A"}\n{"q": "two", "answer": "B"}\n'
DIGEST = sha256(ROWS).hexdigest()
QUIZ = "/data/quiz.jsonl"
pytestmark = pytest.mark.usefixtures("no_network")


class Site:
    """What a server says at its paths: bodies, headers, and statuses of which the last one
    stays.
    """

    def __init__(self, serve: Callable[[Callable[[Handler], None]], Server]) -> None:
        self.bodies: dict[str, bytes] = {QUIZ: ROWS}
        self.headers: dict[str, dict[str, str | None]] = {}
        self.statuses: dict[str, list[int]] = {}
        self.server = serve(self.answer)
        allow_fetching(self.server.url)

    @property
    def asked(self) -> list[tuple[str, str, dict[str, str]]]:
        """What was asked."""
        return self.server.asked

    def answer(self, request: Handler) -> None:
        """Answer one request."""
        path = request.bare_path
        statuses = self.statuses.get(path, [200 if path in self.bodies else 404])
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        body = self.bodies.get(path, b"")
        etag = f'"{sha256(body).hexdigest()[:8]}"'
        if status == 200 and request.headers.get("If-None-Match") == etag:
            status = 304
        headers = {"ETag": etag, **self.headers.get(path, {})}
        request.send(status, body if status == 200 else b"", headers)

    def redirect(self, path: str, to: str) -> None:
        """Let a path lead elsewhere."""
        self.statuses[path], self.headers[path] = [302], {"Location": to}

    def read(self, path: str = QUIZ, **fields: Any) -> list[dict[str, object]]:  # noqa: ANN401 - of the source
        """Return the rows at a path."""
        table = UrlSource(f"{self.server.url}{path}", **fields).read(name="x")
        return [dict(row) for row in table.samples.rows()]

    def refuse(self, message: str, path: str = QUIZ, **fields: Any) -> None:  # noqa: ANN401 - same
        """Read what is refused with this message."""
        refuse(UrlSource(f"{self.server.url}{path}", **fields), message)


@pytest.fixture
def web(serve: Callable[[Callable[[Handler], None]], Server]) -> Site:
    """Return a server with one file."""
    return Site(serve)


def test_without_a_hash_a_file_is_fetched_anew(web: Site) -> None:
    """So a change is seen."""
    assert [row["q"] for row in web.read()] == ["one", "two"]
    web.bodies[QUIZ] = b'{"q": "three"}\n'
    assert web.read() == [{"q": "three"}]


def test_a_content_is_kept_by_its_hash(web: Site, tmp_path: Path) -> None:
    """It is not looked up again, whatever it was called; one that was damaged is fetched again."""
    web.read(sha256=DIGEST)
    assert len(web.read("/elsewhere.jsonl", sha256=DIGEST)) == 2
    assert len(web.asked) == 1
    (tmp_path / "cache" / "answerkey" / "downloads" / f"{DIGEST}.jsonl").write_bytes(b"{}")
    assert len(web.read(sha256=DIGEST)) == 2
    assert len(web.asked) == 2
    web.refuse(f"E214.*has the sha256 {DIGEST}, and {'0' * 64} is expected", sha256="0" * 64)


@pytest.mark.parametrize("headers", [{}, {"Content-Length": None}])
def test_a_file_that_is_too_large_is_refused(web: Site, headers: dict[str, str | None]) -> None:
    """By what the server says, or as soon as more has come; nothing is left in the cache."""
    web.bodies["/big.csv"], web.headers["/big.csv"] = b"q\n" + b"x" * 1_200_000, headers
    web.refuse(
        r"(?s)is larger than 1 MB.*allow more with `max_megabytes: 2`$", "/big.csv", max_megabytes=1
    )
    assert list(open_cache_folder("downloads").glob("*")) == []
    assert len(web.read("/big.csv", max_megabytes=2)) == 1


def test_what_cannot_be_fetched_is_told_at_once(web: Site) -> None:
    """A status, a file that ends early, and a server that is not there."""
    web.statuses = {"/busy.csv": [503], "/no.csv": [403]}
    web.refuse(r"(?s)status 503 \(Service Unavailable\).*try again later", "/busy.csv")
    web.refuse(r"cannot be fetched: status 403 \(Forbidden\)", "/no.csv")
    web.bodies["/cut.csv"], web.headers["/cut.csv"] = b"q\none\n", {"Content-Length": "100"}
    web.refuse("ended after 6 of 100 bytes", "/cut.csv")
    assert len(web.asked) == 3
    allow_fetching("127.0.0.1:9")
    refuse(
        UrlSource("http://127.0.0.1:9/x.csv"), r"(?s)cannot be fetched: .*refused.*try again later"
    )


def test_redirects_are_few_and_safe(
    web: Site, serve: Callable[[Callable[[Handler], None]], Server]
) -> None:
    """Another server of this machine will do.

    `http` elsewhere will not, nor will more than five.
    """
    web.redirect("/a.jsonl", f"{Site(serve).server.url}{QUIZ}")
    web.redirect("/b.jsonl", "http://data.example/real.jsonl?key=secret")
    web.redirect("/loop.jsonl", "/loop.jsonl")
    assert len(web.read("/a.jsonl")) == 2
    web.refuse(r"to `http://data\.example/real\.jsonl`, which is not https", "/b.jsonl")
    web.refuse("redirects more than 5 times", "/loop.jsonl")


@pytest.fixture
def internal(web: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a server of this machine that the caller did not name."""
    monkeypatch.setattr("answerkey.datasets.storage._callers_hosts", set())
    return web


def test_a_project_reads_from_this_machine_only_if_the_caller_allows_it(
    internal: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is asked unless the host is allowed, or the caller names the address."""
    url, host = f"{internal.server.url}{QUIZ}", internal.server.url.rpartition("/")[2]
    monkeypatch.chdir(tmp_path)
    write_task(Path("task.yaml"), solver=describe_solver("{{ sample.q }}"))
    Path("data.yaml").write_text(f"key: quiz\nsource:\n  type: url\n  url: {url}\n")
    run = ["run", "task.yaml", "--model", "builtin/constant?choice=A", "--dataset"]
    assert main([*run, "data.yaml"]) == 2
    assert capsys.readouterr().err == (
        f"error[E214]: `{url}` is on this machine or its network (127.0.0.1): "
        "it is read only if you allow it\n"
        "  --> data.yaml:4:8\n"
        f"    4 |   url: {url}\n"
        "      |        ^\n"
        f"  = help: run again with `--allow-host {host}`\n"
    )
    assert internal.asked == []
    assert main([*run, "data.yaml", "--allow-host", host]) == 0
    monkeypatch.setattr("answerkey.datasets.storage._callers_hosts", set())
    assert main([*run, url]) == 0
    assert len(internal.asked) > 1


@pytest.mark.parametrize(
    "address", ["http://localhost", "http://[::ffff:127.0.0.1]", "https://2130706433"]
)
def test_every_way_to_write_this_machine_is_known(internal: Site, address: str) -> None:
    """The address of the connection counts, however it is written."""
    port = internal.server.url.rpartition(":")[2]
    message = r"(?s)E214.*is on this machine or its network \((::ffff:|::1|)(127\.0\.0\.1)?\)"
    refuse(UrlSource(f"{address}:{port}{QUIZ}"), message)
    assert internal.asked == []


def test_a_redirect_leads_neither_to_this_machine_nor_to_a_file(
    internal: Site, serve: Callable[[Callable[[Handler], None]], Server]
) -> None:
    """Each address on the way is looked at.

    What is no address of the web is refused as it stands.
    """
    second = Site(serve)
    internal.redirect("/a.jsonl", f"{second.server.url}{QUIZ}")
    internal.redirect("/b.jsonl", "file:///etc/hostname")
    storage._callers_hosts.clear()
    allow_fetching(internal.server.url)
    internal.refuse(r"is on this machine or its network \(127\.0\.0\.1\)", "/a.jsonl")
    assert second.asked == []
    internal.refuse("redirects to `file:///etc/hostname`, which is not https", "/b.jsonl")


def test_errors_name_addresses_not_cached_files(web: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was fetched, and cannot be read, is called by where it came from."""

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    web.bodies["/a.jsonl.gz"] = gzip.compress(ROWS)
    monkeypatch.setattr("answerkey.datasets.content.Frames.decompress", fail)
    with pytest.raises(DataError) as caught:
        web.read("/a.jsonl.gz")
    address = f"{web.server.url}/a.jsonl.gz"
    assert caught.value.message == f"cannot read data file `{address}`: input/output error"
    assert caught.value.where is not None
    assert caught.value.where.file == address


def test_offline_the_last_known_content_is_read(web: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is made; an address that was never fetched is refused."""
    web.read()
    monkeypatch.setenv("ANSWERKEY_OFFLINE", "1")
    assert len(web.read()) == 2
    web.refuse("has not been fetched yet, and nothing is fetched now", "/other.jsonl")
    assert len(web.asked) == 1


def test_a_compressed_file_and_a_stated_format(web: Site) -> None:
    """The ending of the address tells the format, or the source does."""
    web.bodies |= {"/q.jsonl.gz": gzip.compress(ROWS), "/download": ROWS}
    assert len(web.read("/q.jsonl.gz")) == len(web.read("/download", format="jsonl")) == 2
    web.refuse("the ending of `download` names no format", "/download")


@pytest.mark.parametrize(("url", "code"), CASES["addresses"])
def test_only_safe_addresses_are_taken(url: str, code: str) -> None:
    """https, or this machine, and without a password in it."""
    with pytest.raises(SpecError, match=code) as caught:
        UrlSource(url)
    assert "pw" not in str(caught.value)


def test_a_pinned_source_has_the_hash_and_no_query(web: Site) -> None:
    """What may be a key in the address is in no run folder; the rows are found by their hash."""
    url = f"{web.server.url}{QUIZ}"
    pinned = pin_source(UrlSource(f"{url}?signature=secret"))
    assert isinstance(pinned, UrlSource)
    assert (pinned.url, pinned.sha256) == (url, DIGEST)
    web.bodies.clear()
    assert open_dataset(pinned, name="x").fingerprint
    files = [path for path in open_cache_folder("downloads").rglob("*") if path.is_file()]
    assert not any(b"secret" in path.read_bytes() for path in files)


def test_a_run_on_an_address_is_explained_after_it_changed(
    web: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--dataset` takes an address; the run holds no query and is read again as it was."""
    monkeypatch.chdir(tmp_path)
    write_task(Path("task.yaml"))
    Path("said.jsonl").write_text('{"completion": "A"}\n{"completion": "A"}\n')
    url = f"{web.server.url}{QUIZ}"
    words = (
        f"score task.yaml --dataset {url}?signature=secret --completions said.jsonl --out out -q"
    )
    assert main(words.split()) == 0
    web.bodies.clear()
    assert main(["explain", "out", "2", "-q"]) == 0
    for path in Path("out").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()
    assert json.loads(Path("out/run.json").read_text())["tasks"][0]["dataset"]["file"] == url


def test_https_needs_a_certificate_that_is_trusted(
    web: Site,
    serve: Callable[[Callable[[Handler], None]], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E214 for one without a trusted authority; `SSL_CERT_FILE` names further authorities.

    It does not lead to http, not even on this machine: what was safe stays safe.
    """
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    web.server.socket = context.wrap_socket(web.server.socket, server_side=True)
    web.server.scheme = "https"
    web.refuse(r"(?s)does not prove who it is.*SSL_CERT_FILE")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert len(web.read()) == 2
    web.redirect("/a.jsonl", f"{Site(serve).server.url}{QUIZ}")
    web.refuse("which is not https", "/a.jsonl")


@pytest.fixture
def proxy(
    serve: Callable[[Callable[[Handler], None]], Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """Return a proxy that the environment names for everything, and that leads nowhere."""

    def hang_up(request: Handler) -> None:
        request.send(200)  # a refusal leaves the library's socket to the garbage
        request.close_connection = True

    result = serve(hang_up)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.setenv(spelling, result.url)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    library = importlib.import_module("huggingface_hub")
    close = (
        getattr(library, "close_session", None) or library.utils.reset_sessions
    )  # it has looked once
    close()
    yield result
    close()


@pytest.mark.parametrize(
    ("source", "host"),
    [
        # No such host can exist, so that whatever comes of it comes from the proxy.
        (UrlSource("https://rows.invalid/quiz.jsonl"), "rows.invalid"),
        (HuggingFaceSource(path="made/quiz", split="test"), "hub.invalid"),
    ],
)
def test_files_are_fetched_through_the_proxy(
    source: UrlSource | HuggingFaceSource, host: str, proxy: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless `NO_PROXY` names the host.

    Nothing of the environment is left changed, nothing else is sent. The hub's library would look
    for AI agents in the environment and fetch a list of them, once a day.
    """
    for name in ("detect_agent", "is_torch_available"):
        monkeypatch.setattr(f"huggingface_hub.utils._headers.{name}", None, raising=False)
    with pytest.raises(DataError, match="try again"):
        source.read(name="quiz")
    requests = len(proxy.asked)
    assert {path for _, path, _ in proxy.asked} == {f"{host}:443"}
    assert "NO_PROXY" not in os.environ
    monkeypatch.setenv("NO_PROXY", host)
    monkeypatch.setenv("no_proxy", host)
    huggingface_hub.close_session()  # which has read the environment
    with pytest.raises(DataError):
        source.read(name="quiz")
    assert (len(proxy.asked), os.environ["NO_PROXY"]) == (requests, host)
