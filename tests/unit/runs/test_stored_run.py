"""Runs on shared storage, against an S3 server on this machine."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.projects import (
    SCORER,
    describe_live_task,
    describe_solver,
    describe_task,
    write_rows,
    write_run,
)

import answerkey as ak
from answerkey.datasets import storage
from answerkey.errors import AnswerkeyError, RunError
from answerkey.models.calls import Call
from answerkey.models.store import CallStore
from answerkey.runs import StoredFolder, load_run, writing
from answerkey.runs.store import ObjectStore
from answerkey.runs.writing import JournalCopies, bring_journal
from answerkey.testing import TestServer, answer_by_hash
from answerkey.types import Completion

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket, Faulty

CANARIES = (b"canary-7f3a-secret-access-key", b"canary-session-token-91bc", b"AKIACANARY")
CHOICES = ["A", "B", "C", "D"]
SCORERS = [{**SCORER, "choices": CHOICES}]
TASK = describe_task(scorers=SCORERS)
ASKING = describe_task(scorers=SCORERS, solver=describe_solver())
ROWS = [
    {"question": f"question {row}?", "answer": "ABCD"[row % 4], "completion": "ABCDE"[row % 5]}
    for row in range(60)
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with task files and rows."""
    (tmp_path / "task.yaml").write_text(json.dumps(TASK))
    (tmp_path / "asking.yaml").write_text(json.dumps(ASKING))
    write_rows(tmp_path / "rows.jsonl", ROWS)
    return tmp_path


@pytest.fixture
def model() -> Iterator[TestServer]:
    """Return a server that answers with one of four letters."""
    with TestServer(answer_by_hash(CHOICES)) as running:
        yield running


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return every file of a run by its path below the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def read_manifest(raw: bytes) -> dict[str, Any]:
    """Return `run.json` without its times."""
    manifest: dict[str, Any] = json.loads(raw)
    return {
        name: value for name, value in manifest.items() if name not in {"started_at", "ended_at"}
    }


def score(project: Path, out: object, **options: Any) -> ak.Run:  # noqa: ANN401 - any option of a run
    """Score the completions of the project."""
    rows = project / "rows.jsonl"
    return ak.run(project / "task.yaml", dataset=rows, out=str(out), **options)


@pytest.mark.parametrize("num_runs", [1, 3])
def test_a_run_on_storage_is_as_in_a_folder(bucket: Bucket, project: Path, num_runs: int) -> None:
    """Every object is the file of the same name, byte by byte, times aside.

    No key is in any of them. A task that is run several times has its repetitions there, and what
    all of them say.
    """
    run: Callable[..., ak.Run] = partial(score, project, copy=True)
    if num_runs > 1:
        repeated = {"model_key": "builtin/random", "repeatability": {"num_runs": num_runs}}
        pairs = [{"task_key": "quiz", **repeated}]
        evaluation = {"key": "again", "display_name": "Again", "task_specifications": pairs}
        asking = describe_live_task(scorers=SCORERS)
        run = partial(ak.run, write_run(project, [], task=asking, evaluation=evaluation))
    here, there = run(out=project / "run"), run(out=f"{bucket.url}/runs/one/")
    stored, files = bucket.read_all("runs/one"), read_folder(project / "run")
    assert read_manifest(stored.pop("run.json")) == read_manifest(files.pop("run.json"))
    assert stored == files
    assert (str(there.path), there.metrics) == (f"{bucket.url}/runs/one", here.metrics)
    assert not [canary for canary in CANARIES for raw in stored.values() if canary in raw]
    task, same = there.tasks["quiz"], here.tasks["quiz"]
    assert (len(task.repetitions), task.repeatability) == (num_runs - 1, same.repeatability)
    repetitions = zip(task.repetitions, same.repetitions, strict=True)
    assert all(first.metrics == second.metrics for first, second in repetitions)
    assert task.scores.equals(same.scores)
    assert task.agreement.equals(same.agreement)


