"""Runs to look at: ordinary ones, one that was asked of an endpoint, hostile ones and a large
one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from math import log
from pathlib import Path
from typing import Any

import polars as pl
from tests.projects import SCORER, write_rows, write_task

from answerkey.testing import Reply, TestServer

from .injections import INJECTIONS

ROOT = Path(__file__).parents[2]
LETTERS = "ABCD"
#: The injections that are names; the short series has every third, which is of each kind.
NAMES = INJECTIONS if os.environ.get("ANSWERKEY_LONG") else INJECTIONS[2::3]
MODELS = {
    "first": "builtin/simulated?accuracy=0.8&style=mixed&seed=0",
    "second": "builtin/simulated?accuracy=0.6&style=mixed&seed=1",
}
PROBABILITIES = """\
    - type: choice_probabilities
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ sample.choices }}"
"""
HOSTILE = SCORER | {"choices": "{{ sample.choices }}", "options": "{{ sample.options }}"}

Call = Callable[..., Any]


def carry_out(call: Call, *words: object) -> None:
    """Carry out a command line that must succeed."""
    done = call(*words)
    assert done.code == 0, done.err


def make_project(folder: Path) -> Path:
    """Return a copy of the quickstart project, read by the strictest rule: it has most to show."""
    shutil.copytree(ROOT / "examples" / "quickstart", folder)
    task = folder / "task.yaml"
    text = task.read_text(encoding="utf-8")
    task.write_text(text.replace("      extraction: stated_answer\n", ""), encoding="utf-8")
    return folder


def make_plain_runs(folder: Path, call: Call) -> None:
    """Write two runs of the same 125 samples, and one of an endpoint that sends
    log-probabilities.
    """
    project = make_project(folder / "project")
    for name, model in MODELS.items():
        out = folder / "runs" / name
        carry_out(call, "run", project, "--model", model, "--num-samples", 125, "--out", out)
    task = project / "task.yaml"
    task.write_text(task.read_text(encoding="utf-8") + PROBABILITIES, encoding="utf-8")
    with TestServer(answer_from(project / "questions.jsonl")) as server:
        model = f"{server.url}?top_logprobs=8#small-model"
        out = folder / "runs" / "asked"
        carry_out(call, "run", project, "--model", model, "--num-samples", 125, "--out", out)


def answer_from(questions: Path) -> Callable[[Sequence[Mapping[str, object]]], Reply]:
    """Return a model for the questions of a file: the more confident, the more often right."""
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    truths = {row["question"]: row["answer"] for row in rows}

    def answer(messages: Sequence[Mapping[str, object]]) -> Reply:
        question = str(messages[-1]["content"]).partition("\n")[0]
        first, second = hashlib.sha256(question.encode()).digest()[:2]
        sureness, is_right = 0.3 + 0.65 * first / 255, second / 255 < 0.2 + 0.65 * first / 255
        place = LETTERS.index(truths[question])
        letter = LETTERS[place if is_right else (place + 1) % 4]
        wrong = [label for label in LETTERS if label != letter]
        logprobs = {label: log((1 - sureness) / 3) for label in wrong}
        return Reply(letter, logprobs={letter: log(sureness), **logprobs})

    return answer


def make_hostile_runs(folder: Path, call: Call) -> None:
    """Write two runs in which every injection is question, option, completion and column, and one
    of names.

    In the run `names` there is a task for each of `NAMES`, which is its name and its model's.
    """
    rows = [list(list_hostile_rows(shift)) for shift in (0, 1)]
    projects = {"texts-0": rows[0], "texts-1": rows[1], "names": rows[0][:2]}
    for name, chosen in projects.items():
        num_tasks = len(NAMES) if name == "names" else 1
        project = write_hostile_project(folder / name, chosen, num_tasks)
        carry_out(call, "run", project, "--out", folder / "runs" / name)
        rename(folder / "runs" / name)


def write_hostile_project(folder: Path, rows: Iterable[dict[str, object]], num_tasks: int) -> Path:
    """Return a folder with rows, a task and a run file that runs it so often."""
    folder.mkdir(parents=True)
    write_rows(folder / "rows.jsonl", rows)
    write_task(folder / "task.yaml", HOSTILE, name="Hostile", dataset={"key": "hostile"})
    source = {"type": "local", "file_path": "rows.jsonl"}
    evaluation = {"key": "hostile", "display_name": INJECTIONS[4]}
    plan = {
        "datasets": [{"key": "hostile", "display_name": INJECTIONS[0], "source": source}],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": evaluation | {"task_specifications": [{"task_key": "hostile"}] * num_tasks},
    }
    (folder / "run.yaml").write_text(json.dumps(plan), encoding="utf-8")
    return folder


def list_hostile_rows(shift: int) -> Iterator[dict[str, object]]:
    """Yield one row for each injection; the columns have their names too."""
    columns = dict(zip(INJECTIONS, islice(cycle(INJECTIONS), 1, None), strict=False))
    for number, text in enumerate(INJECTIONS):
        neighbours = [INJECTIONS[(number + step) % len(INJECTIONS)] for step in range(1, 4)]
        starts = ("B. ", "", "The answer is B: ", "C\n")
        yield {
            "sample_id": text if number % 3 == 0 else f"row-{number}",
            "question": text,
            "options": [text, *neighbours],
            "choices": list(LETTERS),
            "answer": "ABC"[number % 3],
            "category": INJECTIONS[number % 7],
            "completion": starts[(number + shift) % 4] + text,
            **columns,
        }


def rename(run: Path) -> None:
    """Give each task and model of a finished run an injection as its name, as a forged run folder
    would.
    """
    file = run / "run.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    for entry, name in zip(manifest["tasks"], NAMES, strict=False):
        entry["display_name"] = name
        entry["model"] = {"name": name, "is_simulated": False}
    file.write_text(json.dumps(manifest), encoding="utf-8")


def make_large_run(folder: Path, call: Call, num_samples: int) -> Path:
    """Write a run of as many samples as a large benchmark has, with questions as long as its
    questions.
    """
    (project := folder / "large").mkdir()
    task, dataset = project / "task.yaml", project / "rows.parquet"
    write_task(task, HOSTILE, name="Large", dataset={"key": "large"})
    pl.DataFrame(list(map(invent_row, range(num_samples)))).write_parquet(dataset)
    out = folder / "runs" / "large"
    carry_out(call, "score", task, "--dataset", dataset, "--out", out)
    return out


def invent_row(number: int) -> dict[str, object]:
    """Return a row with about 500 characters of question and options, in one of 57 categories."""
    draw = hashlib.sha256(str(number).encode()).digest()
    truth, reply = draw[0] % 4, draw[0] % 4 if draw[1] < 180 else draw[2] % 4
    letter, style = LETTERS[reply], draw[3] % 8
    forms = (letter, f"{letter}.", f"({letter})", f"{letter}. Option {reply}", f"Answer: {letter}")
    return {
        "question": f"Question {number}: " + " ".join(f"word{byte}" for byte in draw) + "?",
        "options": [f"Option {start}: " + draw[start : start + 12].hex() for start in range(4)],
        "choices": list(LETTERS),
        "answer": LETTERS[truth],
        "category": f"category {draw[4] % 57:02d}",
        "completion": forms[style] if style < len(forms) else letter,
    }
