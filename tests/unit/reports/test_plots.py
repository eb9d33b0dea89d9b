"""Laws of plots: round bars that add up, and specifications of Vega-Lite."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import answerkey as ak
from answerkey.reports.overview import MIME_TYPE, SCHEMA, Plot, choose_step, count_bins, draw_plots
from answerkey.runs import Run

NUMBERS = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=60)
EVERYTHING: dict[str, Any] = {
    "key": "t",
    "display_name": None,
    "model": "m",
    "headline": {"name": "Accuracy", "is_share": True, "chance": 0.25},
    "plots": {
        "categories": {
            "column": "c",
            "rows": [{"label": "x", "value": 0.5, "interval": [0.4, 0.6], "n": 9}],
        },
        "invalid": [{"reason": "EMPTY", "count": 2, "stated": None, "right": None}],
        "rules": [
            {
                "name": "r",
                "kind": "own",
                "value": 0.5,
                "interval": None,
                "invalid_share": 0.1,
                "n": 9,
            }
        ],
        "letters": {"true": ["A"], "predicted": ["A", "INVALID"], "counts": [[3, 1]]},
        "recalls": {"rows": [{"letter": "A", "value": 0.75, "n": 4}], "rstd": None},
        "reliability": {
            "bins": [
                {"low": 0, "high": 0.5, "confidence": None, "accuracy": None, "n": 0},
                {"low": 0.5, "high": 1, "confidence": 0.8, "accuracy": 0.6, "n": 5},
            ],
            "ece": 0.2,
            "ece_bins": 2,
        },
        "latency": {"p50": 1.0, "p95": 2.0, "bins": [{"low": 0.0, "high": 1.0, "count": 3}]},
        "tokens": {"prompt": 10, "completion": 30, "bins": [{"low": 0.0, "high": 5.0, "count": 3}]},
    },
}


@pytest.mark.parametrize(
    ("width", "step"),
    [(20.0, 1.0), (21.0, 2.0), (2.0, 0.1), (0.9, 0.05), (1000.0, 50.0), (1001.0, 100.0)],
)
def test_steps_are_round(width: float, step: float) -> None:
    """A step is 1, 2 or 5 times a power of ten, at most twenty make the width.

    A whole one is 1 or more.
    """
    assert choose_step(width) == pytest.approx(step)
    assert choose_step(width, is_whole=True) == pytest.approx(max(1.0, step))


@pytest.mark.parametrize(
    ("values", "counts"),
    [([1.0, 1.0, 2.0, 3.0], [2, 1, 1]), ([2.0, 2.0], [2]), ([], [])],
    ids=["a bar holds its lower end", "no width, one bar", "nothing"],
)
def test_a_value_stands_in_the_bar_that_begins_with_it(
    values: list[float], counts: list[int]
) -> None:
    """A bar holds its lower end, and not its upper one."""
    bins = count_bins(pl.Series(values, dtype=pl.Float64), is_whole=True)
    assert [one["count"] for one in bins] == counts
    assert all(one["high"] == one["low"] + 1 for one in bins)


def test_outliers_share_a_bar() -> None:
    """One call of a minute leaves the others apart; its bar goes up to it."""
    bins = count_bins(pl.Series([0.5 + place / 1000 for place in range(500)] + [60.0]))
    assert (bins[-1]["count"], bins[-1]["high"]) == (1, 60.0)
    assert len(bins) > 10


@given(NUMBERS, st.booleans())
def test_bars_add_up_and_join(numbers: list[float], is_whole: bool) -> None:  # noqa: FBT001 - drawn
    """Every value is in one bar, and a bar begins where the last one ends."""
    values = [float(round(one)) for one in numbers] if is_whole else numbers
    bins = count_bins(pl.Series(values), is_whole=is_whole)
    assert sum(one["count"] for one in bins) == len(values)
    assert all(one["high"] == other["low"] for one, other in pairwise(bins))
    assert bins[0]["low"] <= min(values)
    assert bins[-1]["high"] >= max(values)


def test_a_run_lists_its_plots_by_name() -> None:
    """`run.plots` has what there is something to show of, made once.

    Its media type is that of Vega-Lite.
    """
    truth = {"ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
    scorer = {"type": "string_equals_mcqa", **truth}
    task = {
        "key": "small",
        "display_name": "Small",
        "description": "",
        "definition": {"scorers": [scorer]},
    }
    rows = [{"answer": "A", "category": "law"}, {"answer": "B", "category": "art"}]
    run = ak.score(task, rows, ["A", "The answer is B"])
    assert list(run.plots) == ["categories", "invalid", "rules", "letters", "recalls"]
    assert run.plots is run.plots
    plot = run.plots["letters"]
    assert isinstance(plot, Plot)
    assert plot["$schema"] == SCHEMA
    bundle = plot._repr_mimebundle_()
    assert (bundle[MIME_TYPE], bundle["text/plain"][:6]) == (dict(plot), "<plot ")


def test_every_plot_is_a_specification() -> None:
    """Plain JSON, with its values in it and something to draw.

    Those of several tasks are named by task.
    """
    found = draw_plots([EVERYTHING])
    assert list(found) == list(EVERYTHING["plots"])
    for drawn in found.values():
        assert "values" in json.dumps(drawn, allow_nan=False)
        assert "mark" in drawn or all("mark" in layer for layer in drawn["layer"])
        assert drawn["title"]["text"]
    # A bin without a completion is no point at zero.
    assert [one["n"] for one in found["reliability"]["layer"][1]["data"]["values"]] == [5]
    assert {"t/letters", "u/letters"} <= set(draw_plots([EVERYTHING, EVERYTHING | {"key": "u"}]))


def test_what_comes_from_data_is_in_the_values_alone(make_run: Callable[..., Run]) -> None:
    """No name of a category, a letter or a reason becomes a field, an expression or an address."""
    hostile = "datum['x']; alert(1) //"
    categories = {hostile: {"n": 2, "correct": 1, "partial": 0}}
    run = make_run(totals={"categories": categories, "category_column": hostile})
    for plot in run.plots.values():
        told = [value for name, value in walk(plot) if name in {"field", "filter", "test", "href"}]
        assert hostile not in json.dumps(told)


def walk(value: object) -> list[tuple[str, object]]:
    """Return all names in a value, with what they name."""
    if isinstance(value, dict):
        inner = [pair for one in value.values() for pair in walk(one)]
        return [*((str(name), one) for name, one in value.items()), *inner]
    return [pair for one in value for pair in walk(one)] if isinstance(value, list) else []
