"""Projects whose scorer calls a second model about what the first one said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.projects import (
    SCORER,
    Fields,
    describe_live_task,
    describe_model,
    describe_solver,
    write_rows,
    write_run,
)

import answerkey as ak
from answerkey.testing import Reply, TestServer
from answerkey.testing.replies import Messages


@dataclass
class SecondModel:
    """A folder with a run file, whose models are at an endpoint.

    `asked` is how often the second model is called, `without` the scorers of a task that has none.
    """

    folder: Path
    server: TestServer
    answers: Callable[[Messages], str | Reply]
    model: str
    key: str
    purpose: str
    asked: int
    rows: list[Fields]
    scorers: list[Fields]
    without: list[Fields]
    definition: Fields = field(default_factory=dict)
    limits: Fields = field(default_factory=dict)

    def write(self, scorers: list[Fields] | None = None, **definition: object) -> Path:
        """Write the run file."""
        models = []
        for key in ("mine", self.model):
            models.append({**describe_model(key, self.server.url), **self.limits})
        fields = {"scorers": scorers or self.scorers, **self.definition, **definition}
        return write_run(self.folder, models, task=describe_live_task(**fields))

    def run(self, out: str = "run", **options: Any) -> ak.Run:  # noqa: ANN401 - any option of a run
        """Run the run file."""
        return ak.run(self.folder / "run.yaml", out=self.folder / out, **options)

    def read_task(self) -> Fields:
        """Return the task of the run file."""
        task: Fields = json.loads((self.folder / "run.yaml").read_text())["tasks"][0]
        return task

    def list_scores(self, run: ak.Run) -> list[Fields]:
        """Return the scores for which the second model is called, row by row."""
        return run.tasks["quiz"].scores[self.key].to_list()

    def count_asked(self) -> tuple[int, int]:
        """Return how often the first model was called, and the second."""
        bodies = [request.body or {} for request in self.server.asked.requests]
        models = [str(body.get("model")) for body in bodies]
        return models.count("m-mine"), models.count(f"m-{self.model}")


def read_numbers(run: ak.Run) -> Fields:
    """Return the metrics, the counts and the scores of a run."""
    metrics = {name: asdict(value) for name, value in run.metrics.items()}
    task = run.tasks["quiz"]
    return {"metrics": metrics, "totals": task.totals, "scores": task.scores.to_dicts()}


# A fallback.

#: What the model says to a question: the rule reads the first three, and there is nothing to read
#: in the fourth; the rest is for the fallback, which finds the letter that stands in brackets.
TEXTS = [
    "The answer is B.",
    "C",
    "**D**",
    " ",
    "Hm, number 2 [B]?",
    "Not sure [C]",
    "A or B",
    "It depends.",
]
FOUND = ["B", "C", "D", None, "B", "C", None, None]


def use_extraction(extraction: object) -> list[Fields]:
    """Return the scorers of the project with a fallback, with another extraction."""
    labels = ["A", "B", "C", "D"]
    options = "{{ sample.options }}"
    return [
        {**SCORER, "key": "quiz", "choices": labels, "options": options, "extraction": extraction}
    ]


def use_fallback(model: str) -> list[Fields]:
    """Return the scorers of the project with another model as the fallback."""
    return use_extraction({"rule": "stated_answer", "fallback": model})


def answer_or_read(messages: Messages) -> str | Reply:
    """Answer a question, or read the letter in brackets out of a completion."""
    text = str(messages[0]["content"])
    if text.startswith("ASKED q"):
        number = int(text.removeprefix("ASKED q"))
        return f"{TEXTS[number % 8]}{' ' * (number // 8)}"
    shown = re.search(r"\n(--- \w+ ---)\n(.*)\n\1\n", text, re.DOTALL)
    assert shown is not None
    result = re.search(r"\[([A-D])\]", shown[2])
    return result[1] if result else "NONE"


def make_fallback(folder: Path, server: TestServer) -> SecondModel:
    """Return a project of sixteen rows, with replies recorded for them; one call at a time."""
    rows: list[Fields] = []
    for number in range(16):
        options = [f"{letter}{number}" for letter in "wxyz"]
        truth = "BCDABDAD"[number % 8]
        rows.append({"question": f"q{number}", "answer": truth, "options": options})
    replies = [f"{TEXTS[number % 8]}{' ' * (number // 8)}" for number in range(16)]
    write_rows(folder / "said.jsonl", [{"completion": reply} for reply in replies])
    return SecondModel(
        folder,
        server,
        answer_or_read,
        model="small",
        key="quiz",
        purpose="fallback:quiz",
        asked=8,
        rows=rows,
        scorers=use_fallback("small"),
        without=use_extraction("stated_answer"),
        definition={"solver": describe_solver("ASKED {{ sample.question }}")},
        limits={"max_concurrent_requests": 1},
    )


# A judge.

JUDGE: Fields = {
    "type": "model_as_a_judge_scorer",
    "key": "quality",
    "model_key": "judge",
    "user_prompt": "RATE {{ sample.question }}: {{ input_prompt }}",
    "score_max": 10,
    "use_structured_outputs": True,
}
EXACT: Fields = {"type": "string_equals", "key": "exact", "ground_truth": "{{ sample.answer }}"}


def write_verdict(score: float) -> str:
    """Return a verdict as a judge should write it."""
    return json.dumps({"reasoning": "because", "score": score, "confidence": 0.5})


def answer_or_judge(messages: Messages) -> str | Reply:
    """Answer questions, and judge answers: q1 in prose, q3 off the scale."""
    first = str(messages[0]["content"])
    if not first.startswith("RATE"):
        return f"say {first}"
    question = first.removeprefix("RATE ")[:2]
    if question == "q1":
        return f"I think so.\n```json\n{write_verdict(10)}\n```\nThat is all."
    return write_verdict(11 if question == "q3" else 5)


def make_judge(folder: Path, server: TestServer) -> SecondModel:
    """Return a project of six rows, whose judge is called about each."""
    return SecondModel(
        folder,
        server,
        answer_or_judge,
        model="judge",
        key="quality",
        purpose="judge:quality",
        asked=6,
        rows=[{"question": f"q{number}", "answer": f"say q{number}"} for number in range(6)],
        scorers=[EXACT, JUDGE],
        without=[EXACT],
    )
