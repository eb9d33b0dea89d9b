"""The files, runs and servers that the pages of the documentation speak of."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
from tests.forked import COMMAND

from .scripts import ROOT, Call

LOGS = ROOT / "tests" / "unit" / "importers" / "logs"
Rows = Sequence[dict[str, Any]]


def lay_out(call: Call) -> None:
    """Fill the working directory with what the pages speak of."""
    call("init", "my-project")
    path = Path("my-project/questions.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row["subject"] = row["category"]
        row["passage"] = number // 5
        row["error_type"] = "ok" if number % 9 else "bad"
    write_lines(str(path), rows)
    shutil.copy("my-project/task.yaml", "task.yaml")
    shutil.copytree(Path(__file__).with_name("desk"), ".", dirs_exist_ok=True)
    shutil.copytree(ROOT / "examples", "examples")
    Path("vendor/answerkey").mkdir(parents=True)
    Path(".config/fish/completions").mkdir(parents=True)
    Path("bench").symlink_to(ROOT / "bench")
    Path("vendor/answerkey/pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    _lay_out_tables(rows)
    _lay_out_arc(rows)
    _lay_out_logs(rows)
    for name in ("capitals", "law"):
        questions = [
            {"question": f"{name} {number}: A, B, C or D?", "answer": "ABCD"[number % 4]}
            for number in range(40)
        ]
        write_lines(f"evals/{name}/questions.jsonl", questions)
    Path("bin/answerkey").write_text(COMMAND, encoding="utf-8")
    Path("bin/answerkey").chmod(0o755)
    _lay_out_runs(call)


def write_lines(name: str, rows: Sequence[object]) -> None:
    """Write one JSON value a line."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _lay_out_tables(rows: Rows) -> None:
    said = [{"sample_id": f"{n:06}", "completion": row["answer"]} for n, row in enumerate(rows, 1)]
    replies = {"completion": "A", "completions": {"my-model": "B"}}
    with_completions = [{**row, **replies} for row in rows]
    write_lines("questions.jsonl", rows)
    write_lines("answers.jsonl", said)
    write_lines("replies.jsonl", said)
    write_lines("both.jsonl", with_completions)
    pl.DataFrame(said).write_parquet("completions.parquet")
    pl.DataFrame(with_completions).write_parquet("rows.parquet")
    cells = [[row["question"], *row["options"], row["answer"]] for row in rows]
    Path("data/mmlu/test").mkdir(parents=True)
    for name in ("test.csv", "dev.csv", "data/mmlu/test/law_test.csv"):
        pl.DataFrame(cells, orient="row").write_csv(name, include_header=False)
    names = dict.fromkeys(("answer", "loesung", "my_output", "gpt4_reply"), "answer")
    pl.DataFrame(rows).select("question", **names).write_csv("answers.csv")


def _lay_out_arc(rows: Rows) -> None:
    questions, replies = [], []
    for number, row in enumerate(rows):
        labelled = zip(row["options"], "ABCD", strict=True)
        choices = [{"text": text, "label": label} for text, label in labelled]
        question = {"stem": row["question"], "choices": choices}
        questions.append({"id": f"q{number}", "question": question, "answerKey": row["answer"]})
        replies.append({"sample_id": f"q{number}", "completion": row["answer"]})
    write_lines("ARC-Challenge-Test.jsonl", questions)
    write_lines("said.jsonl", replies)


def _lay_out_logs(rows: Rows) -> None:
    Path("logs").mkdir()
    for day in ("01-01", "01-31"):
        shutil.copy(LOGS / "inspect.eval", f"logs/2026-{day}_mmlu.eval")
    shutil.copytree(LOGS / "lm-eval", "results/my-model")
    for name in ("before", "after"):
        shutil.copytree(ROOT / "examples" / "compare_logs" / name, f"results/{name}")
    shutil.copy(LOGS / "evidence-quiz.json", "evidence.json")
    for path in Path("results/my-model").iterdir():
        text = path.read_text("utf-8").replace('"strict"', '"strict-match"')
        path.write_text(text, encoding="utf-8")
    lines = []
    for number, row in enumerate(rows, 1):
        message = {"role": "assistant", "content": row["answer"]}
        response = {"status_code": 200, "body": {"choices": [{"message": message}]}}
        lines.append({"custom_id": f"{number:06}", "response": response})
    write_lines("output.jsonl", lines)


def _lay_out_runs(call: Call) -> None:
    """Two models, each under the names that pages give its run, and two runs that were stopped."""
    run = ("run", "my-project", "--model")
    for stopped in ("quickstart", "my-project"):
        out = f"runs/20260101-120000-{stopped}"
        done = call(*run, "openai/gpt-4.1-nano", "--max-calls", 9, "--out", out)
        assert done.code == 3, done.err
    copies = {"b": ("B", "other"), "a": ("A", "c", "released", "my-run", "zz-latest")}
    for seed, (name, names) in enumerate(copies.items()):
        model = f"builtin/simulated?seed={1 - seed}"
        done = call(*run, model, "--out", f"runs/{name}", "-q")
        assert done.code == 0, done.err
        for copy in names:
            shutil.copytree(f"runs/{name}", f"runs/{copy}")
    shutil.copytree("runs/my-run", "my-project/runs/my-run")


def write_parquet() -> bytes:
    """Return a small table of questions as Parquet."""
    columns = {"question": ["A?", "B?"], "subject": ["law", "law"], "answer": [0, 1]}
    stream = io.BytesIO()
    pl.DataFrame({**columns, "choices": [list("abcd")] * 2}).write_parquet(stream)
    return stream.getvalue()


class Hub(BaseHTTPRequestHandler):
    """A hub with one table under every name."""

    def do_GET(self) -> None:
        """Answer with the table, or with the description of its repository."""
        files = {"config_name": "all", "data_files": [{"split": "test", "path": "all/test-*"}]}
        description = {
            "id": "x/y",
            "sha": "a" * 40,
            "siblings": [{"rfilename": "all/test-0.parquet"}],
            "cardData": {"configs": [files]},
        }
        body = json.dumps(description).encode()
        kind = "application/json"
        if "/resolve/" in self.path:
            body = write_parquet()
            kind = "application/octet-stream"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
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
