"""Laws that hold on logs which other tools write when they ask the test server.

The logs in `logs/` were written like this. The newest versions of the tools run in the long series
only, in the environments of the bench, and need no network: questions, tasks and the endpoint are
on this machine.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import answerkey as ak
from answerkey.testing import TestServer

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

HERE = Path(__file__).parent
now = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="the tools run in the long series"
)
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
#: What is said to twenty questions in which a reader of logs may go wrong, the right letters, and
#: how many replies state them.
HARD_REPLIES = (
    "A",
    "ANSWER: B",
    "**Answer: C**",
    "The answer is (D).",
    "ANSWER: B\n\nANSWER: A",
    "\\boxed{C}",
    "I cannot tell.",
    "<think>maybe B</think>\n\nANSWER: D",
    "",
    "Both A and B look right.",
    "B. because it says so",
    "Die Antwort ist C – „ganz sicher“.",
    "Let me think. Option A looks good, but it is wrong.\n\nThe correct answer is (D).",
    " C ",
    "ANSWER: d",
    "Answer: E",
    "```\nANSWER: A\n```",
    "答案：B",
    "ANSWER: C\n",
    "Is it A, or is it B?\n\nANSWER: D",
)
HARD_TRUTHS = "ABADACBDABBCACDADBCD"

INSPECT = """
import json, os, sys
os.environ.update(BENCH_API_KEY="none", BENCH_BASE_URL=sys.argv[1], INSPECT_LOG_DIR="logs")
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice
samples = [
    Sample(id=n, input=row["question"], target="ABCD"[row["answer"]], choices=row["choices"],
           metadata={"subject": f"subject {n % 2}"})
    for n, row in enumerate(map(json.loads, open("rows.jsonl", encoding="utf-8")))
]
task = Task(dataset=MemoryDataset(samples, name="numbers"), solver=multiple_choice(), scorer=choice(),
            name="numbers")
logs = eval(task, model="openai-api/bench/made", epochs=2, log_format=sys.argv[2], display="none",
            log_level="error")
assert logs[0].status == "success", logs[0].error
"""  # noqa: E501 - the text as it is written

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

tracker = EvaluationTracker(output_path="out")
found = evaluator.simple_evaluate(model=Question(), tasks=["made_text", "made_rank"], log_samples=True,
                                  bootstrap_iters=0, task_manager=TaskManager(include_path="tasks"))
samples = found.pop("samples")
tracker.general_config_tracker.model_name_sanitized = "made"
tracker.save_results_aggregated(results=found, samples=samples)
for name in found["configs"]:
    tracker.save_results_samples(task_name=name, samples=samples[name])
"""  # noqa: E501 - the text as it is written

TEXT_TASK = """
task: made_text
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
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
"""  # noqa: E501 - the text as it is written
RANK_TASK = """
task: made_rank
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""


LIGHTEVAL_TASK = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def ask(line, task_name=None):
    listed = "".join(f"\\n{letter}) {text}" for letter, text in zip("ABCD", line["choices"]))
    query = f"{line['question']}{listed}"
    return Doc(task_name=task_name, query=query, choices=list("ABCD"), gold_index=line["answer"])

TASKS_TABLE = [
    LightevalTaskConfig(name="made", prompt_function=ask, hf_repo="questions", hf_subset="default",
                        hf_avail_splits=["test"], evaluation_splits=["test"], generation_size=64,
                        metrics=[Metrics.gpqa_instruct_metric], stop_sequence=[])
]
"""
#: Its ready-made tasks are left out: some of them download when they are imported.
LIGHTEVAL = """
from lighteval.__main__ import app
from lighteval.tasks.registry import Registry

Registry._load_from_files = Registry._load_from_subdirs = staticmethod(lambda *_: {})
app()
"""
PROMPTFOO = """
prompts: ["{{question}}\\nA. {{A}}\\nB. {{B}}\\nC. {{C}}\\nD. {{D}}\\nAnswer with one letter."]
providers: [{id: "openai:chat:made", config: {apiBaseUrl: URL, apiKey: none}}]
defaultTest:
  assert: [{type: javascript, value: "(output.match(/[A-D]/g)||[]).pop() === context.vars.letter"}]
tests: tests.json
"""

