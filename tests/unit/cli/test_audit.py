"""Laws of `audit` and `audit-dataset`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.projects import write_rows

from .conftest import TASK, Call

LONG = "Let me see. The answer is A."
STATED = "      extraction: stated_answer\n"


def score(
    call: Call, project: Path, rows: list[dict[str, object]], *words: object, task: str = ""
) -> Path:
    """Return a run of these rows, by the task with some lines more."""
    (project / "task.yaml").write_text(TASK + task, encoding="utf-8")
    texts, run = write_rows(project / "texts.jsonl", rows), project / "run"
    call("score", project / "task.yaml", "--dataset", texts, "--out", run, *words)
    return run


def score_texts(call: Call, project: Path, texts: list[str], task: str = "") -> Path:
    """Return a run of completions whose truth is A."""
    return score(call, project, [{"answer": "A", "completion": text} for text in texts], task=task)


def read_audit(call: Call, run: Path, *words: str) -> dict[str, Any]:
    """Return the audit of the first task."""
    task: dict[str, Any] = call("audit", run, *words, "--json").json["audit"]["tasks"][0]
    return task


def test_findings_do_not_fail_a_run(call: Call, project: Path) -> None:
    """Whatever is found, the exit code is 0."""
    run = score(call, project, [{"answer": "A", "completion": "B"}] * 40)
    assert call("audit", run).code == 0
    assert "CHANCE_LEVEL" in {finding["kind"] for finding in read_audit(call, run)["findings"]}


def test_every_summary_has_the_short_form(call: Call, run_folder: Path) -> None:
    """The summary of a run says what other rules read; the audit has the table and the chance
    level.
    """
    both_rules = "accuracy by first_character 25.00 %, by stated_answer"
    assert both_rules in call("show", run_folder).out
    audit = call("audit", run_folder).out
    assert "first_character (this run)" in audit
    assert re.search("chance level +33.33 %", audit)
    readings = call("show", run_folder, "--json").json["tasks"][0]["tally"]["readings"]
    assert (readings["n"], readings["rules"]["own"]) == (4, {"correct": 1, "invalid": 3})


def test_the_short_form_says_how_many_it_read(call: Call, project: Path) -> None:
    """Of more than 1,000 samples so many stand for all: every rule, the run's own too, is shown on
    the same.

    The number of the run itself is of all samples.
    """
    run = score_texts(call, project, ["A"] * 1000 + ["The answer is A."] * 1100)
    shown = call("show", run, "-v").out
    readings = call("show", run, "--json").json["tasks"][0]["tally"]["readings"]
    share = readings["rules"]["own"]["correct"] / 10
    assert share != 47.6  # else the draw could not be told from the whole
    assert readings["n"] == 1000
    assert "\nAccuracy 47.62 % [45.49, 49.76]  1000 of 2100 right\n" in shown
    summary = (
        f"on 1,000 samples drawn at random, accuracy by first_character {share:.2f} %, by "
        "stated_answer 100.00 %; the difference is format, not knowledge: try "
        "`extraction: stated_answer`"
    )
    assert summary in " ".join(shown.split())


def test_samples_that_are_left_out_are_no_draw(call: Call, project: Path) -> None:
    """Where an action keeps samples out of the metrics, the rest were all read, and nothing was
    drawn.
    """
    condition = "{op: equals, expression: sample.answer, value: B}"
    action = f"  actions:\n    - {{key: rest, filter: {condition}, action: exclude_from_metrics}}\n"
    rows: list[dict[str, object]] = [{"answer": letter, "completion": "A"} for letter in "ABB"]
    shown = call("show", score(call, project, rows, task=action))
    assert (shown.code, "drawn at random" in shown.out) == (0, False)


@pytest.mark.parametrize(("long", "kinds"), [(20, ["FORMAT"]), (21, [])])
def test_no_finding_rests_on_what_reads_less_than_half(
    call: Call, project: Path, long: int, kinds: list[str]
) -> None:
    """The run's own rule reads all.

    From another that reads less than half, nothing is concluded.
    """
    run = score_texts(call, project, [LONG] * long + ["A"] * 20, STATED)
    printed = read_audit(call, run)
    assert [entry["kind"] for entry in printed["findings"]] == kinds
    readers = {entry["name"]: (entry["read"], entry["n"]) for entry in printed["readers"]}
    assert readers["stated_answer"] == (long + 20, long + 20)
    assert readers["HELM"] == (20, long + 20)
    warning = "always report the extraction rule together with the accuracy"
    assert (warning in " ".join(call("show", run).out.split())) is bool(kinds)
    audit = " ".join(call("audit", run).out.split())
    assert ("100.0 % by `stated_answer`, 50.0 % by `first_character`" in audit) is bool(kinds)
    unfit = "are left out of the findings: first_character, "
    assert (unfit in audit) is not bool(kinds)


def test_the_short_form_says_why_as_the_audit_does(call: Call, project: Path) -> None:
    """An accuracy below chance for want of a letter to read is no sign of a shifted key."""
    run = score_texts(call, project, [LONG] * 40)
    sentence = "is below the chance level of 33.3 %: most of what is wrong is INVALID."
    assert sentence in " ".join(call("audit", run).out.split())
    assert call("report", run, "-o", "page.html").code == 0
    assert sentence in Path("page.html").read_text(encoding="utf-8")


def test_a_sample_is_named_once_however_many_trials_show_it(call: Call, project: Path) -> None:
    """Three completions of one sample are one example."""
    replies = [
        {"sample_id": name, "trial": trial, "completion": text}
        for name, text in (("000001", "A"), ("000002", "Answer: B"))
        for trial in range(3)
    ]
    trials = "  trials: {num_trials: 3}\n"
    words = ("--completions", write_rows(project / "said.jsonl", replies))
    run = score(call, project, [{"answer": "A"}, {"answer": "B"}], *words, task=trials)
    assert "3 completions on which the rules disagree, such as 000002\n" in call("audit", run).out


def test_an_audit_of_nothing_says_so(call: Call, project: Path) -> None:
    """Where no completion has a score, it is not said that no findings."""
    run = score(call, project, [{"answer": "Z", "completion": "A"}], "--allow-failed", 1)
    printed = call("audit", run).out
    assert printed.endswith("There was nothing to audit.\n")
    assert "no findings" not in printed


def test_columns_are_named_by_options(call: Call, tmp_path: Path) -> None:
    """Question, options, labels and truth may be named."""
    path = tmp_path / "other.csv"
    path.write_text("frage,a1,a2,wahr\nWelche?,x,y,1\nWer?,x,y,2\n", encoding="utf-8")
    words = ("--column", "question=frage", "--column", "options=a1,a2", "--column", "truth=wahr:1")
    (dataset,) = call("audit-dataset", path, *words, "--json").json["datasets"]
    assert dataset["all"]["labels"] == {"A": 1, "B": 1}


def test_a_project_is_looked_at_by_its_task(call: Call, words: tuple[str, ...]) -> None:
    """A task file needs a dataset, and its scorer says where the truth is."""
    (dataset,) = call("audit-dataset", *words, "--json").json["datasets"]
    assert (dataset["rows"], dataset["fields"]["truth"], dataset["all"]["n"]) == (4, "answer", 4)


def test_a_file_without_a_header(call: Call, tmp_path: Path) -> None:
    """`--header` names its columns."""
    path = tmp_path / "plain.csv"
    path.write_text("Which?,x,y,A\nWhich?,x,y,A\n", encoding="utf-8")
    assert "repeat a question" in call("audit-dataset", path, "--header", "question,A,B,answer").out
