"""Laws of the plots of a run as Vega-Lite specifications."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import answerkey as ak
from answerkey.reports.pages.plots import DRAWINGS, MIME_TYPE, SCHEMA, Plot, list_plots
from answerkey.runs import Run

TASK: dict[str, Any] = {
    "key": "small",
    "display_name": "Small",
    "description": "Some questions.",
    "definition": {
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": ["A", "B"],
            }
        ]
    },
}
EVERYTHING: dict[str, Any] = {
    "key": "t",
    "display_name": None,
    "model": "m",
    "headline": {"name": "Accuracy", "is_share": True, "chance": 0.25},
    "plots": {
        "categories": {"column": "c", "rows": [{"label": "x", "value": 0.5, "interval": [0.4, 0.6], "n": 9}]},
        "invalid": [{"reason": "EMPTY", "count": 2, "stated": None, "right": None}],
        "rules": [{"name": "r", "kind": "own", "value": 0.5, "interval": None, "invalid_share": 0.1, "n": 9}],
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


def score() -> Run:
    """Return a run of two samples in memory."""
    rows = [{"answer": "A", "category": "law"}, {"answer": "B", "category": "art"}]
    return ak.score(TASK, rows, ["A", "The answer is B"])


def test_a_run_lists_its_plots_by_name() -> None:
    """`run.plots` has what there is something to show of, made once."""
    run = score()
    assert list(run.plots) == ["categories", "invalid", "rules", "letters", "recalls"]
    assert run.plots is run.plots


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_plot_is_a_specification(name: str) -> None:
    """Plain JSON of version 5, with its values in it and something to draw."""
    drawn = DRAWINGS[name](EVERYTHING)
    text = json.dumps(drawn, allow_nan=False)
    assert "values" in text
    assert "mark" in drawn or all("mark" in layer for layer in drawn["layer"])
    assert drawn["title"]


def test_the_curve_leaves_out_empty_bins() -> None:
    """A bin without a completion is no point at zero."""
    curve = DRAWINGS["reliability"](EVERYTHING)["layer"][1]
    assert [one["n"] for one in curve["data"]["values"]] == [5]


def test_a_notebook_draws_a_plot() -> None:
    """The media type says that it is Vega-Lite; the plain text says which plot it is."""
    plot = score().plots["letters"]
    assert isinstance(plot, Plot)
    bundle = plot._repr_mimebundle_()
    assert bundle[MIME_TYPE] == dict(plot)
    assert bundle[MIME_TYPE]["$schema"] == SCHEMA
    assert bundle["text/plain"].startswith("<plot ")


def test_what_comes_from_data_is_in_the_values_alone(make_run: Callable[..., Run]) -> None:
    """No name of a category, a letter or a reason becomes a field, an expression or an address."""
    hostile = "datum['x']; alert(1) //"
    categories = {hostile: {"n": 2, "correct": 1, "partial": 0}}
    plots = list_plots(make_run(tally={"categories": categories, "category_column": hostile}))
    for plot in plots.values():
        fields = json.dumps(
            [value for name, value in _walk(plot) if name in {"field", "filter", "test", "href"}]
        )
        assert hostile not in fields


def _walk(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(str(name), one) for name, one in value.items()] + [
            pair for one in value.values() for pair in _walk(one)
        ]
    return [pair for one in value for pair in _walk(one)] if isinstance(value, list) else []


def test_several_tasks_are_kept_apart(make_run: Callable[..., Run]) -> None:
    """The plots of several tasks are named by task and plot."""
    run = make_run()
    (task,) = run.tasks.values()
    both = Run(run.manifest, {"one": task, "two": task})
    assert "mcqa/letters" in list_plots(both)


def test_an_incomplete_run_plots_counts_alone(make_run: Callable[..., Run]) -> None:
    """No share of a run that is not complete."""
    assert list(list_plots(make_run("incomplete"))) == ["invalid", "letters"]
