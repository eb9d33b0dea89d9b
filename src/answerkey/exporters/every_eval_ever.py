"""The rows and numbers of a run in the schema of every_eval_ever."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from uuid import UUID

from answerkey._version import __version__
from answerkey.datasets.questions import QuestionColumns, find_columns
from answerkey.exporters.rows import (
    Exporter,
    Json,
    Write,
    describe_rows,
    write_file,
    write_objects,
)
from answerkey.runs import find_answerer
from answerkey.types import MetricValue

SCHEMA_VERSION = "0.3.0"
#: Our names of token counts, by their names in the schema.
TOKENS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "input_tokens_cache_read": "cached_tokens",
    "input_tokens_cache_write": "cache_write_tokens",
}
#: Characters that some system forbids in file names.
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


class EveryEvalEverExporter(Exporter):
    """Rows of the shared schema; in a folder, also the file of numbers that refers to them."""

    form = "every_eval_ever"

    @cached_property
    def evaluation(self) -> str:
        """The name of the evaluation."""
        folder = self.run.key
        if self.run.path is not None:
            folder = self.run.path.name
        return f"{folder}/{self.opened.task_run.key}"

    @cached_property
    def model(self) -> str:
        """The name of the model."""
        answerer = find_answerer(self.opened.task_run.manifest) or {}
        return str(answerer.get("name") or "unknown")

    def write(self, write: Write) -> int:
        """Write a row for each sample and trial that has a score; the schema has no other rows."""
        return write_objects(self._iterate_rows(), write)

    def _iterate_rows(self) -> Iterator[Json]:
        task = self.opened.task
        entry = self.opened.task_run.manifest
        key = task.main_step.key
        head = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.evaluation,
            "model_id": self.model,
            "evaluation_name": entry["display_name"] or entry["key"],
            "evaluation_result_id": f"{self.evaluation}/{key}",
        }
        columns = self._find_columns()
        for part in self.opened.iterate():
            facts = task.sample_facts(part.samples)
            for number, row in enumerate(describe_rows(self.opened.task_run, part)):
                verdict = row["scores"][key]
                score = _find_score(verdict)
                if score is None:
                    continue
                question = _describe_question(row, columns.text(row["sample"], "question"))
                metadata = {
                    "trial": str(row["trial"]),
                    "completion_status": row["completion_status"],
                }
                if facts is not None:
                    labels = facts.choices[number] or ()
                    choices = facts.options[number] or labels
                    question["reference"] = _list_present(facts.truths[number])
                    question["choices"] = list(choices) or None
                    if labels:
                        metadata["choice_labels"] = json.dumps(labels, ensure_ascii=False)
                category = columns.text(row["sample"], "category")
                if category is not None:
                    metadata["category"] = category
                described = _describe_row(
                    row,
                    question,
                    verdict["metadata"],
                    score,
                )
                yield {
                    **head,
                    "sample_id": row["sample_id"],
                    **described,
                    "metadata": metadata,
                }

    def _find_columns(self) -> QuestionColumns:
        """Return the columns of the question and of its category."""
        chosen: tuple[tuple[str, str], ...] = ()
        category = self.opened.task_run.manifest["dataset"].get("category")
        if category:
            chosen = (("category", category),)
        names = tuple(self.opened.dataset.rows.columns)
        return find_columns(names, ("question", "category"), chosen)

    def save(self, path: Path) -> int:
        """Write the rows; in a folder, also the numbers."""
        if not path.is_dir():
            return super().save(path)
        entry = self.opened.task_run.manifest
        developer, _, model = self.model.rpartition("/")
        developer = developer or "unknown"
        dataset = entry["dataset"]["key"] or entry["key"]
        folders = ["data"]
        for part in (dataset, developer, model):
            safe_part = _UNSAFE.sub("_", part).rstrip(". ")
            folders.append(safe_part or "_")
        started = self.run.manifest.get("started_at")
        mark = f"{self.evaluation} {started} {entry['dataset']['fingerprint']}"
        digest = hashlib.sha256(mark.encode()).digest()
        name = UUID(bytes=digest[:16], version=4)
        file = path.joinpath(*folders, f"{name}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        samples = file.with_name(f"{name}_samples.jsonl")
        rows = super().save(samples)
        content = self._describe_evaluation(dataset, developer)
        content["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{'/'.join(folders)}/{samples.name}",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(),
            "total_rows": rows,
        }
        write_file(file, partial(write_objects, [content]))
        return rows

    def _describe_evaluation(self, dataset: str, developer: str) -> Json:
        key = self.opened.task.main_step.key
        source = self.opened.task_run.source["dataset"]
        data = {"dataset_name": dataset, "source_type": "other"}
        if source["type"] == "huggingface":
            data |= {"source_type": "hf_dataset", "hf_repo": source["path"]}
        results: list[Json] = []
        for metric in self.opened.task_run.metrics.values():
            if metric.scorer != key or metric.value is None:
                continue
            if metric.type == "frequency":
                continue
            name = f"{self.evaluation}/{key}"
            if results:
                name = f"{name}/{metric.name}"
            results.append(_describe_metric(metric, name, data))
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.evaluation,
            "evaluation_timestamp": _to_seconds(self.run.manifest.get("started_at")),
            "retrieved_timestamp": _to_seconds(self.run.manifest.get("ended_at")),
            "source_metadata": {
                "source_name": "answerkey",
                "source_type": "evaluation_run",
                "source_organization_name": "unknown",
                "evaluator_relationship": "other",
            },
            "eval_library": {"name": "answerkey", "version": __version__},
            "model_info": {
                "name": self.model,
                "id": self.model,
                "developer": developer,
                "additional_details": {
                    "deployment_type": "unknown",
                    "model_availability": "unknown",
                },
            },
            "evaluation_results": results,
        }


def _find_score(verdict: Json) -> float | None:
    """Return whether the verdict is correct, or the scorer's first number; None without any."""
    numbers = {}
    for name, value in verdict["values"].items():
        if isinstance(value, int | float) and math.isfinite(value):
            numbers[name] = float(value)
    if "is_correct" in numbers:
        return numbers["is_correct"]
    return next(iter(numbers.values()), None)


