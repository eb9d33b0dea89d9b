"""Compare the numbers of two versions of answerkey, verdict by verdict.

    python scripts/compare_numbers.py dump FOLDER [--command PATH]   # score all material
    python scripts/compare_numbers.py compare OLD NEW                # list differences

`dump` goes through the command line alone, so that it works for any version: point `--command` at
the `answerkey` of another checkout. The material is that of the tests, the examples and, where
`../shared` lies beside the project, real completions and real logs. Verdicts, reasons and metadata
must be the same; numbers may differ by 1e-12.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
TOLERANCE = 1e-12
#: So many differences of one case are printed.
SHOWN = 5
#: What a metric value states beside its value.
METRIC_FIELDS = ("value", "n", "n_excluded", "interval", "interval_method")


@dataclass(frozen=True)
class Case:
    """One command whose run is compared."""

    name: str
    arguments: tuple[str, ...]


def list_cases(scratch: Path) -> Iterator[Case]:
    """Yield every case; files that must be made first are put into `scratch`."""
    yield from list_examples()
    yield from list_rule_cases(scratch)
    if not SHARED.is_dir():
        print(
            "`../shared/data` is missing: real completions and logs are left out", file=sys.stderr
        )
        return
    yield from list_helm_cases(scratch)
    yield from list_redux_cases()
    yield from list_chain_cases(scratch)
    yield from list_real_logs()


def list_examples() -> Iterator[Case]:
    """Yield the projects and logs of `examples`."""
    for run_file in sorted((ROOT / "examples").glob("*/run.yaml")):
        project = run_file.parent
        yield Case(f"example-{project.name}", ("run", str(project), "--trust-code"))
    seed = ROOT / "examples" / "seed"
    yield Case(
        "example-seed-recorded",
        ("run", str(seed), "--completions", str(seed / "completions.jsonl")),
    )
    for log in sorted((ROOT / "examples" / "compare_logs").iterdir()):
        if log.is_dir():
            yield Case(f"example-log-{log.name}", ("score", str(log)))


RULE_TASK = """\
key: {key}
display_name: Rule
description: Every text of the corpus, read by one rule.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{{{ sample.truth }}}}"
      choices: "{{{{ sample.choices }}}}"
      {options}extraction: {rule}
"""
OPTIONS_LINE = 'options: "{{ sample.options }}"\n      '
RULES = ("first_character", "leading_label", "stated_answer")


def list_rule_cases(scratch: Path) -> Iterator[Case]:
    """Yield a case for each corpus of replies and each rule, with and without the options'
    texts.
    """
    folders = [ROOT / "tests" / "cases" / "corpus", SHARED]
    for corpus in (file for folder in folders for file in sorted(folder.glob("*.jsonl"))):
        lines = corpus.read_text(encoding="utf-8").splitlines()
        rows = [describe_reply(json.loads(line)) for line in lines]
        data = scratch / f"{corpus.stem}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        for rule, (suffix, options) in product(RULES, (("", ""), ("-options", OPTIONS_LINE))):
            key = f"{corpus.stem}-{rule}{suffix}"
            task = scratch / f"{key}.yaml"
            task.write_text(RULE_TASK.format(key=key, rule=rule, options=options), encoding="utf-8")
            yield Case(
                f"rule-{key}",
                ("score", str(task), "--dataset", str(data), "--allow-failed", "100%"),
            )


def describe_reply(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a corpus under the same column names, whatever the corpus calls them."""
    text = next(row[name] for name in ("completion", "text", "reply") if name in row)
    choices = list(row.get("choices") or row.get("labels") or "ABCD")
    options = row.get("options") or [""] * len(choices)
    if isinstance(options, dict):
        options = list(options.values())
    truth = next(
        (row[name] for name in ("label", "human_label", "expected") if row.get(name)), choices[0]
    )
    return {"completion": text, "choices": choices, "options": options, "truth": truth}


