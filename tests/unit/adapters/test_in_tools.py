"""Each adapter in its tool, as the page shows it: the tool's log, scored by it, has our verdicts.

The tools answer 300 questions with the replies of the open corpus. The log is imported and scored
here, and every verdict of the tool is held against it. Tools are installed and run in the long
series only.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import polars as pl
import pytest
from hatchling.build import build_wheel

import answerkey as ak
from answerkey.importers import import_log
from answerkey.reader import read
from answerkey.testing import TestServer

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "cases" / "corpus" / "open.jsonl"
PAGE = ROOT / "docs" / "guide" / "use-the-reader.md"
pytestmark = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="the tools run in the long series"
)
NUMBER = re.compile(r"Question number (\d+)\?")

LM_EVAL = """
import json, re, sys
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

replies = json.load(open("replies.json"))

@register_model("made")
class Made(LM):
    def __init__(self, **_settings):
        super().__init__()
    def generate_until(self, requests, disable_tqdm=False):
        return [replies[int(re.search(PATTERN, one.args[0])[1])] for one in requests]
    def loglikelihood(self, requests, disable_tqdm=False):
        raise RuntimeError("not asked for")
    loglikelihood_rolling = loglikelihood

cli_evaluate()
"""
LIGHTEVAL_MODEL = """
import json, re
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache

replies = json.load(open("replies.json"))

class Made(LightevalModel):
    tokenizer, add_special_tokens, max_length = None, False, 2048
    def __init__(self, config):
        self.config, self._cache = config, SampleCache(config)
    def greedy_until(self, docs):
        found = [int(re.search(PATTERN, doc.query)[1]) for doc in docs]
        return [ModelResponse(input=doc.query, text=[replies[n]]) for n, doc in zip(found, docs)]
    def loglikelihood(self, docs):
        raise RuntimeError("not asked for")
    loglikelihood_rolling = loglikelihood
"""
#: Its ready-made tasks are left out: some of them download when they are imported.
LIGHTEVAL = """
from lighteval.__main__ import app
from lighteval.tasks.registry import Registry

Registry._load_from_files = Registry._load_from_subdirs = staticmethod(lambda *_: {})
app()
"""

#: Prints what the scorer says of single replies, as JSON.
INSPECT = """
import asyncio, json
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState
from answerkey.adapters import inspect_scorer

def judge(text, target, listed, is_shuffled=False, **given):
    output = ModelOutput.from_content("made", text)
    state = TaskState("made", 1, 1, "?", [], choices=listed, output=output)
    if is_shuffled:
        state.choices[0].original_position, state.choices[1].original_position = 1, 0
    try:
        found = asyncio.run(inspect_scorer(**given)(state, Target(target)))
    except ValueError as error:
        return str(error)
    return [found.value, found.answer, found.explanation, found.metadata]

cities = ["Sydney", "Canberra"]
print(json.dumps([
    judge("It is Canberra.", "b", cities),
    judge("Both.", "B", cities),
    judge("The answer is (D).", "D", None, choices="ABCD"),
    judge("B", ["A", "B"], cities),
    judge("B", "B", None),
    judge("B", "B", cities, is_shuffled=True),
]))
"""
#: The same for the metric.
LIGHTEVAL_DOCS = """
import json
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc
from answerkey.adapters import lighteval_metric

def measure(texts, choices, gold):
    doc = Doc(query="?", choices=choices, gold_index=gold)
    return lighteval_metric("mine").compute_sample(doc=doc, model_response=ModelResponse(text=texts))

cities = ["Sydney", " Canberra", "Perth"]
print(json.dumps([
    measure(["It is Canberra."], cities, 1),
    measure(["(B)", "(C)", "(A)", "?"], cities, [1, 2]),
    measure(["The answer is (B)."], [" A", " B"], 1),
    measure(["It is Canberra."], [" A", " B"], 1),
]))
"""  # noqa: E501 - the text as it is written
#: One step of training: a model that knows a few words, and draws them at random.
TRL = """
import json, torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from answerkey.adapters import reward

torch.manual_seed(0)
words = ["<pad>", "<end>", "<unknown>", "A", "B", "C", "Canberra"]
model = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unknown>"))
model.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", eos_token="<end>")
ids = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
config = GPT2Config(vocab_size=len(words), n_positions=16, n_embd=8, n_layer=1, n_head=1, **ids)
seen = []

def watch(completions, choices, answer, options, **columns):
    found = reward(completions=completions, choices=choices, answer=answer, options=options, **columns)
    seen.extend(zip(completions, choices, answer, options, found))
    return found

