"""What the JSON files of a run look like, as far as it is shown: a run folder may come from a stranger.

A shape is written as data: a word for a plain value (with `?`, null will do), `[shape]` for a list, a tuple
of words for one of them, a mapping for an object: `name` must be there, `name?` may be, `*` is every entry.
Keys that a shape does not name are passed over: a newer release may write more. A function among the shapes
checks what no shape can say. What has not its shape raises ValueError, with the way to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MAX_SHOWN = 60
#: No run has so many samples, calls or tokens.
_MAX_COUNT = 1 << 63


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT


#: Plain values by their words, as messages name them.
_WORDS: Mapping[str, Any] = {
    "text": lambda value: isinstance(value, str),
    "a count": _is_count,
    "a count above 0": lambda value: _is_count(value) and value > 0,
    "a number": lambda value: type(value) in {int, float} and abs(value) < _MAX_COUNT * 1e100,
    "true or false": lambda value: isinstance(value, bool),
    "a time": lambda value: isinstance(value, str) and _MOMENT.fullmatch(value) is not None,
    "an object": lambda value: isinstance(value, Mapping),
    "an object with entries": lambda value: isinstance(value, Mapping) and bool(value),
    "a list": lambda value: isinstance(value, list),
    "a pair": lambda value: len(value) == 2,  # noqa: PLR2004 - a list
}


def _require(value: Any, way: str, wanted: str, *, is_so: bool) -> None:  # noqa: ANN401 - whatever a file holds
    if not is_so:
        shown = repr(value)
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
        raise ValueError(f"`{way}` is {shown}, not {wanted}")


def _check(shape: Any, value: Any, way: str) -> None:  # noqa: ANN401 - shapes and values are of any kind
    """Require that a value has a shape; raise ValueError."""
    match shape:
        case str():
            if value is not None or not shape.endswith("?"):
                word = shape.removesuffix("?")
                _require(value, way, word, is_so=_WORDS[word](value))
        case tuple():
            _require(
                value, way, f"one of {', '.join(shape)}", is_so=isinstance(value, str) and value in shape
            )
        case [one]:
            _check("a list", value, way)
            for number, item in enumerate(value):
                _check(one, item, f"{way}[{number}]")
        case Mapping():
            _check("an object", value, way)
            for name, one in shape.items():
                if name == "*":
                    for key, item in value.items():
                        _check(one, item, f"{way}.{key}")
                elif (key := name.removesuffix("?")) in value:
                    _check(one, value[key], f"{way}.{key}")
                elif key == name:
                    raise ValueError(f"`{way}` has no `{name}`")
        case _:
            shape(value, way)


def _nullable(shape: Any) -> Any:  # noqa: ANN401 - a shape
    """Return a shape that null has, too."""
    return lambda value, way: None if value is None else _check(shape, value, way)


def _both(*shapes: Any) -> Any:  # noqa: ANN401 - shapes
    """Return the shape of what has all of these."""

    def check(value: object, way: str) -> None:
        for shape in shapes:
            _check(shape, value, way)

    return check


def _check_choice_counts(value: Any, way: str) -> None:  # noqa: ANN401
    _check({"*": "a count"}, value, way)
    for name in value:
        _require(name, way, "a number of choices", is_so=bool(re.fullmatch("[1-9][0-9]{0,17}", str(name))))


def _check_category(value: Any, way: str) -> None:  # noqa: ANN401
    _check({"n": "a count above 0", "correct": "a count", "partial": "a count"}, value, way)
    wanted = "a category with as many samples as it has right ones"
    _require(value, way, wanted, is_so=value["correct"] + value["partial"] <= value["n"])


def _check_readings(value: Any, way: str) -> None:  # noqa: ANN401
    """Require some completions read by every rule, or none of all that."""
    _check({f"{name}?": shape for name, shape in _READINGS.items()}, value, way)
    if value.get("n"):
        _check(
            {"own_rule": "an object with entries", "rules": {"own": _RULE}, "samples": "a count"}, value, way
        )
        for name, rule in value["rules"].items():
            is_part = max(rule["correct"], rule["invalid"]) <= value["n"] and rule["correct"] >= 0
            _require(rule, f"{way}.rules.{name}", "a part of what was read", is_so=is_part)


def _check_tally(value: Any, way: str) -> None:  # noqa: ANN401
    """Require the counts of a task; of completions that are invalid, some were scored."""
    _check(_TALLY, value, way)
    if value["invalid"]:
        rows = value.get("orders") or value.get("trials") or value
        _check("a count above 0", rows["counts"]["scored"], f"{way}.counts.scored")


def _check_files(value: Any, way: str) -> None:  # noqa: ANN401
    """Require what is said of each file of a run; a table has rows."""
    _check({"*": {"bytes": "a count", "sha256": "text", "tag?": "text"}}, value, way)
    for name, told in value.items():
        if name.endswith(".parquet"):
            _check({"rows": "a count"}, told, f"{way}.{name}")


_NUMBER = {
    "n_excluded?": {"*": "a count"},
    "interval?": _nullable(_both(["a number"], "a pair")),
    "interval_method?": "text?",
    "interval_note?": "text?",
    "std_error?": "a number?",
    "note?": "text?",
}
_GROUP = {"group": "text?", "value": "a number?", "n": "a count", **_NUMBER}
_METRIC = {
    "name": "text",
    "value": "a number?",
    "n": "a count",
    **_NUMBER,
    **dict.fromkeys(("type?", "metric?", "scorer?"), "text"),
    "purpose?": ("score", "qa"),
    "details?": "an object",
    "is_share?": "true or false",
    "groups?": _nullable([{"column": "text", "values": [_GROUP], "macro": _GROUP}]),
}
_COUNTS = dict.fromkeys(("samples", "scored", "valid", "invalid", "refused", "failed", "errors"), "a count")
_EXAMPLE = {"sample_id": "text", "completion?": "text?", "message?": "text?"}
_REASONS = {"*": {"count": "a count above 0", "example": _EXAMPLE}}
_RULE = {"correct": "a number", "invalid": "a count"}
_READINGS = {"n": "a count", "samples": "a count", "own_rule": {"*": "a count"}, "rules": {"*": _RULE}}
_TALLY = {
    "counts": _COUNTS,
    "completion_statuses": {"*": "a count"},
    **dict.fromkeys(("invalid", "failed", "errors"), _REASONS),
    "excluded": {"*": "a count"},
    "letters": {"*": _both({"*": "a count above 0"}, "an object with entries")},
    "category_column": "text?",
    "categories": {"*": _check_category},
    "cut_off?": "a count",
    "choice_counts?": _check_choice_counts,
    "failures?": {"*": _REASONS},
    "unscored?": "a count",
    "readings?": _check_readings,
    "trials?": {"num_trials": "a count above 0", "counts": _COUNTS},
    "orders?": {"counts": _COUNTS, "left_in_place?": {"*": "a count"}, "extra?": "a count"},
}
_NUMBERS = {"metrics": [_METRIC], "tally": _check_tally}
_MODEL = _nullable({"name": "text", "simulated?": "true or false"})
_DATASET = {
    **dict.fromkeys(("key?", "display_name?", "file?", "fingerprint?", "category?"), "text?"),
    **dict.fromkeys(("rows_read?", "rows_filtered?", "samples?"), "a count"),
}
_SCORER = {"key": "text", "type?": "text", "title?": "text", "display_name?": "text?", "model?": _MODEL}
_ENTRY = {
    "key": "text",
    "display_name?": "text?",
    "task?": "an object?",
    "dataset?": _nullable(_DATASET),
    "model?": _MODEL,
    "completions?": _nullable(dict.fromkeys(("source?", "file?", "sha256?", "column?", "model?"), "text?")),
    "config?": "an object?",
    "scorers?": _nullable([_SCORER]),
    "encoded?": _nullable({"*": ["text"]}),
    **dict.fromkeys(
        ("selection?", "trials?", "choice_order?", "variant?", "calls?", "repeatability?"), "an object?"
    ),
}
_MANIFEST = {
    "key": "text",
    "status": ("running", "complete", "incomplete"),
    "tasks?": [_ENTRY],
    "display_name?": "text?",
    **dict.fromkeys(("started_at?", "ended_at?"), "a time?"),
    "answerkey_version?": "text",
    "notices?": _nullable(["text"]),
    "stopped?": _nullable({"message?": "text?", "code?": "text?"}),
    **dict.fromkeys(("gates?", "policies?"), _nullable(["an object"])),
    "options?": "an object?",
    "file?": "text?",
    "files?": _check_files,
}


def require_manifest(manifest: Mapping[str, object]) -> None:
    """Require that `run.json` looks as it is written; raise ValueError."""
    _check(_MANIFEST, manifest, "run")
    if manifest["status"] != "running" and "files" not in manifest:
        raise ValueError("`run` has no `files`, though it has ended")


def require_numbers(stored: Mapping[str, object]) -> None:
    """Require that `metrics.json` looks as it is written; raise ValueError."""
    _check(_NUMBERS, stored, "numbers")