def test_every_command_reads_it(bucket: Bucket, project: Path, call: Callable[..., Any]) -> None:
    """A run is named by its address wherever a folder will do."""
    url, again = f"{bucket.url}/runs/one", f"{bucket.url}/runs/two"
    words = ["--dataset", project / "rows.jsonl", "--out", url, "--json"]
    made = call("score", project / "task.yaml", *words)
    assert made.json["run"]["path"] == url
    shown = call("show", url)
    assert (shown.code, f"run {url}" in shown.out) == (0, True)
    assert "question 1?" in call("explain", url, "2").out
    assert len(call("export", url, "--to", "jsonl").out.splitlines()) == 60
    assert call("rescore", url, "--out", again, "--json").json["tasks"] == made.json["tasks"]
    assert json.loads(bucket.get("runs/two/run.json"))["rescored_from"]["path"] == url
    assert "60 samples" in call("compare", url, again).out
    assert call("compare", again, "--baseline", url, "--fail-on-regression").code == 0
    assert call("audit", url).code == 0
    assert call("report", url, "-o", project / "report.html").code == 0
    assert "the run is complete" in call("resume", url).err
    listed = call("runs", f"{bucket.url}/runs", "--json").json["runs"]
    assert sorted(row["path"] for row in listed) == [url, again]
    assert call("show", url, "--baseline", again).code == 0
    words = ["--dataset", project / "rows.jsonl", "--out", f"{bucket.url}/many"]
    words += ["--model", "builtin/random", "--model", "builtin/longest?x=1"]
    assert call("run", project / "asking.yaml", *words).code == 2
    assert bucket.list("many/") == []


def test_damaged_objects_are_named(bucket: Bucket, project: Path, call: Callable[..., Any]) -> None:
    """By name, size and hash, whatever is asked of the run; nothing is shown.

    One that the run did not write is not read.
    """
    url, name = f"{bucket.url}/runs/one", "runs/one/tasks/quiz/completions/part-00000.parquet"
    score(project, url, copy=True)
    raw = bucket.get(name)

    def require_named(key: str, why: str) -> None:
        for command in ("show", "audit"):
            done = call(command, url)
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith(f"error[E503]: `{bucket.url}/{key}` {why}")

    bucket.put(f"{name[:-9]}9.parquet", raw)
    assert load_run(url).tasks["quiz"].completions.height == 60
    bucket.put(name, raw + b" ")
    require_named(name, f"has changed since the run ended: it has {len(raw) + 1:,} bytes")
    bucket.put(name, raw[:40] + bytes([raw[40] ^ 1]) + raw[41:])
    require_named(name, "has changed since the run ended: its SHA-256 is ")
    bucket.remove(name)
    require_named(name, "is missing")
    bucket.put(name, raw)
    assert call("audit", url).code == 0
    numbers = bucket.get("runs/one/tasks/quiz/metrics.json")
    bucket.put("runs/one/tasks/quiz/metrics.json", numbers.replace(b'"n": 60', b'"n": 61'))
    key = "runs/one/tasks/quiz/metrics.json"
    require_named(key, "has changed since the run ended: its SHA-256 is ")


def test_a_copied_run_is_opened_by_its_hashes(bucket: Bucket, project: Path) -> None:
    """Wherever the files of a run are copied to, they are those that it wrote."""
    made = score(project, f"{bucket.url}/runs/one", copy=True)
    objects = bucket.read_all("runs/one")
    for name, raw in objects.items():
        bucket.put(f"runs/copied/{name}", raw)
        (project / "fetched" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "fetched" / name).write_bytes(raw)
    here = score(project, project / "here", copy=True)
    for name, raw in read_folder(project / "here").items():
        bucket.put(f"runs/uploaded/{name}", raw)
    for place in (f"{bucket.url}/runs/copied", project / "fetched", f"{bucket.url}/runs/uploaded"):
        run = load_run(place)
        assert run.metrics == made.metrics == here.metrics
        assert run.tasks["quiz"].completions.equals(made.tasks["quiz"].completions)
        assert run.tasks["quiz"].stored_scores.read(3, 4).equals(made.tasks["quiz"].scores[3:7])
    name = "tasks/quiz/scores/part-00000.parquet"
    changed = objects[name][:40] + bytes([objects[name][40] ^ 1]) + objects[name][41:]
    bucket.put(f"runs/uploaded/{name}", changed)
    with pytest.raises(RunError, match="has changed since the run ended"):
        load_run(f"{bucket.url}/runs/uploaded").tasks["quiz"].stored_scores.read(0, 1)


