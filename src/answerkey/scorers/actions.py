"""Action rules: what happens to samples after scoring. The one action keeps samples out of the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import polars as pl

from answerkey.errors import DataError
from answerkey.scorers.views import view_completions, view_scores
from answerkey.templates import RowFilter, RowTrouble, Sifted, Template
from answerkey.types import Completions, Samples, Scores


@dataclass(frozen=True)
class Action:
    """A rule: samples that match `filter` are left out of every metric, and counted under the rule's key.

    The filter sees `sample`, `solver_output` and `scores` (scorer key, then value or metadata name).
    """

    key: str
    filter: RowFilter
    action: Literal["exclude_from_metrics"] = "exclude_from_metrics"


def apply_actions(
    actions: Sequence[Action],
    samples: Samples,
    completions: Completions,
    scores: Mapping[str, Scores],
    *,
    num_trials: int = 1,
) -> dict[str, Scores]:
    """Return the scores with `excluded_by` set to the first rule that matches, null where none does.

    A sample that a rule matches in one of its trials is kept out with all of them.
    """
    if not actions:
        return dict(scores)
    excluded = _find_excluded(actions, samples, {"solver_output": completions, "scores": scores})
    if num_trials > 1:
        sample = pl.int_range(pl.len()) // num_trials
        excluded = excluded.to_frame().select(pl.all().drop_nulls().first().over(sample)).to_series()
    return {key: replace(one, frame=one.frame.with_columns(excluded)) for key, one in scores.items()}


def try_action(
    action: Action, samples: Samples, completions: Completions, scores: Mapping[str, Scores]
) -> RowTrouble | None:
    """Return what goes wrong with a rule on these rows; None when nothing does."""
    sifted = _sift(action, samples, {"solver_output": completions, "scores": scores})
    return sifted.troubles[0][1] if sifted.troubles else None


def _sift(action: Action, samples: Samples, others: Mapping[str, Any]) -> Sifted:
    used = {name: other for name, other in others.items() if action.filter.template.paths_from(name)}
    views = {name: _VIEWS[name](other, action.filter.template) for name, other in used.items()}
    return action.filter.sift(samples, **views)


def _find_excluded(actions: Sequence[Action], samples: Samples, others: Mapping[str, Any]) -> pl.Series:
    """Return the first rule that matches each row, null where none does.

    Raise DataError for the first row on which a rule fails.
    """
    excluded = pl.repeat(None, len(samples), dtype=pl.String, eager=True).alias("excluded_by")
    troubles: list[tuple[int, Action, RowTrouble]] = []
    for action in actions:
        sifted = _sift(action, samples, others)
        is_hit = sifted.is_kept.fill_null(value=False) & excluded.is_null()
        troubles += [(row, action, one) for row, one in sifted.troubles if excluded[row] is None]
        if is_hit.any():
            excluded = excluded.set(is_hit, action.key)
    if troubles:
        _refuse(*min(troubles, key=lambda one: one[0]), samples=samples)
    return excluded


_VIEWS: dict[str, Callable[[Any, Template], Samples]] = {
    "solver_output": view_completions,
    "scores": lambda scores, _: view_scores(scores),
}


def _refuse(position: int, action: Action, trouble: RowTrouble, *, samples: Samples) -> NoReturn:
    raise DataError(
        "E207",
        f"action `{action.key}`: {trouble.message}",
        where=samples.place(position, trouble.column),
        hint=trouble.hint,
    ) from trouble
