"""A run as a log that `inspect view` opens."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from answerkey._version import __version__
from answerkey.evaluate.reopen import Reopened
from answerkey.exporters.records import (
    QUESTIONS,
    Record,
    count_tokens,
    find_score,
    iterate_records,
    list_metrics,
    name_evaluation,
    name_model,
)
from answerkey.exporters.rows import to_json
from answerkey.runs import Run
from answerkey.types import Completion, CompletionStatus

#: An id that can stand in a path: no part of it is empty or leads upwards, nothing needs to be
#: encoded.
_PLAIN_ID = re.compile(r"(?!(?:.*/)?\.{0,2}(?:/|$))[^\x00-\x1f\x7f\\%]+")
_MAX_ID = 200
_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
#: What the list of samples holds of each.
_SUMMARY = ("id", "epoch", "input", "choices", "target", "scores", "model_usage", "metadata")


def write_inspect(run: Run, opened: Reopened, path: Path) -> None:
    """Write the log: an archive of samples and numbers."""
    model, key = name_model(opened), opened.task.main_step.key
    summaries: list[dict[str, Any]] = []
    scored = 0
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:

        def add(file: str, content: object) -> None:
            archive.writestr(ZipInfo(file), to_json(content), ZIP_DEFLATED)

        for record in iterate_records(opened):
            sample = _describe_sample(record, model)
            add(f"samples/{_name_member(record.sample_id)}_epoch_{record.trial + 1}.json", sample)
            summary = {name: sample[name] for name in _SUMMARY}
            summary["completed"] = True
            if "error" in sample:
                summary["error"] = sample["error"]["message"]
            summaries.append(summary)
            scored += key in sample["scores"]
        ids = list(dict.fromkeys(summary["id"] for summary in summaries))
        start: dict[str, object] = {"version": 2, "eval": _describe_task(run, opened, ids)}
        start["plan"] = {"name": "plan", "steps": [], "config": {}}
        metrics = {}
        for metric in list_metrics(opened):
            metrics[metric.name] = {"name": metric.name, "value": metric.value}
        score: dict[str, object] = {"name": key, "scorer": key, "params": {}, "metrics": metrics}
        score["scored_samples"] = scored
        header = {
            "version": 2,
            "status": "success" if run.status == "complete" else "cancelled",
            "eval": start["eval"],
            "plan": start["plan"],
            "results": {
                "total_samples": len(summaries),
                "completed_samples": len(summaries),
                "scores": [score],
            },
            "stats": {
                "started_at": run.manifest.get("started_at") or "",
                "completed_at": run.manifest.get("ended_at") or "",
                "model_usage": {},
            },
        }
        add("summaries.json", summaries)
        add("_journal/start.json", start)
        add("header.json", header)


def _describe_task(run: Run, opened: Reopened, ids: list[str]) -> dict[str, Any]:
    entry, name = opened.task_run.manifest, name_evaluation(run, opened)
    started = run.manifest.get("started_at") or ""
    mark = hashlib.sha256(f"{name} {started}".encode()).hexdigest()[:22]
    return {
        "eval_id": mark,
        "run_id": mark,
        "task_id": mark,
        "created": started or "1970-01-01T00:00:00Z",
        "task": entry["key"],
        "task_version": 0,
        "task_display_name": entry["display_name"] or entry["key"],
        "dataset": {
            "name": entry["dataset"]["key"],
            "samples": len(ids),
            "sample_ids": ids,
            "shuffled": False,
        },
        "model": name_model(opened),
        "config": {"epochs": opened.task.num_trials},
        "packages": {"answerkey": __version__},
        "metadata": {"run": name},
    }


def _name_member(sample_id: str) -> str:
    """Return an id as a part of a member's path, percent-encoded where it would lead elsewhere.

    Different ids have different names; a very long one is named by its hash.
    """
    if _PLAIN_ID.fullmatch(sample_id) and len(sample_id.encode()) <= _MAX_ID:
        return sample_id
    encoded = quote(sample_id, safe=" ").replace(".", "%2E")
    if len(encoded) <= _MAX_ID:
        return encoded
    return f"%{hashlib.sha256(sample_id.encode()).hexdigest()}"


def _describe_sample(record: Record, model: str) -> dict[str, Any]:
    reply, usage = record.reply, count_tokens(record.reply)
    prompt = []
    for message in reply.prompt or ():
        prompt.append({"role": message.get("role"), "content": message.get("content") or ""})
    question = record.find_text(QUESTIONS) or ""
    answer = _describe_message(reply, model)
    sample = {
        "id": record.sample_id,
        "epoch": record.trial + 1,
        "input": prompt or question,
        "choices": record.shown_options,
        "target": "".join(record.references),
        "messages": [*(prompt or [{"role": "user", "content": question}]), answer],
        "output": {
            "model": model,
            "choices": [
                {"message": answer, "stop_reason": _STOPS.get(reply.finish_reason or "", "unknown")}
            ],
            "completion": reply.text or "",
            "usage": usage,
            "time": reply.latency,
        },
        "scores": _describe_scores(record),
        "metadata": dict(record.sample),
        "model_usage": {model: usage} if usage else {},
    }
    if reply.status is CompletionStatus.ERROR:
        reason = reply.error or "the call failed"
        sample["error"] = dict.fromkeys(("message", "traceback", "traceback_ansi"), reason)
    return sample


def _describe_message(reply: Completion, model: str) -> dict[str, object]:
    content: object = reply.text or ""
    if reply.reasoning:
        content = [
            {"type": "reasoning", "reasoning": reply.reasoning},
            {"type": "text", "text": content},
        ]
    return {"role": "assistant", "content": content, "source": "generate", "model": model}


def _describe_scores(record: Record) -> dict[str, dict[str, object]]:
    scores: dict[str, dict[str, object]] = {}
    for key, verdict in record.verdicts.items():
        score = find_score(verdict)
        if score is None:
            continue
        value: object = score
        if "is_correct" in verdict.values:
            value = {1.0: "C", 0.0: "I"}.get(score, score)
        answer = verdict.metadata.get("predicted_choice")
        scores[key] = {
            "value": value,
            "answer": None if answer is None else str(answer),
            "explanation": record.reply.text,
            "metadata": {**verdict.values, **verdict.metadata},
        }
    return scores
