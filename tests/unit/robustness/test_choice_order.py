"""Laws of the numbers about the order of the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.metrics.paired import Flips, bound_flips
from answerkey.metrics.trials import average_orders, find_worst_rows
from answerkey.robustness.choice_order import (
    ChoiceOrderMetric,
    PrideMetric,
    describe_order,
    draw_choice_order,
    judge_shares,
)
from answerkey.runs import TaskRun
from answerkey.text import plain_text
from answerkey.types import MetricValue, Scores

#: Sample, truth as shown, prediction as shown, option by its label in the file.
Shown = tuple[str, str, str | None, str | None]


def make_shown(
    rows: Sequence[Shown], left: Sequence[str | None] | None = None, failed: int | None = None
) -> Scores:
    """Return scores of shown rows; the row `failed` has none."""
    table = []
    for place, (sample, truth, predicted, option) in enumerate(rows):
        is_scored = place != failed
        table.append(
            {
                "status": "SCORED" if is_scored else "FAILED",
                "reason": None,
                "values": {"is_correct": float(predicted == truth) if is_scored else None},
                "metadata": {
                    "base_sample_id": sample,
                    "predicted_option": option,
                    "predicted_choice": predicted,
                    "ground_truth_choice": truth,
                    "not_reordered": left[place] if left else None,
                },
                "excluded_by": None,
            }
        )
    return Scores(pl.DataFrame(table, infer_schema_length=None))


def finish(rows: Sequence[Shown], orders: str = "all", **changes: object) -> dict[str, MetricValue]:
    """Return the values of all rows."""
    metric = ChoiceOrderMetric(orders)
    scores = make_shown(rows, **changes)  # type: ignore[arg-type]  # what a test changes
    return {value.name: value for value in metric.compute(scores)}


#: In the first sample the option A is named wherever it stands; in the second always the letter A.
ROWS: list[Shown] = [
    ("s1", "A", "A", "A"),
    ("s1", "B", "B", "A"),
    ("s2", "A", "A", "A"),
    ("s2", "B", "A", "B"),
]


def test_orders_are_compared_within_samples() -> None:
    """Right in all, right in any, the same option in all, and the most frequent option's share."""
    result = finish(ROWS)
    assert {name: value.value for name, value in result.items()} == {
        "order_mean": 0.75,
        "order_all_right": 0.5,
        "order_any_right": 1.0,
        "order_consistency": 0.5,
        "order_modal_share": 0.75,
        "order_recall_A": 1.0,
        "order_recall_B": 0.5,
        "order_rstd": 25.0,
    }
    spread = result["order_rstd"]
    assert spread.details == {"true": {"A": 2, "B": 2}, "predicted": {"A": 3, "B": 1}, "invalid": 0}
    assert (
        spread.interval_note
        == "there is no formula for it; the recalls have intervals of their own"
    )


def test_a_completion_that_names_no_option_is_consistent_with_nothing() -> None:
    """A sample without any valid completion names no option.

    Labels that are never named are counted as zero.
    """
    result = finish([("s", "A", None, None), ("s", "B", None, None)])
    assert (result["order_consistency"].value, result["order_modal_share"].value) == (0.0, 0.0)
    rows: list[Shown] = [("s1", "A", "A", "A"), ("s1", "B", "A", "A"), ("s2", "C", None, None)]
    result = finish([*rows, ("s2", "A", "A", "A")])
    assert result["order_rstd"].details == {
        "true": {"A": 2, "B": 1, "C": 1},
        "predicted": {"A": 3, "B": 0, "C": 0},
        "invalid": 1,
    }
    assert (result["order_mean"].is_share, result["order_modal_share"].is_share) == (True, True)
    assert (result["order_recall_B"].n, result["order_mean"].type) == (1, "choice_order")


