"""Datasets on shared storage, against an S3 server on this machine."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import zstandard
from tests.projects import SCORER, write_task
from tests.samples import refuse

import answerkey as ak
from answerkey.datasets import storage
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import LocalSource, pin_source
from answerkey.datasets.storage import (
    StoredObject,
    StoreKind,
    find_object,
    list_objects,
    put_new,
    put_object,
    remove_objects,
    require_address,
)
from answerkey.datasets.tables import FileFields, load_table
from answerkey.datasets.web import UrlSource
from answerkey.errors import AnswerkeyError, DataError, SpecError, hide_secrets

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket, Faulty

CANARY = "canary-7f3a-secret-access-key"
TOKEN_CANARY = "canary-session-token-91bc"  # noqa: S105 - a text to look out for
FRAME = pl.DataFrame(
    {
        "question": [f"what is {number}?" for number in range(1000)],
        "answer": ["ABCD"[number % 4] for number in range(1000)],
        "unread": [f"{number:040d}" for number in range(1000)],
    }
)
SCORER_OF_FOUR = {**SCORER, "choices": [*"ABCD"]}
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in FRAME.head(50).to_dicts())


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the reads of objects, which are noted: name and number of bytes."""
    noted: list[tuple[str, int]] = []
    read = StoredObject.read

    def note(stored: StoredObject, start: int, stop: int) -> bytes:
        noted.append((Path(stored.url).name, stop - start))
        return read(stored, start, stop)

    monkeypatch.setattr(StoredObject, "read", note)
    return noted


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Return a Parquet file with several groups of rows."""
    FRAME.write_parquet(tmp_path / "rows.parquet", row_group_size=100, compression="uncompressed")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("s3://key:word@bucket/rows.csv", "E117"),
        ("s3://bucket/rows.csv?X-Amz-Signature=abc", "E117"),
        ("s3://bucket/rows.csv#part", "E117"),
        ("s3://bucket", "E108"),
        ("s3:///rows.csv", "E108"),
        ("s3://bucket/a/../rows.csv", "E108"),
        ("s3://bucket//rows.csv", "E108"),
    ],
)
def test_an_address_is_a_bucket_and_a_name(url: str, code: str) -> None:
    """Keys and signatures in an address are refused, and not repeated."""
    for take in (require_address, UrlSource):
        with pytest.raises(SpecError, match=code) as caught:
            take(url)
        assert "word" not in str(caught.value)
        assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", LINES),
        ("rows.jsonl.gz", gzip.compress(LINES, mtime=0)),
        ("rows.csv.zst", zstandard.compress(FRAME.head(50).write_csv().encode())),
        ("rows.csv", FRAME.head(50).write_csv().encode()),
    ],
)
def test_other_files_are_fetched_once(
    name: str, content: bytes, bucket: Bucket, tmp_path: Path, reads: list[tuple[str, int]]
) -> None:
    """Rows and digest are those of the same file here, and the second time nothing is fetched."""
    (tmp_path / name).write_bytes(content)
    here = load_table(tmp_path / name)
    url = bucket.put(f"data/{name}", content)
    for expected in ([(name, len(content))], []):
        result = load_table(url)
        assert result.digest == here.digest
        assert list(result.samples.rows()) == list(here.samples.rows())
        assert reads == expected
        reads.clear()
    bucket.put(f"data/{name}", content.replace(b"A", b"B") if name == "rows.jsonl" else content)
    changed = load_table(url).digest != here.digest
    assert changed == (name == "rows.jsonl")


def test_a_fingerprint_does_not_depend_on_where_the_file_is(bucket: Bucket, parquet: Path) -> None:
    """The same content has the same fingerprint; columns may be made of it, too."""
    url = bucket.put("rows.parquet", parquet.read_bytes())
    fields: dict[str, Any] = {"derive": {"word": "{{ sample.answer | lower }}"}}
    for more in ({}, fields):
        stored = open_dataset(pin_source(UrlSource(url, **more)), name="rows")
        here = open_dataset(LocalSource(str(parquet), **more), name="rows")
        assert stored.fingerprint == here.fingerprint
        assert list(stored.samples().rows()) == list(here.samples().rows())


def test_a_pinned_source_gives_the_same_rows_or_none(bucket: Bucket, parquet: Path) -> None:
    """Another content than the one that was pinned is E214, for Parquet and for others."""
    for name in ("rows.parquet", "rows.jsonl"):
        content = parquet.read_bytes() if name == "rows.parquet" else LINES
        pinned = pin_source(UrlSource(bucket.put(name, content)))
        pinned.read(name="x")
        bucket.put(name, content + b"\n" if name == "rows.jsonl" else content[:-4] + b"XXXX")
        refuse(pinned, "is expected")


def test_projects_fetch_within_bounds(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fetched whole may not be larger than its source says.

    Offline, nothing is asked of a store.
    """
    url = bucket.put("rows.jsonl", b'{"a": "' + b"x" * 1_100_000 + b'"}\n')
    words = r"(?s)larger than 1 MB.*allow more with `max_megabytes: 2`$"
    refuse(UrlSource(url, max_megabytes=1), words)
    monkeypatch.setenv("ANSWERKEY_OFFLINE", "1")
    with pytest.raises(DataError, match="nothing is fetched now"):
        load_table(url)


