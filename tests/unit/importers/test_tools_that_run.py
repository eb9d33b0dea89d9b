"""Laws that hold on logs which Inspect and lm-eval write when they ask the test server.

The logs in `logs/` were written like this. The tools run in the environments of the bench, and only in the
long series.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import answerkey as ak
from answerkey.testing import Reply, TestServer

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

HERE = Path(__file__).parent
now = pytest.mark.skipif(not os.environ.get("ANSWERKEY_LONG"), reason="the tools run in the long series")
#: What is said to each question, by its number: in the way of each tool, and otherwise.
SAYS = (
    "ANSWER: A",
    "ANSWER: C",
    "**ANSWER: C**",
    "The answer is (D).",
    "ANSWER: B\n\nANSWER: A",
    "B",
    "Both A and B look right.",
    "\\boxed{D}",
)
TRUTHS = "ABCDABCD"

INSPECT = """
import os, sys
os.environ.update(BENCH_API_KEY="none", BENCH_BASE_URL=sys.argv[1], INSPECT_LOG_DIR=sys.argv[2])
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice
samples = [
    Sample(id=n, input=f"Question {n}?", target="ABCDABCD"[n], metadata={"subject": f"subject {n % 2}"},
           choices=[f"{word} {n}" for word in ("first", "second", "third", "fourth")])
    for n in range(8)
]
task = Task(dataset=MemoryDataset(samples, name="numbers"), solver=multiple_choice(), scorer=choice(),
            name="numbers")
logs = eval(task, model="openai-api/bench/made", epochs=2, log_format=sys.argv[3], display="none",
            log_level="error")
assert logs[0].status == "success", logs[0].error
"""

LM_EVAL = """
import json, sys
from lm_eval import evaluator
from lm_eval.api.registry import get_model
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
import requests
from lm_eval.api.model import LM

class Question(LM):
    def generate_until(self, requests_, disable_tqdm=False):
        return [self.ask(one.args[0]) for one in requests_]
    def ask(self, prompt):
        body = {"model": "made", "messages": [{"role": "user", "content": prompt}]}
        answer = requests.post(sys.argv[1] + "/chat/completions", json=body, timeout=300).json()
        return answer["choices"][0]["message"]["content"] or ""
    def loglikelihood(self, requests_, disable_tqdm=False):
        return [(self.weigh(*one.args), False) for one in requests_]
    def weigh(self, prompt, text):
        return -float(len(text)) - sum(map(ord, prompt + text)) % 7
    def loglikelihood_rolling(self, requests_, disable_tqdm=False):
        raise RuntimeError("not asked for")

tracker = EvaluationTracker(output_path=sys.argv[2])
found = evaluator.simple_evaluate(model=Question(), tasks=["made_text", "made_rank"], log_samples=True,
                                  bootstrap_iters=0, task_manager=TaskManager(include_path=sys.argv[3]))
samples = found.pop("samples")
tracker.general_config_tracker.model_name_sanitized = "made"
tracker.save_results_aggregated(results=found, samples=samples)
for name in found["configs"]:
    tracker.save_results_samples(task_name=name, samples=samples[name])
