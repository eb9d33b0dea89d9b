"""The files, runs and servers that the pages of the documentation speak of."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
from tests.forked import COMMAND

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "unit" / "importers" / "logs"
Rows = Sequence[dict[str, Any]]
GATES = """\
policies:
  rules:
    - {key: accurate, definition: {type: threshold, operator: "<=", threshold: 1}}
"""
EVAL = """\
datasets: [{key: questions, display_name: Questions, source: {type: local, file_path: questions.jsonl}}]
tasks:
  - key: letters
    display_name: Letters
    description: The model answers with one letter.
    definition:
      dataset: {key: questions}
      solver:
        type: single_turn_solver
        input_builder:
          type: chat_completion
          input_messages: [{role: user, content: "{{ sample.question }}"}]
      scorers:
        - type: string_equals_mcqa
          ground_truth_choice: "{{ sample.answer }}"
          choices: [A, B, C, D]
          metrics: [{type: mean, field: is_correct, name: Accuracy}]
evaluation:
  key: KEY
  display_name: KEY
  task_specifications: [{task_key: letters, model_key: openai/gpt-4.1-nano}]
policies:
  key: gate
  rules:
    - {key: good, definition: {type: threshold, metric: Accuracy, operator: ">=", threshold: LEAST}}
"""  # noqa: E501 - the text as it is written
PYTEST = '[tool.pytest.ini_options]\nanswerkey_files = ["evals/*/run.yaml"]\n'
#: Installs nothing: says whether what is named can be installed from where it lies.
PIP = """\
#!/bin/sh
for last; do :; done
test "$1" = install && test -f "$last/pyproject.toml" && exit 0
echo "pip $*: nothing to install there" >&2
exit 1
"""


def lay_out(call: Callable[..., Any]) -> None:
    """Fill the working directory with what the pages speak of."""
    call("init", "my-project")
    rows = [
        json.loads(line)
        for line in Path("my-project/questions.jsonl").read_text("utf-8").splitlines()
    ]
    for number, row in enumerate(rows):
        row |= {
            "subject": row["category"],
            "passage": number // 5,
            "error_type": "ok" if number % 9 else "bad",
        }
    write_lines("my-project/questions.jsonl", rows)
    shutil.copy("my-project/task.yaml", "task.yaml")
    shutil.copytree(ROOT / "examples", "examples")
    Path("vendor/answerkey").mkdir(parents=True)
    for link, target in {
        "bench": "bench",
        "vendor/answerkey/pyproject.toml": "pyproject.toml",
    }.items():
        Path(link).symlink_to(ROOT / target)
    _lay_out_tables(rows)
    _lay_out_logs(rows)
    _lay_out_evals()
    _lay_out_tools()
    _lay_out_runs(call)


def write_lines(name: str, rows: Sequence[object]) -> None:
    """Write one JSON value a line."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _lay_out_tables(rows: Rows) -> None:
    answers = [
        {"sample_id": f"{n:06}", "completion": row["answer"]} for n, row in enumerate(rows, 1)
    ]
    with_completions = [
        {**row, "completion": "A", "completions": {"my-model": "B"}} for row in rows
    ]
    write_lines("questions.jsonl", rows)
    write_lines("answers.jsonl", answers)
    write_lines("replies.jsonl", answers)
    pl.DataFrame(answers).write_parquet("completions.parquet")
    write_lines("both.jsonl", with_completions)
    pl.DataFrame(with_completions).write_parquet("rows.parquet")
    flat = pl.DataFrame(
        [[row["question"], *row["options"], row["answer"]] for row in rows], orient="row"
    )
    Path("data/mmlu/test").mkdir(parents=True)
    for name in ("test.csv", "dev.csv", "data/mmlu/test/law_test.csv"):
        flat.write_csv(name, include_header=False)
    names = dict.fromkeys(("answer", "loesung", "my_output", "gpt4_reply"), "answer")
    pl.DataFrame(rows).select("question", **names).write_csv("answers.csv")
    arc = [
        {
            "id": f"q{number}",
            "question": {
                "stem": row["question"],
                "choices": [
                    {"text": text, "label": label}
                    for text, label in zip(row["options"], "ABCD", strict=True)
                ],
            },
            "answerKey": row["answer"],
        }
        for number, row in enumerate(rows)
    ]
    write_lines("ARC-Challenge-Test.jsonl", arc)
    write_lines(
        "said.jsonl",
        [
            {"sample_id": question["id"], "completion": row["answer"]}
            for question, row in zip(arc, rows, strict=True)
        ],
    )


