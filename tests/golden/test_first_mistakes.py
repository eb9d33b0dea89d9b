"""A new user's mistakes, each made through the real command: it says what, where and what to do.

A mistake is what is wrong, the command, the files (on top of a valid task and twelve valid rows)
and how the model's server behaves. `mistakes/` holds the messages; `{server}` stands for the
address of the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from answerkey.models.calls import Limits
from answerkey.testing import Behaviour, Reply, TestServer

TASK = """\
key: quiz
display_name: Quiz
description: Four options.
definition:
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: ["A", "B", "C", "D"]
"""
SOLVER = """\
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - role: user
          content: "{{ sample.question }}"
"""
LIVE = TASK.replace("  scorers:\n", f"{SOLVER}  scorers:\n")
POLICY = """\
policies:
  - key: release
    rules:
      - key: accurate
        definition:
          type: threshold
          metric: Accuracy
          operator: ">="
          threshold: 0.8
"""
SCORE = "score task.yaml --dataset rows.jsonl"
RUN = "run live.yaml --dataset rows.jsonl"
RUN_FILE = "run q.jsonl --model builtin/random"
RUN_SERVED = f"{RUN} --model {{server}}/v1#m"
FOLDER = Path(__file__).parent


def write_rows(answers: Iterable[object] = "ABCDABCDABCD", **more: object) -> str:
    """Return rows with these truths, as JSON Lines; `more` are the same in every row."""
    rows = [
        {"question": f"q{number}?", "options": ["red", "green", "blue", "grey"], "answer": answer}
        | {"completion": "A", **more}
        for number, answer in enumerate(answers, start=1)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write_inspect_log(*targets: str, size: int | None = None) -> str:
    """Return a log of Inspect with a sample for each target; `size` is what its header states."""
    reply = {"choices": [], "completion": "A"}
    shared = {
        "epoch": 1,
        "choices": ["red", "green"],
        "output": reply,
        "scores": {"choice": {"value": "C", "answer": "A"}},
    }
    samples = [
        {"id": number, "input": f"q{number}?", "target": target, **shared}
        for number, target in enumerate(targets, start=1)
    ]
    head = {"task": "quiz", "task_id": "t", "run_id": "r", "eval_id": "e", "model": "m"}
    results = {
        "total_samples": size or len(samples),
        "scores": [{"name": "choice", "metrics": {}}],
    }
    log = {"version": 2, "status": "success", "eval": head, "results": results, "samples": samples}
    return json.dumps(log)


def log(*targets: str, size: int | None = None) -> dict[str, str | bytes]:
    """Return a log of Inspect as a file."""
    return {"log.json": write_inspect_log(*targets, size=size)}


BATCH_OUTPUT = '{"custom_id": "1", "response": {"body": {"choices": []}}, "error": null}\n'
PROMPTFOO = '{"evalId": "e", "results": {"version": 3, "results": []}}'


def change(old: str, new: str, text: str = TASK) -> dict[str, str | bytes]:
    """Return the task file with a mistake in it."""
    assert old in text
    return {"task.yaml" if text == TASK else "live.yaml": text.replace(old, new, 1)}


def measure(metric: str) -> dict[str, str | bytes]:
    """Return the task file with a metric."""
    return change("      choices", f"      metrics: [{metric}]\n      choices")


def always(fault: str) -> Behaviour:
    """Return how a server behaves that never does anything else."""
    return Behaviour(faults={fault: 1.0}, faulty_attempts=None)


def fill(
    answers: Iterable[object] = "ABCDABCDABCD", choices: str = "", **more: object
) -> dict[str, str | bytes]:
    """Return rows with these truths, and a task with these choices."""
    task = TASK.replace('["A", "B", "C", "D"]', choices) if choices else TASK
    return {"task.yaml": task, "rows.jsonl": write_rows(answers, **more)}


def questions(**columns: list[Any]) -> dict[str, str | bytes]:
    """Return a data file of twelve rows; a column is given by the values of its rows."""
    table: dict[str, list[Any]] = {
        "question": [f"q{number}?" for number in range(12)],
        "options": [["red", "green", "blue", "grey"]] * 12,
        "answer": [*"ABCD"] * 3,
        **columns,
    }
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return {"q.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)}


RENAMED = {
    "q.jsonl": str(questions()["q.jsonl"])
    .replace('"question"', '"frage"')
    .replace('"options"', '"auswahl"')
    .replace('"answer"', '"l\u00f6sung"')
}


class Mistake(NamedTuple):
    """A mistake and its exit code."""

    name: str
    words: str
    files: Mapping[str, str | bytes]
    server: Reply | Behaviour | None = None
    code: int = 2

    @property
    def golden(self) -> str:
        """The name of the stored message."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"mistakes/{slug}.txt"

    @property
    def message(self) -> str:
        """The stored message."""
        return (FOLDER / self.golden).read_text(encoding="utf-8")


