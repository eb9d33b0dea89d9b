"""Laws of gates on the command line: exit codes, files for others, what is refused at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import parse

import pytest

from answerkey.cli.gates import keep_files
from answerkey.errors import SpecError

Call = Callable[..., Any]

GATES = """\
policies:
  - key: release
    rules:
      - key: high
        display_name: Accuracy is high
        definition: {type: threshold, metric: Accuracy, operator: ">=", threshold: THRESHOLD}
"""


def words(project: Path, *more: object) -> list[object]:
    """Return the arguments that score the small project."""
    return [project / "task.yaml", "--dataset", project / "rows.jsonl", *more]


def count(file: str, name: str) -> str | None:
    """Return one of the counts that a JUnit document begins with."""
    return parse(file).getroot().get(name)  # noqa: S314 - our own document


def write_gates(project: Path, threshold: float) -> Path:
    """Return a file of policies that need this accuracy; it is 0.25."""
    file = project / "gates.yaml"
    file.write_text(GATES.replace("THRESHOLD", str(threshold)), encoding="utf-8")
    return file


def score(call: Call, project: Path, threshold: float, *more: object) -> Any:  # noqa: ANN401 - what was called
    """Score the small project against a threshold."""
    return call("score", *words(project, "--policies", write_gates(project, threshold), *more))


def test_a_gate_that_fails_exits_with_one(call: Call, project: Path) -> None:
    """The run is written and its summary printed all the same."""
    assert score(call, project, 0.25, "--out", "good").code == 0
    done = score(call, project, 0.5, "--out", "bad")
    assert done.code == 1
    assert "Gates  FAIL  0 of 1 passed, 1 failed\n" in done.out
    assert "        Accuracy is 25.00 % (n 4); needed: at least 50.00 %\n" in done.out
    assert "        2 of 4 would pass, 1 more than there are\n" in done.out


def test_show_says_what_the_run_was_found_to_be(call: Call, project: Path) -> None:
    """With its exit code; other policies are decided on the spot, and the run stays as it is."""
    score(call, project, 0.5, "--out", "bad")
    assert call("show", "bad").code == 1
    shown = call("show", "bad", "--policies", write_gates(project, 0.1), "--json")
    assert shown.code == 0
    assert [gate["status"] for gate in shown.json["gates"]] == ["PASS"]
    assert call("show", "bad", "--json").json["gates"][0]["status"] == "FAIL"


def test_show_of_a_run_without_gates_exits_with_zero(call: Call, run_folder: Path) -> None:
    """To look is no test."""
    assert call("show", run_folder).code == 0


def test_an_incomplete_run_decides_nothing(call: Call, project: Path) -> None:
    """Exit code 3, whatever the gates say; `show` says the same."""
    rows = (
        '{"answer": "A", "completion": "A"}\n'
        '{"answer": "B", "completion": null, "completion_status": "ERROR"}\n'
    )
    (project / "rows.jsonl").write_text(rows, encoding="utf-8")
    done = score(call, project, 0.0, "--out", "half", "--junit", "half.xml")
    assert done.code == 3
    assert "Gates  NOT DECIDED  0 of 1 passed, 1 not decided\n" in done.out
    assert "  NOT DECIDED  Accuracy is high (high)\n  the run is not complete: a share of" in done.out
    assert " %" not in done.out
    assert call("show", "half").code == 3
    assert count("half.xml", "errors") == "2"


def test_a_baseline_may_be_named_as_for_show(call: Call, project: Path) -> None:
    """A run's name below `runs`, or `latest`; against itself nothing is lost."""
    assert call("score", *words(project, "--out", "runs/first")).code == 0
    done = call("score", *words(project, "--baseline", "latest", "--out", "runs/second", "--json"))
    assert done.code == 0
    (gate,) = done.json["gates"]
    assert gate["definition"]["baseline"] == str(Path("runs/first").resolve())
    assert gate["explanation"].startswith("Accuracy is 25.00 %, in the baseline 25.00 %, 0.00 points")


def test_a_metric_that_does_not_exist_is_found_before_anything_runs(call: Call, project: Path) -> None:
    """E113 with the nearest name, from `run`, `check` and `show`; nothing is written."""
    file = write_gates(project, 0.5)
    file.write_text(file.read_text(encoding="utf-8").replace("metric: Accuracy", "metric: Acuracy"))
    for verb in ("score", "check"):
        done = call(verb, *words(project, "--policies", file))
        assert done.code == 2
        assert (
            "error[E113]: rule `high` of policy `release` names the metric `Acuracy`" in done.out + done.err
        )
        assert "did you mean `Accuracy`?" in done.out + done.err
    assert not Path("runs").exists()


def test_files_for_others_are_written(call: Call, project: Path) -> None:
    """JUnit is written anew, the summary is appended to; `--json` stays one object."""
    Path("page.md").write_text("before\n", encoding="utf-8")
    done = score(call, project, 0.5, "--out", "bad", "--junit", "gates.xml", "--summary", "page.md", "--json")
    assert done.json["gates"][0]["status"] == "FAIL"
    assert count("gates.xml", "failures") == "1"
    page = Path("page.md").read_text(encoding="utf-8")
    assert page.startswith("before\n## Small: ❌ FAIL\n")


def test_an_error_is_told_in_the_files_too(call: Call, project: Path) -> None:
    """Whoever reads only the files learns that there is no run."""
    (project / "rows.jsonl").write_text('{"answer": "Z", "completion": "A"}\n', encoding="utf-8")
    assert score(call, project, 0.5, "--junit", "gates.xml", "--summary", "page.md").code == 2
    assert count("gates.xml", "errors") == "1"
    assert "error E204" in Path("page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--junit", "--summary"])
@pytest.mark.parametrize("name", ["", ".", "gone/file"])
def test_a_file_that_cannot_be_written_is_refused_at_once(
    call: Call, project: Path, option: str, name: str
) -> None:
    """Before a model is asked: an empty name (a variable that is not set), a folder, one in no folder."""
    done = score(call, project, 0.5, option, name)
    assert done.code == 2
    assert f"error[E119]: `{option} {name}`" in done.err
    assert not Path("runs").exists()


def test_every_command_that_ends_a_run_writes_the_files(call: Call, project: Path) -> None:
    """`rescore`, `resume` and `show`, too."""
    score(call, project, 0.5, "--out", "bad")
    for number, line in enumerate((("rescore", "bad", "--out", "again"), ("resume", "bad"), ("show", "bad"))):
        assert call(*line, "--junit", f"{number}.xml").code == 1
        assert count(f"{number}.xml", "failures") == "1"


def test_gates_are_in_the_run_folder(call: Call, project: Path) -> None:
    """`run.json` says what was needed and what was found."""
    score(call, project, 0.5, "--out", "bad")
    stored = json.loads(Path("bad/run.json").read_text(encoding="utf-8"))
    assert stored["policies"][0]["rules"][0]["key"] == "high"
    assert stored["gates"][0]["checks"][0]["value"] == 0.25


def test_options_without_files_write_none() -> None:
    """Nothing is written that nobody asked for."""
    with keep_files({"junit": None, "summary": None}) as files:
        files.write(SpecError("E101", "x"))