@pytest.mark.parametrize(
    ("orders", "several"), [("all", True), ("rotations", True), ("shuffled", False)]
)
def test_values_are_known_by_name_before_there_are_scores(orders: str, *, several: bool) -> None:
    """Gates may name any of them; samples that are shown once have none that compare orders."""
    comparing = ("order_all_right", "order_any_right", "order_consistency", "order_modal_share")
    names = ChoiceOrderMetric(orders).value_names()
    assert names.names == ("order_mean", *(comparing if several else ()), "order_rstd")
    assert [names.allow(name) for name in ("order_recall_E", "order_else")] == [True, False]
    result = finish([("s1", "A", "A", "A"), ("s2", "B", "A", "B")], orders)
    assert set(result) == {*names.names, "order_recall_A", "order_recall_B"}


def test_what_is_left_in_place_or_failed_does_not_count_and_is_counted() -> None:
    """One row without a score leaves out its sample, whatever its position."""
    result = finish(ROWS, left=[None, None, "REFERS_TO_LABELS", "REFERS_TO_LABELS"])
    assert result["order_all_right"].n_excluded == {"not_reordered": 1}
    for row in range(4):
        mean = finish(ROWS, failed=row)["order_mean"]
        assert (mean.n, dict(mean.n_excluded)) == (1, {"failed": 1})
    nothing = finish(ROWS[:2], failed=0)
    assert (list(nothing), nothing["order_mean"].value) == (["order_mean"], None)


def test_recalls_with_several_rows_of_a_sample_are_clustered_by_sample() -> None:
    """Rows of one sample are no independent draws: the interval is wider than over as many
    samples.
    """
    rows: list[Shown] = []
    for sample in range(12):
        right = "A" if sample % 2 else "B"
        rows += [(f"s{sample}", "A", right, right), (f"s{sample}", "A", right, right)]
    value = finish(rows)["order_recall_A"]
    assert (value.value, value.n) == (0.5, 12)
    assert value.interval_method == "clustered_wilson"
    apart = [(f"{row[0]} {place}", *row[1:]) for place, row in enumerate(rows)]
    single = finish(apart)["order_recall_A"]
    assert value.interval is not None
    assert single.interval is not None
    assert value.interval[0] < single.interval[0]


def test_samples_are_means_over_their_orders() -> None:
    """Samples may have other numbers of rows.

    One row without a score leaves the sample without a mean.
    """
    rows: list[Shown] = [("a", truth, "A", truth) for truth in "ABC"]
    rows.append(("b", "A", "A", "A"))
    owners = pl.Series(["a", "a", "a", "b"])
    result = average_orders(make_shown(rows), owners).column("is_correct")
    assert result is not None
    assert result.to_list() == [1 / 3, 1.0]
    assert find_worst_rows(pl.Series([0, 2, 2, 0]), owners).to_list() == [1, 3]
    spoiled = average_orders(make_shown(rows, failed=2), owners)
    assert spoiled.frame["status"].to_list() == ["FAILED", "SCORED"]


def test_the_mean_has_the_interval_of_sample_means() -> None:
    """It is Student's t over samples, not over rows."""
    value = finish(ROWS)["order_mean"]
    assert (value.n, value.interval_method) == (2, "student_t")
    assert value.std_error == pytest.approx(0.25)


PRIOR = (0.6, 0.3, 0.1)


CHOICES = ["A", "B", "C"]


#: How likely each option is by its content, in the order of the file.
CONTENTS = ((0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6))


def show(
    sample: str, contents: Sequence[float], shift: int, *, drawn: bool, **changes: object
) -> dict[str, Any]:
    """Return the score of a sample whose options are rotated.

    Its truth is the likeliest content.
    """
    order = [(place + shift) % 3 for place in range(3)]
    weights = [PRIOR[place] * contents[option] for place, option in enumerate(order)]
    shares = [weight / sum(weights) for weight in weights]
    truth = order.index(max(range(3), key=lambda option: contents[option]))
    metadata = {
        "base_sample_id": sample,
        "probabilities": shares,
        "choices": CHOICES,
        "ground_truth_choice": CHOICES[truth],
        "option_order": [CHOICES[option] for option in order],
        "estimates_prior": drawn,
        **changes,
    }
    values = {"is_correct": float(max(shares) == shares[truth])}
    verdict: dict[str, object] = {"status": "SCORED", "reason": None, "excluded_by": None}
    return {**verdict, "values": values, "metadata": metadata}