question = {"prompt": "A", "choices": ["A", "B", "C"], "options": ["Sydney", "Canberra", "Perth"]}
rows = Dataset.from_list([{**question, "answer": "ABC"[number % 3]} for number in range(12)])
count = {"per_device_train_batch_size": 48, "num_generations": 4, "max_completion_length": 2, "max_steps": 1}
quiet = {"report_to": [], "save_strategy": "no", "logging_steps": 1, "use_cpu": True}
trainer = GRPOTrainer(
    model=GPT2LMHeadModel(config), reward_funcs=[reward, watch], train_dataset=rows,
    args=GRPOConfig(output_dir="out", **count, **quiet), processing_class=tokenizer,
)
trainer.train()
json.dump([seen, trainer.state.log_history[0]["rewards/reward/mean"]], open("seen.json", "w"))
"""  # noqa: E501 - the text as it is written


def load_rows() -> list[dict[str, Any]]:
    """Return the replies of the corpus whose options have the labels A, B, …, each with a truth.

    Where a reply answers nothing the truth is A, and every fourth truth is another than the answer.
    """
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    letters = ascii_uppercase[:10]
    kept = [row for row in rows if row["options"] and "".join(row["choices"]) in letters]
    kept = [row for row in kept if row["choices"][0] == "A"]
    kept = [row for row in kept if len({*row["options"]}) == len(row["options"])]
    for number, row in enumerate(kept):
        answer = row["choices"].index(row["label"] or "A")
        row["answer"] = row["choices"][(answer + (number % 4 == 0)) % len(row["choices"])]
    return kept


ROWS = load_rows()


def say(messages: Sequence[Mapping[str, Any]]) -> str:
    """Answer a question by its number."""
    match = NUMBER.search(str(messages[-1]["content"]))
    assert match is not None
    return str(ROWS[int(match[1])]["completion"])


def take_block(kind: str, word: str) -> str:
    """Return the block of the page that holds a word."""
    blocks = re.findall(
        rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (taken,) = (block for block in blocks if word in block)
    return str(taken)


@pytest.fixture
def tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_tool: Callable[..., str]
) -> Callable[..., str]:
    """Return a function that runs a tool beside our wheel, in a folder with questions and
    replies.
    """
    monkeypatch.chdir(ROOT)
    name = build_wheel(str(tmp_path))
    packages = tmp_path / "site-packages"
    with zipfile.ZipFile(tmp_path / name) as archive:
        archive.extractall(packages)
    questions = [
        {
            "question": f"Question number {number}?",
            "options": row["options"],
            "answer": row["answer"],
        }
        for number, row in enumerate(ROWS)
    ]
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "test.jsonl").write_text(
        "".join(f"{json.dumps(question)}\n" for question in questions)
    )
    (tmp_path / "replies.json").write_text(json.dumps([row["completion"] for row in ROWS]))
    monkeypatch.chdir(tmp_path)

    def run(name: str, *words: object, **environment: str) -> str:
        paths = {"PYTHONPATH": str(packages), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        offline = {
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
        }
        return run_tool(name, *words, **paths, **offline, **environment)

    return run


def compare(log: Path, score: str) -> pl.DataFrame:
    """Import a log, score it here, hold each verdict of the tool against ours, and return the
    rows.
    """
    imported = import_log("auto", log, out=log.with_name("imported"), score=score)
    assert (imported.samples, imported.tasks[0].description.score) == (len(ROWS), score)
    (task,) = ak.run(imported.folder, out=log.with_name("run")).tasks.values()
    folder = imported.folder / imported.tasks[0].key
    samples = pl.read_ndjson(folder / "dataset.jsonl")
    answers = pl.read_ndjson(folder / "completions.jsonl")
    ours = task.scores.select("sample_id", "string_equals_mcqa").unnest("string_equals_mcqa")
    rows = samples.join(answers, on="sample_id").join(
        ours.unnest("values", "metadata"), on="sample_id"
    )
    numbers = [int(match[1]) for text in rows["question"] if (match := NUMBER.search(text))]
    rows = rows.with_columns(pl.Series("number", numbers)).sort("number")
    assert rows["number"].to_list() == list(range(len(ROWS)))
    assert rows["imported_score"].to_list() == rows["is_correct"].to_list()
    assert task.metrics["Accuracy"].value == rows["imported_score"].mean()
    expected = [
        read(row["completion"], row["choices"], row["options"]).choice == row["answer"]
        for row in ROWS
    ]
    assert rows["is_correct"].to_list() == [float(text) for text in expected]
    return rows


def evaluate(tool: Callable[..., str], task: str) -> Path:
    """Let Inspect evaluate a task with the test server as model; return its log."""
    Path("capitals.py").write_text(task, encoding="utf-8")
    words = ("--model", "openai-api/made/made", "--log-dir", "logs", "--display", "none")
    with TestServer(say) as server:
        settings = {"MADE_API_KEY": "none", "MADE_BASE_URL": server.url}
        tool("inspect", "-m", "inspect_ai", "eval", "capitals.py", *words, **settings)
    (log,) = Path("logs").resolve().glob("*.eval")
    return log


def test_inspect_evaluates_with_the_scorer(tool: Callable[..., str]) -> None:
    """`inspect eval` of the page's task."""
    rows = compare(evaluate(tool, take_block("python", "inspect_scorer")), "stated_answer")
    assert rows["imported_answer"].to_list() == rows["predicted_choice"].to_list()


