"""Commands that ask a live model: the test server on this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from tests.servers import BatchServer

import answerkey as ak
from answerkey.testing import Reply, answer_by_hash

from .conftest import QUIZ, Call, start

Words = list[str]


@pytest.fixture
def server() -> Iterator[BatchServer]:
    """Return a server that answers with one of four letters."""
    with BatchServer(answer_by_hash(["A", "B", "C", "D"])) as running:
        yield running


@pytest.fixture
def words(quiz: list[str]) -> list[str]:
    """Return the arguments of a run of 120 questions."""
    return quiz


def test_a_run_records_what_it_asked(call: Call, server: BatchServer, words: Words) -> None:
    """Calls, tokens, latency and retries are in the summary and in `--json`, each reason with an
    example.
    """
    server.change(faults={"500": 0.2})
    done = call("run", *words, "--out", "here", "--price", "1:2", "--json")
    assert done.code == 0
    calls = done.json["tasks"][0]["calls"]["solve"]
    assert (calls["calls"], calls["asked"], calls["cached"], calls["failed"]) == (120, 120, 0, 0)
    assert calls["retries"] == server.asked.total - 120 > 0
    assert calls["retried"][0]["reason"] == "HTTP 500"
    assert calls["latency"]["p50"] <= calls["latency"]["p95"]
    expected = (calls["prompt_tokens"] + 2 * calls["completion_tokens"]) / 1e6
    assert calls["cost"] == pytest.approx(expected, abs=1e-6)
    shown = call("show", "here").out
    assert "  calls    120 = 120 sent + 0 from the cache; 0 failed, " in shown
    assert "  latency  p50 " in shown
    assert "  Retried because  count  example  message\n  HTTP 500" in shown


def calls_model(folder: str) -> str:
    """Return the model that `run.json` names."""
    return str(json.loads(Path(folder, "run.json").read_text())["tasks"][0]["model"]["name"])


def test_cached_tokens_have_their_price(call: Call, server: BatchServer, words: Words) -> None:
    """In the summary, in `--json` and in the export; the third number of `--price` is theirs."""
    usage: dict[str, object] = {"prompt_tokens": 100, "completion_tokens": 10}
    usage["prompt_tokens_details"] = {"cached_tokens": 40}
    body = {"choices": [{"message": {"role": "assistant", "content": "A"}}], "usage": usage}
    server.change(Reply(body=json.dumps(body).encode()))
    words = [*words, "--num-samples", "10", "--cache-policy", "reuse"]
    done = call("run", *words, "--out", "here", "--price", "1:2:0.1", "--json")
    calls = done.json["tasks"][0]["calls"]["solve"]
    assert (calls["prompt_tokens"], calls["cached_tokens"]) == (1000, 400)
    assert calls["cache_write_tokens"] == 0
    assert calls["cost"] == pytest.approx((600 * 1 + 400 * 0.1 + 100 * 2) / 1e6)
    shown = call("show", "here").out
    assert "  tokens   1000 prompt (400 of them cached) + 100 completion\n" in shown
    assert call("export", "here", "--to", "every_eval_ever", "-o", "there").code == 0
    rows = Path("there").read_text().splitlines()
    tokens = {
        "input_tokens": 100,
        "output_tokens": 10,
        "total_tokens": 110,
        "input_tokens_cache_read": 40,
    }
    assert [json.loads(row)["token_usage"] for row in rows] == [tokens] * 10
    for folder, cost in (("here", calls["cost"] / 10), ("again", 0.0)):  # again: from the cache
        if folder == "again":
            assert call("run", *words, "--out", folder, "--price", "1:2:0.1").code == 0
        row = json.loads(call("export", folder, "--to", "jsonl").out.splitlines()[0])
        assert row["cost"] == pytest.approx(cost)
        assert (row["run"], row["model"], row["cached_tokens"]) == (folder, calls_model(folder), 40)
        assert row["prompt"][-1]["role"] == "user"
    file = Path("rows.parquet")
    assert call("export", "here", "--to", "parquet", "-o", file).code == 0
    assert pl.read_parquet(file).equals(ak.load_run("here").to_frame())


def test_a_dry_run_knows_the_cache(call: Call, server: BatchServer, words: Words) -> None:
    """It asks nothing, and counts only the calls that would be made: prompts by characters,
    `max_tokens`.
    """
    plain, words = words, [*words, "--cache-policy", "reuse"]
    before = call("run", *words, "--dry-run", "--json").json["dry_run"]["tasks"][0]
    assert (before["calls"], before["cached"], before["cost"]) == (120, 0, None)
    assert server.asked.total == 0
    assert call("run", *words, "--num-samples", "100").code == 0
    after = call("run", *words, "--dry-run", "--json").json["dry_run"]["tasks"][0]
    assert (after["calls"], after["cached"]) == (20, 100)
    assert after["prompt_tokens"] == 65
    shown = call("run", *words, "--dry-run").out
    assert "  calls              20, and 100 from the cache\n" in shown
    words = [*plain[:-1], f"{server.url}?max_tokens=10#m", "--price", "1000:2000", "--dry-run"]
    anew = call("run", *words, "--cache-policy", "update", "--json").json["dry_run"]["tasks"][0]
    assert (anew["calls"], anew["completion_tokens"]) == (120, 1200)
    assert anew["cost"] == pytest.approx(anew["prompt_tokens"] / 1000 + 2.4)
    assert f"  cost               at most about {anew['cost']:.2f} USD\n" in call("run", *words).out


def test_max_calls_stops_before_it_is_passed(call: Call, server: BatchServer, words: Words) -> None:
    """Exit code 3, no percentage, the way to go on; `resume` asks only the rest."""
    stopped = call("run", *words, "--out", "half", "--max-calls", "30")
    assert (stopped.code, stopped.out) == (3, "")
    assert stopped.err.startswith("error[E305]: stopped at the limit of 30 calls\n")
    assert stopped.err.endswith("to continue: answerkey resume half\n")
    assert server.asked.total == 30
    shown = call("show", "half")
    assert "stopped at the limit of 30 calls\nto continue: answerkey resume half\n" in shown.out
    assert "%" not in shown.out
    again = call("resume", "half", "--max-calls", "50", "--json")
    assert (again.code, server.asked.total) == (3, 50)
    assert again.json["errors"][0]["code"] == "E305"
    assert again.json["resume"] == "answerkey resume half"
    assert call("show", "half", "--json").json["run"]["stopped"]["code"] == "E305"
    assert call("resume", "half").code == 0
    assert server.asked.total == 120


def test_max_cost_stops_before_it_is_passed(call: Call, server: BatchServer, words: Words) -> None:
    """What calls cost is known from their tokens, and what is under way is reckoned with."""
    stopped = call("run", *words, "--out", "half", "--max-cost", "0.004", "--price", "10:10")
    assert stopped.code == 3
    assert "error[E305]: stopped before the limit of 0.004: " in stopped.err
    assert 0 < server.asked.total < 120
    entry = json.loads(Path("half/run.json").read_text())["tasks"][0]
    assert 0 < entry["calls"]["solve"]["cost"] <= 0.004


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        (None, ["--max-cost", "1"], "`--max-cost` cannot hold"),
        *((None, ["--price", text], "not of the form `IN:OUT`") for text in ("1:", "a:b", "-1:2")),
        ("openai/gpt-4.1-nano", [], "`OPENAI_API_KEY` is not set"),
        ("http://127.0.0.1:9/v1/completions#m", ["--batch"], "has no batches that answerkey knows"),
        (
            None,
            ["--batch", "--max-cost", "1", "--price", "1:1"],
            "`--max-cost` cannot hold in a batch",
        ),
        ("?topk=20&reasoning_effort=low#m", [], "has no parameter `topk`"),
        ("?echo=true#m", [], "the API `chat` does not take `echo`"),
        ("?extra_body.messages=x#m", [], "`messages` of `extra_body` is set by answerkey itself"),
        ("?Temperature=0#m", [], "has no parameter `Temperature`"),
        ("?seed=1&seed=2#m", [], "a parameter is given more than once"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is(
    call: Call,
    server: BatchServer,
    words: Words,
    monkeypatch: pytest.MonkeyPatch,
    model: str | None,
    options: list[str],
    why: str,
) -> None:
    """A limit that cannot hold, a price, a key, a batch, a parameter.

    Also of the last of several models.
    """
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-no-use")
    model = f"{server.url}{model}" if model and model[0] == "?" else model or words[-1]
    refused = call("run", *words[:-1], model, "--out", "here", *options)
    assert (refused.code, why in refused.err) == (2, True)
    assert not Path("here").exists()
    if "?" in model:
        checked = call("check", *words[:-1], model)
        code = "E301" if "parameter" in why or "given" in why else "E108"
        assert (checked.code, code in checked.out, why in checked.out) == (2, True, True)
    assert call("run", *words, "--model", model, *options).code == 2
    assert server.asked.total == 0


@pytest.mark.parametrize(
    "reply",
    ["Well, that depends", Reply("", "empty_text"), Reply("<think>Let me see", "truncated")],
)
def test_replies_that_cannot_be_read_stop_the_run(
    call: Call, server: BatchServer, words: Words, reply: str | Reply
) -> None:
    """E305 after the first fifty, before the rest is paid for.

    `resume` goes on and asks only that.
    """
    server.change(reply)
    stopped = call("run", *words, "--out", "half")
    assert stopped.code == 3
    assert stopped.err.startswith(
        "error[E305]: stopped: 50 of the first 50 completions are INVALID\n  = help: "
    )
    assert stopped.err.endswith("to continue: answerkey resume half\n")
    assert server.asked.total == 50
    resumed = call("resume", "half", "--quiet")
    assert (resumed.code, resumed.err, server.asked.total) == (0, "", 120)


def test_a_bad_model_can_be_run_on_purpose(call: Call, server: BatchServer, words: Words) -> None:
    """`--no-stop-on-nonsense` goes on; a run that is over before the verdict is not stopped."""
    server.change(Reply("Let me think", "truncated"))
    done = call("run", *words, "--no-stop-on-nonsense")
    assert done.code == 0
    assert "  cut off by the token limit: 120\n" in done.out
    few = call("run", *words, "--num-samples", "49", "--cache-policy", "no-cache")
    assert (few.code, "E305" in few.err) == (0, False)


BATCHES = {"openai": "/v1/batches", "anthropic": "/v1/messages/batches"}


def choose_model(
    api: str, server: BatchServer, words: Words, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the arguments of a run that asks the server in the way of a provider."""
    monkeypatch.setenv(f"{api.upper()}_BASE_URL", server.url if api == "openai" else server.root)
    monkeypatch.setenv(f"{api.upper()}_API_KEY", "a-key-of-no-use")
    return [*words[:-1], f"{api}/m"]


