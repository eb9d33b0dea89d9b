"""A run as an evidence log, the JSON that the hosted platform exports and imports; written row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from answerkey._version import __version__
from answerkey.metrics import aggregate_scores
from answerkey.models.responses import to_json_values
from answerkey.runs import Run, TaskRun, find_answerer
from answerkey.spec import Task
from answerkey.types import Completion, CompletionStatus, Score, Scores, ScoreStatus
from answerkey.verbs import Excerpt, Reopened

VERSION = "v1"
#: Rows that become Python values together.
_TOGETHER = 1_024
EXCLUDE = "exclude_from_metrics"
REFUSED = "The model refused to answer."
#: What of a task's entry in `run.json` goes into the specification; paths of files do not.
_ENTRIES = ("config", "selection", "scorers", "trials", "variant", "choice_order", "repeatability")
_DATASET = ("key", "display_name", "fingerprint", "samples", "category")
#: What an evaluated sample needs to be known by its status.
_ERROR_TYPES = {ScoreStatus.FAILED: "ScoringFailed", ScoreStatus.ERROR: "CallFailed"}


def write_evidence(run: Run, opened: Reopened, out: TextIO) -> None:
    """Write the evidence log of one task of a run; some samples are in memory at a time."""
    told = _Told(run, opened.task_run, opened.task)
    out.write('{"format_version": ' + to_json(VERSION))
    out.writelines(f",\n{to_json(name)}: {to_json(value)}" for name, value in told.list_head().items())
    out.write(',\n"evidence": {"metrics": ' + to_json(_list_metrics(told)) + ',\n"samples": [')
    samples = enumerate(_iterate_samples(opened, told))
    out.writelines(("," if number else "") + "\n" + to_json(sample) for number, sample in samples)
    out.write("\n]")
    out.writelines(f",\n{to_json(name)}: {to_json(value)}" for name, value in told.list_tail().items())
    out.write("}}\n")


def iterate_parts(opened: Reopened) -> Iterator[Excerpt]:
    """Yield all rows, few samples at a time: they become Python values, which are larger than columns."""
    size = opened.task.num_trials
    step = max(1, _TOGETHER // size) * size
    for part in opened.iterate():
        for offset in range(0, len(part.samples), step):
            yield Excerpt(
                part.samples.slice(offset, step),
                part.completions.slice(offset, step),
                part.scores.slice(offset, step),
            )


def to_json(value: object) -> str:
    """Return JSON that any reader accepts: a number that JSON lacks is null, a date its text."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(to_json_values(value), ensure_ascii=False, allow_nan=False)


@dataclass
class _Told:
    """What is said of the run as a whole, and what is counted on the way."""

    run: Run
    task_run: TaskRun
    task: Task
    prompt_tokens: int = 0
    completion_tokens: int = 0
    errors: int = 0
    samples: int = 0

    @property
    def scorers(self) -> dict[str, dict[str, object]]:
        """How each scorer is named, by key."""
        listed: Sequence[Mapping[str, Any]] = self.task_run.manifest["scorers"]
        return {
            one["key"]: {
                "scorer_key": one["key"],
                "scorer_purpose": one["purpose"],
                "scorer_name": one.get("display_name") or one.get("title") or one["key"],
            }
            for one in listed
        }

    def list_head(self) -> dict[str, object]:
        """Return what comes before the evidence."""
        entry, manifest = self.task_run.manifest, self.run.manifest
        task = {name: value for name, value in self.task_run.source["task"].items() if name != "file"}
        dataset = {name: entry["dataset"].get(name) for name in _DATASET}
        rest = {name: entry[name] for name in _ENTRIES if entry.get(name) is not None}
        stopped = manifest.get("stopped") or {}
        return {
            "app_version": f"answerkey {__version__}",
            "status": "success" if self.run.status == "complete" else "failure",
            "specification": {
                "key": entry["key"],
                "display_name": entry["display_name"],
                "task": task,
                "dataset": dataset,
                "model": find_answerer(entry),
                **rest,
            },
            "execution": {
                "runtime": _measure_runtime(manifest),
                "started_at": manifest.get("started_at"),
                "ended_at": manifest.get("ended_at"),
                "model_usage": entry.get("calls"),
            },
            "errors": [_describe_error(str(stopped.get("code") or "Stopped"), stopped["message"], "solver")]
            if stopped
            else [],
        }

    def list_tail(self) -> dict[str, object]:
        """Return what is known once all samples are written."""
        model = find_answerer(self.task_run.manifest) or {}
        usage = {
            "model": model.get("name"),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }
        is_known = self.prompt_tokens or self.completion_tokens
        return {
            "errors": [],
            "failures": {"num_errors": self.errors, "num_total": self.samples},
            "model_token_usages": [usage] if is_known else [],
        }

    def note(self, completion: Completion) -> None:
        """Add the tokens of a completion."""
        self.prompt_tokens += completion.prompt_tokens or 0
        self.completion_tokens += completion.completion_tokens or 0


