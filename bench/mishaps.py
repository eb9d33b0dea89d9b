"""What answerkey, lm-eval, Inspect and promptfoo make of a bad row, a bad reply and a crash, as a
table.

Each tool asks one test server the same 40 questions of four options. The server knows the key, so a
good run has 40 of 40 right. Then one thing is wrong; it is *counted as wrong* where it lowers the
accuracy:

- a bad row: the truth of one row is `E`, which is none of its options;
- a reply without text: HTTP 200 with `"content": null`, for one question;
- a call that fails for good: HTTP 500 on every attempt, for one question;
- a crash: after 25 answers the server holds all other replies; a second later the process is killed
  with
  `kill -9`, and the user starts again as the tool's documentation says. The server counts all
  calls.

How each tool is set up, beside its defaults and in an empty home folder:

- answerkey: `answerkey run rows.jsonl`; after the crash `answerkey resume`.
- lm-eval: `local-chat-completions`, a `generate_until` task with a regex filter and `exact_match`
  (a chat
  endpoint gives no log-probabilities of options), `--use_cache`; after the crash the same command.
- Inspect: `multiple_choice()` and `choice()`, `--max-retries 3` (its default has no limit); after
  the crash
  `inspect eval-retry LOG`, which recovers the log first.
- promptfoo: a `transform` that reads the letter, `equals`; after the crash `promptfoo eval
  --resume`.
`foreign.py` installs the other tools the first time (promptfoo and its Node take 1.6 GB).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import foreign

import answerkey
from answerkey.testing import Reply, TestServer

COUNT, BAD, ANSWERED = 40, 7, 25
LONGEST = 400.0  # seconds that a run may take
VERSIONS = {name: pins[0].split("==")[1] for name, pins in foreign.ENVIRONMENTS.items()}
VERSIONS |= {"answerkey": answerkey.__version__, "promptfoo": foreign.PROMPTFOO_VERSION}
PROMPT = """{{question}}
{% for option in options %}{{ 'ABCD'[loop.index0] }}) {{option}}
{% endfor %}End your reply with 'ANSWER: LETTER'."""
LM_EVAL_TASK = f"""task: mine
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: {json.dumps(PROMPT)}
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: [], do_sample: false, max_gen_toks: 512}}
filter_list:
  - name: letter
    filter: [{{function: regex, regex_pattern: "ANSWER: ([A-D])"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
LM_EVAL = (
    "run --model local-chat-completions --apply_chat_template --include_path . --tasks "
    "mine --use_cache db "
    "--model_args model=test,base_url={url}/chat/completions,num_concurrent=4 --output_path results"
)
INSPECT_TASK = """from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice

@task
def mine():
    fields = FieldSpec(input="question", choices="options", target="answer")
    return Task(dataset=json_dataset("rows.jsonl", fields), solver=multiple_choice(), scorer=choice())
"""  # noqa: E501 - the text as it is written
CONFIG = f"""prompts: [{json.dumps(PROMPT)}]
providers: [{{id: "openai:chat:test", config: {{apiBaseUrl: "{{{{env.LOCAL_BASE_URL}}}}", apiKey: none}}}}]
tests: file://tests.jsonl
defaultTest:
  options: {{disableVarExpansion: true, transform: "output.match(/ANSWER. ([A-D])/)?.[1] ?? ''"}}
  assert: [{{type: equals, value: "{{{{answer}}}}"}}]
"""  # noqa: E501 - the text as it is written
#: What is said at the start and after a crash; `{url}` is the endpoint, `{log}` the log of the
#: killed run.
ANSWERKEY = ("run rows.jsonl --model {url}#test --out run", "resume run")
INSPECT = (
    "eval mine.py --model openai-api/local/test --max-retries 3 --display plain",
    "eval-retry {log}",
)
PROMPTFOO = ("eval -c mine.yaml -o results.json --no-progress-bar", "eval --resume -o results.json")
#: What a message about each mishap has in it, whichever tool writes it.
MESSAGES = {
    "row": r"ground truth|BAD_TRUTH|Choice scorer target|Label index",
    "null": r"NO_TEXT|API returned null content|No output|no_response",
    "500": r"INCOMPLETE: |ClientResponseError: 500|Error code: 500|API error",
}


@dataclass(frozen=True)
class Tool:
    """One tool: what it is told at the start, after a crash, and to go on over a bad row.

    A file it needs.
    """

    name: str
    result: str
    start: str
    go_on: str
    file: tuple[str, str] = ("notes.txt", "")
    tolerant: str = ""

    def open(self) -> list[str]:
        """Return the command that starts the tool, which is installed first."""
        if self.name == "promptfoo":
            return [*foreign.open_promptfoo()]
        python = (
            sys.executable
            if self.name == "answerkey"
            else foreign.open_environment(self.name.lower())
        )
        return [
            python,
            "-m",
            {"lm-eval": "lm_eval", "Inspect": "inspect_ai"}.get(self.name, self.name),
        ]

    def read(self, folder: Path) -> tuple[float, int] | None:
        """Return the accuracy and the samples that it is of.

        None where the tool gives no accuracy.
        """
        files = sorted(folder.glob(self.result), key=lambda path: path.stat().st_mtime_ns)
        if not files:
            return None
        if self.name == "answerkey":
            run = answerkey.load_run(files[-1].parent)
            metric = run.metrics["Accuracy"]
            return (metric.value or 0.0, metric.n) if run.status == "complete" else None
        if self.name == "Inspect":
            log = json.loads(
                foreign.run_foreign([*self.open(), "log", "dump", "--header-only", str(files[-1])])
            )
            score = log["results"]["scores"][0] if log["status"] == "success" else None
            return score and (score["metrics"]["accuracy"]["value"], score["scored_samples"])
        result = json.loads(files[-1].read_text())
        if self.name == "lm-eval":
            return result["results"]["mine"]["exact_match,letter"], result["n-samples"]["mine"][
                "effective"
            ]
        counts = [result["results"]["stats"][name] for name in ("successes", "failures", "errors")]
        return counts[0] / sum(counts), sum(counts)  # as its summary prints it


TOOLS = (
    Tool("answerkey", "run/run.json", *ANSWERKEY, tolerant="--allow-failed 1"),
    Tool("lm-eval", "results/**/results*.json", LM_EVAL, LM_EVAL, ("mine.yaml", LM_EVAL_TASK)),
    Tool("Inspect", "logs/*.eval", *INSPECT, ("mine.py", INSPECT_TASK), "--no-fail-on-error"),
    Tool("promptfoo", "results.json", *PROMPTFOO, ("mine.yaml", CONFIG)),
)


def answer(messages: Sequence[Mapping[str, object]], mishap: str = "") -> Reply:
    """Return the right letter of the question, or what the mishap makes of it."""
    number = int(re.findall(r"Question (\d+):", str(messages))[-1])
    if number == BAD and mishap == "null":
        return Reply(kind="null_content")
    if number == BAD and mishap == "500":
        return Reply(status=500, body=b'{"error": {"message": "this is broken"}}')
    return Reply(f"ANSWER: {'ABCD'[number % 4]}")


def start(tool: Tool, folder: Path, words: str, url: str) -> subprocess.Popen[bytes]:
    """Start a command of the tool in its folder; what it prints goes to a file there."""
    settings = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "COLUMNS": "200",
        "HF_HUB_OFFLINE": "1",
    }
    settings |= {"OPENAI_API_KEY": "none", "LOCAL_API_KEY": "none", "LOCAL_BASE_URL": url}
    settings |= {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    settings |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} if tool.name == "answerkey" else {}
    log = next((str(path) for path in folder.glob("logs/*.eval")), "")
    every = [*tool.open(), *words.format(url=url, log=log).split()]
    out = (folder / "printed.txt").open("ab")
    return subprocess.Popen(  # noqa: S603
        every, cwd=folder, env=settings, stdout=out, stderr=out, process_group=0
    )


def wait(process: subprocess.Popen[bytes]) -> str:
    """Return how a process ended; it is killed when it takes too long."""
    try:
        return f"exit {process.wait(LONGEST)}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"no end within {LONGEST:.0f} s"


def write_files(tool: Tool, folder: Path, *, is_bad: bool = False) -> None:
    """Write the rows and what the tool needs beside them."""
    folder.mkdir(parents=True)
    rows = [
        {
            "question": f"Question {number}: which of these is the number {number}?",
            "options": [str(number + (place - number) % 4 * 100) for place in range(4)],
            "answer": "E" if is_bad and number == BAD else "ABCD"[number % 4],
        }
        for number in range(COUNT)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "tests.jsonl").write_text("".join(json.dumps({"vars": row}) + "\n" for row in rows))
    (folder / tool.file[0]).write_text(tool.file[1])


def try_mishap(tool: Tool, folder: Path, mishap: str, extra: str = "") -> str:
    """Return what came of a run with one mishap: exit code, calls, accuracy, message."""
    write_files(tool, folder, is_bad=mishap == "row")
    with TestServer(lambda messages: answer(messages, mishap)) as server:
        end = wait(start(tool, folder, f"{tool.start} {extra}", server.url))
        calls, number = server.asked.total, tool.read(folder)
    result = f"{number[0]:.1%} of {number[1]}" if number else "no accuracy"
    fate = "" if number is None else ", counted as wrong" if number[1] == COUNT else ", left out"
    lines = re.sub(r"\x1b\[[0-9;]*m", "", (folder / "printed.txt").read_text()).splitlines()
    warning = next(
        filter(None, (re.search(rf"({MESSAGES[mishap]}).*", line) for line in lines)), None
    )
    message = f"“{' '.join(warning[0].split())[:120].strip(' │')}”" if warning else "no message"
    return f"{end}, {calls} calls, {result}{fate}; {message}".replace("|", "/")


def try_crash(tool: Tool, folder: Path) -> str:
    """Kill a run after some answers, go on, and return how many of the answered calls were made
    again.
    """
    write_files(tool, folder)
    arrived: list[Reply] = []

    def hold(messages: Sequence[Mapping[str, object]]) -> Reply:
        arrived.append(answer(messages))
        return arrived[-1] if len(arrived) <= ANSWERED else Reply(delay=LONGEST)

    with TestServer(hold) as server:
        process = start(tool, folder, tool.start, server.url)
        while server.asked.answered < ANSWERED and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        answered, before = server.asked.answered, server.asked.total
        server.change(answers=answer)
        end = wait(start(tool, folder, tool.go_on, server.url))
        repeated, number = answered + server.asked.total - before - COUNT, tool.read(folder)
    return (
        f"{repeated} of {answered}; then {end}, "
        f"{f'{number[0]:.1%} of {number[1]}' if number else 'none'}"
    )


def main() -> None:
    """Print the table.

    A tool that cannot be installed is a row that says so. All files are kept.
    """
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="mishaps-"))
    print(f"files of the runs: {scratch}\n")
    print(
        "| tool | bad row | reply without text | call fails for good | crash: calls "
        "repeated of answered |"
    )
    print("| --- | --- | --- | --- | --- |", flush=True)
    for tool in TOOLS:
        folder, cells = scratch / tool.name, [f"{tool.name} {VERSIONS[tool.name.lower()]}"]
        try:
            tool.open()
            cells += [try_mishap(tool, folder / name, name) for name in MESSAGES]
            if tool.tolerant:
                more = try_mishap(tool, folder / "tolerant", "row", tool.tolerant)
                cells[1] += f"<br>with `{tool.tolerant}`: {more}"
            cells.append(try_crash(tool, folder / "crash"))
        except (foreign.ForeignError, OSError) as error:
            cells.append(f"not measured: {error}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