def wait_for_look(server: BatchServer, process: subprocess.Popen[str], api: str = "openai") -> None:
    """Wait until the process has looked at its batch."""
    while not server.asked.by_path[f"{BATCHES[api]}/batch_1"] and process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)


@pytest.mark.parametrize("api", BATCHES)
def test_a_batch_has_the_numbers_of_single_calls_and_costs_half(
    call: Call, server: BatchServer, words: Words, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    """The same completions, calls and tokens; the endpoint is asked nothing else than its batch."""
    server.change(batch_polls=1)
    words = choose_model(api, server, words, monkeypatch)
    plan = [*words, "--cache-policy", "no-cache", "--json", "--price", "1:2"]
    batch = call("run", *plan, "--batch").json["tasks"][0]
    assert all("batch" in path.lower() or "files" in path for path in server.asked.by_path)
    single = call("run", *plan).json["tasks"][0]
    assert batch["metrics"] == single["metrics"]
    costs = [result["calls"]["solve"].pop("cost") for result in (batch, single)]
    assert 0 < costs[0] == pytest.approx(costs[1] / 2, abs=1e-6)
    plan[plan.index(words[-1])] += "?max_tokens=5"
    planned = [call("run", *plan, "--dry-run", *more).json for more in (["--batch"], [])]
    dry = [result["dry_run"]["tasks"][0] for result in planned]
    assert 0 < dry[0]["cost"] == dry[1]["cost"] / 2
    for calls in (batch["calls"]["solve"], single["calls"]["solve"]):
        calls["latency"] = None
    assert batch["calls"] == single["calls"]


@pytest.mark.parametrize(
    ("api", "how"),
    [
        *(("openai", one) for one in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)),
        ("anthropic", signal.SIGKILL),
    ],
)
def test_a_batch_under_way_is_collected_by_resume(
    call: Call,
    server: BatchServer,
    words: Words,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    how: signal.Signals,
) -> None:
    """Whatever ends the waiting, the calls are not handed in again; Ctrl-C says what goes on."""
    server.change(batch_polls=1_000_000)
    with start(
        "run", *choose_model(api, server, words, monkeypatch), "--batch", "--out", "half"
    ) as process:
        wait_for_look(server, process, api)
        process.send_signal(how)
        _, errors = process.communicate(timeout=300)
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        goes_on = (
            "warning: the batch `batch_1` of 120 calls goes on at the endpoint, and is paid for\n"
        )
        assert goes_on in errors
        assert errors.endswith("\nto continue: answerkey resume half\n")
    early = call("resume", "half", "--no-batch")
    assert early.code == 2
    assert "the batch `batch_1` is under way" in early.err
    server.change(batch_polls=1)
    server.forget()
    assert call("resume", "half").code == 0
    more = {"openai": ["/v1/files/file-2/content"]}
    more["anthropic"] = [f"{BATCHES[api]}/batch_1/results"]
    assert server.asked.by_path == dict.fromkeys([f"{BATCHES[api]}/batch_1", *more.get(api, ())], 1)
    assert set(server.asked.by_prompt.values()) == {1}