HELM_TASK = """\
key: helm-{rule}
display_name: MMLU
description: Completions of ten models.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{{{ sample.answer }}}}"
      choices: ["A", "B", "C", "D"]
      options: "{{{{ sample.options }}}}"
      extraction: {rule}
      metrics:
        - {{type: mean, field: is_correct, name: MCQA Accuracy, group_by: subject}}
        - {{type: frequency, field: predicted_choice}}
        - {{type: multiclass-classification, field_gt: ground_truth_choice, field_pred: predicted_choice}}
"""  # noqa: E501 - the text as it is written


def list_helm_cases(scratch: Path) -> Iterator[Case]:
    """Yield a case for each rule and each of HELM's ten models on MMLU."""
    data = SHARED / "helm_mmlu" / "helm_mmlu.jsonl"
    with data.open(encoding="utf-8") as lines:
        models = list(json.loads(next(lines))["completions"])
    for rule in RULES:
        task = scratch / f"helm-{rule}.yaml"
        task.write_text(HELM_TASK.format(rule=rule), encoding="utf-8")
        for model in models:
            column = ("--completion-column", f"completions.{model}")
            yield Case(
                f"helm-{rule}-{model}", ("score", str(task), "--dataset", str(data), *column)
            )


def list_redux_cases() -> Iterator[Case]:
    """Yield two models on MMLU-Redux, a CSV file whose options are a Python list in a text."""
    data = SHARED / "helm_mmlu" / "mmlu_redux_5700_with_14_models.csv"
    columns = ("--column", "truth=groundtruth_answer:0", "--column", "options=choices")
    for model in ("openai_gpt-4o-2024-05-13", "meta_llama-3.1-405b-instruct-turbo"):
        yield Case(f"redux-{model}", ("score", str(data), *columns, "--completion-column", model))


def list_chain_cases(scratch: Path) -> Iterator[Case]:
    """Yield a case for each model's chains of thought on MMLU-Pro; every fourth row is enough."""
    for archive in sorted((SHARED / "mmlu_pro_outputs").glob("*.zip")):
        with zipfile.ZipFile(archive) as members:
            rows = json.loads(members.read(members.namelist()[0]))
        data = scratch / f"{archive.stem}.jsonl"
        with data.open("w", encoding="utf-8") as file:
            for row in rows[::4]:
                text = row.get("generated_text") or row.get("model_outputs")
                kept = {name: row[name] for name in ("question", "options", "answer", "category")}
                file.write(json.dumps({**kept, "completion": text}) + "\n")
        yield Case(f"chains-{archive.stem}", ("score", str(data), "--allow-failed", "100%"))


def list_real_logs() -> Iterator[Case]:
    """Yield the logs that other tools wrote; where a folder holds several logs, each of them."""
    folder = SHARED / "real_logs"
    for log in sorted(folder.iterdir()):
        if log.name in ("inspect", "promptfoo"):
            for file in sorted(log.iterdir()):
                if file.suffix != ".md":
                    yield Case(f"log-{log.name}-{file.name}", ("score", str(file)))
        elif log.is_dir():
            yield Case(f"log-{log.name}", ("score", str(log)))


def dump_case(case: Case, command: str, folder: Path, scratch: Path) -> str:
    """Run one case, write what it decided, and return one line about it."""
    runs = scratch / "runs" / case.name
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(scratch / "cache" / case.name),
        "POLARS_MAX_THREADS": "1",
    }
    arguments = [command, *case.arguments, "--out", str(runs), "--json"]
    result = run_command(arguments, environment, scratch)
    verdicts: dict[str, Any] = {"exit_code": result.returncode, "rows": [], "metrics": []}
    if result.stdout.startswith("{"):
        report = json.loads(result.stdout)
        verdicts["metrics"] = [describe_metric(task, value) for task, value in list_metrics(report)]
        verdicts["rows"] = list(export_rows(command, find_runs(runs), environment))
    (folder / f"{case.name.replace('/', '_')}.json").write_text(
        json.dumps(verdicts), encoding="utf-8"
    )
    lines = result.stderr.strip().splitlines()
    problem = f" ({lines[0]})" if lines and not verdicts["rows"] else ""
    return f"{case.name}: {len(verdicts['rows'])} rows, {len(verdicts['metrics'])} metrics{problem}"


