"""Laws of scoring whole tables: each row gets what it would get alone."""

from __future__ import annotations

import os

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import samples_from_frame, score_table

from answerkey.errors import DataError
from answerkey.scorers import Action, apply_actions
from answerkey.scorers.string_equals import StringEquals
from answerkey.templates import RowError, RowFilter
from answerkey.types import Completion, Completions, CompletionStatus, Samples, Score, ScoreStatus

#: `make test-long` draws three times as many examples.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))

CONTENT = "solver_output.output.choices[0].message.content"
TEXTS = st.sampled_from(["A", "a", " A ", "", "b", "None", "\u00e9", "1", "1.0"])
REPLIES = st.sampled_from([None, {}, {"role": "assistant", "content": "A", "refusal": None}])
PROMPTS = st.sampled_from([None, [], [{"role": "user", "content": "which?"}]])


@st.composite
def draw_completions(draw: st.DrawFn) -> Completion:
    """Return a completion, with or without a text, a reply and a prompt."""
    status = draw(st.sampled_from([CompletionStatus.OK] * 6 + list(CompletionStatus)))
    text = draw(TEXTS) if status is CompletionStatus.OK else None
    reason = draw(st.sampled_from([None, "stop", "length"]))
    return Completion(text, status, draw(PROMPTS), draw(REPLIES), finish_reason=reason)


@st.composite
def draw_tables(draw: st.DrawFn) -> tuple[Samples, list[Completion]]:
    """Return samples with answers of one type, and a completion for each."""
    cells = draw(st.sampled_from([TEXTS, st.integers(0, 2), st.sampled_from([0.5, 1.0, -0.0])]))
    answers = draw(st.lists(cells | st.none(), min_size=1, max_size=8))
    completions = draw(st.lists(draw_completions(), min_size=len(answers), max_size=len(answers)))
    frame = pl.DataFrame({"answer": answers, "level": list(range(len(answers)))})
    return samples_from_frame(
        frame, pl.Series([str(row) for row in range(len(answers))])
    ), completions


def score_alone(scorer: StringEquals, sample: dict[str, object], completion: Completion) -> Score:
    """Return the verdict on one row, by the templates alone."""
    templates = scorer.templates()
    nothing = Score(
        ScoreStatus.SCORED, None, {"is_correct": None}, {"answer_gt": None, "answer_pred": None}
    )
    try:
        truth = templates["ground_truth"].evaluate(sample=sample)
    except RowError:
        return Score(ScoreStatus.FAILED, "TEMPLATE_FAILED", nothing.values, nothing.metadata)
    if truth is None:
        return Score(ScoreStatus.FAILED, "BAD_TRUTH", nothing.values, nothing.metadata)
    value: object = completion.text
    is_read = not scorer.needs_completion or completion.status is CompletionStatus.OK
    if "value" in templates:
        context = {"sample": sample}
        if scorer.needs_completion:
            context["solver_output"] = completion.solver_output()
        try:
            value = templates["value"].evaluate(**context) if is_read else None
        except RowError:
            return Score(ScoreStatus.FAILED, "TEMPLATE_FAILED", nothing.values, nothing.metadata)
    if scorer.needs_completion and completion.status is CompletionStatus.ERROR:
        return Score(ScoreStatus.ERROR, "CALL_FAILED", nothing.values, nothing.metadata)
    texts = {"answer_gt": str(truth), "answer_pred": None if value is None else str(value)}
    return Score(
        ScoreStatus.SCORED,
        None,
        {"is_correct": float(texts["answer_gt"] == texts["answer_pred"])},
        texts,
    )


@pytest.mark.parametrize(
    "scorer",
    [
        StringEquals("{{ sample.answer }}"),
        StringEquals("A"),
        StringEquals("{{ sample.answer | upper }}", f"{{{{ {CONTENT} }}}}"),
        StringEquals("{{ sample.answer }}", f"{{{{ {CONTENT} | trim | upper }}}}"),
        StringEquals("{{ sample.answer }}", f"{{{{ {CONTENT}[0] }}}}"),
        StringEquals("{{ sample.answer }}", "{{ solver_output.messages | length }}"),
        StringEquals("{{ sample.answer }}", "{{ solver_output.messages[0].content }}"),
        StringEquals("{{ sample.answer }}!", f"{{{{ {CONTENT} }}}}{{{{ sample.level }}}}"),
        StringEquals("{{ sample.answer[0] }}", "{{ sample.answer }}"),
        StringEquals("{{ sample.missing }}", "{{ sample.answer }}"),
    ],
    ids=lambda scorer: f"{scorer.ground_truth} {scorer.value}",
)
def test_string_equals_is_the_same_for_a_table_and_for_each_row(scorer: StringEquals) -> None:
    """For all templates and completions, the column form gives what the templates give row by
    row.
    """

    @given(draw_tables())
    @settings(max_examples=40 if IS_LONG else 6)
    def check(table: tuple[Samples, list[Completion]]) -> None:
        samples, completions = table
        answers = Completions.build(samples.ids, completions, source="recorded")
        expected = [
            score_alone(scorer, dict(sample), completion)
            for sample, completion in zip(samples.rows(), completions, strict=True)
        ]
        assert list(score_table(scorer, samples, answers).rows()) == expected

    check()


FILTERS = (
    RowFilter("equals", "{{ sample.answer }}", "A"),
    RowFilter("greater_than", "{{ sample.level }}", 3),
    RowFilter("in", f"{{{{ {CONTENT} }}}}", values=("A", None, 1)),
    RowFilter("not_exists", "{{ sample.answer }}"),
    RowFilter("equals", "solver_output.output.choices[0].finish_reason", "length"),
    RowFilter("is_true", "scores.s.is_correct"),
    RowFilter("less_than", "{{ scores.s.is_correct }}", 1),
    RowFilter("equals", "{{ scores.s.answer_pred }}{{ sample.level }}", "A0"),
)


@given(draw_tables(), st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3))
@settings(max_examples=150 if IS_LONG else 25)
def test_actions_are_the_same_for_a_table_and_for_each_row(
    table: tuple[Samples, list[Completion]], filters: list[RowFilter]
) -> None:
    """Each row is excluded by the first rule that matches it.

    The first row on which one fails is named.
    """
    samples, completions = table
    answers = Completions.build(samples.ids, completions, source="recorded")
    scores = {"s": score_table(StringEquals("{{ sample.answer }}"), samples, answers)}
    actions = [Action(f"rule {place}", row_filter) for place, row_filter in enumerate(filters)]
    expected: list[str | None] = []
    problem: tuple[str, str] | None = None
    for sample, completion, score in zip(
        samples.rows(), completions, scores["s"].rows(), strict=True
    ):
        seen = {"s": {**score.metadata, **score.values}}
        context = {"sample": sample, "solver_output": completion.solver_output(), "scores": seen}
        try:
            keys = (action.key for action in actions if action.filter.matches(**context))
            expected.append(next(keys, None))
        except RowError as error:
            problem = problem or (str(samples.ids[len(expected)]), error.message)
            break
    if problem is None:
        found_keys = apply_actions(actions, samples, answers, scores)["s"].frame["excluded_by"]
        assert found_keys.to_list() == expected
        return
    with pytest.raises(DataError) as caught:
        apply_actions(actions, samples, answers, scores)
    assert caught.value.where is not None
    assert (caught.value.where.sample, problem[1] in str(caught.value)) == (problem[0], True)
