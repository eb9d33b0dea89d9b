"""The rows and numbers of a run as every_eval_ever files them."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from answerkey._version import __version__
from answerkey.errors import SpecError
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
from answerkey.exporters.rows import Write, to_json
from answerkey.runs import Run
from answerkey.types import MetricValue, Score

SCHEMA_VERSION = "0.3.0"
#: Columns of a dataset that hold the category, the likeliest first.
CATEGORIES = ("category", "subject", "topic", "domain", "subset", "task")
#: What no name of a file may have everywhere, and how every_eval_ever names its files.
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_UUID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
)


def write_every_eval_ever(run: Run, opened: Reopened, write: Write) -> int:
    """Write a row for each sample and trial that has a score; return how many.

    The schema knows no row without a score, so what could not be scored is left out.
    """
    entry, key = opened.task_run.manifest, opened.task.main_step.key
    name = name_evaluation(run, opened)
    category = str(entry["dataset"].get("category") or "").lower().strip()
    head = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "model_id": name_model(opened),
        "evaluation_name": entry["display_name"] or entry["key"],
        "evaluation_result_id": f"{name}/{key}",
    }
    count = 0
    for record in iterate_records(opened):
        score = find_score(record.verdicts[key])
        if score is not None:
            group = record.find_text((category, *CATEGORIES))
            row = _describe_row(record, record.verdicts[key], score, group)
            write(f"{to_json({**head, 'sample_id': record.sample_id, **row})}\n".encode())
            count += 1
    return count


def _describe_row(
    record: Record, verdict: Score, score: float, category: str | None
) -> dict[str, object]:
    reply = record.reply
    prompt = "\n\n".join(str(message.get("content") or "") for message in reply.prompt or ())
    question = {
        "raw": record.find_text(QUESTIONS) or prompt,
        "formatted": prompt or None,
        "reference": record.references,
        "choices": record.shown_options,
    }
    hashed = json.dumps(question, sort_keys=True, ensure_ascii=True).encode()
    answer = verdict.metadata.get("predicted_choice", verdict.metadata.get("answer_pred"))
    attributions = []
    if answer is not None:
        attributions.append(
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": str(answer),
                "extraction_method": str(verdict.metadata.get("extraction_rule") or "exact_match"),
                "is_terminal": True,
            }
        )
    metadata = {}
    if record.choices:
        labels = list(map(str, record.choices))
        metadata["choice_labels"] = json.dumps(labels, ensure_ascii=False)
    if category is not None:
        metadata["category"] = category
    metadata |= {"trial": str(record.trial), "completion_status": reply.status.value}
    return {
        "sample_hash": hashlib.sha256(hashed).hexdigest(),
        "interaction_type": "single_turn",
        "input": question,
        "output": {
            "raw": [] if reply.text is None else [reply.text],
            "reasoning_trace": None if reply.reasoning is None else [reply.reasoning],
        },
        "messages": None,
        "answer_attribution": attributions,
        "evaluation": {"score": score, "is_correct": score == 1},
        "token_usage": count_tokens(reply),
        "performance": None if reply.latency is None else {"latency_ms": reply.latency * 1000},
        "error": None,
        "metadata": metadata,
    }


def write_pair(
    run: Run,
    opened: Reopened,
    out: Path,
    write_file: Callable[[Path, Callable[[Write], int]], int],
) -> int:
    """Write the samples, and beside them the numbers that point at them; return how many rows."""
    entry, model = opened.task_run.manifest, name_model(opened)
    developer, _, short = model.rpartition("/")
    if model.count("/") > 1:
        developer, _, short = model.partition("/")
    dataset = entry["dataset"]["key"] or entry["key"]
    folders = ["data"]
    for part in (dataset, developer or "unknown", short):
        folders.append(_UNSAFE.sub("_", part).rstrip(". ") or "_")
    file = out
    if out.is_dir():
        started = run.manifest.get("started_at")
        mark = f"{name_evaluation(run, opened)} {started} {entry['dataset']['fingerprint']}"
        name = UUID(bytes=hashlib.sha256(mark.encode()).digest()[:16], version=4)
        file = out.joinpath(*folders, f"{name}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
    elif not _UUID.fullmatch(out.stem):
        hint = "name a folder that is there, and the files get their names"
        raise SpecError("E119", f"`-o {out}`: every_eval_ever wants a UUID for a name", hint=hint)
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    rows = write_file(samples, partial(write_every_eval_ever, run, opened))
    content = _describe_evaluation(run, opened, dataset, developer or "unknown")
    content["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": f"{'/'.join(folders)}/{samples.name}",
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(),
        "total_rows": rows,
    }
    write_file(file, lambda write: bool(write(f"{to_json(content)}\n".encode())))
    return rows


def _describe_evaluation(
    run: Run, opened: Reopened, dataset: str, developer: str
) -> dict[str, Any]:
    model = name_model(opened)
    results: list[dict[str, Any]] = []
    for metric in list_metrics(opened):
        name = f"{name_evaluation(run, opened)}/{opened.task.main_step.key}"
        if results:
            name = f"{name}/{metric.name}"
        results.append(_describe_metric(metric, name, _describe_dataset(opened, dataset)))
    version = str(run.manifest.get("answerkey_version", __version__))
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name_evaluation(run, opened),
        "evaluation_timestamp": _to_seconds(run.manifest.get("started_at")),
        "retrieved_timestamp": _to_seconds(run.manifest.get("ended_at")),
        "source_metadata": {
            "source_name": "answerkey",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "answerkey", "version": version},
        "model_info": {
            "name": model,
            "id": model,
            "developer": developer,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": results,
    }


def _describe_dataset(opened: Reopened, name: str) -> dict[str, Any]:
    source = opened.task_run.source["dataset"]
    if source["type"] != "huggingface":
        return {"dataset_name": name, "source_type": "other"}
    described = {
        "dataset_name": name,
        "source_type": "hf_dataset",
        "hf_repo": source["path"],
        "samples_number": len(opened.dataset),
    }
    if source.get("split"):
        described["hf_split"] = source["split"]
    return described


def _describe_metric(metric: MetricValue, name: str, dataset: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {"metric_name": metric.name, "lower_is_better": False}
    if metric.is_share:
        config |= {"score_type": "continuous", "min_score": 0, "max_score": 1}
    uncertainty: dict[str, Any] = {"num_samples": metric.n}
    if metric.std_error is not None:
        uncertainty["standard_error"] = {"value": metric.std_error}
    if metric.interval is not None:
        lower, upper = metric.interval
        interval: dict[str, object] = {"lower": lower, "upper": upper, "confidence_level": 0.95}
        if metric.interval_method:
            interval["method"] = metric.interval_method
        uncertainty["confidence_interval"] = interval
    return {
        "evaluation_result_id": name,
        "evaluation_name": metric.name,
        "source_data": dataset,
        "metric_config": config,
        "score_details": {"score": metric.value, "uncertainty": uncertainty},
    }


def _to_seconds(moment: object) -> str:
    return str(datetime.fromisoformat(str(moment)).timestamp() if moment else time.time())
