"""Completions judged while a run is under way, by the task's own scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from answerkey.errors import AnswerkeyError
from answerkey.scorers import Scorer, StringEquals, StringEqualsMcqa
from answerkey.spec import Task
from answerkey.types import Completion, Completions, Samples, ScoreStatus, Validity

#: Scorers that judge a few thousand completions in no time, without asking anybody.
QUICK = (StringEqualsMcqa, StringEquals)


@dataclass(frozen=True)
class Judged:
    """How completions were judged; `invalid` is None for a scorer that knows no validity."""

    scored: int = 0
    correct: int = 0
    invalid: int | None = None

    def __add__(self, other: Judged) -> Judged:
        both = None if other.invalid is None else (self.invalid or 0) + other.invalid
        return Judged(self.scored + other.scored, self.correct + other.correct, both)


class QuickJudge:
    """Judges completions of a task by its main scorer, if that one is quick."""

    def __init__(self, task: Task, samples: Samples) -> None:
        self._samples = samples
        self._places = samples.ids.to_frame("sample_id").with_row_index("position")
        scorer = task.main_step.scorer
        self._scorer: Scorer | None = scorer if isinstance(scorer, QUICK) else None

    @property
    def is_able(self) -> bool:
        """Whether the scorer is one of the quick ones."""
        return self._scorer is not None

    def judge(self, said: Sequence[tuple[str, Completion]]) -> Judged:
        """Return how these completions, each with the id of its sample, are judged.

        A scorer that fails will say so when its turn comes; until then it has judged nothing.
        """
        if self._scorer is None or not said:
            return Judged()
        try:
            return self._count(self._scorer, said)
        except AnswerkeyError:
            return Judged()

    def _count(self, scorer: Scorer, said: Sequence[tuple[str, Completion]]) -> Judged:
        asked = pl.DataFrame({"sample_id": [sample_id for sample_id, _ in said]}, {"sample_id": pl.String})
        places = asked.join(self._places, on="sample_id", how="left", maintain_order="left")["position"]
        completions = [replace(one, prompt=None, logprobs=None) for _, one in said]
        scores = scorer.score(
            self._samples.take(places.to_list()),
            Completions.build(asked["sample_id"], completions, source="live"),
        )
        is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
        correct, validity = scores.column("is_correct"), scores.column("completion_validity")
        return Judged(
            scored=int(is_scored.sum()),
            correct=0 if correct is None else int(correct.fill_null(0).sum()),
            invalid=None if validity is None else int((validity == Validity.INVALID.value).sum()),
        )
