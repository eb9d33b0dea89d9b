from __future__ import annotations

import polars as pl
import pytest

from answerkey.errors import DataError
from answerkey.scorers import Action, StringEqualsMcqa, apply_actions
from answerkey.templates import RowFilter
from answerkey.types import Completion, Completions, Samples, Scores

SAMPLES = Samples(
    pl.DataFrame({"answer": ["A", "B", "A"], "level": [1, 2, None]}),
    pl.Series(["s0", "s1", "s2"]),
    "questions.jsonl",
    pl.Series([1, 2, 3]),
)
ANSWERS = Completions.build(SAMPLES.ids, [Completion(text) for text in ("A", "Hmm", "B")], source="recorded")


def exclude(*actions: Action) -> list[str | None]:
    """Return the key of the rule that keeps each sample out of the metrics."""
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']")
    scores: dict[str, Scores] = {"mcqa": scorer.score(SAMPLES, ANSWERS)}
    return apply_actions(actions, SAMPLES, ANSWERS, scores)["mcqa"].frame["excluded_by"].to_list()


def test_filters_see_sample_solver_output_and_scores() -> None:
    """A rule may look at the row, at the reply, and at the values and metadata of every scorer."""
    content = "{{ solver_output.output.choices[0].message.content }}"
    validity = "{{ scores.mcqa.completion_validity }}"
    assert exclude(Action("b", RowFilter("equals", "{{ sample.answer }}", "B"))) == [None, "b", None]
    assert exclude(Action("hmm", RowFilter("equals", content, "Hmm"))) == [None, "hmm", None]
    assert exclude(Action("odd", RowFilter("equals", validity, "INVALID"))) == [None, "odd", None]
    assert exclude(Action("right", RowFilter("is_true", "{{ scores.mcqa.is_correct }}"))) == [
        "right",
        None,
        None,
    ]


def test_first_matching_rule_is_the_one_that_counts() -> None:
    """A sample that several rules match is excluded by the first of them."""
    first = Action("first", RowFilter("equals", "{{ sample.answer }}", "A"))
    second = Action("second", RowFilter("exists", "{{ sample.level }}"))
    assert exclude(first, second) == ["first", "second", "first"]
    assert exclude() == [None, None, None]


def test_rule_that_fails_on_a_row_stops_with_its_place() -> None:
    """A filter that reads what is not there is an error with rule and row."""
    with pytest.raises(DataError, match="action `typo`: ") as caught:
        exclude(Action("typo", RowFilter("equals", "{{ sample.anser }}", "A")))
    assert caught.value.code == "E207"
    assert str(caught.value.where).startswith("questions.jsonl:1")
