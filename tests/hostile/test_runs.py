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

from .corpus import DATASET, GOOD, ROWS, write_evil, write_run

#: Too much on every row but the first.
HEAVY = "{% if sample.id == 'row 0' %}A{% else %}{{ 'x' * 10 ** 9 }}{% endif %}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a good task and one that does too much on most rows."""
    files = {
        "rows.jsonl": ROWS,
        "dataset.yaml": DATASET,
        "good.yaml": GOOD,
        "evil.yaml": write_evil(HEAVY),
    }
    files |= {"run.yaml": write_run("evil", "good"), "good_run.yaml": write_run("good")}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
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
    endless = (
        "{% set ns = namespace(x=['y']) %}{% for i in range(50) %}{% set ns.x = [ns.x, "
        "ns.x] %}{% endfor %}"
    )
    (project / "evil.yaml").write_text(
        write_evil(f"{endless}{{{{ ns.x | upper }}}}"), encoding="utf-8"
    )
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
    for name, text in {"rows.jsonl": ROWS, "dataset.yaml": DATASET, "good.yaml": GOOD}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "run.yaml").write_text(write_run("good"), encoding="utf-8")
    answerkey.run(folder / "run.yaml", out=folder / "run")
    return folder / "run"


def change_json(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change what a JSON file holds."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def copy_killed(finished: Path, folder: Path) -> Path:
    """Copy a run as if it had been killed: it has no list of its files, so that nothing is
    hashed.
    """
    shutil.copytree(finished, folder)
    change_json(folder / "run.json", lambda manifest: manifest.update(status="running"))
    change_json(folder / "run.json", lambda manifest: manifest.pop("files"))
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
SPOILED: dict[str, Callable[[Path], object]] = {
    "a manifest that is no JSON": lambda run: (run / "run.json").write_text("{", encoding="utf-8"),
    "a manifest that is nested without end": lambda run: (run / "run.json").write_text(
        '{"a": ' + "[" * 100_000, encoding="utf-8"
    ),
    "a manifest that is a list": lambda run: (run / "run.json").write_text("[]", encoding="utf-8"),
    "a manifest with a number that is none": lambda run: (run / "run.json").write_text(
        '{"format_version": NaN}', encoding="utf-8"
    ),
    "a manifest with too many values": lambda run: (run / "run.json").write_text(
        '{"format_version": 3, "a": [' + "[]," * 600_000 + "0]}", encoding="utf-8"
    ),
    "a manifest of another version": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(format_version=99)
    ),
    "a manifest without tasks that are any": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(tasks=[1, 2])
    ),
    "a manifest that has ended without a list": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(status="complete")
    ),
    "a list of files that is none": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(files=[METRICS])
    ),
    "a list with a table that has no rows": lambda run: change_json(
        run / "run.json",
        lambda manifest: manifest.update(files={"x.parquet": {"bytes": 1, "sha256": ""}}),
    ),
    "a list with a file of somewhere else": lambda run: change_json(
        run / "run.json",
        lambda manifest: manifest.update(files={"/etc/passwd": {"bytes": 1, "sha256": ""}}),
    ),
    "a manifest without a key": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.pop("key")
    ),
    "a task that is another folder": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(tasks=[{"key": "../../.."}])
    ),
    "a task that is an absolute path": lambda run: change_json(
        run / "run.json", lambda manifest: manifest.update(tasks=[{"key": "/etc"}])
    ),
    "a manifest that is a link": lambda run: replace_file(
        run / "run.json", lambda path: path.symlink_to("/etc/passwd")
    ),
    "numbers that are a pipe": lambda run: replace_file(run / "tasks/good/task.json", os.mkfifo),
    "numbers that are none": lambda run: (run / METRICS).write_text(
        '{"metrics": 1}', encoding="utf-8"
    ),
    "numbers without their names": lambda run: (run / METRICS).write_text(
        '{"metrics": [{"x": 1}], "tally": {}}', encoding="utf-8"
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_damaged_run_folder_is_refused(name: str, finished: Path, tmp_path: Path) -> None:
    """E503, or E501 for what is no run at all; never a traceback, never an endless wait."""
    folder = copy_killed(finished, tmp_path / "run")
    SPOILED[name](folder)
    with pytest.raises(RunError) as caught:
        answerkey.load_run(folder)
    assert caught.value.code in {"E501", "E503"}


def test_a_table_with_more_rows_than_bytes_is_refused(finished: Path, tmp_path: Path) -> None:
    """Before any of them is read."""
    folder = copy_killed(finished, tmp_path / "run")
    (part,) = (folder / "tasks/good/scores").glob("part-*.parquet")
    write_many_rows(part)
    assert part.stat().st_size < 200_000
    run = answerkey.load_run(folder)
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


@pytest.mark.parametrize(
    "written",
    [
        "run.json",
        "tasks/good/metrics.json",
        "tasks/good/scores/part-00000.parquet",
    ],
)
def test_a_draft_that_is_a_link_is_not_followed(
    written: str, finished: Path, tmp_path: Path
) -> None:
    """A run that came by mail continues, and what its links lead to is left alone."""
    run = copy_killed(finished, tmp_path / "run")
    outside = tmp_path / "outside"
    outside.write_text("mine", encoding="utf-8")
    path = run / written
    (path.parent / f".{path.name}.draft").symlink_to(outside)
    assert answerkey.resume(run).status == "complete"
    assert outside.read_text(encoding="utf-8") == "mine"