def test_what_is_no_run_is_told(bucket: Bucket, project: Path) -> None:
    """E501 for nothing, E502 for a place that is taken, E503, E509."""
    bucket.put("runs/taken/notes.txt", b"mine")
    bucket.put("runs/old/run.json", b'{"format_version": 99}')
    bucket.put("runs/bad/run.json", b"{")
    steps: list[str] = []
    begin = partial(score, project, progress=lambda stage, *_: steps.append(stage))
    requests: list[tuple[Callable[[str], object], str, str]] = [
        (load_run, f"{bucket.url}/runs/none", "E501"),
        (load_run, f"{bucket.url}/runs/old", "E503"),
        (load_run, f"{bucket.url}/runs/bad", "E503"),
        (ak.resume, "s3://no-such-bucket-there/x", "E509"),
        (begin, f"{bucket.url}/runs/taken", "E502"),
    ]
    for ask, url, code in requests:
        with pytest.raises(RunError) as caught:
            ask(url)
        assert caught.value.code == code
    assert steps == []
    assert bucket.list("runs/taken") == ["runs/taken/notes.txt"]


def test_a_hostile_listing_leads_nowhere(bucket: Bucket, project: Path) -> None:
    """A task key that is a path is refused; names that a run has none of are passed over."""
    score(project, f"{bucket.url}/runs/one")
    manifest = json.loads(bucket.get("runs/one/run.json")) | {"status": "running"}
    del manifest["files"]
    bucket.put("runs/one/run.json", json.dumps(manifest).encode())
    bucket.put("runs/one/tasks/quiz/scores/part-x.parquet", b"words")
    bucket.put("runs/one/tasks/other/metrics.json", b"[]")
    bucket.put("runs/one/tasks/quiz/more.json", b"words")
    assert load_run(f"{bucket.url}/runs/one").tasks["quiz"].scores.height == 60
    bucket.put("runs/one/tasks/quiz/metrics.json", b"[]")
    with pytest.raises(RunError, match="JSON object"):
        load_run(f"{bucket.url}/runs/one")
    manifest["tasks"][0]["key"] = "../one/tasks/quiz"
    bucket.put("runs/two/run.json", json.dumps(manifest).encode())
    with pytest.raises(RunError, match="E503"):
        load_run(f"{bucket.url}/runs/two")


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_a_stopped_run_is_resumed(
    bucket: Bucket, project: Path, model: TestServer, *, is_elsewhere: bool
) -> None:
    """Nothing that was answered is asked again: the journal is published with the run.

    What was not published yet is found on the machine where it ran; both become one.
    """
    url, home = f"{bucket.url}/runs/live", ObjectStore(StoredFolder(f"{bucket.url}/runs/live")).home
    options: dict[str, Any] = {"model": f"{model.url}#m", "cache_policy": "no-cache"}
    ask = partial(ak.run, project / "asking.yaml", dataset=str(project / "rows.jsonl"), **options)
    with pytest.raises(AnswerkeyError) as caught:
        ask(out=url, max_calls=25)
    assert (caught.value.code, caught.value.__notes__) == ("E305", [f"answerkey resume {url}"])
    assert {"run.json", "calls.sqlite"} <= (left := set(bucket.read_all("runs/live")))
    assert "lock" not in left
    assert model.asked.total == 25
    if is_elsewhere:
        shutil.rmtree(home)
    else:
        with closing(sqlite3.connect(home / "calls.sqlite")) as journal:
            assert journal.execute("SELECT COUNT(*) FROM calls").fetchone() == (25,)
            journal.execute("DELETE FROM calls WHERE rowid <= 5").close()
            journal.execute("UPDATE calls SET status = 'ERROR' WHERE rowid = 7").close()
            journal.commit()
    resumed = ak.resume(url)
    assert (resumed.status, model.asked.total, home.exists()) == ("complete", 60, False)
    assert [key for key in bucket.list() if "calls" in key or "lock" in key] == []
    part = "tasks/quiz/scores/part-00000.parquet"
    assert resumed.metrics == ask(out=project / "whole").metrics
    assert bucket.get(f"runs/live/{part}") == (project / "whole" / part).read_bytes()


