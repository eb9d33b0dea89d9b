from __future__ import annotations

import polars as pl
import pytest
from tests.samples import record, samples_from_frame, score_table

from answerkey.scorers.string_equals import StringEquals
from answerkey.types import Completion, CompletionStatus, Samples, Score

CONTENT = "solver_output.output.choices[0].message.content"


def build_samples(*answers: object) -> Samples:
    """Return samples with these answers."""
    ids = pl.Series([str(number) for number in range(len(answers))])
    lines = pl.Series(range(1, len(ids) + 1))
    frame = pl.DataFrame({"answer": answers}, strict=False)
    return samples_from_frame(frame, ids, "a.jsonl", lines)


def score(scorer: StringEquals, samples: Samples, *completions: Completion | str) -> list[Score]:
    """Return the scorer's verdicts on these completions."""
    return list(score_table(scorer, samples, record(samples, completions)).rows())


@pytest.mark.parametrize(
    ("answer", "completion", "is_correct"),
    [
        ("Paris", "Paris", 1.0),
        ("Paris", "paris", 0.0),
        ("Paris", "Paris ", 0.0),
        ("", "", 1.0),
        (7, "7", 1.0),
        ("Å", "A\u030a", 0.0),
    ],
)
def test_equality_is_exact(answer: object, completion: str, is_correct: float) -> None:
    """Case, white space and code points matter; a number is compared as its text."""
    (row,) = score(StringEquals("{{ sample.answer }}"), build_samples(answer), completion)
    assert row.values == {"is_correct": is_correct}
    assert row.metadata == {"answer_gt": str(answer), "answer_pred": completion}


@pytest.mark.parametrize(
    ("value", "is_correct"),
    [
        (f"{{{{ {CONTENT} | trim | lower }}}}", 1.0),
        (f"{{{{ {CONTENT} }}}}", 0.0),
        ("{{ sample.answer }}", 1.0),
        ("paris", 1.0),
    ],
)
def test_value_is_compared_in_place_of_the_completion(value: str, is_correct: float) -> None:
    """`value` may be derived from the sample, from the solver's output, or a constant."""
    (row,) = score(StringEquals("{{ sample.answer }}", value), build_samples("paris"), " Paris ")
    assert row.values == {"is_correct": is_correct}


@pytest.mark.parametrize(
    "value", [None, *(f"{{{{ {CONTENT}{rest} }}}}" for rest in ("", " or ''", " | trim"))]
)
def test_completion_without_text_is_wrong(value: str | None) -> None:
    """A refusal, also one with a text, and a reply without text equal nothing, not even an empty
    ground truth.
    """
    refused = [Completion(text, CompletionStatus.REFUSED) for text in ("x", None)]
    silent = Completion(None, CompletionStatus.NO_TEXT)
    samples = build_samples("x", "x", "", "x", "y")
    result = score(StringEquals("{{ sample.answer }}", value), samples, "x", *refused, silent, "x")
    assert [row.values["is_correct"] for row in result] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert [row.metadata["answer_pred"] for row in result] == ["x", None, None, None, "x"]


def test_rows_without_ground_truth_are_failed() -> None:
    """A null ground truth is the dataset's fault: FAILED, found before a model is asked, with what
    to do.
    """
    scorer, samples = StringEquals("{{ sample.answer }}"), build_samples("x", None)
    assert [(row.status.value, row.reason) for row in score(scorer, samples, "x", "x")] == [
        ("SCORED", None),
        ("FAILED", "BAD_TRUTH"),
    ]
    (problem,) = scorer.check_rows(samples)[0]
    assert (problem.position, problem.error.code) == (1, "E204")
    assert problem.error.message == "sample `1`: ground truth is null"
    assert str(problem.error.where) == "a.jsonl:2, column `answer`"
    assert problem.error.hint == "fill the cell or filter the row out"


def test_failing_templates_are_found_before_a_model_is_asked() -> None:
    """A missing column is told once; `value` is tried as far as it needs no completion."""
    problems, _ = StringEquals("{{ sample.anser }}", "{{ 1 // sample.answer }}").check_rows(
        build_samples(0, 1)
    )
    assert [(problem.position, problem.error.code) for problem in problems] == [
        (0, "E206"),
        (0, "E207"),
    ]
    scorer = StringEquals("x", f"{{{{ {CONTENT}.missing }}}}")
    assert scorer.check_rows(build_samples(0)) == ([], [])


def test_value_that_fails_on_a_completion_is_failed() -> None:
    """When the value cannot be derived there is nothing to judge: FAILED and counted, never a
    silent zero.
    """
    scorer = StringEquals("x", f"{{{{ ({CONTENT} | fromjson).answer }}}}")
    result = score(scorer, build_samples(1, 2), '{"answer": "x"}', "no JSON")
    assert [row.status.value for row in result] == ["SCORED", "FAILED"]
    assert [row.reason for row in result] == [None, "TEMPLATE_FAILED"]


def test_failed_calls_are_errors_where_a_completion_is_needed() -> None:
    """A failed call has no score, unless the scorer looks at the sample alone."""
    failed = Completion(None, CompletionStatus.ERROR)
    assert score(StringEquals("x"), build_samples(1), failed)[0].status.value == "ERROR"
    scorer = StringEquals("x", "{{ sample.answer }}")
    assert not scorer.needs_completion
    assert score(scorer, build_samples("x"), failed)[0].values == {"is_correct": 1.0}


def test_templates_see_what_they_may() -> None:
    """`ground_truth` sees the sample only.

    A field's own error is reported once, and no row is blamed.
    """
    for scorer, expected in (
        (
            StringEquals("{{ solver_output }}", "{{ completion }}"),
            [("ground_truth", "E112"), ("value", "E112")],
        ),
        (StringEquals("{{ sample.answer"), [("ground_truth", "E112")]),
    ):
        assert [(field, error.code) for field, error in scorer.compiled[1]] == expected
        assert scorer.check_rows(build_samples("Paris")) == ([], [])


def test_only_a_value_of_the_sample_needs_no_completion() -> None:
    """A constant is one; what reads the solver's output is not."""
    values = (None, "{{ sample.answer }}", "x", 7, f"{{{{ {CONTENT} }}}}", "{{ broken")
    needed = [StringEquals("x", value).needs_completion for value in values]
    assert needed == [True, False, False, False, True, True]
