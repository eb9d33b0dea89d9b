"""Action rules: what happens to samples after scoring. The one action keeps samples out of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from answerkey.errors import DataError
from answerkey.templates import RowFilter, RowTrouble
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
    verdicts = zip(*(one.rows() for one in scores.values()), strict=True)
    rows = zip(samples.rows(), completions.rows(), verdicts, strict=True)
    excluded: list[str | None] = []
    for position, (sample, completion, found) in enumerate(rows):
        named = zip(scores, found, strict=True)
        values = {key: {**score.metadata, **score.values} for key, score in named}
        context = {"sample": sample, "solver_output": completion.solver_output(), "scores": values}
        excluded.append(_find_action(actions, context, samples, position))
    column = pl.Series("excluded_by", _spread(excluded, num_trials), dtype=pl.String)
    return {key: replace(one, frame=one.frame.with_columns(column)) for key, one in scores.items()}


def _spread(excluded: Sequence[str | None], num_trials: int) -> list[str | None]:
    starts = range(0, len(excluded), num_trials)
    firsts = [next(filter(None, excluded[start : start + num_trials]), None) for start in starts]
    return [first for first in firsts for _ in range(num_trials)]


def _find_action(
    actions: Sequence[Action], context: Mapping[str, object], samples: Samples, position: int
) -> str | None:
    for action in actions:
        try:
            if action.filter.matches(**context):
                return action.key
        except RowTrouble as trouble:
            raise DataError(
                "E207",
                f"action `{action.key}`: {trouble.message}",
                where=samples.place(position, trouble.column),
                hint=trouble.hint,
            ) from trouble
    return None
