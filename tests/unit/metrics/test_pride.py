"""Laws of taking a model's liking for places out of its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from answerkey.metrics import PrideMetric
from answerkey.metrics.choice_order import judge_shares
from answerkey.metrics.paired import Flips, bound_flips
from answerkey.types import MetricValue, Scores

PRIOR = (0.6, 0.3, 0.1)
CHOICES = ["A", "B", "C"]
#: How likely each option is by its content, in the order of the file.
CONTENTS = ((0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.1, 0.3, 0.6))


def show(
    sample: str, contents: Sequence[float], shift: int, *, drawn: bool, **changes: object
) -> dict[str, Any]:
    """Return the score of a sample whose options are rotated; its truth is the likeliest content."""
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
    return {"status": "SCORED", "reason": None, "values": values, "metadata": metadata, "excluded_by": None}


def make_scores(rows: Sequence[dict[str, Any]]) -> Scores:
    """Return the table of these scores."""
    overrides = {"reason": pl.String, "excluded_by": pl.String}
    return Scores(pl.DataFrame(rows, schema_overrides=overrides, infer_schema_length=None))


DRAWN = [
    show(f"e{place}", one, shift, drawn=True) for place, one in enumerate(CONTENTS) for shift in range(3)
]
ASKED = [show(f"s{place}", one, 0, drawn=False) for place, one in enumerate(CONTENTS)]


def finish(rows: Sequence[dict[str, Any]]) -> dict[str, MetricValue]:
    """Return the values over all rows in one shard."""
    metric = PrideMetric(0.5, seed=3)
    return {value.name: value for value in metric.finish(metric.measure(make_scores(rows)))}


def test_the_prior_is_found_and_taken_out() -> None:
    """A model whose probabilities are prior times content is answered by content alone."""
    found = finish([*DRAWN, *ASKED])
    told = found["pride_accuracy"].details["priors"]
    assert told == [
        {"labels": CHOICES, "prior": pytest.approx(dict(zip(CHOICES, PRIOR, strict=True))), "samples": 3}
    ]
    assert found["pride_accuracy"].value == 1.0
    assert found["pride_accuracy_before"].value == pytest.approx(2 / 3)
    assert found["pride_difference"].value == pytest.approx(1 / 3)
    assert found["pride_rstd"].value == 0.0
    assert found["pride_rstd_before"].value == pytest.approx(100 * (2 / 9) ** 0.5)


def test_samples_that_estimate_the_prior_do_not_count() -> None:
    """They are left out, and said to be."""
    found = finish([*DRAWN, *ASKED])
    assert (found["pride_accuracy"].n, found["pride_accuracy"].n_excluded) == (3, {"estimates_prior": 3})


def test_without_a_prior_nothing_is_answered() -> None:
    """A set of labels that no drawn sample has is left out and counted."""
    found = finish(ASKED)
    assert found["pride_accuracy"].value is None
    assert found["pride_accuracy"].n_excluded == {"no_prior": 3}


def test_a_sample_with_an_unknown_probability_estimates_nothing() -> None:
    """It is counted in the details."""
    spoiled = [
        show("x", CONTENTS[0], shift, drawn=True, probabilities=[0.9, 0.1, None]) for shift in range(3)
    ]
    details = finish([*DRAWN, *spoiled, *ASKED])["pride_accuracy"].details
    assert details["samples_without_prior"] == 1
    missing = DRAWN[:2]
    assert finish([*missing, *ASKED])["pride_accuracy"].details["samples_without_prior"] == 1


def test_shards_merge_exactly() -> None:
    """Any split that keeps the rows of a sample together gives the same values."""
    metric = PrideMetric(0.5)
    rows = [*DRAWN, *ASKED]
    whole = metric.finish(metric.measure(make_scores(rows)))
    cuts = [rows[:3], rows[3:6], rows[6:10], rows[10:]]
    parts = [metric.measure(make_scores(one)) for one in cuts]
    assert metric.finish(metric.merge(parts[::-1])) == whole


def test_value_names_are_known_before_there_are_scores() -> None:
    """Gates may name each of them."""
    names = PrideMetric(0.5).value_names()
    assert names.names == (
        "pride_accuracy",
        "pride_accuracy_before",
        "pride_difference",
        "pride_rstd",
        "pride_rstd_before",
    )


def test_a_sample_in_no_known_order_estimates_nothing() -> None:
    """Without the order in which options were shown, no place can be told from its content."""
    spoiled = [show("x", CONTENTS[0], shift, drawn=True, option_order=None) for shift in range(3)]
    assert finish([*DRAWN, *spoiled, *ASKED])["pride_accuracy"].details["samples_without_prior"] == 1


def test_samples_without_probabilities_are_left_out_and_counted() -> None:
    """A failed one under its status, one whose truth or probabilities are not known as null."""
    failed = {**show("f", CONTENTS[0], 0, drawn=False), "status": "FAILED"}
    unknown = show("u", CONTENTS[0], 0, drawn=False, probabilities=None)
    foreign = show("t", CONTENTS[0], 0, drawn=False, ground_truth_choice="Z")
    found = finish([*DRAWN, *ASKED, failed, unknown, foreign])["pride_accuracy"]
    assert (found.n, dict(found.n_excluded)) == (3, {"estimates_prior": 3, "failed": 1, "null": 2})


def test_the_difference_says_how_likely_chance_is() -> None:
    """By the exact test, since answers are right or wrong; shares say that they are."""
    found = finish([*DRAWN, *ASKED])
    assert dict(found["pride_difference"].details) == {"p": 1.0, "p_method": "mcnemar_exact"}
    assert [found[name].is_share for name in ("pride_accuracy", "pride_accuracy_before")] == [True, True]
    assert found["pride_accuracy"].type == "pride"
    assert found["pride_rstd"].interval_note is not None


def test_labels_without_a_prior_leave_the_others_alone() -> None:
    """Each set of labels is answered by its own prior; one that has none is counted."""
    others = [
        show(f"o{place}", one, 0, drawn=False, choices=["0", "1", "2"], ground_truth_choice="0")
        for place, one in enumerate(CONTENTS)
    ]
    found = finish([*DRAWN, *others, *ASKED])["pride_accuracy"]
    assert (found.n, dict(found.n_excluded)) == (3, {"estimates_prior": 3, "no_prior": 3})


def test_ties_are_shared() -> None:
    """Two labels that are as likely have half of the answer each, the third has nothing."""
    shares = (0.4, 0.4, 0.2)
    assert [judge_shares(shares, truth) for truth in range(3)] == [0.5, 0.5, 0.0]
    assert [judge_shares(shares, truth, (0.5, 0.25, 0.25)) for truth in range(3)] == [0.0, 1.0, 0.0]


def test_the_difference_has_the_interval_of_paired_answers() -> None:
    """Newcombe's, while few answers differ."""
    found = finish([*DRAWN, *ASKED])["pride_difference"]
    assert found.interval_method == "newcombe"
    assert found.interval == bound_flips(Flips(both=2, first_only=1, second_only=0, neither=0))
