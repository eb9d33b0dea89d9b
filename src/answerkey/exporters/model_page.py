"""The number of a run as the page of a model on the Hugging Face hub shows it."""

from __future__ import annotations

import textwrap

from answerkey._version import __version__
from answerkey.errors import RunError
from answerkey.evaluate.reopen import Reopened
from answerkey.exporters.records import list_metrics
from answerkey.exporters.rows import Write
from answerkey.runs import Run
from answerkey.spec.ready_made import write_yaml


def write_result(run: Run, opened: Reopened, write: Write) -> int:
    """Write the YAML that a file in `.eval_results` of a model holds."""
    source, metrics = opened.task_run.source["dataset"], list_metrics(opened)
    problem = None
    if not metrics:
        problem = "the run has no number"
    elif source["type"] != "huggingface":
        problem = "the dataset is not on the Hugging Face hub"
    if problem:
        message = f"{problem}, so no model page can show it"
        raise RunError("E504", message, hint="export another run or task")
    metric = metrics[0]
    value = metric.value
    if metric.is_share and value is not None:
        value = round(100 * value, 4)
    dataset = {"id": source["path"], "task_id": source.get("name") or "default"}
    if source.get("revision"):
        dataset["revision"] = source["revision"]
    entry: dict[str, object] = {"dataset": dataset, "value": value}
    if ended := run.manifest.get("ended_at"):
        entry["date"] = str(ended)
    entry["notes"] = f"{metric.name}, n = {metric.n}, answerkey {__version__}"
    write(f"- {textwrap.indent(write_yaml(entry), '  ').lstrip()}".encode())
    return 1