def make_scores(rows: Sequence[dict[str, Any]]) -> Scores:
    """Return the table of these scores."""
    overrides = {"reason": pl.String, "excluded_by": pl.String}
    return Scores(pl.DataFrame(rows, schema_overrides=overrides, infer_schema_length=None))


DRAWN = [show(f"e{n}", cell, k, drawn=True) for n, cell in enumerate(CONTENTS) for k in range(3)]


ASKED = [show(f"s{place}", cell, 0, drawn=False) for place, cell in enumerate(CONTENTS)]


def debias(rows: Sequence[dict[str, Any]]) -> dict[str, MetricValue]:
    """Return the values over all rows."""
    metric = PrideMetric(0.5, seed=3)
    return {value.name: value for value in metric.compute(make_scores(rows))}


def test_the_prior_is_found_and_taken_out() -> None:
    """A model whose probabilities are prior times content is answered by content alone.

    Samples that estimate the prior do not count, and are said to be left out.
    """
    result = debias([*DRAWN, *ASKED])
    prior = pytest.approx(dict(zip(CHOICES, PRIOR, strict=True)))
    accuracy = result["pride_accuracy"]
    assert accuracy.details["priors"] == [{"labels": CHOICES, "prior": prior, "samples": 3}]
    assert (accuracy.n, accuracy.n_excluded, accuracy.type) == (3, {"estimates_prior": 3}, "pride")
    assert tuple(result) == PrideMetric(0.5).value_names().names
    assert {name: value.value for name, value in result.items()} == {
        "pride_accuracy": 1.0,
        "pride_accuracy_before": pytest.approx(2 / 3),
        "pride_difference": pytest.approx(1 / 3),
        "pride_rstd": 0.0,
        "pride_rstd_before": pytest.approx(100 * (2 / 9) ** 0.5),
    }
    assert accuracy.is_share
    assert result["pride_accuracy_before"].is_share
    assert result["pride_rstd"].interval_note is not None
    difference = result["pride_difference"]
    assert dict(difference.details) == {"p": 1.0, "p_method": "mcnemar_exact"}
    assert difference.interval_method == "newcombe"
    assert difference.interval == bound_flips(Flips(both=2, first_only=1, second_only=0, neither=0))


def test_what_cannot_be_answered_is_left_out_and_counted() -> None:
    """Labels without a prior.

    A failed sample under its status; truths or probabilities not known as null.
    """
    accuracy = debias(ASKED)["pride_accuracy"]
    assert (accuracy.value, accuracy.n_excluded) == (None, {"no_prior": 3})
    digits = {"choices": ["0", "1", "2"], "ground_truth_choice": "0"}
    marked = [show(f"o{n}", cell, 0, drawn=False, **digits) for n, cell in enumerate(CONTENTS)]
    failed = {**show("f", CONTENTS[0], 0, drawn=False), "status": "FAILED"}
    unknown = show("u", CONTENTS[0], 0, drawn=False, probabilities=None)
    foreign = show("t", CONTENTS[0], 0, drawn=False, ground_truth_choice="Z")
    accuracy = debias([*DRAWN, *marked, *ASKED, failed, unknown, foreign])["pride_accuracy"]
    counts = {"estimates_prior": 3, "failed": 1, "no_prior": 3, "null": 2}
    assert (accuracy.n, dict(accuracy.n_excluded)) == (3, counts)


@pytest.mark.parametrize("changes", [{"probabilities": [0.9, 0.1, None]}, {"option_order": None}])
def test_a_sample_that_is_not_known_estimates_nothing(changes: dict[str, Any]) -> None:
    """Without a probability, or the order in which options were shown.

    It is counted in the details.
    """
    spoiled = [show("x", CONTENTS[0], shift, drawn=True, **changes) for shift in range(3)]
    for rows in ([*DRAWN, *spoiled], DRAWN[:2]):
        assert debias([*rows, *ASKED])["pride_accuracy"].details["samples_without_prior"] == 1


def test_ties_are_shared() -> None:
    """Two labels that are as likely have half of the answer each, the third has nothing."""
    shares = (0.4, 0.4, 0.2)
    assert [judge_shares(shares, truth) for truth in range(3)] == [0.5, 0.5, 0.0]


SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}
TASK = {"key": "t", "display_name": "T", "description": "t", "definition": {"scorers": [SCORER]}}


def make_task(
    values: Mapping[str, MetricValue], totals: Mapping[str, Any], orders: str = "all"
) -> TaskRun:
    """Return a finished task of two samples with these values."""
    task = ak.score(TASK, [{"q": 1}, {"q": 2}], ["A", "B"]).tasks["t"]
    manifest = {"choice_order": {"orders": orders, "seed": 7}}
    totals = {"counts": task.counts, **totals}
    return replace(task, manifest=manifest, metrics=values, totals=totals)


SAID_OF_ORDERS = """
  Order of the options                  value    95 % interval  n
  mean over orders                    75.00 %   [0.00, 100.00]  2
  right in all orders (circular)      50.00 %    [9.45, 90.55]  2
  right in any order                 100.00 %  [34.24, 100.00]  2
  same option in all orders           50.00 %    [9.45, 90.55]  2
  share of the most frequent option   75.00 %   [0.00, 100.00]  2

  Right option at    recall    95 % interval  rows  predicted
  A                100.00 %  [34.24, 100.00]     2          3
  B                 50.00 %    [9.45, 90.55]     2          1
  RStd of the recalls: 25 points
  1 sample left in place: their options cannot be moved
  2 samples left in place: an option names the letters of others
"""
SAID_OF_PRIDE = """
  Position prior removed (PriDe)     value    95 % interval  n
  accuracy before                  66.67 %   [20.77, 93.85]  3
  accuracy after                  100.00 %  [43.85, 100.00]  3
  after - before (points)           +33.33  [-29.05, 79.23]  3
  RStd before (points)             47.1405                   3
  RStd after (points)                    0                   3
  prior of 3 samples: A 60.00 %, B 30.00 %, C 10.00 %
  samples drawn to estimate the prior (a share of 0.5, seed 3) do not count here
"""


def test_a_summary_shows_the_effect_of_the_order() -> None:
    """A table of the values, one of the places, then why samples were left in place."""
    orders = {"counts": {"samples": 4}, "not_reordered": {"UNSUITABLE": 1, "REFERS_TO_LABELS": 2}}
    task = make_task(finish(ROWS), {"orders": orders})
    assert plain_text(draw_choice_order(task, 80)) == SAID_OF_ORDERS
    assert describe_order(task) == "all: 2 samples, 4 rows"
    expected = "shuffled (seed 7): 2 samples, 4 rows, 3 more for the prior"
    assert describe_order(make_task({}, {"orders": {**orders, "extra": 3}}, "shuffled")) == expected
    bare = plain_text(draw_choice_order(make_task(finish(ROWS[:2], failed=0), {}), 80))
    assert ("mean over orders" in bare, "Right option at" in bare) == (True, False)
    assert (draw_choice_order(make_task({}, {}), 80), describe_order(make_task({}, {}))) == (
        [],
        None,
    )


def test_a_summary_shows_the_accuracy_without_the_prior() -> None:
    """Before and after, the difference in points, and the prior of each set of labels."""
    drawn = plain_text(draw_choice_order(make_task(debias([*DRAWN, *ASKED]), {}), 80))
    assert drawn == SAID_OF_PRIDE
    drawn = plain_text(draw_choice_order(make_task(debias(ASKED), {}), 80))
    assert "no sample could be used" in drawn


def test_the_order_of_samples_changes_nothing() -> None:
    """Any order that keeps the rows of a sample together gives the same values."""
    rows = [(f"{row[0]}-{number}", *row[1:]) for number in range(5) for row in ROWS]
    metric, pride = ChoiceOrderMetric("rotations"), PrideMetric(0.5)
    turned = sorted(rows, key=itemgetter(0), reverse=True)
    assert metric.compute(make_shown(turned)) == metric.compute(make_shown(rows))
    turned_shown = [*ASKED[::-1], *DRAWN]
    assert pride.compute(make_scores(turned_shown)) == pride.compute(make_scores([*DRAWN, *ASKED]))
