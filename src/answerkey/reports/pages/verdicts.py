"""What each scorer said of some rows, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from answerkey.exporters import describe_verdict
from answerkey.metrics.base import read_number
from answerkey.reports.pages.excerpts import Excerpt
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.scorers import ChoiceProbabilities, Scorer, StringEqualsMcqa, explain_verdict
from answerkey.spec import ScoringStep
from answerkey.types import Completion, Samples, Score, ScoreStatus, Validity

#: Where scorers say in words why a score is what it is, the first that there is.
WORDS = ("judge_error", "reasoning")


@dataclass(frozen=True)
class SampleVerdict:
    """The verdict of one scorer on one row; `score` is as the export writes it."""

    key: str
    name: str
    score: Mapping[str, Any]
    value: float | None
    why: str | None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the scorer says beside its values."""
        found: Mapping[str, Any] = self.score["metadata"]
        return found

    def find_text(self, *names: str) -> str | None:
        """Return the first of these metadata that is there, as text."""
        said = (self.metadata.get(name) for name in names)
        return next((str(one) for one in said if one is not None), None)

    @property
    def choices(self) -> list[str]:
        """The labels of the choices; empty where the scorer knows none."""
        found = self.metadata.get("choices")
        return [str(one) for one in found] if isinstance(found, list) else []

    def describe(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {
            "scorer": self.name,
            "rule": self.metadata.get("extraction_rule"),
            "status": self.score["status"],
            "validity": self.metadata.get("completion_validity"),
            "reason": self.score["reason"] or self.metadata.get("validity_reason"),
            "value": self.value,
            "why": self.why,
        }


def describe_verdicts(
    source: SampleSource, part: Excerpt, completions: Sequence[Completion | None]
) -> list[list[SampleVerdict]]:
    """Return the verdicts of all scorers on each row."""
    rows: list[list[SampleVerdict]] = [[] for _ in range(len(part))]
    for step in source.steps:
        if step.key not in part.scores.columns:
            continue
        told = [describe_verdict(one, source.encoded[step.key]) for one in part.scores[step.key].to_list()]
        faults = _find_faults(step.scorer, part.samples, told)
        for at, score in enumerate(told):
            why = faults.get(at) or _find_why(step.scorer, score, completions[at])
            value = read_number(score["values"].get(source.values[step.key]))
            rows[at].append(SampleVerdict(step.key, _name(step), score, value, _add_exclusion(why, score)))
    return rows


def _name(step: ScoringStep) -> str:
    return step.display_name or step.key


def _find_faults(
    scorer: Scorer, samples: Samples | None, scores: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return why rows could not be scored, as their check says."""
    failed = [at for at, score in enumerate(scores) if score["status"] == ScoreStatus.FAILED.value]
    if samples is None or not failed:
        return {}
    problems, _ = scorer.check_rows(samples.take(failed))
    found: dict[int, str] = {}
    for one in problems:
        found.setdefault(failed[one.position], one.error.message)
    return found


def _find_why(scorer: Scorer, score: Mapping[str, Any], completion: Completion | None) -> str | None:
    metadata: Mapping[str, Any] = score["metadata"]
    is_scored = score["status"] == ScoreStatus.SCORED.value
    if isinstance(scorer, StringEqualsMcqa) and is_scored:
        is_valid = metadata["completion_validity"] == Validity.VALID.value
        if completion is None and not is_valid:
            return None
        whole = Score(ScoreStatus.SCORED, score["reason"], score["values"], metadata)
        return explain_verdict(completion, metadata["choices"], whole)
    if {"answer_gt", "answer_pred"} <= set(metadata) and is_scored:
        return _compare_texts(metadata["answer_pred"], metadata["answer_gt"])
    if isinstance(scorer, ChoiceProbabilities) and is_scored:
        return _compare_likeliest(metadata, score["values"].get("confidence"))
    return next((str(metadata[name]) for name in WORDS if metadata.get(name)), None)


def _compare_texts(said: object, truth: object) -> str:
    if said is None:
        return "there is no text to compare with the ground truth"
    return "the text is the ground truth" if said == truth else "the text is not the ground truth"


def _compare_likeliest(metadata: Mapping[str, Any], confidence: float | None) -> str:
    predicted, truth = metadata["predicted_choice"], metadata["ground_truth_choice"]
    if predicted is None:
        return f"several choices are equally likely; the ground truth is {truth!r}"
    share = "" if confidence is None else f" (probability {confidence:.3f})"
    relation = "is" if predicted == truth else "is not"
    return f"the likeliest choice is {predicted!r}{share}, which {relation} the ground truth {truth!r}"


def _add_exclusion(why: str | None, score: Mapping[str, Any]) -> str | None:
    key = score.get("excluded_by")
    if not key:
        return why
    excluded = f"kept out of the metrics by action `{key}`"
    return f"{why}; {excluded}" if why else excluded
