from __future__ import annotations

import json

import polars as pl
import pytest

from answerkey.scorers import build_scores
from answerkey.scorers.views import view_completions, view_scores
from answerkey.templates import Template
from answerkey.types import LATER_NAMES, Completion, Completions, CompletionStatus, Scores

PLAIN = [
    Completion("A"),
    Completion(None, CompletionStatus.REFUSED),
    Completion('a "quoted"\nline, \u00e9 \u2028 \x00 \U0001f170', finish_reason="length", prompt_tokens=3),
    Completion("", completion_tokens=1),
]
ASKED = [
    Completion("B", prompt=[{"role": "user", "content": "which [one]?"}]),
    Completion("C", prompt=[], reply={"role": "assistant", "content": "C", "refusal": None}),
    Completion(None, CompletionStatus.NO_TEXT, reply={}),
    Completion("D", reply={"content": [{"type": "text", "text": "D"}], "number": 1.5, "is_done": True}),
]


@pytest.mark.parametrize("completions", [PLAIN, ASKED, PLAIN + ASKED, []])
def test_table_of_solver_outputs_is_that_of_each_completion(completions: list[Completion]) -> None:
    """Row by row, the columns hold just what a template sees of one completion, in the same order."""
    ids = [str(number) for number in range(len(completions))]
    whole = Template.compile("{{ solver_output }}", names=["solver_output"])
    table = view_completions(Completions.build(ids, completions, source="recorded"), whole)
    expected = [one.solver_output() for one in completions]
    assert [json.dumps(row) for row in table.rows()] == [json.dumps(row) for row in expected]


def test_plain_texts_stay_columns() -> None:
    """Without replies and prompts nothing is turned into JSON text."""
    read = Template.compile("{{ solver_output.output }}", names=["solver_output"])
    table = view_completions(Completions.build(list("0123"), PLAIN, source="recorded"), read)
    assert table.encoded == frozenset(LATER_NAMES)
    assert table.frame["trace"].null_count() == 4
    assert isinstance(table.frame.schema["output"], pl.Struct)


def build_table(values: pl.Series, encoded: frozenset[str] = frozenset()) -> Scores:
    """Return scores with this value, and the same name twice among the metadata."""
    return build_scores(
        pl.Series(["SCORED", "SCORED", "ERROR"]),
        pl.Series([None, None, "CALL_FAILED"]),
        {"score": values},
        metadata={"score": pl.Series(['"hidden"'] * 3), "note": pl.Series(["x", None, "y"])},
        encoded=encoded,
    )


def test_table_of_scores_has_values_and_metadata_by_scorer() -> None:
    """A value hides metadata of its name; without a score all are null."""
    table = view_scores({"first": build_table(pl.Series([0.5, 1.0, 0.0]))})
    assert [dict(row) for row in table.rows()] == [
        {"first": {"score": 0.5, "note": "x"}},
        {"first": {"score": 1.0, "note": None}},
        {"first": {"score": None, "note": None}},
    ]


def test_scores_without_a_common_type_are_decoded() -> None:
    """Values that are stored as JSON text are seen as what they are; a scorer without any is empty."""
    mixed = build_table(pl.Series(['"text"', "[1, 2]", None]), frozenset({"score"}))
    nothing = build_scores(pl.Series(["SCORED"] * 3), pl.Series([None] * 3, dtype=pl.String), {}, metadata={})
    table = view_scores({"mixed": mixed, "nothing": nothing})
    assert [row["mixed"] for row in table.rows()] == [
        {"score": "text", "note": "x"},
        {"score": [1, 2], "note": None},
        {"score": None, "note": None},
    ]
    assert [row["nothing"] for row in table.rows()] == [{}] * 3
