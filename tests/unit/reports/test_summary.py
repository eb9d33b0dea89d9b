from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from answerkey.reports.json_form import describe_run
from answerkey.reports.summary import draw_next_steps, draw_summary
from answerkey.runs import Run
from answerkey.text import measure_width, plain_text

MakeRun = Callable[..., Run]


def draw(run: Run, width: int = 100, *, verbose: bool = False) -> str:
    """Return the summary as text."""
    return plain_text(draw_summary(run, width, verbose=verbose))


def test_the_accuracy_has_its_interval_count_and_exclusions(make_run: MakeRun) -> None:
    """A number never stands alone."""
    text = draw(make_run())
    assert "  MCQA Accuracy        50.00 %  [21.52, 78.48]  8\n" in text
    assert "left out of MCQA Accuracy: FAILED 1, drop-odd 1" in text
    assert "is_correct_std_dev: needs two samples" in text


def test_the_counts_are_printed_as_sums(make_run: MakeRun) -> None:
    """Samples and scored samples are shown with what they consist of."""
    assert (
        "  10 samples = 9 scored + 1 failed + 0 errors; scored = 6 valid + 3 invalid (refused 1)\n"
        in draw(make_run())
    )


def test_invalid_completions_have_reason_share_and_example(make_run: MakeRun) -> None:
    """The most frequent reason comes first; the example's control characters are visible."""
    assert (
        "  Invalid because  count    share  example  completion\n"
        '  NOT_A_CHOICE         2  22.22 %  000003   "\\x1b[31mThe\\nanswer is \\u202eB"\n'
        "  REFUSED              1  11.11 %  000002   none\n"
    ) in draw(make_run())


def test_sample_ids_from_data_are_shown_safely(make_run: MakeRun, tmp_path: Path) -> None:
    """A hostile id can neither colour the terminal nor fill it, in the table or in the next steps."""
    example = {"sample_id": "\x1b[2J" + "x" * 500, "completion": "A"}
    run = make_run(tally={"failed": {}, "invalid": {"EMPTY": {"count": 1, "example": example}}})
    assert "\\x1b[2J" + "x" * 32 + "…" in draw(run)
    assert "\x1b" not in plain_text(draw_next_steps(replace(run, path=tmp_path)))


def test_failed_samples_are_listed_with_their_reason(make_run: MakeRun) -> None:
    """A sample without a score is named."""
    assert "  failed    BAD_TRUTH      1  000010\n" in draw(make_run())


def test_each_category_has_n_and_interval(make_run: MakeRun) -> None:
    """The accuracy of a category comes with its Wilson interval."""
    text = draw(make_run())
    assert "  history         60.00 %  [23.07, 88.24]        3  5\n" in text
    assert "  macro average   " in text


def test_letters_true_against_predicted(make_run: MakeRun) -> None:
    """Rows are true choices, columns predicted ones and INVALID; rows and columns add up."""
    assert (
        "  True \\ predicted  A  B  INVALID  n    found\n"
        "  A                 3  1        1  5  60.00 %\n"
        "  B                 0  1        2  3  33.33 %\n"
        "  all               3  2        3  8\n"
    ) in draw(make_run())


def test_many_letters_get_a_row_each(make_run: MakeRun) -> None:
    """More than a dozen choices are listed downwards."""
    letters = {letter: {letter: 1} for letter in "ABCDEFGHIJKLMN"}
    text = draw(make_run(tally={"letters": letters}))
    assert "  Choice  true  predicted  both\n  A          1          1     1\n" in text


def test_a_simulated_model_is_in_plain_sight(make_run: MakeRun) -> None:
    """The word SIMULATED stands beside the simulator's name, and only there."""
    assert "SIMULATED" in draw(make_run())
    assert "SIMULATED" not in draw(make_run(entry={"model": {"name": "builtin/longest", "simulated": False}}))


def test_quality_checks_stand_apart(make_run: MakeRun) -> None:
    """Metrics of qa scorers are listed under their own heading."""
    before, after = draw(make_run()).split("Quality checks (purpose qa), not part of the score")
    assert "length" not in before
    assert "  length   12.5  9\n" in after