Tool = Callable[..., str]


def make_rows(truths: str) -> list[dict[str, Any]]:
    """Return plain questions with these truths."""
    words = ("first", "second", "third", "fourth")
    return [
        {
            "question": f"Question {n}?",
            "choices": [f"{word} {n}" for word in words],
            "answer": "ABCD".index(truth),
        }
        for n, truth in enumerate(truths)
    ]


def make_hard_rows() -> list[dict[str, Any]]:
    """Return twenty questions and options in which a reader of logs may go wrong.

    They have several lines, quotation marks, commas, LaTeX, other scripts, and letters that are no
    labels.
    """
    forms = (
        "Question {n}: what is {n} + 1?",
        "A table:\n{n} | 1\n\nQuestion {n}: what is the sum of the row?",
        "Question {n}: wie groß ist „{n} + 1“, in €?",
        'Question {n}: what is "{n}, 1", added?',
        "Question {n}: what is $\\frac{{{n}}}{{1}} + 1$? 答えは？",
    )
    options = ('{n}, "or so"', "$x_{{{n}}}$", "Both A and B", "−{n} (none of the above)")
    return [
        {
            "question": forms[n % 5].format(n=n),
            "choices": [options[(n + k) % 4].format(n=n) for k in range(4)],
            "answer": "ABCD".index(truth),
        }
        for n, truth in enumerate(HARD_TRUTHS)
    ]