MISTAKES = [
    Mistake("truths are positions from 0", SCORE, fill([0, 1, 2, 3] * 3)),
    Mistake("truths have brackets", SCORE, fill(["(A)", "(B)", "(C)"] * 4)),
    Mistake("truths are the texts of options", SCORE, fill(["red", "green", "blue", "grey"] * 3)),
    Mistake("truths are null", SCORE, fill([None] * 12)),
    Mistake("truths are kept secret", SCORE, fill([-1] * 12)),
    Mistake("truths are none of the choices", SCORE, fill(["yes", "no"] * 12)),
    Mistake("one truth is wrong", SCORE, fill([*"ABCDE"])),
    Mistake("choices are the options", SCORE, fill(choices='"{{ sample.options }}"')),
    Mistake(
        "choices are the options, and truths too",
        SCORE,
        fill(["grey"] * 12, choices='"{{ sample.options }}"', options=["grey", "blue"]),
    ),
    Mistake(
        "choices are a mapping",
        SCORE,
        fill(choices='"{{ sample.options }}"', options=dict.fromkeys("ABCD", "x")),
    ),
    Mistake("a column is misspelt", SCORE, change("sample.answer", "sample.awnser")),
    Mistake("a column has another name", SCORE, change("sample.answer", "sample.gold")),
    Mistake(
        "a column of the prompt is misspelt",
        f"{RUN} --model builtin/random",
        change("sample.question", "sample.qestion", LIVE),
    ),
    Mistake("a template lacks a brace", SCORE, change("answer }}", "answer }")),
    Mistake("a filter is misspelt", SCORE, change("answer }}", "answer | uper }}")),
    Mistake("a template lacks `sample.`", SCORE, change("sample.answer", "answer")),
    Mistake(
        "a column is named without a template", SCORE, change('"{{ sample.answer }}"', "answer")
    ),
    Mistake(
        "a template lacks quotes", SCORE, change('"{{ sample.answer }}"', "{{ sample.answer }}")
    ),
    Mistake(
        "a template lacks quotes and holds brackets",
        SCORE,
        change('"{{ sample.answer }}"', "{{ sample['answer'] }}"),
    ),
    Mistake("a tab indents", SCORE, change("      choices", "\tchoices")),
    Mistake("an indentation is too small", SCORE, change("      choices", "     choices")),
    Mistake("an indentation is too large", SCORE, change("      choices", "        choices")),
    Mistake(
        "an operator lacks quotes",
        f"{SCORE} --policies gates.yaml",
        {"gates.yaml": POLICY.replace('">="', ">=")},
    ),
    Mistake("a colon lacks its space", SCORE, change("type: string", "type:string")),
    Mistake("a text holds a colon", SCORE, change("Four options.", "Options: four")),
    Mistake("a key is written twice", SCORE, change("key: quiz", "key: quiz\nkey: other")),
    Mistake("a quote is not closed", SCORE, change('answer }}"', "answer }}")),
    Mistake("a bracket is not closed", SCORE, change('"D"]', '"D"')),
    Mistake(
        "a path has backslashes in double quotes",
        SCORE,
        change("Four options.", '"C:\\data\\quiz"'),
    ),
    Mistake("a text is read as true", SCORE, change("display_name: Quiz", "display_name: true")),
    Mistake("a list lacks its dash", SCORE, change("    - type", "      type")),
    Mistake("a scorer is misspelt", SCORE, change("string_equals_mcqa", "string_equal_mcqa")),
    Mistake("a metric is called f1", SCORE, measure("{type: f1, field: is_correct}")),
    Mistake("a metric is called accuracy", SCORE, measure("{type: accuracy, field: is_correct}")),
    Mistake("a metric is called binary", SCORE, measure("{type: binary, field: is_correct}")),
    Mistake("a metric is called avg", SCORE, measure("{type: avg, field: is_correct}")),
    Mistake(
        "a metric reads a field that is not there", SCORE, measure("{type: mean, field: accuracy}")
    ),
    Mistake(
        "a solver is shortened",
        f"{RUN} --model builtin/random",
        change("single_turn_solver", "single_turn", LIVE),
    ),
    Mistake("a key is shortened", SCORE, change("ground_truth_choice", "ground_truth")),
    Mistake(
        "an extraction rule is unknown",
        SCORE,
        change("      choices", "      extraction: last_letter\n      choices"),
    ),
    Mistake(
        "a gate names a metric that there is not",
        f"{SCORE} --policies gates.yaml",
        {"gates.yaml": POLICY.replace("Accuracy", "Acuracy")},
    ),
    Mistake("the task file is misspelt", "run taks.yaml", {}),
    Mistake("the dataset is misspelt", "score task.yaml --dataset row.jsonl", {}),
    Mistake("no dataset is named", "score task.yaml", {}),
    Mistake("a folder holds no run file", "run .", {}),
    Mistake(
        "the dataset is a workbook",
        "score task.yaml --dataset rows.xlsx",
        {"rows.xlsx": b"PK\x03\x04"},
    ),
    Mistake("the dataset is an empty folder", "score task.yaml --dataset data", {"data/": ""}),
    Mistake("the dataset is empty", SCORE, {"rows.jsonl": ""}),
    Mistake("the task file is empty", SCORE, {"task.yaml": ""}),
    Mistake("the task file is UTF-16", SCORE, {"task.yaml": TASK.encode("utf-16")}),
    Mistake(
        "the task file is Latin-1",
        SCORE,
        {"task.yaml": TASK.replace("Four", "Für").encode("latin-1")},
    ),
    Mistake(
        "the dataset is Latin-1",
        "score task.yaml --dataset rows.csv",
        {"rows.csv": "question,answer\nfür,A\n".encode("latin-1")},
    ),
    Mistake(
        "a row of JSON is cut off",
        SCORE,
        {"rows.jsonl": write_rows() + '{"question": "x", "answer": "A"\n'},
    ),
    Mistake(
        "a file of JSON rows is cut off",
        SCORE,
        {"rows.jsonl": write_rows() + '{"question": "x", "opti'},
    ),
    Mistake("a dataset of the hub without a network", "run mmlu --model builtin/longest", {}),
    Mistake(
        "rows are written as Python", SCORE, {"rows.jsonl": "{'question': 'x', 'answer': 'A'}\n"}
    ),
    Mistake(
        "a row ends with a comma", SCORE, {"rows.jsonl": '{"question": "x", "answer": "A",}\n'}
    ),
    Mistake("a list is named .jsonl", SCORE, {"rows.jsonl": '[{"answer": "A"}]\n'}),
    Mistake(
        "rows are named .json", "score task.yaml --dataset rows.json", {"rows.json": write_rows()}
    ),
    Mistake("a web page was saved", SCORE, {"rows.jsonl": "<!DOCTYPE html><title>404</title>\n"}),
    Mistake(
        "Git LFS left a pointer",
        SCORE,
        {"rows.jsonl": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
    ),
    Mistake(
        "a row of CSV has a comma too many",
        "score task.yaml --dataset rows.csv",
        {"rows.csv": "question,answer\na, b,A\n"},
    ),
    Mistake(
        "there is no column of completions",
        SCORE,
        {"rows.jsonl": write_rows().replace("completion", "said")},
    ),
    Mistake("the column of completions is misspelt", f"{SCORE} --completion-column complet", {}),
    Mistake(
        "there are too few completions",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"completion": "A"}\n' * 5},
    ),
    Mistake(
        "completions have other ids",
        f"{SCORE} --completions said.jsonl",
        {"said.jsonl": '{"sample_id": "x", "completion": "A"}\n'},
    ),
    Mistake("the completions file is missing", f"{SCORE} --completions said.jsonl", {}),
    Mistake("ids are used twice", SCORE, {"rows.jsonl": write_rows("AB", sample_id="x")}),
    Mistake(
        "images without a task file",
        "run q.jsonl -q --model builtin/random",
        questions(image=["a.png"] * 12),
    ),
    Mistake("every question has several truths", RUN_FILE, questions(answer=[["A", "C"]] * 12)),
    Mistake("some truths are two labels", RUN_FILE, questions(answer=["AB", "CD", *"ABCDABCDAB"])),
    Mistake("truths are numbers with a dot", RUN_FILE, questions(answer=["1.", "2."] * 6)),
    Mistake("the lists of options are empty", RUN_FILE, questions(options=[[]] * 12)),
    Mistake(
        "one list of options is empty",
        "run q.jsonl -q --model builtin/random",
        questions(options=[["red", "green", "blue", "grey"]] * 11 + [[]]),
    ),
    Mistake(
        "options are one text",
        "run q.csv --model builtin/random",
        {"q.csv": "question,options,answer\n" + "who?,red|green|blue,A\n" * 12},
    ),
    Mistake(
        "a CSV file has no header",
        "run q.csv --model builtin/random",
        {"q.csv": "1,who?,red|green|blue,A\n" * 12},
    ),
    Mistake("several columns are renamed", RUN_FILE, RENAMED),
    Mistake("ids of a data file are used twice", RUN_FILE, questions(id=[1, 1, *range(3, 13)])),
    Mistake(
        "a question has too many options",
        RUN_FILE,
        questions(options=[[str(number) for number in range(1_001)]] * 12),
    ),
    Mistake(
        "the rows are in an object",
        "run q.json --model builtin/random",
        {"q.json": '{"version": 1, "data": [{"question": "?"}]}'},
    ),
    Mistake(
        "a folder of data files is named",
        "run folder --model builtin/random",
        {"folder/": "", "folder/q.jsonl": questions()["q.jsonl"]},
    ),
    Mistake(
        "a column is named without its part",
        "run rows.jsonl --model builtin/random --column answer",
        {},
    ),
    Mistake(
        "a data file has a dataset",
        "run rows.jsonl -q --model builtin/random --dataset rows.jsonl",
        {},
    ),
    Mistake(
        "the number of samples is negative",
        "run rows.jsonl --model builtin/random --num-samples -3",
        {},
    ),
    Mistake("no model is named", RUN, {}),
    Mistake("the provider is misspelt", f"{RUN} --model opnai/gpt-4.1", {}),
    Mistake("the provider ends with a colon", f"{RUN} --model openai:gpt-4o", {}),
    Mistake("the model is a host and a port", f"{RUN} --model 127.0.0.1:8931", {}),
    Mistake("the key is not set", f"{RUN} --model openai/gpt-4.1-nano", {}),
    Mistake("the address names no model", f"{RUN} --model http://127.0.0.1:9/v1", {}),
    Mistake("no server is running", f"{RUN} --model http://127.0.0.1:9/v1#m", {}, code=3),
    Mistake("the host is not known", f"{RUN} --model http://nobody.invalid/v1#m", {}, code=3),
    Mistake("a key is wanted (401)", RUN_SERVED, {}, Behaviour(api_key="right"), code=3),
    Mistake("a call is forbidden (403)", RUN_SERVED, {}, always("403"), code=3),
    Mistake("the model is not known (404)", RUN_SERVED, {}, always("404"), code=3),
    Mistake("the address lacks /v1", f"{RUN} --model {{server}}#m", {}, always("404"), code=3),
    Mistake(
        "the quota is used up",
        RUN_SERVED,
        {},
        Reply(
            status=429, body=b'{"error": {"message": "No credit.", "code": "insufficient_quota"}}'
        ),
        code=3,
    ),
    Mistake("the address is that of a web page", RUN_SERVED, {}, always("html"), code=3),
    Mistake(
        "https is asked of an http port",
        f"{RUN} --model https{{server}}/v1#m",
        {},
        Behaviour(),
        code=3,
    ),
    Mistake(
        "the server fails at everything",
        RUN_SERVED,
        {},
        Reply(status=500, body=b'{"error": {"message": "CUDA out of memory"}}'),
        code=3,
    ),
    Mistake("the server never answers", RUN_SERVED, {}, always("hang"), code=3),
    Mistake("a run is not there", "show latest", {}),
    Mistake("`latest` is misspelt", "show lates", {"runs/one/run.json": "{}"}),
    Mistake(
        "the name of a run is misspelt",
        "compare runs/nope runs/gpt-first",
        {"runs/gpt-first/run.json": "{}", "runs/nope-2/run.json": "{}"},
    ),
    Mistake(
        "a run is not there, but others are",
        "compare runs/b runs/gpt-first",
        {"runs/gpt-first/run.json": "{}"},
    ),
    Mistake("a project is no run", "show .", {}),
    Mistake("a command is misspelt", "rnu task.yaml", {}),
    Mistake("an option is misspelt", f"{SCORE} --datset x", {}),
    Mistake("a part of a ready-made task is named", "run gpqa_diamond --model builtin/random", {}),
    Mistake(
        "a part of a ready-made task is named in another case",
        "run arc_challenge --model builtin/random",
        {},
    ),
    Mistake("a ready-made task is misspelt", "run mmlu_por --model builtin/random", {}),
    Mistake("a number is none", f"{SCORE} --allow-failed many", {}),
    Mistake("a config value is not declared", f"{SCORE} --config k=1", {}),
    Mistake("a kind of log is misspelt", "import inspekt log.json", {"log.json": "{}"}),
    Mistake("questions of a log have several right letters", "score log.json", log("A,B", "B")),
    Mistake(
        "all questions of a log have several right letters",
        "score log.json --single-answers",
        log("A,B", "A,B"),
    ),
    Mistake("a log has fewer samples than it states", "score log.json", log("A", "B", size=3)),
    Mistake(
        "a folder holds several logs",
        "score logs",
        {"logs/": "", "logs/a.json": PROMPTFOO, "logs/b.json": PROMPTFOO},
    ),
    Mistake(
        "a folder of several logs is imported",
        "import auto logs",
        {"logs/": "", "logs/a.json": PROMPTFOO, "logs/b.json": PROMPTFOO},
    ),
    Mistake(
        "a batch output has no questions", "score output.jsonl", {"output.jsonl": BATCH_OUTPUT}
    ),
    Mistake("a log has no such score", "score log.json --score nonsense", log("A", "B")),
    Mistake("an option of logs is given for a task", f"{SCORE} --score choice", {}),
]