def test_what_is_not_there_is_told_apart(bucket: Bucket) -> None:
    """A missing bucket, a missing object and a folder have words of their own."""
    bucket.put("folder/rows.jsonl", LINES)
    for url, words in {
        "s3://no-such-bucket-anywhere/rows.jsonl": "there is no such bucket",
        f"{bucket.url}/rows.jsonl": f"(?s)E214.*is not there.*--> {bucket.url}/rows.jsonl",
        f"{bucket.url}/folder": "is a folder",
    }.items():
        with pytest.raises(DataError, match=words):
            load_table(url, how=FileFields(format="jsonl"))


@pytest.mark.parametrize(("status", "words"), [(403, "the store refuses it"), (0, "no answer")])
def test_a_store_that_refuses_or_is_gone_is_told(
    status: int, words: str, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to look at; no key is in it, though the server repeats one."""
    monkeypatch.setattr(storage, "TRIES", 1)
    faulty.statuses = {("HEAD", "rows.jsonl"): status, ("GET", "rows.jsonl"): status}
    with pytest.raises(DataError, match=f"(?s)E214.*{words}.*= help: ") as caught:
        load_table("s3://some-bucket/rows.jsonl")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_servers_words_hide_keys(name: str, bucket: Bucket, faulty: Faulty, parquet: Path) -> None:
    """A key that the server repeats is hidden, and is sent nowhere but in a signature."""
    url = bucket.put(name, LINES if name == "rows.jsonl" else parquet.read_bytes())
    faulty.statuses = {("GET", name): 403}
    with pytest.raises(
        DataError, match=r"E214.*the store refuses it .*said by the server"
    ) as caught:
        load_table(url)
    assert CANARY not in str(caught.value)
    assert hide_secrets(f"{CANARY} {TOKEN_CANARY}") == "*** ***"
    assert CANARY not in "".join(faulty.headers)


@pytest.mark.parametrize(("scheme", "library"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_missing_package_is_named(
    scheme: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library is imported for the first address; without it the package is named."""
    monkeypatch.setitem(sys.modules, library, None)
    storage._connect.cache_clear()
    with pytest.raises(
        DataError, match=f"(?s)need the package `{library}`.*pip install {library}$"
    ):
        load_table(f"{scheme}://bucket/rows.jsonl")


def test_wrong_settings_are_told(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's complaint about the environment becomes an error with a code.

    Help names the variables.
    """
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "not an address")
        with pytest.raises(DataError, match="cannot connect to the store"):
            load_table(f"{bucket.url}/rows.jsonl")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(DataError, match=r"(?s)there are no credentials.*AWS_ACCESS_KEY_ID"):
        load_table(f"{bucket.url}/rows.jsonl")


def test_a_condition_is_kept_by_the_store(bucket: Bucket) -> None:
    """An object is written only in place of nothing, or of the one that is meant."""
    url = f"{bucket.url}/lock"
    mark = put_new(url, b"one")
    assert (put_new(url, b"two"), put_new(url, b"two", in_place_of='"0"')) == (None, None)
    assert bucket.get("lock") == b"one"
    assert put_new(url, b"two", in_place_of=mark) is not None
    assert bucket.get("lock") == b"two"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an address in memory, which is known as a store in this test only."""
    monkeypatch.setitem(storage.STORES, "memory", StoreKind("fsspec"))
    return f"memory://{id(monkeypatch)}"


def test_any_store_of_fsspec_will_do(memory: str, parquet: Path) -> None:
    """Objects are looked up, read, listed and removed; a change is seen."""
    url = f"{memory}/runs/rows.parquet"
    put_object(url, parquet)
    assert list(load_table(url).samples.rows()) == FRAME.to_dicts()
    stored = find_object(url)
    assert stored is not None
    assert stored.size == parquet.stat().st_size
    put_object(f"{memory}/runs/more/copy.parquet", b"copy")
    urls = [entry.url for entry in list_objects(f"{memory}/runs")]
    assert urls == [f"{memory}/runs/more/copy.parquet", url]
    FRAME.reverse().write_parquet(parquet)
    put_object(url, parquet)
    changed = find_object(url)
    put_object(url, b"other")
    with pytest.raises(DataError, match="has changed"):
        stored.read(0, 9)
    assert changed != stored
    remove_objects([url, url])
    assert find_object(url) is None
    assert list_objects(f"{memory}/nothing") == []
    mark = put_new(f"{memory}/lock", b"1")
    assert mark is not None
    assert put_new(f"{memory}/lock", b"2") is None
    assert put_new(f"{memory}/lock", b"3", in_place_of=mark) is not None
    assert put_new(f"{memory}/lock", b"4", in_place_of="another") is None


def test_a_dataset_file_names_an_address(
    bucket: Bucket, parquet: Path, tmp_path: Path, call: Callable[..., Any]
) -> None:
    """`type: url` takes it; an endpoint in the file is refused, and so is an address as a path."""
    url = bucket.put("rows.parquet", parquet.read_bytes())
    write_task(tmp_path / "task.yaml", SCORER_OF_FOUR)

    def score(source: dict[str, str]) -> Any:  # noqa: ANN401 - what a command did
        described = {"key": "rows", "display_name": "Rows", "source": source}
        (tmp_path / "dataset.yaml").write_text(json.dumps(described))
        words = ["score", tmp_path / "task.yaml", "--dataset", tmp_path / "dataset.yaml"]
        return call(*words, "--completion-column", "answer", "--out", tmp_path / "run", "--json")

    for source, code in [
        ({"type": "url", "url": url, "endpoint_url": "http://127.0.0.1:1"}, "E107"),
        ({"type": "url", "url": url, "storage_options": "x"}, "E107"),
        ({"type": "local", "file_path": url}, "E108"),
        ({"type": "url", "url": f"s3://a:{CANARY}@bucket/x.csv"}, "E117"),
    ]:
        refused = score(source)
        assert refused.code == 2
        assert f"error[{code}]" in refused.err
        assert CANARY not in refused.err + refused.out
    assert score({"type": "url", "url": url}).json["tasks"][0]["metrics"][0]["value"] == 1.0
    stored = json.loads((tmp_path / "run" / "tasks" / "quiz" / "task.json").read_text())["dataset"]
    assert (stored["url"], stored["sha256"]) == (url, sha256(parquet.read_bytes()).hexdigest())
    for file in (tmp_path / "run").rglob("*.json"):
        assert "canary" not in file.read_text().lower()


def test_recorded_completions_lie_on_storage_too(bucket: Bucket, tmp_path: Path) -> None:
    """They are named by address and hash, and a change is found when they are read again."""
    url = bucket.put("rows.jsonl", LINES)
    replies = bucket.put("said.jsonl", b"".join(b'{"completion": "A"}\n' for _ in range(50)))
    write_task(tmp_path / "task.yaml", SCORER_OF_FOUR)
    run = ak.run(tmp_path / "task.yaml", dataset=url, completions=replies, out=tmp_path / "run")
    source = run.tasks["quiz"].manifest["completions"]
    assert source["file"] == replies
    assert source["sha256"] == sha256(bucket.get("said.jsonl")).hexdigest()
    assert run.tasks["quiz"].counts["samples"] == 50
    assert ak.rescore(run, out=tmp_path / "again").metrics == run.metrics
    bucket.put("said.jsonl", b"".join(b'{"completion": "B"}\n' for _ in range(50)))
    with pytest.raises(AnswerkeyError, match="E505"):
        ak.rescore(run, out=tmp_path / "more")


def test_a_store_that_never_answers_is_given_up(
    cloud: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is bounded, whatever the server does with the connection."""
    pytest.importorskip("s3fs")
    monkeypatch.setattr(storage, "READ_SECONDS", 0.3)
    monkeypatch.setattr(storage, "TRIES", 2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        cloud(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.raises(DataError, match="no answer"):
            load_table("s3://some-bucket/rows.jsonl")
        assert time.monotonic() - begun < 300
