"""Makes what `test_kept.py` opens: runs and a trust as a version wrote them.

    .venv/bin/python tests/compat/keep.py

was run once on the code of 2026-11-16, before the packages were taken apart; runs and journals of format 2.
Nothing in `kept/` is ever made again: it is what users have.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import s3fs  # type: ignore[import-untyped]

KEPT = Path(__file__).with_name("kept")
#: Runs remember where their files were, so they are made and opened here.
HOME = Path("/tmp/answerkey-kept")  # noqa: S108 - the place is part of what is kept
#: An address on loopback that nobody else uses: it is part of what the runs remember of their model.
HOST, PORT = "127.83.19.4", 48211
MODEL = f"http://{HOST}:{PORT}/v1#kept"

SOLVER = {
    "type": "single_turn_solver",
    "input_builder": {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.question }} {{ sample.options }}"}],
    },
}
TASK = {
    "key": "kept",
    "display_name": "Kept",
    "description": "Kept for later versions.",
    "definition": {
        "solver": SOLVER,
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": ["A", "B", "C", "D"],
                "options": "{{ sample.options }}",
            }
        ],
    },
}
ROWS = [
    {
        "sample_id": f"s{number:02}",
        "question": f"Question {number}?",
        "options": ["red", "green", "blue", "grey"],
        "answer": "ABCD"[number % 4],
        "category": f"c{number % 3}",
    }
    for number in range(24)
]


class Endpoint(ThreadingHTTPServer):
    """A model that answers every request with one text, and counts what it is asked."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, text: str, delay: float = 0.0) -> None:
        super().__init__((HOST, PORT), _Handler)
        self.text, self.delay, self.asked = text, delay, 0


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        threading.Event().wait(self.server.delay)
        message = {"role": "assistant", "content": self.server.text}
        body = json.dumps(
            {
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 1},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serve(text: str, delay: float = 0.0) -> Iterator[Endpoint]:
    """Run the endpoint that the kept runs know."""
    with Endpoint(text, delay) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answerkey(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Carry out a command in the current folder."""
    command = [sys.executable, "-m", "answerkey", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


def write_project(folder: Path) -> None:
    """Write the files of the project that was run."""
    folder.mkdir(parents=True)
    trials = json.loads(json.dumps(TASK)) | {"key": "kept-trials"}
    trials["definition"]["trials"] = {"num_trials": 2}
    judged = json.loads(json.dumps(TASK)) | {"key": "kept-judged"}
    judged["definition"]["scorers"] = [
        {"type": "model_as_a_judge_scorer", "model_key": MODEL, "user_prompt": "{{ input_prompt }}"}
    ]
    del judged["definition"]["solver"]
    snippet = json.loads(json.dumps(TASK)) | {"key": "kept-snippet"}
    snippet["definition"]["scorers"] = [
        {
            "type": "python",
            "compute_scores_snippet": "def compute_scores(sample): return {'n': len(sample['question'])}",
            "metrics": [{"type": "mean", "field": "n"}],
        }
    ]
    del snippet["definition"]["solver"]
    for name, task in {"task": TASK, "trials": trials, "judged": judged, "snippet": snippet}.items():
        (folder / f"{name}.yaml").write_text(json.dumps(task, indent=1), encoding="utf-8")
    lines = [json.dumps(row) for row in ROWS]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = [
        json.dumps({"sample_id": row["sample_id"], "completion": "B" if number % 5 else "B or C"})
        for number, row in enumerate(ROWS)
    ]
    (folder / "replies.jsonl").write_text("\n".join(said) + "\n", encoding="utf-8")
    plan = {
        "datasets": [
            {"key": "rows", "display_name": "Rows", "source": {"type": "local", "file_path": "rows.jsonl"}}
        ],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {
            "key": "kept-repeated",
            "display_name": "Repeated",
            "task_specifications": [
                {
                    "task_key": "kept",
                    "model_key": "builtin/random?seed=3",
                    "repeatability": {"num_runs": 2},
                }
            ],
        },
    }
    task = json.loads(json.dumps(TASK))
    task["definition"]["dataset"] = {"key": "rows"}
    (folder / "repeated").mkdir()
    (folder / "repeated" / "task.yaml").write_text(json.dumps(task, indent=1), encoding="utf-8")
    (folder / "repeated" / "run.yaml").write_text(json.dumps(plan, indent=1), encoding="utf-8")
    shutil.copy(folder / "rows.jsonl", folder / "repeated" / "rows.jsonl")


def main() -> None:
    """Make everything anew."""
    shutil.rmtree(HOME, ignore_errors=True)
    write_project(HOME / "project")
    os.chdir(HOME)
    os.environ["XDG_CACHE_HOME"] = str(HOME / "cache")
    os.environ["XDG_CONFIG_HOME"] = str(HOME / "config")
    data = ("--dataset", "project/rows.jsonl")
    answerkey(
        "score",
        "project/task.yaml",
        *data,
        "--completions",
        "project/replies.jsonl",
        "--out",
        "runs/recorded",
    )
    answerkey("run", "project/trials.yaml", *data, "--model", "builtin/random?seed=1", "--out", "runs/trials")
    answerkey("run", "project/repeated", "--out", "runs/repeated")
    answerkey(
        "score",
        "project/snippet.yaml",
        *data,
        "--completions",
        "project/replies.jsonl",
        "--trust-code",
        "--out",
        "runs/snippet",
    )
    with serve("B"):
        answerkey("run", "project/task.yaml", *data, "--model", MODEL, "--out", "runs/live")
        stopped = answerkey(
            "run",
            "project/task.yaml",
            *data,
            "--model",
            MODEL,
            "--max-calls",
            9,
            "--cache-policy",
            "no-cache",
            "--out",
            "runs/incomplete",
            check=False,
        )
        assert stopped.returncode == 3, stopped.stderr
    with serve('{"score": 0.5, "reasoning": "half", "confidence": 1}'):
        answerkey(
            "score",
            "project/judged.yaml",
            *data,
            "--completions",
            "project/replies.jsonl",
            "--cache-policy",
            "no-cache",
            "--out",
            "runs/judged",
        )
    with serve("B", delay=0.4) as endpoint:
        command = [
            "run",
            "project/task.yaml",
            *data,
            "--model",
            MODEL,
            "--cache-policy",
            "no-cache",
            "--out",
            "runs/killed",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "answerkey", *command],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as process:
            while endpoint.asked < 18:
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
    keep_stored(data)
    shutil.rmtree(KEPT, ignore_errors=True)
    shutil.copytree(HOME, KEPT)
    shutil.rmtree(HOME)


def keep_stored(data: tuple[str, ...]) -> None:
    """Keep the objects of a run on object storage."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-W", "ignore", "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    endpoint = f"http://127.0.0.1:{port}"
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        fs = None
        while fs is None:
            try:
                fs = s3fs.S3FileSystem(endpoint_url=endpoint)
                fs.mkdir("bucket")
            except OSError:
                fs = None
        answerkey(
            "run", "project/task.yaml", *data, "--model", "builtin/random?seed=5", "--out", "s3://bucket/kept"
        )
        for key in fs.find("bucket/kept"):
            path = HOME / "stored" / key.removeprefix("bucket/kept/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(fs.cat_file(key))
        server.terminate()


if __name__ == "__main__":
    main()