def test_failed_batches_may_be_sent_singly(call: Call, server: BatchServer, words: Words) -> None:
    """An expired batch leaves the run incomplete; `resume --no-batch` asks the rest."""
    server.change(batch_polls=1, batch_outcome="expired")
    assert call("run", *words, "--batch", "--out", "half").code == 3
    assert "  batch_expired " in call("show", "half").out
    server.forget()
    assert call("resume", "half", "--no-batch").code == 0
    assert server.asked.by_path == {"/v1/chat/completions": 60}


def name_error(message: str, code: str) -> bytes:
    """Return an error body in the way of OpenAI."""
    error = {"message": message, "type": "some_kind", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


LASTING = [
    (429, name_error("No credit.", "insufficient_quota"), "E304", "has no quota left"),
    (404, name_error("No such.", "model_not_found"), "E306", "does not know the model"),
    (404, b'{"detail": "Not Found"}', "E306", "does not know the model"),
]


@pytest.mark.parametrize(("status", "body", "code", "message"), LASTING)
def test_what_holds_for_every_call_ends_the_run_at_the_first_reply(
    call: Call,
    server: BatchServer,
    words: Words,
    status: int,
    body: bytes,
    code: str,
    message: str,
) -> None:
    """Nothing is asked twice.

    The run can be gone on with, and says whom it asked and what to do.
    """
    server.change(answers=Reply(status=status, body=body))
    ended = call("run", *words, "--out", "half", "--json")
    assert ended.code == 3
    error = ended.json["errors"][0]
    assert error["code"] == code
    assert error["message"].startswith(f"`127.0.0.1` {message}")
    assert "`answerkey resume` continues" in error["hint"]
    assert set(server.asked.by_prompt.values()) == {1}
    assert server.asked.total <= 8
    server.change(answers="A")
    assert call("resume", "half").code == 0


def test_a_run_goes_on_where_no_cluster_is(call: Call, server: BatchServer, words: Words) -> None:
    """A cluster that is gone is told at once, and `resume` can do without it, or with another
    one.
    """
    pytest.importorskip("ray")
    assert call("run", *words, "--out", "half", "--max-calls", "30").code == 3
    gone = call("resume", "half", "--engine", "ray", "--ray-address", "127.0.0.1:9")
    assert gone.code == 2
    assert "error[E601]: cannot reach the Ray cluster at `127.0.0.1:9`: " in gone.err
    assert "Connection refused" in gone.err
    run = json.loads(Path("half/run.json").read_text())
    run["options"] |= {"engine": "ray", "ray_address": "127.0.0.1:9"}
    Path("half/run.json").write_text(json.dumps(run))
    assert "error[E601]" in call("resume", "half").err
    elsewhere = call("resume", "half", "--ray-address", "127.0.0.1:10")
    assert "cannot reach the Ray cluster at `127.0.0.1:10`" in elsewhere.err
    assert call("resume", "half", "--engine", "local").code == 0
    assert server.asked.total == 120


def test_a_mute_cluster_is_gone(call: Call, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else may listen where a cluster was."""
    pytest.importorskip("ray")
    monkeypatch.setattr("answerkey.engines.ray_engine._ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        gone = call("run", *words, "--engine", "ray", "--ray-address", address)
    assert gone.code == 2
    assert f"error[E601]: cannot reach the Ray cluster at `{address}`: timed out\n" in gone.err


def run_with_files(most: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process with a limit on open files."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))"
    with start(*words, first=limit) as process:
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def test_few_files_are_told_and_enough(server: BatchServer, words: Words) -> None:
    """A process that may open few files uses fewer connections, and says so.

    Nothing fails for it.
    """
    server.change(delay=0.01)
    done = run_with_files(56, "run", *words, "--out", "here", "--json")
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)["tasks"][0]["calls"]["solve"]
    assert (calls["failed"], calls["retries"]) == (0, 0)
    assert "of 64 requests are sent at once: this process may open few files" in done.stderr
    assert "ulimit -n" in done.stderr
    assert server.asked.most_at_once < 32


def test_a_process_that_may_open_next_to_nothing_says_so(words: Words) -> None:
    """It is not reported as a bug: exit code 2, with a hint."""
    done = run_with_files(12, "run", *words, "--out", "here")
    assert done.returncode == 2
    assert "ulimit -n" in done.stderr


def test_connections_of_a_finished_task_are_closed(server: BatchServer, words: Words) -> None:
    """Many tasks in one run need no more connections than one of them."""
    tasks = []
    for number in range(3):
        text = json.dumps(QUIZ).replace(
            "{{ sample.question }}", f"{number} {{{{ sample.question }}}}"
        )
        task = json.loads(text) | {"key": f"quiz{number}"}
        task["definition"]["dataset"] = {"key": "rows"}
        tasks.append(task)
    source = {"type": "local", "file_path": "rows.jsonl"}
    plan = {
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "tasks": tasks,
        "evaluation": {
            "key": "e",
            "display_name": "E",
            "description": "",
            "task_specifications": [
                {"task_key": task["key"], "model_key": words[-1]} for task in tasks
            ],
        },
    }
    Path("run.yaml").write_text(json.dumps(plan))
    server.change(delay=0.01)
    done = run_with_files(56, "run", "run.yaml", "--out", "here")
    assert done.returncode == 0, done.stderr
    assert server.asked.total == 3 * 120


def test_several_models_end_with_what_failed(call: Call, server: BatchServer, words: Words) -> None:
    """Exit code 3.

    The others are complete. `resume`, `compare` and `report` take the folder of all runs.
    """
    models = f"--model {server.url}#other --model http://127.0.0.1:9/v1#down --out all"
    done = call("run", *words, *models.split())
    assert done.code == 3
    assert "  http://127.0.0.1:9/v1#down " in done.out.split("Comparison\n")[1]
    assert "\nerror[E306]: `http://127.0.0.1:9/v1#down` cannot be reached: " in done.err
    assert done.err.endswith("to continue: answerkey resume all\n")
    calls = server.asked.total
    again = call("resume", "all", "--json")
    assert (again.code, server.asked.total) == (3, calls)
    statuses = [entry["run"]["status"] for entry in again.json["runs"]]
    assert statuses == ["complete", "complete", "incomplete"]
    assert again.json["resume"] == "answerkey resume all"
    assert again.json["errors"][0]["code"] == "E306"
    compared = call("compare", "all", "--json")
    assert compared.code == 0
    assert [entry["label"] for entry in compared.json["comparison"]["tasks"][0]["runs"]] == [
        entry["run"]["path"].rpartition("/")[2] for entry in again.json["runs"][:2]
    ]
    assert "3-http-127.0.0.1-9-v1-down` is left out: it is incomplete" in compared.err
    assert call("report", "all", "-o", "page.html").code == 0


def test_runs_that_all_failed_have_a_table_without_numbers(call: Call, words: Words) -> None:
    """And no next step with them; folders that cannot be read have no table at all."""
    models = [word for name in "ab" for word in ("--model", f"http://127.0.0.1:9/v1#{name}")]
    done = call("run", *words[:-2], *models, "--out", "all")
    assert done.code == 3
    assert done.out.count("  incomplete\n") == 4
    assert "answerkey compare" not in done.err
    for file in Path("all").glob("*/run.json"):
        file.write_text("{")
    again = call("resume", "all")
    assert (again.code, again.out, again.err.count("error[E503]: `")) == (3, "", 2)