def limit_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call at most twice, with short waits."""
    quick = {"attempts": 2, "unreadable_attempts": 2, "attempt_seconds": 0.5, "reach_seconds": 0.2}
    quick |= {"first_wait": 0.01}
    defaults = tuple(quick.get(field.name, field.default) for field in fields(Limits))
    monkeypatch.setattr(Limits.__init__, "__defaults__", defaults)


def write_files(files: Mapping[str, str | bytes]) -> None:
    """Write files into the working directory; a name that ends with `/` is an empty folder."""
    for name, content in files.items():
        path = Path(name)
        if name.endswith("/"):
            path.mkdir()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_is_explained(
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Any],
    compare: Callable[[str, str], None],
) -> None:
    """The message is the stored one, word for word; besides it only `resume` is suggested."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("OPENAI_API_KEY", "ANSWERKEY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    limit_attempts(monkeypatch)
    write_files({"task.yaml": TASK, "live.yaml": LIVE, "rows.jsonl": write_rows(), **mistake.files})
    answers: Reply | str = "A"
    behaviour = Behaviour(hang_seconds=2)
    if isinstance(mistake.server, Reply):
        answers = mistake.server
    elif mistake.server:
        behaviour = mistake.server
    with TestServer(answers, behaviour) as server:
        words = mistake.words.replace("https{server}", server.root.replace("http:", "https:"))
        done = call(*words.replace("{server}", server.root).split())
        message = done.err.partition("to go on where it stopped: ")[0]
        message = message.replace(server.root, "{server}").replace(server.root[4:], "{server}")
    assert (done.code, done.out) == (mistake.code, "")
    compare(mistake.golden, message)


