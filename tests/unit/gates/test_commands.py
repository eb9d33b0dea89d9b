"""Laws of gates on the command line: exit codes, files for others, what is refused at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import parse

import pytest

from .conftest import Write

Call = Callable[..., Any]
PROJECT = ("task.yaml", "--dataset", "rows.jsonl")
GATES = """\
policies:
  - key: release
    rules:
      - key: high
        display_name: Accuracy is high
        definition: {type: threshold, metric: Accuracy, operator: ">=", threshold: %s}
"""


@pytest.fixture(autouse=True)
def project(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a project whose accuracy is 0.8."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return write()


def count(file: str, name: str) -> str | None:
    """Return one of the counts that a JUnit document begins with."""
    return parse(file).getroot().get(name)  # noqa: S314 - our own document


def score(call: Call, threshold: float, *more: object) -> Any:  # noqa: ANN401 - what was called
    """Score the project against a threshold."""
    Path("gates.yaml").write_text(GATES % threshold, encoding="utf-8")
    return call("score", *PROJECT, "--policies", "gates.yaml", *more)


def test_a_gate_that_fails_exits_with_one(call: Call) -> None:
    """The run is written and its summary printed all the same.

    `show` says the same with the same code. Other policies are decided on the spot, and the run
    stays as it is.
    """
    assert score(call, 0.1, "--out", "good").code == 0
    done = score(call, 0.9, "--out", "bad")
    assert done.code == 1
    assert "Gates  FAIL  0 of 1 passed, 1 failed\n" in done.out
    assert "        Accuracy is 80.00 % (n 20); needed: at least 90.00 %\n" in done.out
    assert "        `answerkey show bad` shows what the value is based on\n" in done.out
    assert call("show", "bad").code == 1
    Path("gates.yaml").write_text(GATES % 0.1, encoding="utf-8")
    shown = call("show", "bad", "--policies", "gates.yaml", "--json")
    assert (shown.code, [gate["status"] for gate in shown.json["gates"]]) == (0, ["PASS"])
    assert call("show", "bad", "--json").json["gates"][0]["status"] == "FAIL"


def test_an_incomplete_run_decides_nothing(call: Call) -> None:
    """Exit 3, the verdict of every gate is open, and no percentage is printed."""
    lines = [f'{{"sample_id": "s{place:02d}", "completion": "A"}}\n' for place in range(20)]
    lines[0] = '{"sample_id": "s00", "completion": null, "completion_status": "ERROR"}\n'
    Path("said.jsonl").write_text("".join(lines), encoding="utf-8")
    done = score(call, 0.0, "--completions", "said.jsonl", "--out", "half", "--junit", "half.xml")
    assert done.code == 3
    assert "Gates  NOT DECIDED  0 of 1 passed, 1 not decided\n" in done.out
    assert "  NOT DECIDED  Accuracy is high (high)\n" in done.out
    assert "the run is not complete\n" in done.out
    assert " %" not in done.out
    assert call("show", "half").code == 3
    assert count("half.xml", "errors") == "2"


def test_a_baseline_may_be_named_as_for_show(call: Call) -> None:
    """A run's name below `runs`, or `latest`; against itself nothing is lost."""
    assert call("score", *PROJECT, "--out", "runs/first").code == 0
    assert call("show", "first").code == 0
    done = call("score", *PROJECT, "--baseline", "latest", "--out", "runs/second", "--json")
    (gate,) = done.json["gates"]
    assert (done.code, gate["definition"]["baseline"]) == (0, str(Path("runs/first").resolve()))
    sentence = "Accuracy is 80.00 %, in the baseline 80.00 %, 0.00 points"
    assert gate["explanation"].startswith(sentence)


@pytest.mark.parametrize(
    ("threshold", "code", "sentence"),
    [
        ("0.8", 0, "Accuracy is 80.00 % (n 20), at least 80.00 %"),
        ("80.1%", 1, "Accuracy is 80.00 % (n 20); needed: at least 80.10 %"),
    ],
)
def test_fail_under_gates_the_value(call: Call, threshold: str, code: int, sentence: str) -> None:
    """Not on the end of its interval.

    In the summary, in JSON, in the folder, in JUnit and in the report.
    """
    files = ("--out", "one", "--junit", "gates.xml")
    done = call("score", *PROJECT, "--fail-under", threshold, *files)
    assert done.code == code
    assert f"  fail_under\n        {sentence}\n" in done.out
    gates = call("show", "one", "--json").json["gates"]
    expected = [("fail_under", f"{sentence}.")]
    assert [(gate["rule"], gate["explanation"]) for gate in gates] == expected
    (gate,) = json.loads(Path("one/run.json").read_text())["gates"]
    assert gate["status"] == ("FAIL" if code else "PASS")
    assert count("gates.xml", "failures") == str(code)
    assert call("report", "one").code == 0
    assert "fail_under" in Path("one.html").read_text(encoding="utf-8")


