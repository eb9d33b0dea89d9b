"""The plots of a run as Vega-Lite specifications, for notebooks and for everything else that draws them.

Each is plain JSON with its values in it. Field names are ours; what comes from data is in the values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from answerkey.reports.pages.overview import describe_run
from answerkey.runs import Run

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MIME_TYPE = "application/vnd.vegalite.v5+json"
#: Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
WIDTH, HEIGHT, ROW = 480, 240, 18

Encoding = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


class Plot(dict[str, Any]):
    """A Vega-Lite specification; a notebook that knows them draws it."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {MIME_TYPE: dict(self), "text/plain": f"<plot {self.get('title', '')!r}>"}


def list_plots(run: Run) -> dict[str, Plot]:
    """Return the plots by name, those of several tasks by `task/name`; only those that show something."""
    tasks = describe_run(run)["tasks"]
    return {
        name if len(tasks) == 1 else f"{task['key']}/{name}": plot
        for task in tasks
        for name, plot in _draw_task(task)
    }


def _draw_task(task: Mapping[str, Any]) -> list[tuple[str, Plot]]:
    found = [(name, draw(task)) for name, draw in DRAWINGS.items() if task["plots"][name]]
    return [(name, Plot(_frame(task, one))) for name, one in found]


def _frame(task: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plot with what all have: which version, how large, of which task and model."""
    about = f"{task['display_name'] or task['key']}, {task['model']}"
    title = {"text": drawn["title"], "subtitle": about, "anchor": "start"}
    size = {"width": WIDTH, "height": HEIGHT}
    return {"$schema": SCHEMA, **size, **drawn, "title": title, "config": {"view": {"stroke": None}}}


def _field(name: str, kind: str, title: str | None, **more: object) -> dict[str, Any]:
    return {"field": name, "type": kind, "title": title, **more}


def _share(name: str, title: str) -> dict[str, Any]:
    return _field(name, "quantitative", title, axis={"format": ".0%"}, scale={"domain": [0, 1]})


def _tell(*fields: tuple[str, str, str | None]) -> list[dict[str, Any]]:
    """Return what is told of a mark: field, title and format of each."""
    return [
        {"field": name, "title": title, **({"format": form} if form else {})} for name, title, form in fields
    ]


def _spread(rows: Rows) -> list[dict[str, Any]]:
    """Return rows with the ends of their intervals as fields of their own."""
    return [
        {**row, "low": None if row["interval"] is None else row["interval"][0]}
        | {"high": None if row["interval"] is None else row["interval"][1]}
        for row in rows
    ]


def _draw_forest(rows: Rows, label: str, encodings: Encoding, *, is_share: bool) -> dict[str, Any]:
    """Return points with their intervals, one row each."""
    form = ".2%" if is_share else ".4~g"
    x = _share("value", "") if is_share else _field("value", "quantitative", "", scale={"zero": False})
    told = _tell(
        (label, label, None),
        ("value", "value", form),
        ("low", "95 % from", form),
        ("high", "to", form),
        ("n", "n", None),
    )
    y = _field(label, "nominal", None, sort={"field": "value", "order": "descending"})
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "tooltip": told}
    return {
        "height": {"step": ROW},
        "data": {"values": _spread(rows)},
        "layer": [
            {"transform": [{"filter": "isValid(datum.low)"}], "mark": {"type": "rule"}, "encoding": ends},
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {"x": x, "y": y, "tooltip": told, **encodings},
            },
        ],
    }


def _draw_categories(task: Mapping[str, Any]) -> dict[str, Any]:
    plot, headline = task["plots"]["categories"], task["headline"]
    drawn = _draw_forest(plot["rows"], "label", {"color": {"value": BLUE}}, is_share=headline["is_share"])
    if headline["chance"] is not None:
        mark = {"type": "rule", "strokeDash": [4, 4], "color": GREY}
        x = {"datum": headline["chance"], "type": "quantitative"}
        line = {"data": {"values": [{}]}, "mark": mark, "encoding": {"x": x}}
        drawn["layer"] = [line, *drawn["layer"]]
    return {"title": f"{headline['name']} by {plot['column']}", **drawn}


def _draw_rules(task: Mapping[str, Any]) -> dict[str, Any]:
    kinds, colours = ["own", "rule", "lens"], [ORANGE, BLUE, GREY]
    encodings = {
        "color": _field("kind", "nominal", None, scale={"domain": kinds, "range": colours}),
        "shape": _field("kind", "nominal", None, scale={"domain": kinds}),
    }
    drawn = _draw_forest(task["plots"]["rules"], "label", encodings, is_share=True)
    return {"title": "Accuracy under each reading rule", **drawn}


def _draw_invalid(task: Mapping[str, Any]) -> dict[str, Any]:
    told = _tell(
        ("reason", "reason", None),
        ("count", "completions", None),
        ("stated", "state an answer", None),
        ("right", "the right one", None),
    )
    return {
        "title": "INVALID completions by reason",
        "height": {"step": ROW},
        "data": {"values": task["plots"]["invalid"]},
        "mark": {"type": "bar", "color": ORANGE},
        "encoding": {
            "y": _field("reason", "nominal", None, sort="-x"),
            "x": _field("count", "quantitative", "completions"),
            "tooltip": told,
        },
    }


def _draw_letters(task: Mapping[str, Any]) -> dict[str, Any]:
    plot = task["plots"]["letters"]
    values = [
        {"true": true, "predicted": predicted, "count": count, "share": count / sum(row) if sum(row) else 0}
        for true, row in zip(plot["true"], plot["counts"], strict=True)
        for predicted, count in zip(plot["predicted"], row, strict=True)
    ]
    told = _tell(
        ("true", "true", None),
        ("predicted", "predicted", None),
        ("count", "completions", None),
        ("share", "of this truth", ".1%"),
    )
    dark = {"condition": {"test": "datum.share > 0.5", "value": "white"}, "value": "black"}
    return {
        "title": "Letters true against predicted",
        "width": {"step": 44},
        "height": {"step": 32},
        "data": {"values": values},
        "encoding": {
            "y": _field("true", "nominal", "true", sort=plot["true"]),
            "x": _field("predicted", "nominal", "predicted", sort=plot["predicted"], axis={"labelAngle": 0}),
        },
        "layer": [
            {
                "mark": "rect",
                "encoding": {
                    "color": _field(
                        "share", "quantitative", "of this truth", scale={"scheme": "blues", "domain": [0, 1]}
                    ),
                    "tooltip": told,
                },
            },
            {"mark": "text", "encoding": {"text": {"field": "count"}, "color": dark}},
        ],
    }


def _draw_recalls(task: Mapping[str, Any]) -> dict[str, Any]:
    told = _tell(("letter", "letter", None), ("value", "recall", ".2%"), ("n", "samples", None))
    return {
        "title": "Recall by letter",
        "data": {"values": task["plots"]["recalls"]["rows"]},
        "mark": {"type": "bar", "color": BLUE},
        "encoding": {
            "x": _field("letter", "nominal", None, axis={"labelAngle": 0}),
            "y": _share("value", "recall"),
            "tooltip": told,
        },
    }


def _draw_reliability(task: Mapping[str, Any]) -> dict[str, Any]:
    plot = task["plots"]["reliability"]
    told = _tell(
        ("confidence", "confidence", ".1%"), ("accuracy", "accuracy", ".1%"), ("n", "completions", None)
    )
    curve = {"x": _share("confidence", "confidence"), "y": _share("accuracy", "accuracy")}
    ideal = [{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}]
    dashed = {"type": "line", "strokeDash": [4, 4], "color": GREY}
    return {
        "title": f"Right as often as sure? ECE {100 * plot['ece']:.2f} % in {plot['ece_bins']} bins",
        "width": HEIGHT,
        "layer": [
            {"data": {"values": ideal}, "mark": dashed, "encoding": curve},
            {
                "data": {"values": [one for one in plot["bins"] if one["n"]]},
                "mark": {"type": "line", "color": BLUE, "point": {"size": 60, "color": BLUE}},
                "encoding": {**curve, "tooltip": told},
            },
        ],
    }


def _draw_histogram(bins: Rows, title: str, colour: str) -> dict[str, Any]:
    told = _tell(("low", "from", None), ("high", "to", None), ("count", "completions", None))
    return {
        "data": {"values": list(bins)},
        "mark": {"type": "bar", "color": colour},
        "encoding": {
            "x": {"field": "low", "bin": {"binned": True}, "type": "quantitative", "title": title},
            "x2": {"field": "high"},
            "y": _field("count", "quantitative", "completions"),
            "tooltip": told,
        },
    }


def _draw_latency(task: Mapping[str, Any]) -> dict[str, Any]:
    plot = task["plots"]["latency"]
    title = f"Latency: p50 {plot['p50']:.2f} s, p95 {plot['p95']:.2f} s"
    return {"title": title, **_draw_histogram(plot["bins"], "seconds", BLUE)}


def _draw_tokens(task: Mapping[str, Any]) -> dict[str, Any]:
    plot = task["plots"]["tokens"]
    title = f"Tokens: {plot['prompt']:,} of prompts, {plot['completion']:,} of completions"
    return {"title": title, **_draw_histogram(plot["bins"], "tokens of a completion", GREEN)}


#: Name of a plot → what draws it, in the order of the page.
DRAWINGS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "categories": _draw_categories,
    "invalid": _draw_invalid,
    "rules": _draw_rules,
    "letters": _draw_letters,
    "recalls": _draw_recalls,
    "reliability": _draw_reliability,
    "latency": _draw_latency,
    "tokens": _draw_tokens,
}