def refuse(_store: CallStore) -> None:
    """Fail as if there were no room."""
    raise RunError("E502", "disk is full", hint="make room")


def test_copies_of_a_journal_are_published_while_it_is_written(
    bucket: Bucket, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is whole in itself, is made when there is something new, and can be brought
    elsewhere.
    """
    monkeypatch.setattr(writing, "PUBLISH_SECONDS", 0.01)
    store = ObjectStore(StoredFolder(f"{bucket.url}/runs/one"))
    store.home.mkdir(parents=True)
    call = Call(key="k", sample_id="1", trial=0, messages=[], purpose="solve")
    with closing(CallStore(store.home / "calls.sqlite")) as journal:
        copies = JournalCopies(journal, store)
        journal.write([(call, Completion("A"))])
        for _ in range(15_000):
            if "runs/one/calls.sqlite" in bucket.list("runs/"):
                break
            copies._end.wait(0.02)
        copies.end()
        copies.publish()
    shutil.rmtree(store.home)
    store.home.mkdir()
    assert bring_journal(store) == 0
    with closing(CallStore(store.home / "calls.sqlite")) as journal:
        assert journal.find([call])["k"].text == "A"
    with closing(sqlite3.connect(project / "other")) as second:
        second.execute("PRAGMA user_version = 1").close()
        second.execute("CREATE TABLE calls (key)").close()
    old = (project / "other").read_bytes()
    for damaged, why in ((old, "it has version 1, this release reads 4"), (b"words", "is damaged")):
        bucket.put("runs/one/calls.sqlite", damaged)
        with pytest.raises(RunError, match=why):
            bring_journal(store)
    bucket.put("runs/one/calls.sqlite", b"")
    monkeypatch.setattr(CallStore, "mend", refuse)
    with pytest.raises(RunError, match="disk is full"):
        bring_journal(store)


BEGUN = {"run.json", "tasks/quiz/task.json"}


@pytest.mark.parametrize(
    ("ending", "left"),
    [
        ("scores/part-00000.parquet", BEGUN),
        ("metrics.json", BEGUN | {"tasks/quiz/scores/part-00000.parquet"}),
        ("task.json", set()),
        ("run.json", set()),
        ("lock", set()),
    ],
)
def test_an_upload_that_fails_leaves_nothing_half_written(
    ending: str,
    left: set[str],
    bucket: Bucket,
    faulty: Faulty,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E509 says which and why, without a secret.

    A run that could not be started leaves nothing behind. Once the store takes objects again,
    `resume` finishes a run that was started.
    """
    monkeypatch.setattr(storage, "TRIES", 1)
    url, faulty.statuses = f"{bucket.url}/runs/one", {("PUT", ending): 403}
    with pytest.raises(RunError) as caught:
        score(project, url)
    assert caught.value.code == "E509"
    assert ending in caught.value.message
    assert "canary" not in str(caught.value)
    assert set(bucket.read_all("runs/one")) == left
    faulty.statuses = {}
    if left:
        assert load_run(url).status == "running"
        assert ak.resume(url).metrics == score(project, project / "here").metrics
