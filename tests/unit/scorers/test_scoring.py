"""From a scorer to the table of a shard: rows that fail, orders, and the stored form."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from answerkey.scorers import ModelAsAJudge, StringEquals, StringEqualsMcqa, join_scores, score_rows
from answerkey.scorers.base import Scorer
from answerkey.scorers.ordered_rows import move_label, restore_label
from answerkey.types import Completion, Completions, Question, Samples

LETTERS = ["A", "B", "C"]
SCORER = StringEqualsMcqa("{{ sample.answer }}", ["A", "B", "C"])


class CountingModel:
    """Gives every answer four points, and counts what it was asked."""

    name = "counting/judge"
    is_simulated = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return one completion for each question."""
        self.asked += [one.sample_id for one in questions]
        return [Completion('{"score": 4}') for _ in questions]


def build_tables(answers: Sequence[str], *texts: str) -> tuple[Samples, Completions]:
    """Return samples with these truths, and what a model said to them."""
    ids = pl.Series([f"s{number}" for number in range(len(answers))])
    samples = Samples(pl.DataFrame({"answer": list(answers)}), ids)
    return samples, Completions.build(ids, [Completion(text) for text in texts], source="recorded")


def test_rows_that_the_dataset_got_wrong_are_failed() -> None:
    """They have a reason and no values; the others are scored as ever."""
    samples, completions = build_tables("AB", "A", "B")
    found = list(score_rows(SCORER, samples, completions, [1]).rows())
    assert [(one.status.value, one.reason) for one in found] == [("SCORED", None), ("FAILED", "BAD_ROW")]
    assert [one.values.get("is_correct") for one in found] == [1.0, None]


def test_nobody_is_asked_about_a_row_that_failed() -> None:
    """A judge costs money: it sees the good rows alone, and all rows come back in their places."""
    model = CountingModel()
    judge = ModelAsAJudge("j", "{{ input_prompt }}", score_min=0, score_max=4).bind(model, key="quality")
    samples, completions = build_tables("ABC", "x", "y", "z")
    found = list(score_rows(judge, samples, completions, [1]).rows())
    assert model.asked == ["s0", "s2"]
    assert [(one.status.value, one.reason) for one in found] == [
        ("SCORED", None),
        ("FAILED", "BAD_ROW"),
        ("SCORED", None),
    ]
    assert len(score_rows(judge, samples, completions, [])) == 3
    assert model.asked[2:] == ["s0", "s1", "s2"]


def test_the_stored_form_has_a_struct_for_each_scorer() -> None:
    """Sample and trial come first, then the scorers under their keys."""
    samples, completions = build_tables("A", "A")
    scorers: dict[str, Scorer] = {"mcqa": SCORER, "same": StringEquals("A")}
    table = join_scores(completions, {key: one.score(samples, completions) for key, one in scorers.items()})
    assert table.columns == ["sample_id", "trial", "mcqa", "same"]
    assert table.row(0, named=True)["mcqa"]["values"] == {"is_correct": 1.0}


def show(orders: Sequence[Sequence[int]], *, is_prior: bool = False) -> Samples:
    """Return one sample with the truth A, shown in several orders."""
    table = pl.DataFrame(
        {
            "base_sample_id": ["s"] * len(orders),
            "order": pl.Series(orders, dtype=pl.List(pl.UInt16)),
            "left_in_place": pl.Series([None] * len(orders), dtype=pl.String),
        }
    )
    if is_prior:
        table = table.with_columns(estimates_prior=pl.lit(True), is_extra=pl.lit(False))  # noqa: FBT003 - a column
    ids = pl.Series([f"s#{number}" for number in range(len(orders))])
    return Samples(pl.DataFrame({"answer": ["A"] * len(orders)}), ids, orders=table)


def test_the_truth_moves_with_its_option() -> None:
    """The option A stands at the third place of the second order, where it is called C."""
    samples = show([[0, 1, 2], [1, 2, 0], [0, 1]])
    completions = Completions.build(samples.ids, [Completion(text) for text in "ACB"], source="recorded")
    found = [dict(one.metadata) for one in score_rows(SCORER, samples, completions, []).rows()]
    assert [one["ground_truth_choice"] for one in found] == ["A", "C", "A"]
    assert [one["predicted_option"] for one in found] == ["A", "A", "B"]
    assert [one["ground_truth_option"] for one in found] == ["A", "A", "A"]
    assert [one["option_order"] for one in found] == [["A", "B", "C"], ["B", "C", "A"], None]
    assert {one["base_sample_id"] for one in found} == {"s"}


def test_scores_without_choices_say_the_sample_they_are_of() -> None:
    """A scorer that knows no labels has nothing to call back; what estimates a prior is marked."""
    samples = show([[1, 0]], is_prior=True)
    completions = Completions.build(samples.ids, [Completion("A")], source="recorded")
    (found,) = score_rows(StringEquals("A"), samples, completions, []).rows()
    assert found.metadata["base_sample_id"] == "s"
    assert (found.metadata["option_order"], found.metadata["predicted_option"]) == (None, None)
    assert (found.metadata["estimates_prior"], found.metadata["is_extra"]) == (True, False)


@pytest.mark.parametrize(
    ("label", "choices", "order"),
    [(None, LETTERS, [2, 0, 1]), ("A", None, [2, 0, 1]), ("Z", LETTERS, [2, 0, 1]), ("A", LETTERS, [1, 0])],
)
def test_labels_that_no_order_moves_stay(
    label: str | None, choices: list[str] | None, order: list[int]
) -> None:
    """Without a label, without choices, or with an order of other options, nothing is called otherwise."""
    assert move_label(label, choices, order) == label
    assert restore_label(label, choices, order) == label


def test_a_label_comes_back_from_every_place() -> None:
    """What is moved and restored is what it was."""
    assert [move_label(one, LETTERS, [2, 0, 1]) for one in LETTERS] == ["B", "C", "A"]
    assert [restore_label(one, LETTERS, [2, 0, 1]) for one in LETTERS] == ["C", "A", "B"]