def test_display_name_stands_in_place_of_the_key(make_run: MakeRun) -> None:
    """A scorer's display name is what people read, also in the block of quality checks."""
    scorers = [
        {"key": "string_equals_mcqa", "purpose": "score", "display_name": "My MCQA"},
        {"key": "python", "purpose": "qa", "display_name": "Length check"},
    ]
    text = draw(make_run(entry={"scorers": scorers}))
    assert "  MCQA Accuracy        50.00 %  [21.52, 78.48]  8  My MCQA\n" in text
    assert "  length   12.5  9  Length check\n" in text
    assert "string_equals_mcqa" not in text


def test_metric_named_after_the_scorer_shows_its_display_name(make_run: MakeRun) -> None:
    """A name built from the scorer's key stays in files and JSON; text has the display name."""
    run = make_run(entry={"scorers": [{"key": "string_equals_mcqa", "display_name": "My MCQA"}]})
    task = run.tasks["mcqa"]
    value = replace(task.metrics["MCQA Accuracy"], name="string_equals_mcqa_mean_Accuracy")
    shown = replace(run, tasks={"mcqa": replace(task, metrics={value.name: value})})
    assert "  My MCQA: mean_Accuracy  50.00 %" in draw(shown)
    assert describe_run(shown)["tasks"][0]["metrics"][0]["name"] == "string_equals_mcqa_mean_Accuracy"


@pytest.mark.parametrize("status", ["incomplete", "running"])
def test_an_incomplete_run_shows_no_percentage(make_run: MakeRun, status: str) -> None:
    """Neither accuracy nor any other share is printed while samples are missing."""
    text = draw(make_run(status))
    assert "INCOMPLETE" in text
    assert " %" not in text


def test_errors_are_said_in_an_incomplete_run(make_run: MakeRun) -> None:
    """The number of calls that failed is told."""
    counts = {"samples": 10, "scored": 7, "valid": 7, "invalid": 0, "refused": 0, "failed": 0, "errors": 3}
    text = draw(make_run("incomplete", tally={"counts": counts}))
    assert "INCOMPLETE: 3 of 10 samples got no completion" in text


def test_warnings_close_the_summary(make_run: MakeRun) -> None:
    """What the user should hear once stands at the end."""
    assert draw(make_run()).endswith("warning: `choices_field` is an old name\n  = help: write `choices`\n")


def test_recorded_completions_are_named(make_run: MakeRun) -> None:
    """Without a model the summary says where the completions come from."""
    completions = {"source": "recorded", "file": "said.jsonl", "sha256": "0", "column": "completions.x"}
    text = draw(make_run(entry={"model": None, "completions": completions}))
    assert "completions  recorded in said.jsonl, column completions.x" in text


def test_verbose_adds_config_and_fingerprints(make_run: MakeRun) -> None:
    """`-v` shows what the numbers depend on."""
    text = draw(make_run(), verbose=True)
    assert "config        answer_column='answer'" in text
    assert "fingerprints  task ffffffffffffffff, dataset dddddddddddddddd" in text


def test_the_summary_fits_eighty_columns(make_run: MakeRun) -> None:
    """No line is wider than the terminal."""
    assert all(measure_width(line) <= 80 for line in draw(make_run(), 80).splitlines())


def test_a_run_in_memory_has_no_next_steps(make_run: MakeRun) -> None:
    """Commands are only offered for a run that lies on disk."""
    assert draw_next_steps(make_run()) == []


def test_the_json_form_is_the_documented_one(make_run: MakeRun) -> None:
    """`run`, `tasks` with counts and metrics; no NaN."""
    described = describe_run(make_run())
    assert described["run"]["status"] == "complete"
    assert described["tasks"][0]["counts"] == {
        "samples": 10,
        "scored": 9,
        "valid": 6,
        "invalid": 3,
        "refused": 1,
        "failed": 1,
        "errors": 0,
    }
    assert described["tasks"][0]["metrics"][0] == {
        "name": "MCQA Accuracy",
        "type": "mean",
        "metric": "mean",
        "scorer": "string_equals_mcqa",
        "purpose": "score",
        "value": 0.5,
        "n": 8,
        "n_excluded": {"FAILED": 1, "drop-odd": 1},
        "interval": [0.2152, 0.7848],
        "interval_method": "wilson",
        "std_error": None,
    }
    json.dumps(described, allow_nan=False)
