from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]


def test_audit_prints_readers_and_findings(call: Call, run_folder: Path) -> None:
    """The text has a line for each rule and lens, reasons, letters and findings; the exit code is 0."""
    found = call("audit", run_folder)
    assert found.code == 0
    for word in (
        "first_character (this run)",
        "stated_answer",
        "lm-eval",
        "MMLU-Pro",
        "Invalid because",
        "Findings",
    ):
        assert word in found.out


def test_audit_as_json_is_one_object(call: Call, run_folder: Path) -> None:
    """`--json` has the numbers behind the text."""
    task = call("audit", run_folder, "--json").json["audit"]["tasks"][0]
    assert (task["key"], task["n"], task["extraction"]) == ("small", 4, "first_character")
    assert task["readers"][0]["kind"] == "own"
    assert task["chance"] == 1 / 3
    assert {one["kind"] for one in task["findings"]} == {"INVALID", "NO_TEXT"}


def test_findings_do_not_fail_a_run(call: Call, project: Path) -> None:
    """Whatever is found, the exit code is 0."""
    rows = [{"answer": "A", "completion": "B"}] * 40
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "bad")
    assert call(*words).code == 0
    found = call("audit", project / "bad", "--json")
    assert found.code == 0
    assert "CHANCE_LEVEL" in found.out


def test_audit_of_what_is_no_run(call: Call, tmp_path: Path) -> None:
    """A folder without a run is refused."""
    assert call("audit", tmp_path, "--json").json["error"]["code"] == "E501"


def test_clean_needs_its_column(call: Call, run_folder: Path) -> None:
    """`--clean` without `--label-quality` says what is missing."""
    found = call("audit", run_folder, "--clean", "ok")
    assert found.code == 2
    assert "name it with `--label-quality COLUMN`" in found.err


def test_metrics_on_clean_rows(call: Call, project: Path) -> None:
    """With a column of label qualities every metric stands there twice."""
    rows = [{"answer": "A", "completion": "A", "q": "ok"}, {"answer": "A", "completion": "B", "q": "bad"}]
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "two")
    assert call(*words).code == 0
    found = call("audit", project / "two", "--label-quality", "q")
    assert "Clean rows: 1 of 2, where q is ok" in found.out
    clean = call("audit", project / "two", "--label-quality", "q", "--json").json["audit"]["tasks"][0][
        "clean"
    ]
    assert [(one["name"], one["value"], one["n"]) for one in clean["metrics"]] == [("Accuracy", 1.0, 1)]


def test_every_summary_has_the_short_form(call: Call, run_folder: Path) -> None:
    """The summary of a run says what other rules would read, and the chance level."""
    shown = call("show", run_folder)
    assert "first_character (this run)" in shown.out
    assert "chance level 33.33 %" in shown.out
    readings = call("show", run_folder, "--json").json["tasks"][0]["tally"]["readings"]
    assert readings["n"] == 4
    assert readings["rules"]["own"] == {"correct": 1, "invalid": 3}


def test_the_short_form_says_how_many_it_read(call: Call, project: Path) -> None:
    """Of more than 1,000 samples so many stand for all; the run's own line is of all, and equals its number.

    What is compared is compared on the same samples, and that is said.
    """
    run = score_texts(call, project, ["A"] * 1000 + ["The answer is A."] * 1100)
    shown = call("show", run).out
    readings = call("show", run, "--json").json["tasks"][0]["tally"]["readings"]
    own = readings["rules"]["own"]["correct"] / 10
    assert own != 47.6  # else the draw could not be told from the whole
    assert (readings["n"], readings["drawn_from"]) == (1000, 2100)
    assert "  Accuracy  47.62 %  [45.49, 49.76]  2100\n" in shown
    assert re.search(r"first_character \(this run\) +47\.62 %  52\.38 %  1000\n", shown)
    assert re.search(r"stated_answer \(from 1,000 samples\) +100\.00 % +0\.00 %  1000\n", shown)
    assert "other rules on 1000 of 2100 completions, drawn at random; `answerkey audit` reads all" in shown
    said = f"On 1,000 samples drawn at random: {own:.1f} % by the first character; 100.0 % by the answers"
    assert said in " ".join(shown.split())
    written = call("show", run, "--format", "markdown").out.replace("\\", "")
    assert said in written
    assert "| first_character (this run) | 47.62 % | [45.49, 49.76] | 52.38 % | 1000 | 2100 |" in written
    assert "| stated_answer (from 1,000 samples) | 100.00 % |" in written


