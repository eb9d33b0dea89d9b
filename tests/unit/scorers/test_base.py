"""What a scorer inherits, what its templates see, and action rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pytest
from tests.samples import record, samples_from_frame, score_table

from answerkey import scorers
from answerkey.errors import DataError, SpecError
from answerkey.scorers import Action, Scorer, StringEqualsMcqa, apply_actions, build_table
from answerkey.scorers.base import build_contexts
from answerkey.templates import RowFilter
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Sample,
    Score,
    ScoreStatus,
)


@dataclass(frozen=True)
class Bare(Scorer):
    """A scorer that adds two fields."""

    wanted: str
    other: str | None = None

    template_fields = ("wanted", "other")
    value_types: ClassVar = {"length": pl.Float64()}
    metadata_types: ClassVar = {"id": pl.String()}

    def judge(self, question: Sample, completion: Completion) -> Score:
        """Return the length of the text, and the id of the sample."""
        values = {"length": len(completion.text or "")}
        return Score(ScoreStatus.SCORED, values=values, metadata={"id": question.id})


ONE_ROW = samples_from_frame(pl.DataFrame({"x": ["1"]}), pl.Series(["a"]))


def test_a_scorer_of_one_s_own_needs_nothing_but_judge() -> None:
    """It judges one completion of one sample; one whose call failed is an error before that.

    It takes every row, knows no choices and runs no code of the user's.
    """
    scorer = Bare("{{ sample.x }}")
    samples = ONE_ROW.repeat(2)
    failed = Completion(None, CompletionStatus.ERROR)
    completions = Completions.build(samples.ids, [Completion("four"), failed], source="live")
    assert list(score_table(scorer, samples, completions).rows()) == [
        Score(ScoreStatus.SCORED, None, {"length": 4.0}, {"id": "a"}),
        Score(ScoreStatus.ERROR, "CALL_FAILED", {"length": None}, {"id": None}),
    ]
    assert (list(scorer.value_types), list(scorer.metadata_types)) == (["length"], ["id"])
    assert scorer.text_names == ("id",)
    assert scorer.needs_completion
    assert scorer.check_fields() == []
    assert scorer.check_rows(ONE_ROW) == ([], [])
    assert scorer.sample_facts(ONE_ROW) is None
    assert scorer.snippets() == ()


def test_its_templates_are_those_of_the_fields_that_are_given() -> None:
    """A field left out has none; one that does not compile is its own error."""
    templates = Bare("{{ sample.x }}").templates()
    assert {name: one.values(ONE_ROW) for name, one in templates.items()} == {"wanted": ["1"]}
    with pytest.raises(SpecError):
        Bare("{{ sample.x").templates()


def test_its_templates_are_known_where_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a field that holds a template in any scorer is read as one."""
    monkeypatch.setattr(scorers, "SCORERS", {**scorers.SCORERS, "bare": Bare})
    assert scorers.list_template_fields() >= {"wanted", "other", "ground_truth"}


SAMPLES = samples_from_frame(
    pl.DataFrame({"answer": ["A", "B", "A"], "level": [1, 2, None]}),
    pl.Series(["s0", "s1", "s2"]),
    "questions.jsonl",
    pl.Series([1, 2, 3]),
)
ANSWERS = record(SAMPLES, ["A", "Hmm", "B"])


def exclude(*actions: Action) -> list[str | None]:
    """Return the key of the rule that keeps each sample out of the metrics."""
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']")
    scores = {"mcqa": score_table(scorer, SAMPLES, ANSWERS)}
    return apply_actions(actions, SAMPLES, ANSWERS, scores)["mcqa"].frame["excluded_by"].to_list()


def test_filters_see_sample_solver_output_and_scores() -> None:
    """A rule may look at the row, at the reply, and at the values and metadata of every scorer."""
    content = "{{ solver_output.output.choices[0].message.content }}"
    validity = "{{ scores.mcqa.completion_validity }}"
    for expression, value in {
        "{{ sample.answer }}": "B",
        content: "Hmm",
        validity: "INVALID",
    }.items():
        assert exclude(Action("x", RowFilter("equals", expression, value))) == [None, "x", None]
    right = RowFilter("is_true", "{{ scores.mcqa.is_correct }}")
    assert exclude(Action("right", right)) == ["right", None, None]


def test_first_matching_rule_is_the_one_that_counts() -> None:
    """A sample that several rules match is excluded by the first of them."""
    first = Action("first", RowFilter("equals", "{{ sample.answer }}", "A"))
    second = Action("second", RowFilter("exists", "{{ sample.level }}"))
    assert exclude(first, second) == ["first", "second", "first"]
    assert exclude() == [None, None, None]


def test_first_row_that_fails_is_told_first() -> None:
    """A filter that fails is an error with rule and row; of several, the first row counts.

    A row that an earlier rule matches needs no other.
    """
    fails_on_null = Action("late", RowFilter("greater_than", "{{ sample.level }}", 5))
    fails_on_text = Action("early", RowFilter("greater_than", "{{ sample.answer }}", 0))
    fails_on_name = Action("early", RowFilter("equals", "{{ sample.anser }}", "A"))
    for failing in (fails_on_text, fails_on_name):
        with pytest.raises(DataError, match="action `early`: ") as caught:
            exclude(fails_on_null, failing)
        assert caught.value.code == "E207"
        assert str(caught.value.where).startswith("questions.jsonl:1")
    everyone = Action("all", RowFilter("exists", "{{ sample.answer }}"))
    assert exclude(everyone, fails_on_null) == ["all", "all", "all"]


def test_sample_is_kept_out_with_all_its_trials() -> None:
    """What a rule finds in one trial of a sample counts for all of them, the first trial first."""
    samples = SAMPLES.repeat(2)
    answers = record(samples, ["A", "Hmm", "B", "B", "Hmm", "no"])
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']")
    scores = {"mcqa": score_table(scorer, samples, answers)}
    content = "{{ solver_output.output.choices[0].message.content }}"
    actions = [Action(text, RowFilter("equals", content, text)) for text in ("no", "Hmm")]
    found = apply_actions(actions, samples, answers, scores, num_trials=2)["mcqa"].frame[
        "excluded_by"
    ]
    assert found.to_list() == ["Hmm", "Hmm", None, None, "Hmm", "Hmm"]


def test_filters_see_values_and_metadata_by_scorer() -> None:
    """A value hides metadata of its name; values that are stored as JSON are seen decoded."""
    scores = [
        Score(ScoreStatus.SCORED, None, {"score": 0.5, "list": [1]}, {"score": "hidden"}),
        Score(ScoreStatus.SCORED, None, {"score": 1, "list": "text"}),
        Score(ScoreStatus.ERROR, "CALL_FAILED"),
    ]
    table = build_table(scores, {"score": pl.Float64(), "list": None}, {"score": pl.String()})
    contexts = build_contexts(SAMPLES, ANSWERS, {"first": table})
    assert [context["scores"] for context in contexts] == [
        {"first": {"score": 0.5, "list": [1]}},
        {"first": {"score": 1.0, "list": "text"}},
        {"first": {"score": None, "list": None}},
    ]