def _measure_runtime(manifest: Mapping[str, Any]) -> float | None:
    started, ended = manifest.get("started_at"), manifest.get("ended_at")
    if not started or not ended:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()


def _describe_error(kind: str, message: str, stage: str) -> dict[str, object]:
    return {"error_type": kind, "message": message, "stage": stage}


def _list_metrics(told: _Told) -> list[dict[str, object]]:
    """Return the metrics of each scorer with their values by name."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for value in told.task_run.metrics.values():
        named = told.scorers.get(value.scorer, {"scorer_key": value.scorer, "scorer_purpose": value.purpose})
        empty = {"values": {}, "metric_key": value.metric, "metric_type": value.type, **named, "reason": None}
        entry = found.setdefault((value.scorer, value.metric), empty)
        entry["values"][value.name] = value.value
        entry["reason"] = entry["reason"] or (value.note if value.value is None else None)
    return list(found.values())


def _iterate_samples(opened: Reopened, told: _Told) -> Iterator[dict[str, object]]:
    size = opened.task.num_trials
    for part in iterate_parts(opened):
        verdicts = {key: _read_scores(part, key, told.task_run) for key in told.scorers}
        rows = {key: list(scores.rows()) for key, scores in verdicts.items()}
        excluded = {key: scores.frame["excluded_by"].to_list() for key, scores in verdicts.items()}
        trials = opened.task.trials
        whole = {
            key: rows[key] if trials is None else list(aggregate_scores(scores, trials).rows())
            for key, scores in verdicts.items()
        }
        replies = list(part.completions.rows())
        asked = list(part.samples.rows())
        ids = part.scores["sample_id"].to_list()
        for start in range(0, len(ids), size):
            own = range(start, start + size)
            listed = [
                _describe_trial(
                    told, ids[at], index, dict(asked[at]), replies[at], {key: rows[key][at] for key in rows}
                )
                for index, at in enumerate(own)
            ]
            told.samples += 1
            told.errors += any(one["errors"] for one in listed)
            rules = dict.fromkeys(rule for key in excluded for at in own if (rule := excluded[key][at]))
            yield {
                "sample_id": ids[start],
                "trials": listed,
                "scores": _list_scores(told, {key: whole[key][start // size] for key in whole}),
                "action_records": [{"action": EXCLUDE, "rule_key": rule} for rule in rules],
                "errors": [],
            }


def _read_scores(part: Excerpt, key: str, task_run: TaskRun) -> Scores:
    encoded: Mapping[str, Sequence[str]] = task_run.manifest.get("encoded") or {}
    return Scores(part.scores[key].struct.unnest(), frozenset(encoded.get(key, ())))


def _describe_trial(
    told: _Told,
    sample_id: str,
    index: int,
    asked: Mapping[str, object],
    reply: Completion,
    verdicts: Mapping[str, Score],
) -> dict[str, object]:
    told.note(reply)
    errors = []
    if reply.status is CompletionStatus.ERROR:
        errors.append(_describe_error("CallFailed", reply.error or "the call failed", "solver"))
    errors += [
        _describe_error(_ERROR_TYPES[one.status], f"{key}: {one.reason}", "score")
        for key, one in verdicts.items()
        if one.status in _ERROR_TYPES and not (errors and one.status is ScoreStatus.ERROR)
    ]
    return {
        "index": index,
        "sample_id": sample_id,
        "sample": {"data": asked},
        "solver": {"output": describe_output(reply)},
        "scores": _list_scores(told, verdicts),
        "errors": errors,
    }


def _list_scores(told: _Told, verdicts: Mapping[str, Score]) -> list[dict[str, object]]:
    """Return the scores that there are: what FAILED has none, and is among the errors."""
    return [
        {**told.scorers[key], "values": dict(one.values), "metadata": dict(one.metadata)}
        for key, one in verdicts.items()
        if one.status is ScoreStatus.SCORED
    ]


def describe_output(reply: Completion) -> dict[str, object] | None:
    """Return what the model said as an OpenAI-like object, and the whole exchange; None when it failed."""
    if reply.status is CompletionStatus.ERROR:
        return None
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.status is CompletionStatus.REFUSED:
        told = reply.reply.get("refusal") if reply.reply else None
        message["refusal"] = told if isinstance(told, str) and told else REFUSED
    if reply.reasoning is not None:
        message["reasoning"] = reply.reasoning
    choice: dict[str, object] = {"message": message, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        choice["logprobs"] = reply.logprobs
    usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    return {"output": {"choices": [choice], "usage": usage}, "messages": [*(reply.prompt or ()), message]}