def test_not_worse_than_pairs_the_same_samples(call: Call, write: Write) -> None:
    """Decided as `not_worse` of a policy: by samples that flipped, and by nothing that is not
    significant.
    """
    assert call("score", *PROJECT, "--out", "runs/first").code == 0
    limits = ("--not-worse-than", "first", "--fail-under", "0.5")
    good = call("score", *PROJECT, *limits, "--json", "--out", "same")
    expected = [("fail_under", "PASS"), ("not_worse_than", "PASS")]
    assert [(gate["rule"], gate["status"]) for gate in good.json["gates"]] == expected
    write(said=["A"] * 6 + ["B"] * 14)
    bad = call("score", *PROJECT, "--not-worse-than", "first", "--out", "bad")
    assert bad.code == 1
    assert "Accuracy is 30.00 %, in the baseline 80.00 %, -50.00 points" in bad.out
    assert "significantly worse (p below 0.05)" in " ".join(bad.out.split())
    assert call("compare", "bad", "--baseline", "first", "--fail-on-regression").code == 1


def test_gates_of_options_can_be_decided_anew(call: Call) -> None:
    """`show` and `rescore` hold a run against other numbers, in place of those that it was made
    with.
    """
    assert call("score", *PROJECT, "--fail-under", "0.9", "--not-worse-than", "nowhere").code == 2
    assert call("score", *PROJECT, "--fail-under", "0.9", "--out", "one").code == 1
    assert call("show", "one").code == 1
    shown = call("show", "one", "--fail-under", "0.7", "--json")
    assert (shown.code, [gate["rule"] for gate in shown.json["gates"]]) == (0, ["fail_under"])
    limits = ("--fail-under", "0.7", "--not-worse-than", "one")
    again = call("rescore", "one", *limits, "--out", "two", "--json")
    assert (again.code, len(again.json["gates"])) == (0, 2)
    assert call("rescore", "one", "--out", "three").code == 1
    assert call("check", *PROJECT, "--fail-under", "80").code == 2


def test_files_for_others_are_written(call: Call) -> None:
    """JUnit is written anew, the summary is appended to; `--json` stays one object."""
    Path("page.md").write_text("before\n", encoding="utf-8")
    files = ("--junit", "gates.xml", "--summary", "page.md")
    done = score(call, 0.9, "--out", "bad", *files, "--json")
    assert done.json["gates"][0]["status"] == "FAIL"
    assert count("gates.xml", "failures") == "1"
    assert Path("page.md").read_text(encoding="utf-8").startswith("before\n## Quiz: ❌ FAIL\n")
    for line in (("rescore", "bad", "--out", "again"), ("resume", "bad"), ("show", "bad")):
        assert call(*line, "--junit", f"{line[0]}.xml").code == 1
        assert count(f"{line[0]}.xml", "failures") == "1"


def test_an_error_is_written_to_the_files_too(call: Call) -> None:
    """A program that reads only the files learns that there is no run.

    Without files nothing is written.
    """
    Path("rows.jsonl").write_text('{"answer": "Z", "subject": "law", "completion": "A"}\n')
    assert score(call, 0.5).code == 2
    assert not list(Path().glob("*.xml"))
    assert score(call, 0.5, "--junit", "gates.xml", "--summary", "page.md").code == 2
    assert count("gates.xml", "errors") == "1"
    assert "error E204" in Path("page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--junit", "--summary"])
@pytest.mark.parametrize("name", ["", ".", "gone/file"])
def test_a_file_that_cannot_be_written_is_refused(call: Call, option: str, name: str) -> None:
    """Before a model is asked: an empty name (a variable that is not set), a folder, one in no
    folder.
    """
    done = score(call, 0.5, option, name)
    assert (done.code, Path("runs").exists()) == (2, False)
    assert f"error[E119]: `{option} {name}`" in done.err