def answer(replies: Sequence[str]) -> Callable[[Sequence[Mapping[str, Any]]], str]:
    """Return a model that answers a question by its number."""

    def say(messages: Sequence[Mapping[str, Any]]) -> str:
        return replies[int(re.findall(r"Question (\d+)", str(messages[-1]["content"]))[-1])]

    return say


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_tool: Tool) -> Tool:
    """Return a function that runs the newest version of a tool in a folder of its own, offline."""
    folder = tmp_path / "made"
    folder.mkdir()
    monkeypatch.chdir(folder)
    home = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "PROMPTFOO_CONFIG_DIR")}
    offline = {"HF_HOME": str(folder / "hf"), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    offline |= {"LITELLM_LOCAL_MODEL_COST_MAP": "1", "OPENAI_API_KEY": "none"}
    offline |= {
        f"PROMPTFOO_DISABLE_{name}": "1" for name in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")
    }
    return partial(run_tool, newest=True, PROMPTFOO_FAILED_TEST_EXIT_CODE="0", **home, **offline)


def write_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the questions as each tool wants them."""
    for path in (Path("rows.jsonl"), Path("questions") / "test.jsonl"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lettered = [
        {"question": row["question"], **dict(zip("ABCD", row["choices"], strict=True))}
        for row in rows
    ]
    truths = ["ABCD"[row["answer"]] for row in rows]
    tests = [
        {"vars": letters | {"letter": truth}}
        for letters, truth in zip(lettered, truths, strict=True)
    ]
    Path("tests.json").write_text(json.dumps(tests))
    Path("csv").mkdir(exist_ok=True)
    with Path("csv", "made_val.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "question", *"ABCD", "answer"])
        for n, (letters, truth) in enumerate(zip(lettered, truths, strict=True)):
            writer.writerow([n, *letters.values(), truth])
    Path("tasks").mkdir(exist_ok=True)
    for name, text in (("tasks/text.yaml", TEXT_TASK), ("tasks/rank.yaml", RANK_TASK)):
        Path(name).write_text(text)
    Path("made.py").write_text(LIGHTEVAL_TASK)


def ask_inspect(tool: Tool, url: str, form: str = "eval") -> tuple[Path, float]:
    """Let Inspect ask each question twice; return its log and its number."""
    tool("inspect", "-c", INSPECT, url, form)
    (log,) = Path("logs").resolve().glob(f"*.{form}")
    head = json.loads(tool("inspect", "-m", "inspect_ai", "log", "dump", "--header-only", log))
    return log, head["results"]["scores"][0]["metrics"]["accuracy"]["value"]


def ask_lm_eval(tool: Tool, url: str) -> tuple[Path, float]:
    """Let lm-eval ask; return its log and its number."""
    model = f"model=made,base_url={url}/chat/completions"
    options = "--tasks made_text --include_path tasks --apply_chat_template --log_samples"
    words = options.split()
    start = ("-m", "lm_eval", "run", "--model", "local-chat-completions", "--model_args", model)
    tool("lm-eval", *start, *words, "--output_path", "out")
    folder = Path("out", "made").resolve()
    result = json.loads(next(folder.glob("results_*.json")).read_text())
    return folder, result["results"]["made_text"]["exact_match,strict"]


def ask_evalscope(tool: Tool, url: str) -> tuple[Path, float]:
    """Let evalscope ask; return its log and its number."""
    dataset = {"general_mcq": {"local_path": str(Path("csv").resolve()), "subset_list": ["made"]}}
    endpoint = f"--model made --api-url {url} --api-key none --eval-type openai_api".split()
    words = ("--datasets", "general_mcq", "--dataset-args", json.dumps(dataset), "--no-timestamp")
    program = "from evalscope.cli.cli import run_cmd; run_cmd()"
    tool("evalscope", "-c", program, "eval", *endpoint, *words, "--work-dir", "out")
    result = json.loads(Path("out", "reports", "made", "general_mcq.json").read_text())
    return Path("out").resolve(), result["metrics"][0]["score"]


def ask_lighteval(tool: Tool, url: str) -> tuple[Path, float]:
    """Let lighteval ask; return its log and its number."""
    model = f"model_name=openai/made,base_url={url},api_key=none"
    words = ("made|0", "--custom-tasks", "made.py", "--save-details", "--output-dir", "out")
    tool("lighteval", "-c", LIGHTEVAL, "endpoint", "litellm", model, *words)
    result = json.loads(next(Path("out", "results").rglob("results_*.json")).read_text())
    return Path("out").resolve(), result["results"]["made|0"]["extractive_match"]


def ask_promptfoo(tool: Tool, url: str) -> tuple[Path, float]:
    """Let promptfoo ask; return its log and its number."""
    Path("made.yaml").write_text(PROMPTFOO.replace("URL", json.dumps(url)))
    tool("promptfoo", "eval", "-c", "made.yaml", "-o", "out.json", "--no-cache", "--no-table")
    log = Path("out.json").resolve()
    counts = json.loads(log.read_text())["results"]["stats"]
    return log, counts["successes"] / (counts["successes"] + counts["failures"] + counts["errors"])


def check_inspect(desk: Desk, log: Path) -> None:
    """Hold a log of Inspect against its own numbers, and its differences against its own rule."""
    result = desk.bring(log)
    assert (result.samples, result.tasks[0].num_trials) == (8, 2)
    assert (result.tasks[0].statuses, result.tasks[0].judged) == ({"OK": 16}, 16)
    assert result.tasks[0].imported_mean == 0.375
    task = ak.run(result.folder, out=desk.folder / "run").tasks["numbers"]
    assert task.metrics["Accuracy"].value == 0.625
    theirs = task.totals["imported"]
    assert (theirs["both_right"], theirs["both_wrong"]) == (4, 4)
    assert (theirs["only_imported"], theirs["only_ours"]) == (2, 6)


def check_lm_eval(desk: Desk, log: Path) -> None:
    """Hold a log of lm-eval against its own numbers, by text and by log-probability."""
    text = desk.bring(next(log.glob("samples_made_text_*")))
    assert (text.samples, text.tasks[0].description.score) == (8, "exact_match,strict")
    assert text.tasks[0].imported_mean == 0.25
    ran = ak.run(text.folder, out=desk.folder / "text run").tasks["made_text"]
    assert (ran.metrics["Accuracy"].value, ran.totals["imported"]["only_imported"]) == (0.625, 0)
    for score in ("acc,none", "acc_norm,none"):
        rank = desk.bring(next(log.glob("samples_made_rank_*")), score=score)
        mean = rank.tasks[0].imported_mean
        numbers = json.loads(next(log.glob("results_*")).read_text())["results"]["made_rank"]
        assert numbers[score] == mean
        task = ak.run(rank.folder, out=desk.folder / f"{score} run").tasks["made_rank"]
        assert (task.metrics["Accuracy"].value, task.totals["imported"]["compared"]) == (mean, 8)
        assert task.totals["imported"]["both_right"] + task.totals["imported"]["both_wrong"] == 8


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_kept_log_of_inspect_imports(desk: Desk, form: str) -> None:
    """As an archive with Zstandard members, and as JSON."""
    check_inspect(desk, HERE / "logs" / f"inspect.{form}")


def test_a_kept_log_of_lm_eval_imports(desk: Desk) -> None:
    """With the numbers that it reports."""
    check_lm_eval(desk, HERE / "logs" / "lm-eval")


@now
@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_log_that_inspect_writes_now_imports(desk: Desk, tool: Tool, form: str) -> None:
    """The same law on a log of today."""
    write_rows(make_rows(TRUTHS))
    with TestServer(answer(SAYS)) as server:
        log, _ = ask_inspect(tool, server.url, form)
    check_inspect(desk, log)


@now
def test_a_log_that_lm_eval_writes_now_imports(desk: Desk, tool: Tool) -> None:
    """The same law on a log of today."""
    write_rows(make_rows(TRUTHS))
    with TestServer(answer(SAYS)) as server:
        tool("lm-eval", "-c", LM_EVAL, server.url)
    check_lm_eval(desk, Path("out", "made").resolve())


@now
@pytest.mark.parametrize(
    ("name", "ask", "theirs"),
    [
        ("inspect", ask_inspect, 0.3),
        ("lm-eval", ask_lm_eval, 0.2),
        ("evalscope", ask_evalscope, 0.65),
        ("promptfoo", ask_promptfoo, 0.7),
        ("lighteval", ask_lighteval, 0.7),
    ],
)
def test_the_newest_version_of_a_tool_is_read_to_the_last_field(
    desk: Desk,
    tool: Tool,
    foreign: dict[str, Any],
    record_property: Callable[[str, object], None],
    name: str,
    ask: Callable[[Tool, str], tuple[Path, float]],
    theirs: float,
) -> None:
    """Question, options, truth and completion of every row are the server's.

    The number is the tool's.
    """
    rows = make_hard_rows()
    write_rows(rows)
    with TestServer(answer(HARD_REPLIES)) as server:
        log, number = ask(tool, server.url)
    result = desk.bring(log)
    trials = 2 if name == "inspect" else 1
    assert result.tasks[0].num_trials == trials
    questions = {row["sample_id"]: row for row in desk.asked()}
    numbers = {
        key: int(re.findall(r"Question (\d+)", row["question"])[-1])
        for key, row in questions.items()
    }
    assert sorted(numbers.values()) == list(range(20))
    wrong = dict.fromkeys(("question", "options", "truth", "completion"), 0)
    for key, row in questions.items():
        right = rows[numbers[key]]
        wrong["question"] += row["question"] != right["question"]
        wrong["options"] += row["options"] != right["choices"]
        wrong["truth"] += row["choices"].index(row["answer"]) != right["answer"]
    replies = desk.said()
    for reply in replies:
        thought = reply.get("reasoning")
        text = reply["completion"]
        if thought:
            text = f"<think>{thought}</think>\n\n{text.strip()}"
        wrong["completion"] += text != HARD_REPLIES[numbers[reply["sample_id"]]]
    assert len(replies) == 20 * trials
    assert wrong == dict.fromkeys(wrong, 0)
    assert result.tasks[0].imported_mean == pytest.approx(number)
    ours = ak.run(result.folder, out=desk.folder / "run").metrics["Accuracy"].value
    assert ours == 12 / 20
    assert number == pytest.approx(theirs)
    version = foreign["find_newest"](name)
    line = f"{name} {version}: 20 questions, {sum(wrong.values())} of {4 * 20} fields wrong, "
    read = result.tasks[0].imported_mean
    record_property("table", f"{line}its number {number:.2%}, read {read:.2%}, ours {ours:.2%}")