def score_texts(call: Call, project: Path, texts: list[str]) -> Path:
    """Return a run of completions whose truth is A."""
    rows = [{"answer": "A", "completion": text} for text in texts]
    (project / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run = project / f"run-{len(texts)}"
    words = ("score", project / "task.yaml", "--dataset", project / "texts.jsonl", "--out", run)
    assert call(*words).code == 0
    return run


def test_samples_that_are_left_out_are_no_draw(call: Call, project: Path) -> None:
    """Where an action keeps samples out of the metrics, the rest were all read, and nothing was drawn."""
    with (project / "task.yaml").open("a", encoding="utf-8") as task:
        task.write("  actions:\n")
        task.write("    - key: others\n")
        task.write("      filter: {op: equals, expression: sample.answer, value: B}\n")
        task.write("      action: exclude_from_metrics\n")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", "few")
    assert call(*words).code == 0
    shown = call("show", "few")
    assert shown.code == 0
    assert "drawn at random" not in shown.out


LONG = "Let me see. The answer is A."


def test_a_rule_that_reads_half_can_be_a_finding(call: Call, project: Path) -> None:
    """The run's own rule reads all; another reads half of them, and gets another number."""
    with (project / "task.yaml").open("a", encoding="utf-8") as task:
        task.write("      extraction: stated_answer\n")
    run = score_texts(call, project, [LONG] * 20 + ["A"] * 20)
    told = call("audit", run, "--json").json["audit"]["tasks"][0]
    assert [one["kind"] for one in told["findings"]] == ["FORMAT"]
    assert "100.0 % by `stated_answer`, 50.0 % by `first_character`" in call("show", run).out


def test_no_finding_rests_on_what_reads_less_than_half(call: Call, project: Path) -> None:
    """Rules and lenses that read few completions say so in their lines; nothing is concluded from them."""
    with (project / "task.yaml").open("a", encoding="utf-8") as task:
        task.write("      extraction: stated_answer\n")
    run = score_texts(call, project, [LONG] * 21 + ["A"] * 20)
    told = call("audit", run, "--json").json["audit"]["tasks"][0]
    assert told["findings"] == []
    readers = {one["name"]: (one["read"], one["n"]) for one in told["readers"]}
    assert (readers["stated_answer"], readers["HELM"]) == ((41, 41), (20, 41))
    text = call("audit", run).out
    assert re.search(r"HELM +48\.78 % +\[34\.25, 63\.52\] +20 ", text)
    unfit = "no finding rests on what reads less than half of the completions: first_character, "
    assert unfit in " ".join(text.split())
    summary = call("show", run).out
    assert unfit in " ".join(summary.split())
    assert "100.0 % by `stated_answer`" not in summary
    assert call("report", run, "-o", "page.html").code == 0
    assert unfit in Path("page.html").read_text(encoding="utf-8")


def test_the_short_form_says_why_as_the_audit_does(call: Call, project: Path) -> None:
    """An accuracy below chance for want of a letter to read is no sign of a shifted key."""
    run = score_texts(call, project, [LONG] * 40)
    said = "is below the chance level of 33.3 %: most of what is wrong is INVALID."
    assert said in " ".join(call("audit", run).out.split())
    assert said in call("show", run, "--format", "markdown").out


def test_a_sample_is_named_once_however_many_of_its_trials_show_it(call: Call, project: Path) -> None:
    """Three completions of one sample are one example."""
    with (project / "task.yaml").open("a", encoding="utf-8") as task:
        task.write("  trials: {num_trials: 3}\n")
    said = ["A", "A", "A", "Answer: B", "Answer: B", "Answer: B"]
    lines = [
        {"sample_id": f"{at // 3 + 1:06d}", "trial": at % 3, "completion": one} for at, one in enumerate(said)
    ]
    (project / "said.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (project / "two.jsonl").write_text('{"answer": "A"}\n{"answer": "B"}\n', encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "two.jsonl")
    assert call(*words, "--completions", project / "said.jsonl", "--out", "thrice").code == 0
    assert "3 completions not read alike by all rules: 000002\n" in call("audit", "thrice").out


def test_an_audit_of_nothing_says_so(call: Call, project: Path) -> None:
    """Where no completion has a score, it is not said that nothing stands out."""
    (project / "rows.jsonl").write_text('{"answer": "Z", "completion": "A"}\n', encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--allow-failed", 1)
    call(*words, "--out", "none")
    told = call("audit", "none").out
    assert told.endswith("There was nothing to audit.\n")
    assert "nothing stands out" not in told