def _list_present(value: object) -> list[object]:
    """Return a list of a value; an empty one for null."""
    return [] if value is None else [value]


def _describe_question(row: Json, text: str | None) -> Json:
    contents = []
    for message in row["prompt"] or ():
        contents.append(str(message.get("content") or ""))
    prompt = "\n\n".join(contents)
    return {
        "raw": text or prompt,
        "formatted": prompt or None,
        "reference": [],
        "choices": None,
    }


def _describe_row(
    row: Json,
    question: Json,
    metadata: Json,
    score: float,
) -> Json:
    hashed = json.dumps(question, sort_keys=True)
    answer = metadata.get("predicted_choice", metadata.get("answer_pred"))
    method = metadata.get("extraction_rule") or "exact_match"
    attribution = None
    if answer is not None:
        attribution = {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": str(answer),
            "extraction_method": str(method),
            "is_terminal": True,
        }
    return {
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": question,
        "output": {
            "raw": _list_present(row["completion"]),
            "reasoning_trace": row["reasoning"] and [row["reasoning"]],
        },
        "messages": None,
        "answer_attribution": _list_present(attribution),
        "evaluation": {"score": score, "is_correct": score == 1},
        "token_usage": _count_tokens(row),
        "performance": row["latency"] and {"latency_ms": row["latency"] * 1000},
        "error": None,
    }


def _count_tokens(row: Json) -> dict[str, int] | None:
    """Return the token counts of a reply; None if they are unknown."""
    counts = {}
    for name, column in TOKENS.items():
        if row[column] is not None:
            counts[name] = row[column]
    if "input_tokens" not in counts or "output_tokens" not in counts:
        return None
    counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]
    return counts


def _describe_metric(metric: MetricValue, name: str, dataset: Json) -> Json:
    config: Json = {"metric_name": metric.name, "lower_is_better": False}
    if metric.is_share:
        config |= {"score_type": "continuous", "min_score": 0, "max_score": 1}
    uncertainty: Json = {"num_samples": metric.n}
    if metric.std_error is not None:
        uncertainty["standard_error"] = {"value": metric.std_error}
    if metric.interval is not None:
        lower, upper = metric.interval
        interval: Json = {
            "lower": lower,
            "upper": upper,
            "confidence_level": 0.95,
        }
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
    if not moment:
        return str(time.time())
    return str(datetime.fromisoformat(str(moment)).timestamp())
