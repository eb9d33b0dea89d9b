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


def test_first_row_that_fails_is_told_first() -> None:
    """Of several rules that fail, the first row counts; a row that an earlier rule matches needs no other."""
    fails_on_null = Action("late", RowFilter("greater_than", "{{ sample.level }}", 5))
    fails_on_text = Action("early", RowFilter("greater_than", "{{ sample.answer }}", 0))
    with pytest.raises(DataError, match="action `early`: ") as caught:
        exclude(fails_on_null, fails_on_text)
    assert str(caught.value.where).startswith("questions.jsonl:1")
    everyone = Action("all", RowFilter("exists", "{{ sample.answer }}"))
    assert exclude(everyone, fails_on_null) == ["all", "all", "all"]


def test_sample_is_kept_out_with_all_its_trials() -> None:
    """What a rule finds in one trial of a sample counts for all of them, the first trial first."""
    samples = SAMPLES.repeat(2)
    texts = ["A", "Hmm", "B", "B", "Hmm", "no"]
    answers = Completions.build(samples.ids, [Completion(text) for text in texts], source="recorded")
    scores = {"mcqa": StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']").score(samples, answers)}
    content = "{{ solver_output.output.choices[0].message.content }}"
    actions = [Action(text, RowFilter("equals", content, text)) for text in ("no", "Hmm")]
    found = apply_actions(actions, samples, answers, scores, num_trials=2)["mcqa"].frame["excluded_by"]
    assert found.to_list() == ["Hmm", "Hmm", None, None, "Hmm", "Hmm"]
