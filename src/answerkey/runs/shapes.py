"""What the JSON files of a run look like, as far as it is shown: a run folder may come from a stranger.

A shape is a function that raises ValueError, with the way to it, for a value that has not got it. Keys that a
shape does not name are passed over: a newer release may write more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

Shape = Callable[[object, str], None]
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_SHOWN = 60
#: No run has so many samples, calls or tokens.
_MOST = 1 << 63


def _refuse(value: object, way: str, wanted: str) -> None:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    raise ValueError(f"`{way}` is {shown}, not {wanted}")


def _be_text(value: object, way: str) -> None:
    if not isinstance(value, str):
        _refuse(value, way, "text")


def _be_count(value: object, way: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        _refuse(value, way, "a count")


def _be_some(value: object, way: str) -> None:
    """Require a count of what is there: what is not there is not counted."""
    _be_count(value, way)
    if not value:
        _refuse(value, way, "a count above 0")


def _be_number(value: object, way: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < _MOST * 1e100:  # type: ignore[arg-type]  # a number then
        _refuse(value, way, "a number")


def _be_flag(value: object, way: str) -> None:
    if not isinstance(value, bool):
        _refuse(value, way, "true or false")


def _be_mapping(value: object, way: str) -> None:
    if not isinstance(value, Mapping):
        _refuse(value, way, "an object")


def _be_moment(value: object, way: str) -> None:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        _refuse(value, way, "a time")


def _be_one_of(words: tuple[str, ...], value: object, way: str) -> None:
    if not isinstance(value, str) or value not in words:
        _refuse(value, way, f"one of {', '.join(words)}")


def _be_or_null(shape: Shape, value: object, way: str) -> None:
    if value is not None:
        shape(value, way)


def _be_list(shape: Shape, value: object, way: str) -> None:
    if not isinstance(value, list):
        _refuse(value, way, "a list")
    for number, one in enumerate(value if isinstance(value, list) else ()):
        shape(one, f"{way}[{number}]")


def _be_pair(value: object, way: str) -> None:
    _be_list(_be_number, value, way)
    if isinstance(value, list) and len(value) != 2:  # noqa: PLR2004 - a pair
        _refuse(value, way, "a pair")


def _be_by_name(shape: Shape, value: object, way: str) -> None:
    _be_mapping(value, way)
    for name, one in value.items() if isinstance(value, Mapping) else ():
        shape(one, f"{way}.{name}")


def _be_by_number(shape: Shape, value: object, way: str) -> None:
    _be_by_name(shape, value, way)
    for name in value if isinstance(value, Mapping) else ():
        if not re.fullmatch("[1-9][0-9]{0,17}", str(name)):
            _refuse(name, way, "a number of choices")


def _have(needed: Mapping[str, Shape], more: Mapping[str, Shape], value: object, way: str) -> None:
    _be_mapping(value, way)
    found: Mapping[str, object] = value if isinstance(value, Mapping) else {}
    for name, shape in needed.items():
        if name not in found:
            raise ValueError(f"`{way}` has no `{name}`")
        shape(found[name], f"{way}.{name}")
    for name, shape in more.items():
        if name in found:
            shape(found[name], f"{way}.{name}")


def _or_null(shape: Shape) -> Shape:
    return partial(_be_or_null, shape)


def _list(shape: Shape) -> Shape:
    return partial(_be_list, shape)


def _by_name(shape: Shape) -> Shape:
    return partial(_be_by_name, shape)


def _fields(needed: Mapping[str, Shape], more: Mapping[str, Shape] | None = None) -> Shape:
    return partial(_have, needed, more or {})


_TEXT_OR_NULL, _NUMBER_OR_NULL = _or_null(_be_text), _or_null(_be_number)
_NUMBER = {
    "n_excluded": _by_name(_be_count),
    "interval": _or_null(_be_pair),
    "interval_method": _TEXT_OR_NULL,
    "interval_note": _TEXT_OR_NULL,
    "std_error": _NUMBER_OR_NULL,
    "note": _TEXT_OR_NULL,
}
_GROUP = _fields({"group": _TEXT_OR_NULL, "value": _NUMBER_OR_NULL, "n": _be_count}, _NUMBER)
_METRIC = _fields(
    {"name": _be_text, "value": _NUMBER_OR_NULL, "n": _be_count},
    {
        **_NUMBER,
        **dict.fromkeys(("type", "metric", "scorer"), _be_text),
        "purpose": partial(_be_one_of, ("score", "qa")),
        "details": _be_mapping,
        "is_share": _be_flag,
        "groups": _or_null(_list(_fields({"column": _be_text, "values": _list(_GROUP), "macro": _GROUP}))),
    },
)


def _be_filled(shape: Shape, value: object, way: str) -> None:
    _be_by_name(shape, value, way)
    if not value:
        _refuse(value, way, "an object with entries")


def _be_category(value: object, way: str) -> None:
    _have(_CATEGORY, {}, value, way)
    if isinstance(value, Mapping) and value["correct"] + value["partial"] > value["n"]:
        _refuse(value, way, "a category with as many samples as it has right ones")


def _be_readings(value: object, way: str) -> None:
    """Require some completions read by every rule, or none of all that."""
    _have({}, _READINGS, value, way)
    if not isinstance(value, Mapping) or not value.get("n"):
        return
    own: dict[str, Shape] = {"own_rule": partial(_be_filled, _be_count), "rules": _fields({"own": _RULE})}
    needed: dict[str, Shape] = {**own, "samples": _be_count}
    _have(needed, {}, value, way)
    for name, rule in value["rules"].items():
        if max(rule["correct"], rule["invalid"]) > value["n"] or rule["correct"] < 0:
            _refuse(rule, f"{way}.rules.{name}", "a part of what was read")


def _be_tally(value: object, way: str) -> None:
    """Require the counts of a task; of completions that are invalid, some were scored."""
    _have(_COUNTED, _COUNTED_ELSE, value, way)
    if isinstance(value, Mapping) and value["invalid"]:
        rows = value.get("orders") or value.get("trials") or value
        _be_some(rows["counts"]["scored"], f"{way}.counts.scored")


_EXAMPLE = _fields({"sample_id": _be_text}, {"completion": _TEXT_OR_NULL, "message": _TEXT_OR_NULL})
_REASONS = _by_name(_fields({"count": _be_some, "example": _EXAMPLE}))
_COUNTS = _fields(
    dict.fromkeys(("samples", "scored", "valid", "invalid", "refused", "failed", "errors"), _be_count)
)
_CATEGORY: dict[str, Shape] = {"n": _be_some, "correct": _be_count, "partial": _be_count}
_RULE = _fields({"correct": _be_number, "invalid": _be_count})
_READINGS: dict[str, Shape] = {
    "n": _be_count,
    "samples": _be_count,
    "own_rule": _by_name(_be_count),
    "rules": _by_name(_RULE),
}
_COUNTED: dict[str, Shape] = {
    "counts": _COUNTS,
    "completion_statuses": _by_name(_be_count),
    **dict.fromkeys(("invalid", "failed", "errors"), _REASONS),
    "excluded": _by_name(_be_count),
    "letters": _by_name(partial(_be_filled, _be_some)),
    "category_column": _TEXT_OR_NULL,
    "categories": _by_name(_be_category),
}
_COUNTED_ELSE: dict[str, Shape] = {
    "cut_off": _be_count,
    "choice_counts": partial(_be_by_number, _be_count),
    "failures": _by_name(_REASONS),
    "unscored": _be_count,
    "readings": _be_readings,
    "trials": _fields({"num_trials": _be_some, "counts": _COUNTS}),
    "orders": _fields({"counts": _COUNTS}, {"left_in_place": _by_name(_be_count), "extra": _be_count}),
}
_MODEL = _fields({"name": _be_text}, {"simulated": _be_flag})
_DATASET_TEXTS = ("key", "display_name", "file", "fingerprint", "category")
_ENTRY = _fields(
    {"key": _be_text},
    {
        "display_name": _TEXT_OR_NULL,
        "task": _or_null(_be_mapping),
        "dataset": _or_null(
            _fields({}, {**dict.fromkeys(_DATASET_TEXTS, _TEXT_OR_NULL),
                         **dict.fromkeys(("rows_read", "rows_filtered", "samples"), _be_count)})
        ),
        "model": _or_null(_MODEL),
        "completions": _or_null(
            _fields({}, dict.fromkeys(("source", "file", "sha256", "column", "model"), _TEXT_OR_NULL))
        ),
        "config": _or_null(_be_mapping),
        "scorers": _or_null(
            _list(_fields({"key": _be_text}, {**dict.fromkeys(("type", "title"), _be_text),
                                              "display_name": _TEXT_OR_NULL, "model": _or_null(_MODEL)}))
        ),
        "encoded": _or_null(_by_name(_list(_be_text))),
        **dict.fromkeys(("selection", "trials", "choice_order", "variant", "calls", "repeatability"),
                        _or_null(_be_mapping)),
    },
)  # fmt: skip
_LISTED = _fields({"bytes": _be_count, "sha256": _be_text}, {"tag": _be_text})


def _be_file_list(value: object, way: str) -> None:
    """Require what is said of each file of a run; a table has rows."""
    _be_by_name(_LISTED, value, way)
    for name, told in value.items() if isinstance(value, Mapping) else ():
        if name.endswith(".parquet"):
            _have({"rows": _be_count}, {}, told, f"{way}.{name}")


_MANIFEST = _fields(
    {"key": _be_text, "status": partial(_be_one_of, ("running", "complete", "incomplete"))},
    {
        "tasks": _list(_ENTRY),
        "display_name": _TEXT_OR_NULL,
        **dict.fromkeys(("started_at", "ended_at"), _or_null(_be_moment)),
        "answerkey_version": _be_text,
        "notices": _or_null(_list(_be_text)),
        "stopped": _or_null(_fields({}, {"message": _TEXT_OR_NULL, "code": _TEXT_OR_NULL})),
        **dict.fromkeys(("gates", "policies"), _or_null(_list(_be_mapping))),
        "options": _or_null(_be_mapping),
        "file": _TEXT_OR_NULL,
        "files": _be_file_list,
    },
)


def require_manifest(manifest: Mapping[str, object]) -> None:
    """Require that `run.json` looks as it is written; raise ValueError."""
    _MANIFEST(manifest, "run")
    if manifest["status"] != "running" and "files" not in manifest:
        raise ValueError("`run` has no `files`, though it has ended")


def require_numbers(stored: Mapping[str, object]) -> None:
    """Require that `metrics.json` looks as it is written; raise ValueError."""
    _fields({"metrics": _list(_METRIC), "tally": _be_tally})(stored, "numbers")
