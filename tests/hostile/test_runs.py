"""Runs with strangers in them: a task that misbehaves beside a good one.

Run folders that came by mail.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import answerkey
from answerkey.errors import AnswerkeyError, RunError

from .corpus import write_evil, write_project

#: Too much on every row but the first.
HEAVY = "{% if sample.id == 'row 0' %}A{% else %}{{ 'x' * 10 ** 9 }}{% endif %}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a good task and one that does too much on most rows."""
    write_project(tmp_path, evil=write_evil(HEAVY))
    return tmp_path


def test_a_good_task_in_the_same_run_is_unharmed(project: Path) -> None:
    """Rows on which a template does too much are FAILED.

    The other task has the numbers that it has alone.
    """
    alone = answerkey.run(project / "good_run.yaml", out=project / "alone")
    run = answerkey.run(project / "run.yaml", out=project / "both", allow_failed=3)
    assert run.tasks["evil"].counts["failed"] == 3
    assert run.tasks["good"].counts == alone.tasks["good"].counts
    assert run.tasks["good"].metrics == alone.tasks["good"].metrics
    assert run.tasks["good"].scores.equals(alone.tasks["good"].scores)


def test_nothing_is_begun_with_a_template_that_was_stopped(project: Path) -> None:
    """The run is refused with the place of the template, and no folder is made for it."""
    endless = "{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
    template = f"{{% set ns = namespace(x=['y']) %}}{endless}{{{{ ns.x | upper }}}}"
    (project / "evil.yaml").write_text(write_evil(template), encoding="utf-8")
    with pytest.raises(AnswerkeyError) as caught:
        answerkey.run(project / "run.yaml", out=project / "both", allow_failed="100%")
    assert caught.value.code == "E120"
    assert caught.value.where is not None
    assert caught.value.where.file == str(project / "evil.yaml")
    assert caught.value.where.line == 11
    assert not (project / "both").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    write_project(folder)
    answerkey.run(folder / "run.yaml", out=folder / "run")
    return folder / "run"


def change(**entries: object) -> Callable[[Path], object]:
    """Return a function that puts entries into a run's manifest; None removes an entry."""

    def change_manifest(run: Path) -> None:
        path = run / "run.json"
        manifest = json.loads(path.read_text(encoding="utf-8")) | entries
        kept = {name: entry for name, entry in manifest.items() if entry is not None}
        path.write_text(json.dumps(kept), encoding="utf-8")

    return change_manifest


def write(name: str, text: str) -> Callable[[Path], object]:
    """Return a function that writes another text into a file of a run."""
    return lambda run: (run / name).write_text(text, encoding="utf-8")


@pytest.fixture
def killed(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the run as if it had been killed: it has no list of its files, so that
    nothing is hashed.
    """
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    change(status="running", files=None)(folder)
    return folder


def replace_file(path: Path, put: Callable[[Path], object]) -> None:
    """Put something else in place of a file."""
    path.unlink()
    put(path)


def write_many_rows(path: Path) -> None:
    """Write a small file that says it has a hundred million rows."""
    pl.LazyFrame({"sample_id": ["x"]}).select(
        pl.repeat("x", 20_000_000).alias("sample_id")
    ).sink_parquet(path, compression="zstd")


METRICS = "tasks/good/metrics.json"
EMPTY = {"bytes": 1, "sha256": ""}
SPOILED: dict[str, Callable[[Path], object]] = {
    "a manifest that is no JSON": write("run.json", "{"),
    "a manifest that is nested without end": write("run.json", '{"a": ' + "[" * 100_000),
    "a manifest that is a list": write("run.json", "[]"),
    "a manifest with a number that is none": write("run.json", '{"format_version": NaN}'),
    "a manifest with too many values": write(
        "run.json", '{"format_version": 3, "a": [' + "[]," * 600_000 + "0]}"
    ),
    "a manifest of another version": change(format_version=99),
    "a manifest without tasks that are any": change(tasks=[1, 2]),
    "a manifest that has ended without a list": change(status="complete"),
    "a list of files that is none": change(files=[METRICS]),
    "a list with a table that has no rows": change(files={"x.parquet": EMPTY}),
    "a list with a file of somewhere else": change(files={"/etc/passwd": EMPTY}),
    "a manifest without a key": change(key=None),
    "a task that is another folder": change(tasks=[{"key": "../../.."}]),
    "a task that is an absolute path": change(tasks=[{"key": "/etc"}]),
    "a manifest that is a link": lambda run: replace_file(
        run / "run.json", lambda path: path.symlink_to("/etc/passwd")
    ),
    "numbers that are a pipe": lambda run: replace_file(run / "tasks/good/task.json", os.mkfifo),
    "numbers that are none": write(METRICS, '{"metrics": 1}'),
    "numbers without their names": write(METRICS, '{"metrics": [{"x": 1}], "tally": {}}'),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_damaged_run_folder_is_refused(name: str, killed: Path) -> None:
    """E503, or E501 for what is no run at all; never a traceback, never an endless wait."""
    SPOILED[name](killed)
    with pytest.raises(RunError) as caught:
        answerkey.load_run(killed)
    assert caught.value.code in {"E501", "E503"}


def test_a_table_with_more_rows_than_bytes_is_refused(killed: Path) -> None:
    """Before any of them is read."""
    (part,) = (killed / "tasks/good/scores").glob("part-*.parquet")
    write_many_rows(part)
    assert part.stat().st_size < 200_000
    run = answerkey.load_run(killed)
    with pytest.raises(RunError, match="20,000,000 rows cannot be in so small a file"):
        _ = run.tasks["good"].scores


def test_a_table_that_is_a_link_is_refused(finished: Path, tmp_path: Path) -> None:
    """What a run holds lies in its folder."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (part,) = (folder / "tasks/good/scores").glob("part-*.parquet")
    replace_file(part, lambda path: path.symlink_to(finished / "tasks/good/scores" / path.name))
    with pytest.raises(RunError, match="is not a plain file"):
        _ = answerkey.load_run(folder).tasks["good"].scores


@pytest.mark.parametrize("name", ["run.json", METRICS, "tasks/good/scores/part-00000.parquet"])
def test_a_draft_that_is_a_link_is_not_followed(name: str, killed: Path, tmp_path: Path) -> None:
    """A run that came by mail continues, and what its links lead to is left alone."""
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="utf-8")
    path = killed / name
    (path.parent / f".{path.name}.draft").symlink_to(outside)
    assert answerkey.resume(killed).status == "complete"
    assert outside.read_text(encoding="utf-8") == "mine"
