"""The scorer `python`: a function of the user's own, run in a process apart.

The function is `compute_scores(sample, solver_output)` or `compute_scores(sample)`, plain or async. It
returns the scores of one sample, `{"name": value}`, or `{"scores": {...}, "metadata": {...}}`. Numbers and
booleans are kept as decimals (true is 1.0); other values and all metadata as JSON text. A sample on which the
function fails is FAILED: the reason says how, the metadata `snippet_traceback` where.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.errors import ScoringError
from answerkey.sandbox import Snippet, SnippetError, SnippetProcess
from answerkey.scorers.base import CALL_FAILED, Scorer, build_scores
from answerkey.text import parse_syntax
from answerkey.types import (
    TRACEBACK_FIELD,
    Completions,
    CompletionStatus,
    Samples,
    Score,
    Scores,
    ScoreStatus,
)

FUNCTION = "compute_scores"
_LONGEST_REASON = 200
_LARGEST = sys.float_info.max
_LOAD_HINT = (
    f"define `{FUNCTION}(sample, solver_output)` or `{FUNCTION}(sample)`, and let nothing fail around it"
)


@dataclass(frozen=True)
class PythonScorer(Scorer):
    """Scores each sample with the user's own function."""

    compute_scores_snippet: str

    type = "python"
    title = "Python"
    value_names = None
    metadata_names = None
    main_value = None
    default_metric_name = None

    @property
    def needs_completion(self) -> bool:
        """Whether the function asks for the solver's output; False for `compute_scores(sample)`."""
        try:
            body = parse_syntax(self.compute_scores_snippet).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return True
        functions = [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = next((one for one in reversed(functions) if one.name == FUNCTION), None)
        # Where the text does not show how many arguments there are, completions are there.
        if found is None or found.decorator_list or found.args.vararg:
            return True
        return len(found.args.posonlyargs) + len(found.args.args) != 1

    def snippets(self) -> tuple[Snippet, ...]:
        """Return the one snippet, to be trusted before it is run."""
        return (Snippet(FUNCTION, self.compute_scores_snippet, label=self.type),)

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; raise ScoringError E401 when the snippet cannot even be loaded."""
        has_call = completions.frame["status"] != CompletionStatus.ERROR.value
        is_called = has_call.to_list() if self.needs_completion else [True] * len(samples)
        rows = zip(samples.rows(), completions.rows(), is_called, strict=True)
        calls = ([dict(sample), completion.exchange()] for sample, completion, called in rows if called)
        outcomes = self._call(calls)
        no_call: Verdict = Score(ScoreStatus.ERROR, CALL_FAILED), None
        verdicts = [_read_outcome(next(outcomes)) if called else no_call for called in is_called]
        scores = [score for score, _ in verdicts]
        values = {
            name: _build_column([one.values.get(name) for one in scores])
            for name in dict.fromkeys(name for one in scores for name in one.values)
        }
        metadata = {
            name: _write_column([one.metadata.get(name) for one in scores])
            for name in dict.fromkeys(name for one in scores for name in one.metadata)
        }
        encoded = {*metadata, *(name for name, column in values.items() if column.dtype == pl.String)}
        return build_scores(
            pl.Series([one.status.value for one in scores], dtype=pl.String),
            pl.Series([one.reason for one in scores], dtype=pl.String),
            values,
            metadata=metadata,
            encoded=frozenset(encoded - {TRACEBACK_FIELD}),
            kept={TRACEBACK_FIELD: pl.Series([lines for _, lines in verdicts], dtype=pl.String)},
        )

    def _call(self, calls: Iterable[Sequence[object]]) -> Iterator[object]:
        try:
            with SnippetProcess(self.snippets()[0]) as process:
                yield from process.call_all(calls)
        except SnippetError as problem:
            message = f"the snippet of a `python` scorer cannot be loaded: {problem}"
            raise ScoringError("E401", message, hint=_LOAD_HINT) from None


#: A score, and the user's own lines when the function failed.
Verdict = tuple[Score, str | None]


def _read_outcome(outcome: object) -> Verdict:
    """Return the verdict that one call gave."""
    if isinstance(outcome, SnippetError):
        return _fail(outcome.kind, outcome.message, outcome.traceback or None)
    if not isinstance(outcome, Mapping):
        return _fail("bad_value", f"`{FUNCTION}` returned {type(outcome).__name__}, not a dict")
    values: Mapping[str, object] = outcome
    metadata: object = {}
    if isinstance(outcome.get("scores"), Mapping) and set(outcome) <= {"scores", "metadata"}:
        values, metadata = outcome["scores"], outcome.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        return _fail("bad_value", f"`metadata` is {type(metadata).__name__}, not a dict")
    for name, value in values.items():
        if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
            return _fail("bad_value", f"score `{name}` is {value}, which is no finite number")
    return Score(ScoreStatus.SCORED, values=values, metadata=metadata), None


def _fail(kind: str, message: str, traceback: str | None = None) -> Verdict:
    reason = " ".join(f"SNIPPET_FAILED ({kind}): {message}".split())
    return Score(ScoreStatus.FAILED, reason[:_LONGEST_REASON]), traceback


def _build_column(values: Sequence[object]) -> pl.Series:
    """Return numbers and booleans as decimals; if there is anything else, all of them as JSON text."""
    if all(isinstance(value, int | float | None) for value in values):
        return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64)  # type: ignore[arg-type]  # numbers, as said
    return _write_column(values)


def _write_column(values: Sequence[object]) -> pl.Series:
    texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return pl.Series(texts, dtype=pl.String)