@pytest.mark.parametrize(
    "name",
    [
        "truths are positions from 0",
        "truths have brackets",
        "truths are the texts of options",
        "choices are the options",
        "choices are a mapping",
    ],
)
def test_the_suggested_command_works(name: str, call: Callable[..., Any]) -> None:
    """The project that `init` writes reads every row."""
    mistake = next(mistake for mistake in MISTAKES if mistake.name == name)
    assert "`answerkey init DIR --dataset rows.jsonl`" in mistake.message
    Path("rows.jsonl").write_text(str(mistake.files["rows.jsonl"]))
    assert call("init", "DIR", "--dataset", "rows.jsonl").code == 0
    assert call("check", "DIR").code == 0


def test_every_message_has_its_parts() -> None:
    """More than 65 messages, no two alike, say what to do, and where if there is a place."""
    messages = {mistake.message for mistake in MISTAKES}
    assert len(messages) == len(MISTAKES) >= 65
    for mistake in MISTAKES:
        assert mistake.message.startswith("error[E"), mistake.name
        assert "\n  = help: " in mistake.message, mistake.name
        command = mistake.words.split()[0]
        if command in {"run", "score"} and "--model" not in mistake.words:
            place = re.search(r"\n  --> |: `--|option '--", mistake.message)
            assert place, mistake.name
