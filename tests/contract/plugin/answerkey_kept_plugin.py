"""A package of somebody else's, with one class for each entry-point group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from answerkey.datasets.tables import load_rows
from answerkey.scorers import BaseScorer
from answerkey.solvers import Solver
from answerkey.types import (
    Completion,
    Completions,
    MetricValue,
    Sample,
    Samples,
    Score,
    Scores,
    ScoreStatus,
)


@dataclass(frozen=True)
class KeptScorer(BaseScorer):
    """Gives a point for each character of the completion."""

    factor: int = 1

    type: ClassVar[str] = "kept_scorer"
    title: ClassVar[str] = "Length"
    value_types: ClassVar = {"points": pl.Float64()}
    main_value: ClassVar[str] = "points"
    default_metric_name: ClassVar[str] = "Mean Points"

    def judge(self, question: Sample, completion: Completion) -> Score:  # noqa: ARG002 - the interface's
        """Return the length of a completion."""
        points = len(completion.text or "") * self.factor
        return Score(ScoreStatus.SCORED, values={"points": points})


@dataclass(frozen=True)
class KeptMetric:
    """Counts the samples."""

    name: str = "count"

    type: ClassVar[str] = "kept_metric"

    def fields(self) -> tuple[str, ...]:
        """Read nothing."""
        return ()

    def compute(self, scores: Scores) -> list[MetricValue]:
        """Return the value."""
        return [MetricValue(self.name, float(len(scores)), len(scores), type=self.type)]


@dataclass(frozen=True)
class KeptSolver(Solver):
    """Says the same to every sample."""

    text: str

    type: ClassVar[str] = "kept_solver"
    needs_model: ClassVar[bool] = False

    def compile_templates(self) -> tuple[dict[str, Any], list[Any]]:
        """Return nothing: there is no template."""
        return {}, []

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Any]:  # noqa: ARG002 - the protocol's
        """Return an empty prompt for each sample."""
        return [[] for _ in range(len(samples))]

    def check_prompts(
        self,
        samples: Samples,  # noqa: ARG002 - same
        examples: Samples | None,  # noqa: ARG002 - same
    ) -> tuple[list[Any], list[Any]]:
        """Return nothing: every row will do."""
        return [], []

    def solve(self, samples: Samples, **_: object) -> Completions:
        """Return the text, once for each sample."""
        return Completions.build(
            samples.ids, [Completion(self.text) for _ in samples], source="recorded"
        )


@dataclass(frozen=True)
class KeptSource:
    """Makes rows."""

    size: int
    type: str = "kept_source"
    filters: tuple[Any, ...] = ()

    def read(self, *, name: str) -> Any:  # noqa: ANN401 - a table
        """Return this many rows."""
        rows = [{"question": f"Q{n}", "answer": "A"} for n in range(self.size)]
        return load_rows(rows, name=name)


class KeptModel:
    """Says its own name."""

    is_simulated = False

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, requests: Sequence[object]) -> list[Completion]:
        """Return one completion for each request."""
        return [Completion(self.name.rpartition("/")[2]) for _ in requests]


class KeptReader:
    """Reads a log of its own: one JSON object on each line."""

    kind: ClassVar[str] = "kept-log"
    title: ClassVar[str] = "kept log"

    @classmethod
    def recognises(cls, glimpse: Any) -> bool:  # noqa: ANN401 - what the importer shows of a file
        """Return whether the name ends with `.kept`."""
        return bool(glimpse.path.suffix == ".kept")

    def read(self, log: Any) -> Iterator[Any]:  # noqa: ANN401 - the log and its lines
        """Yield what was asked and said."""
        from answerkey.importers import Question, Record

        for text in log.path.read_text(encoding="utf-8").splitlines():
            row = json.loads(text)
            question = Question(row["q"], ("A", "B"), ("yes", "no"), row["t"])
            yield Record(row["id"], question, Completion(row["c"]))
