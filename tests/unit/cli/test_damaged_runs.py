"""Runs of which a file is missing, has changed or came later: every command names it, none shows a
number.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from .conftest import Call, write_project

COMPLETIONS = "tasks/small/completions/part-00000.parquet"
SCORES = "tasks/small/scores/part-00000.parquet"
METRICS = "tasks/small/metrics.json"
COMMANDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "RUN"),
    "explain": ("explain", "RUN", "000001"),
    "export": ("export", "RUN", "--to", "jsonl"),
    "audit": ("audit", "RUN"),
    "report": ("report", "RUN", "-o", "report.html"),
    "compare": ("compare", "done", "RUN"),
    "rescore": ("rescore", "RUN", "--out", "again"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a finished run that keeps its completions."""
    project = write_project(tmp_path_factory.mktemp("finished"))
    words = (project / "task.yaml", "--dataset", project / "rows.jsonl", "--copy")
    assert call("score", *words, "--out", project / "done").code == 0
    return project / "done"


@pytest.fixture
def spoiled(project: Path, finished: Path) -> Path:
    """Return a copy of the finished run, elsewhere; `done` is the run as it was."""
    shutil.copytree(finished, "done")
    (project / "moved").mkdir()
    return Path(shutil.copytree("done", project / "moved" / "run"))


def require_named(call: Call, run: Path, command: str, file: str, why: str) -> None:
    """Require that a command ends with E503, names the file and prints nothing else."""
    done = call(*(run if word == "RUN" else word for word in COMMANDS[command]))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[E503]: `{run}/{file}` {why}")
    assert not list(Path().glob("again/tasks/*/metrics.json"))
    assert not Path("report.html").exists()


def flip(file: Path, place: int) -> None:
    """Change one bit of a file, not its size."""
    raw = bytearray(file.read_bytes())
    raw[place] ^= 1
    file.write_bytes(raw)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_copied_or_linked_run_is_as_good(call: Call, spoiled: Path, command: str) -> None:
    """A folder may be moved, copied and linked to."""
    Path("link").symlink_to(spoiled)
    for run in (spoiled, "link"):
        done = call(*(run if word == "RUN" else word for word in COMMANDS[command]))
        assert (done.code, "error" in done.err) == (0, False)
        shutil.rmtree("again", ignore_errors=True)


def spoil(run: Path, kind: str, file: str) -> tuple[str, str]:
    """Spoil a run, and return the file that is to be named and what is to be said of it."""
    changed = "has changed since the run ended: "
    if kind == "missing":
        (run / file).unlink()
        return file, "is missing"
    if kind == "one bit":
        flip(run / file, 40)
        return file, f"{changed}its SHA-256 is "
    if kind == "shorter":  # any reader takes it
        pl.read_parquet(run / file).head(2).write_parquet(run / file)
        return file, f"{changed}it has {(run / file).stat().st_size:,} bytes"
    text = (run / file).read_text(encoding="utf-8")
    assert '"value": 0.25' in text
    (run / file).write_text(text.replace('"value": 0.25', '"value": 0.75'), encoding="utf-8")
    return file, f"{changed}its SHA-256 is "


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("kind", "file"),
    [
        *(("missing", file) for file in (COMPLETIONS, SCORES, METRICS, "tasks/small/task.json")),
        *(("one bit", file) for file in (COMPLETIONS, SCORES)),
        ("shorter", SCORES),
        ("another number", METRICS),
    ],
)
def test_damage_is_named(call: Call, spoiled: Path, command: str, kind: str, file: str) -> None:
    """Without completions an audit would read no answer."""
    file_named, why = spoil(spoiled, kind, file)
    require_named(call, spoiled, command, file_named, why)


@pytest.mark.parametrize("command", ["show", "compare", "report"])
@pytest.mark.parametrize(("part", "name"), [("counts", "valid"), ("dataset", "samples")])
def test_a_changed_count_is_told(
    call: Call, spoiled: Path, command: str, part: str, name: str
) -> None:
    """The counts of `run.json` are those of `metrics.json`."""
    manifest = json.loads((spoiled / "run.json").read_text(encoding="utf-8"))
    manifest["tasks"][0][part][name] = 9
    (spoiled / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    why = "has changed since the run ended: its counts of `small` are not those of `metrics.json`"
    require_named(call, spoiled, command, "run.json", why)


@pytest.mark.parametrize("command", ["show", "explain", "export", "audit", "compare"])
def test_a_file_of_another_origin_is_not_read(call: Call, spoiled: Path, command: str) -> None:
    """Rows of a surplus part would count twice."""
    words = [spoiled if word == "RUN" else word for word in COMMANDS[command]]
    before = call(*words)
    for file in (SCORES, COMPLETIONS):
        shutil.copy(spoiled / file, spoiled / file.replace("00000", "00001"))
    for name in ("tasks/small/notes.txt", "tasks/small/repetitions/2/metrics.json"):
        (spoiled / name).parent.mkdir(parents=True, exist_ok=True)
        (spoiled / name).write_text("x", encoding="utf-8")
    assert before.code == 0
    assert call(*words) == before


@pytest.mark.parametrize("command", ["show", "compare", "report", "rescore", "resume"])
def test_a_run_json_that_lacks_a_field_is_damaged(call: Call, spoiled: Path, command: str) -> None:
    """E503 names the field; it is not reported as a bug."""
    manifest = json.loads((spoiled / "run.json").read_text(encoding="utf-8"))
    del manifest["tasks"][0]["dataset"]["fingerprint"]
    (spoiled / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    done = call(command, spoiled)
    assert (done.code, "error[E503]" in done.err) == (2, True)
    assert "it has no `tasks[0].dataset.fingerprint`" in done.err


def test_a_list_of_runs_shows_which_one_is_damaged(call: Call, spoiled: Path) -> None:
    """The others are shown."""
    shutil.copytree("done", spoiled.parent / "whole")
    (spoiled / SCORES).unlink()
    runs = call("runs", spoiled.parent, "--json").json["runs"]
    listed = {Path(run["path"]).name: run for run in runs}
    assert (listed["whole"]["status"], listed["run"]["status"]) == ("complete", "unreadable")


def test_a_run_of_another_version_names_it(call: Call, spoiled: Path) -> None:
    """One error says which version wrote it."""
    manifest = json.loads((spoiled / "run.json").read_text(encoding="utf-8"))
    (spoiled / "run.json").write_text(
        json.dumps(manifest | {"format_version": 1, "answerkey_version": "0.1.0"}), encoding="utf-8"
    )
    done = call("show", spoiled)
    assert done.code == 2
    assert f"error[E503]: `{spoiled}` was written by answerkey 0.1.0, in run format 1" in done.err


@pytest.mark.usefixtures("spoiled")
def test_an_incomplete_run_whose_tables_are_damaged_is_resumed(call: Call) -> None:
    """Its tables are written anew, and it is whole again; a task that has changed is refused."""
    file = Path("done/run.json")
    manifest = json.loads(file.read_text(encoding="utf-8")) | {"status": "incomplete"}
    file.write_text(json.dumps(manifest), encoding="utf-8")
    flip(Path("done") / SCORES, 40)
    assert call("export", "done", "--to", "jsonl").code == 2
    assert call("resume", "done").code == 0
    assert call("export", "done", "--to", "jsonl").code == 0
    file.write_text(json.dumps(manifest), encoding="utf-8")
    source = Path("done/tasks/small/task.json")
    source.write_text(source.read_text().replace("answer", "anzwer"))
    refused = call("resume", "done")
    assert (refused.code, f"`{source}` has changed" in refused.err) == (2, True)