def _lay_out_logs(rows: Rows) -> None:
    Path("logs").mkdir()
    for day in ("01-01", "01-31"):
        shutil.copy(LOGS / "inspect.eval", f"logs/2026-{day}_mmlu.eval")
    shutil.copytree(LOGS / "lm-eval", "results/my-model")
    for name in ("before", "after"):
        shutil.copytree(ROOT / "examples" / "compare_logs" / name, f"results/{name}")
    shutil.copy(LOGS / "evidence-quiz.json", "evidence.json")
    for path in Path("results/my-model").iterdir():
        path.write_text(
            path.read_text("utf-8").replace('"strict"', '"strict-match"'), encoding="utf-8"
        )
    lines = [
        {
            "custom_id": f"{number:06}",
            "response": {
                "status_code": 200,
                "body": {"choices": [{"message": {"role": "assistant", "content": row["answer"]}}]},
            },
        }
        for number, row in enumerate(rows, 1)
    ]
    write_lines("output.jsonl", lines)


def _lay_out_evals() -> None:
    for name, least in (("capitals", "0.01"), ("law", "1")):
        questions = [
            {"question": f"{name} {number}: A, B, C or D?", "answer": "ABCD"[number % 4]}
            for number in range(40)
        ]
        write_lines(f"evals/{name}/questions.jsonl", questions)
        text = EVAL.replace("KEY", name).replace("LEAST", least)
        Path(f"evals/{name}/run.yaml").write_text(text, encoding="utf-8")
    Path("gates.yaml").write_text(GATES, encoding="utf-8")
    Path("pyproject.toml").write_text(PYTEST, encoding="utf-8")


def _lay_out_tools() -> None:
    Path(".config/fish/completions").mkdir(parents=True)
    Path("bin").mkdir()
    for name, text in (("pip", PIP), ("answerkey", COMMAND)):
        Path("bin", name).write_text(text, encoding="utf-8")
        Path("bin", name).chmod(0o755)


def _lay_out_runs(call: Callable[..., Any]) -> None:
    """Two models, each under the names that pages give its run, and two runs that were stopped."""
    for stopped in ("quickstart", "my-project"):
        out = f"runs/20260101-120000-{stopped}"
        begun = call(
            "run", "my-project", "--model", "openai/gpt-4.1-nano", "--max-calls", 9, "--out", out
        )
        assert begun.code == 3, begun.err
    for seed, names in (
        (1, ("b", "B", "other")),
        (0, ("a", "A", "c", "released", "my-run", "zz-latest")),
    ):
        first, *copies = (f"runs/{name}" for name in names)
        done = call(
            "run", "my-project", "--model", f"builtin/simulated?seed={seed}", "--out", first, "-q"
        )
        assert done.code == 0, done.err
        for copy in copies:
            shutil.copytree(first, copy)
    shutil.copytree("runs/my-run", "my-project/runs/my-run")


class Hub(BaseHTTPRequestHandler):
    """A hub with one table under every name."""

    def do_GET(self) -> None:
        """Answer."""
        out = io.BytesIO()
        columns = {
            "question": ["A?", "B?"],
            "subject": ["law", "law"],
            "choices": [list("abcd")] * 2,
        }
        pl.DataFrame({**columns, "answer": [0, 1]}).write_parquet(out)
        description: dict[str, Any] = {
            "id": "x/y",
            "sha": "a" * 40,
            "siblings": [{"rfilename": "all/test-0.parquet"}],
        }
        description["cardData"] = {
            "configs": [
                {"config_name": "all", "data_files": [{"split": "test", "path": "all/test-*"}]}
            ]
        }
        is_table = "/resolve/" in self.path
        body = out.getvalue() if is_table else json.dumps(description).encode()
        digest = hashlib.sha256(body).hexdigest()
        self.send_response(200)
        self.send_header(
            "Content-Type", "application/octet-stream" if is_table else "application/json"
        )
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{digest}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def serve_hub() -> Iterator[str]:
    """Serve the hub, and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    importlib.import_module("huggingface_hub").close_session()
    server.shutdown()
    server.server_close()


def fill_store(store: str, table: Path) -> None:
    """Put a table into the bucket `evals` of an object store."""
    headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS test:test"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for address, content in (("evals", b""), (f"evals/{table.name}", table.read_bytes())):
        url = f"{store}/{address}"
        request = urllib.request.Request(url, content, headers, method="PUT")  # noqa: S310 - loopback
        opener.open(request, timeout=60).close()