def run_command(
    arguments: list[str], environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and return its output."""
    return subprocess.run(  # noqa: S603 - our own command
        arguments, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders at or below a folder: one command may write several."""
    return sorted(file.parent for file in folder.rglob("run.json"))


def list_metrics(report: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each metric value of a command's report, with the key of its task."""
    reports = report.get("runs", [report])
    for part in reports:
        for task in part.get("tasks", []):
            for value in task["metrics"]:
                yield task["key"], value


def describe_metric(task: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared of a metric value."""
    name = f"{task}/{value.get('scorer')}/{value['name']}/{value.get('group')}"
    return {"name": name, **{field: value.get(field) for field in METRIC_FIELDS}}


def export_rows(
    command: str, runs: list[Path], environment: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on every sample and trial of every task."""
    tasks = [task for run in runs for task in sorted((run / "tasks").iterdir())]
    for task in tasks:
        arguments = [
            command,
            "export",
            str(task.parent.parent),
            "--task",
            task.name,
            "--to",
            "jsonl",
        ]
        result = run_command(arguments, environment, task)
        result.check_returncode()
        for line in result.stdout.split("\n"):
            if line:
                row = json.loads(line)
                verdict = {
                    name: row.get(name)
                    for name in ("sample_id", "trial", "completion_status", "scores")
                }
                yield {"task": task.name, **verdict}


def compare_cases(old: Path, new: Path) -> int:
    """Print every difference between two dumps, and return how many there are."""
    names = sorted({file.name for folder in (old, new) for file in folder.glob("*.json")})
    rows = metrics = differences = 0
    for name in names:
        if not (old / name).is_file() or not (new / name).is_file():
            print(f"{name}: only in one of the two dumps")
            differences += 1
            continue
        before = json.loads((old / name).read_text(encoding="utf-8"))
        after = json.loads((new / name).read_text(encoding="utf-8"))
        rows += len(before["rows"])
        metrics += len(before["metrics"])
        pairs = list(find_differences(before, after, ""))
        differences += len(pairs)
        for place, left, right in pairs[:SHOWN]:
            print(f"{name}{place}: {left!r} -> {right!r}")
        if len(pairs) > SHOWN:
            print(f"{name}: {len(pairs) - SHOWN} more differences")
    print(f"{len(names)} cases, {rows} rows, {metrics} metric values: {differences} differences")
    return differences


def find_differences(
    left: object, right: object, place: str
) -> Iterator[tuple[str, object, object]]:
    """Yield the place and both values of every difference between two JSON values."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from find_differences(left.get(key), right.get(key), f"{place}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (before, after) in enumerate(zip(left, right, strict=True)):
            yield from find_differences(before, after, f"{place}[{index}]")
    elif isinstance(left, float) and isinstance(right, float):
        if not math.isclose(left, right, rel_tol=0, abs_tol=TOLERANCE):
            yield place, left, right
    elif left != right:
        yield place, left, right


def main() -> None:
    """Read the command line, and dump or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="action", required=True)
    dump = commands.add_parser("dump")
    dump.add_argument("folder", type=Path)
    dump.add_argument("--command", default=str(Path(sys.executable).with_name("answerkey")))
    dump.add_argument("--only", default="", help="only cases whose name contains this")
    compare = commands.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.action == "compare":
        sys.exit(1 if compare_cases(options.old, options.new) else 0)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch_name, ThreadPoolExecutor(2) as pool:
        scratch = Path(scratch_name)
        cases = [case for case in list_cases(scratch) if options.only in case.name]
        work = (
            pool.submit(dump_case, case, options.command, options.folder, scratch) for case in cases
        )
        for future in list(work):
            print(future.result(), flush=True)


if __name__ == "__main__":
    main()