"""

TEXT_TASK = """
task: made_text
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
output_type: generate_until
test_split: test
doc_to_text: "{{question}}\\nAnswer:"
doc_to_target: "{{'ABCD'[answer]}}"
generation_kwargs: {until: ["</s>"], max_gen_toks: 32}
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "ANSWER: ([A-D])"}, {function: take_first}]}
  - name: loose
    filter: [{function: regex, group_select: -1, regex_pattern: "([A-D])"}, {function: take_first}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
RANK_TASK = """
task: made_rank
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""


def say(messages: Sequence[Mapping[str, Any]]) -> str | Reply:
    """Answer a question by its number."""
    number = int(str(messages[-1]["content"]).rpartition("Question ")[2].partition("?")[0])
    return SAYS[number]


def make_inspect_log(run_tool: Callable[..., str], folder: Path, form: str) -> Path:
    """Let Inspect ask the test server; return its log."""
    with TestServer(say) as server:
        home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        run_tool("inspect", "-c", INSPECT, server.url, folder, form, **home)
    return next(folder.glob(f"*.{form}"))


def make_lm_eval_log(run_tool: Callable[..., str], folder: Path) -> Path:
    """Let lm-eval ask the test server; return the folder of its run."""
    tasks = folder / "tasks"
    tasks.mkdir()
    words = ("first", "second", "third", "fourth")
    rows = [
        {
            "question": f"Question {n}?",
            "choices": [f"{word} {n}" for word in words],
            "answer": "ABCD".index(truth),
        }
        for n, truth in enumerate(TRUTHS)
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, text in (("text", TEXT_TASK), ("rank", RANK_TASK)):
        (tasks / f"{name}.yaml").write_text(text.replace("FILE", str(folder / "rows.jsonl")))
    offline = {"HF_HOME": str(folder / "hf"), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    with TestServer(say) as server:
        run_tool("lm-eval", "-c", LM_EVAL, server.url, folder / "out", tasks, **offline)
    return folder / "out" / "made"


def check_inspect(desk: Desk, log: Path) -> None:
    """Hold a log of Inspect against its own numbers, and its differences against its own rule."""
    found = desk.bring(log)
    assert (found.samples, found.tasks[0].num_trials, found.tasks[0].statuses, found.tasks[0].judged) == (
        8,
        2,
        {"OK": 16},
        16,
    )
    assert found.tasks[0].their_mean == found.tasks[0].description.reported["accuracy"] == 0.375
    task = ak.run(found.folder, out=desk.folder / "run").tasks["numbers"]
    assert task.metrics["Accuracy"].value == 0.625
    theirs, readers = task.totals["theirs"], task.totals["readings"]["theirs"]
    assert (theirs["both_right"], theirs["both_wrong"]) == (4, 4)
    reasons = {
        side: {name: one["count"] for name, one in theirs[side]["reasons"].items()}
        for side in ("only_theirs", "only_ours")
    }
    assert reasons == {"only_theirs": {"SEVERAL_CHOICES": 2}, "only_ours": {"THEY_READ_NOTHING": 6}}
    assert (readers["n"], readers["readers"]["Inspect"]) == (8, 8)


def check_lm_eval(desk: Desk, log: Path) -> None:
    """Hold a log of lm-eval against its own numbers, by text and by log-probability."""
    text = desk.bring(next(log.glob("samples_made_text_*")))
    assert (text.samples, text.tasks[0].description.score, text.tasks[0].their_mean) == (
        8,
        "exact_match,strict",
        0.25,
    )
    assert text.tasks[0].description.reported == {"exact_match,strict": 0.25}
    ran = ak.run(text.folder, out=desk.folder / "text run").tasks["made_text"]
    assert ran.metrics["Accuracy"].value == 0.625
    assert ran.totals["theirs"]["only_theirs"]["count"] == 0
    for score in ("acc,none", "acc_norm,none"):
        rank = desk.bring(next(log.glob("samples_made_rank_*")), score=score)
        mean = rank.tasks[0].their_mean
        assert rank.tasks[0].description.reported == {score: mean}
        task = ak.run(rank.folder, out=desk.folder / f"{score} run").tasks["made_rank"]
        assert task.metrics["Accuracy"].value == mean
        assert task.totals["theirs"]["compared"] == 8
        assert task.totals["theirs"]["both_right"] + task.totals["theirs"]["both_wrong"] == 8


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_kept_log_of_inspect_imports(desk: Desk, form: str) -> None:
    """As an archive with Zstandard members, and as JSON."""
    check_inspect(desk, HERE / "logs" / f"inspect.{form}")


def test_a_kept_log_of_lm_eval_imports(desk: Desk) -> None:
    """With the numbers that it reports."""
    check_lm_eval(desk, HERE / "logs" / "lm-eval")


@now
@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_log_that_inspect_writes_now_imports(
    desk: Desk, tmp_path: Path, run_tool: Callable[..., str], form: str
) -> None:
    """The same law on a log of today."""
    check_inspect(desk, make_inspect_log(run_tool, tmp_path / "made", form))


@now
def test_a_log_that_lm_eval_writes_now_imports(
    desk: Desk, tmp_path: Path, run_tool: Callable[..., str]
) -> None:
    """The same law on a log of today."""
    (tmp_path / "made").mkdir()
    check_lm_eval(desk, make_lm_eval_log(run_tool, tmp_path / "made"))