def test_inspect_scores_its_own_log_again(tool: Callable[..., str], tmp_path: Path) -> None:
    """`inspect score` of a log that Inspect's own scorer has judged; it holds both scores then."""
    task = take_block("python", "inspect_scorer").replace("inspect_scorer()", "choice()")
    log = evaluate(tool, f"from inspect_ai.scorer import choice\n{task}")
    command = "--scorer answerkey/stated_answer --action append --output-file again.eval"
    words = command.split()
    settings = {"MADE_API_KEY": "none", "MADE_BASE_URL": "http://127.0.0.1:9"}
    tool("inspect", "-m", "inspect_ai", "score", log, *words, **settings)
    rows = compare(tmp_path / "again.eval", "stated_answer")
    assert rows["imported_answer"].to_list() == rows["predicted_choice"].to_list()
    imported = import_log("auto", tmp_path / "again.eval", out=tmp_path / "own", score="choice")
    assert imported.tasks[0].imported_mean is not None
    assert imported.tasks[0].imported_mean < sum(rows["imported_score"]) / len(ROWS)


def test_the_scorer_says_what_it_read_and_what_it_cannot_judge(tool: Callable[..., str]) -> None:
    """A target of several letters, no choices, and a shuffle that rewrites completions are
    errors.
    """
    right, several, listed, *errors = json.loads(tool("inspect", "-c", INSPECT))
    reading = {"validity_reason": None, "part": "conclusion"}
    assert right == ["C", "B", "It is Canberra.", {**reading, "span": right[3]["span"]}]
    assert (several[:2], several[3]["validity_reason"]) == (["I", None], "NOTHING_STATED")
    assert listed[:2] == ["C", "D"]
    messages = (
        "the answer 'AB' is not one of the choices",
        "letters for 1 to 26 options, but there are 0",
        "shuffle_choices",
    )
    assert [part in error for part, error in zip(messages, errors, strict=True)] == [True] * 3


def test_lm_eval_evaluates_with_the_filter(tool: Callable[..., str], tmp_path: Path) -> None:
    """`lm-eval` with the page's task file."""
    (tmp_path / "capitals.yaml").write_text(take_block("yaml", "LmEvalFilter"))
    program = LM_EVAL.replace("PATTERN", repr(NUMBER.pattern))
    words = (
        "--model",
        "made",
        "--tasks",
        "capitals",
        "--include_path",
        ".",
        "--log_samples",
        "--output_path",
        "out",
    )
    tool("lm-eval", "-c", program, *words)
    (log,) = (tmp_path / "out").rglob("samples_capitals_*.jsonl")
    rows = compare(log, "exact_match,stated_answer")
    answers = [row or "[invalid]" for row in rows["predicted_choice"]]
    assert [row or "[invalid]" for row in rows["imported_answer"]] == answers


def test_lighteval_evaluates_with_the_metric(tool: Callable[..., str], tmp_path: Path) -> None:
    """`lighteval` with the page's file of tasks."""
    (tmp_path / "capitals.py").write_text(take_block("python", "lighteval_metric"))
    (tmp_path / "model.py").write_text(LIGHTEVAL_MODEL.replace("PATTERN", repr(NUMBER.pattern)))
    command = "custom made model.py capitals|0 --custom-tasks capitals.py --save-details"
    words = command.split()
    tool("lighteval", "-c", LIGHTEVAL, *words, "--output-dir", "out")
    (log,) = (tmp_path / "out").rglob("details_*.parquet")
    compare(log, "stated_answer")


def test_the_metric_is_the_share_of_generations_that_are_right(tool: Callable[..., str]) -> None:
    """Any of several golds is right; choices that are letters alone leave the options unknown."""
    result = json.loads(tool("lighteval", "-c", LIGHTEVAL_DOCS).splitlines()[-1])
    assert result == [{"mine": 1.0}, {"mine": 0.5}, {"mine": 1.0}, {"mine": 0.0}]


def test_trl_trains_with_the_reward(tool: Callable[..., str], tmp_path: Path) -> None:
    """Every completion that it draws gets the reward that the reader's choice deserves."""
    tool("lighteval", "-c", TRL)
    seen, mean = json.loads((tmp_path / "seen.json").read_text())
    results = [reward for *_, reward in seen]
    choices = [read(text, labels, options).choice for text, labels, _, options, _ in seen]
    assert results == [float(choice == row[2]) for choice, row in zip(choices, seen, strict=True)]
    assert (len(seen), mean) == (48, pytest.approx(sum(results) / 48))
    assert 0 < sum(results) < 48
