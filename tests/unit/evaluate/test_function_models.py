"""Laws of models that are Python functions: asked, bounded, journalled and stopped like any
other.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.evaluate import manifest
from answerkey.models.config import Secret
from answerkey.models.store import CallStore

TASK = ak.mcqa(
    question="{{ sample.question }}",
    options="{{ sample.options }}",
    truth="{{ sample.answer }}",
    key="quiz",
)
Messages = list[dict[str, Any]]


def make_rows(count: int) -> list[dict[str, Any]]:
    """Return questions that differ, of which every other one has the answer A."""
    return [
        {"question": f"Question {number}?", "options": ["x", "y"], "answer": "AB"[number % 2]}
        for number in range(count)
    ]


class Asked:
    """A function that remembers what it was asked, and how many calls were under way at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.questions: list[str] = []
        self.most = self.now = 0
        self.threads: set[str] = set()
        self.seconds = seconds
        self._lock = threading.Lock()

    def enter(self, messages: Messages) -> None:
        """Note that a call begins."""
        with self._lock:
            self.questions.append(messages[0]["content"].partition("\n")[0])
            self.threads.add(threading.current_thread().name)
            self.now += 1
            self.most = max(self.most, self.now)

    def say(self, messages: Messages) -> str:
        """Answer A, after a while."""
        self.enter(messages)
        threading.Event().wait(self.seconds)
        with self._lock:
            self.now -= 1
        return "A"

    async def say_later(self, messages: Messages) -> str:
        """Answer A, and let others be asked meanwhile."""
        self.enter(messages)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return "A"


def read_calls(run: ak.Run) -> Any:  # noqa: ANN401 - as `run.json` has it
    """Return what `run.json` says of the calls."""
    return run.manifest["tasks"][0]["calls"]["solve"]


def test_a_function_is_asked_and_named_in_the_run(tmp_path: Path) -> None:
    """It gets the messages, is called here and one at a time, and its name stands in the run as the
    model.
    """
    model = Asked()

    def ask(messages: Messages) -> str:
        assert messages == [{"role": "user", "content": messages[0]["content"]}]
        messages.clear()  # what it does to them is its own affair
        messages.append({"content": "Question 0?"})
        return model.say(messages)

    run = ak.run(TASK, dataset=make_rows(6), model=ask, out=tmp_path / "run")
    entry = run.manifest["tasks"][0]
    assert (run.status, run.metrics["Accuracy"].value) == ("complete", 0.5)
    assert (entry["model"]["name"], entry["model"]["is_function"]) == ("ask", True)
    assert (model.most, model.threads) == (1, {threading.current_thread().name})
    assert read_calls(run)["asked"] == 6
    prompts = run.tasks["quiz"].completions["prompt"]
    assert prompts[5].startswith('[{"role": "user", "content": "Question 5?')
    assert run.tasks["quiz"].completions["source"].unique().to_list() == ["live"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: functools.partial(Asked().say), "Asked.say"),
        (lambda: lambda _: "A", "lambda"),
        (type("Client", (), {"__call__": lambda _self, _messages: "A"}), "Client"),
    ],
)
def test_anything_that_can_be_called_has_a_name(make: Any, name: str) -> None:  # noqa: ANN401 - a callable
    """Methods, partial functions, lambdas and objects."""
    run = ak.score(TASK, make_rows(2), model=make())
    assert run.manifest["tasks"][0]["model"]["name"] == name


@pytest.mark.parametrize(
    ("kind", "limit", "most"),
    [("say", None, 1), ("say", 4, 4), ("say_later", None, 64), ("say_later", 5, 5)],
)
def test_as_many_calls_as_allowed_are_under_way(kind: str, limit: int | None, most: int) -> None:
    """One of a plain function, and as many of an async one as an endpoint is sent, unless
    `max_concurrent` says otherwise; results keep their order.
    """
    model = Asked(0.3 if kind == "say_later" else 0.002)
    run = ak.score(TASK, make_rows(130), model=getattr(model, kind), max_concurrent=limit)
    assert (run.metrics["Accuracy"].value, model.most) == (0.5, most)
    assert len(set(model.questions)) == 130


def test_what_a_function_may_give() -> None:
    """A text, a message, a whole chat completion, or the object of a provider's library."""
    completion = {
        "choices": [{"message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 1},
    }
    good, empty = ({"role": "assistant", "content": content} for content in ("B", None))
    replies = ["A", good, SimpleNamespace(model_dump=lambda: completion), empty]
    upcoming = iter(replies)
    frame = ak.score(TASK, make_rows(4), model=lambda _: next(upcoming)).to_frame()
    assert frame["completion"].to_list() == ["A", "B", "B", None]
    assert frame["completion_status"].to_list() == ["OK", "OK", "OK", "NO_TEXT"]


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        (42, "a value of type `int`"),
        (7.5, "a value of type `float`"),
        (True, "a value of type `bool`"),
        (None, "None"),
        (b"A", "a value of type `bytes`"),
        ({"answer": "A"}, "a value of type `dict`"),
        (object(), "a value of type `object`"),
    ],
)
def test_what_is_no_text_is_an_error_of_the_call(reply: object, name: str) -> None:
    """It is no wrong answer, so there is no accuracy; the error names what came back."""
    run = ak.score(TASK, make_rows(4), model=lambda _: reply)
    frame = run.to_frame()
    assert frame["completion_status"].to_list() == ["ERROR"] * 4
    assert set(frame["completion_error"]) == {f"`lambda` returned {name}, not a text or a message"}
    assert run.metrics["Accuracy"].value is None


def fail_on_three(messages: Messages) -> str:
    """Fail on one question."""
    if messages[0]["content"].startswith("Question 3?"):
        raise ValueError("no luck")
    return "A"


async def fail_later(messages: Messages) -> str:
    """Fail on one question, and be cancelled on another."""
    if messages[0]["content"].startswith("Question 5?"):
        raise asyncio.CancelledError
    return fail_on_three(messages)


@pytest.mark.parametrize(
    ("model", "limit", "wrong"),
    [
        (fail_on_three, None, {3: "ValueError: no luck"}),
        (fail_on_three, 3, {3: "ValueError: no luck"}),
        (fail_later, None, {3: "ValueError: no luck", 5: "CancelledError"}),
    ],
)
def test_what_a_function_raises_is_the_error_of_that_sample(
    model: Any,  # noqa: ANN401 - a function
    limit: int | None,
    wrong: dict[int, str],
) -> None:
    """The run is incomplete, the other samples are scored, and the text of the exception is
    kept.
    """
    run = ak.score(TASK, make_rows(8), model=model, max_concurrent=limit)
    failed = run.to_frame().with_row_index().filter(pl.col("completion_status") == "ERROR")
    assert dict(failed.select("index", "completion_error").iter_rows()) == wrong
    assert (run.status, run.tasks["quiz"].counts["errors"]) == ("incomplete", len(wrong))


def test_a_function_that_always_fails_is_not_asked_on_and_on(tmp_path: Path) -> None:
    """When the first 50 calls have failed, the run ends; it can go on."""
    model = Asked()

    def ask(messages: Messages) -> str:
        model.enter(messages)
        raise RuntimeError("no memory")

    reason = r"E306.*the first 50 calls of `ask` all failed; RuntimeError: no mem"
    with pytest.raises(ak.SolverError, match=reason):
        ak.run(TASK, dataset=make_rows(200), model=ask, out=tmp_path / "run")
    assert (ak.load_run(tmp_path / "run").status, len(model.questions)) == ("incomplete", 50)


def test_secrets_in_what_is_raised_are_hidden() -> None:
    """A key that answerkey knows is not in the run, even if the function's error quotes it."""
    Secret("sk-canary-0123456789")

    def ask(_: Messages) -> str:
        raise RuntimeError("401 for sk-canary-0123456789")

    run = ak.score(TASK, make_rows(1), model=ask)
    assert run.to_frame()["completion_error"].to_list() == ["RuntimeError: 401 for ***"]


def stop_in_the_second_chunk(place: Path, rows: Any = None, **options: Any) -> None:  # noqa: ANN401 - of a run
    """Stop a run after its first 50 samples, which are a chunk, and 5 more."""
    options |= {"dataset": rows or make_rows(80), "model": Asked().say, "max_calls": 55}
    with pytest.raises(ak.SolverError, match="stopped at the limit of 55 calls"):
        ak.run(TASK, out=place, **options)
    with closing(CallStore(place / "calls.sqlite")) as journal:
        assert journal.count() == (55, 0)


def require_stopped(place: Path, function: Asked, *, lost: int, **options: Any) -> None:  # noqa: ANN401 - of a run
    """Hold that a run was interrupted, has all answers but a few, and asks for the others alone."""
    stopped = ak.load_run(place)
    assert (stopped.status, stopped.manifest["stopped"]["message"]) == ("incomplete", "interrupted")
    stored, begun = read_calls(stopped)["calls"], len(function.questions)
    assert begun - lost <= stored <= begun < 2_000
    function.questions.clear()
    function.seconds = 0
    assert ak.resume(place, **options).status == "complete"
    assert len(function.questions) == 2_000 - stored


def read_tables(run: ak.Run) -> tuple[pl.DataFrame, ...]:
    """Return the tables of a run, without what differs from call to call."""
    task = run.tasks["quiz"]
    return task.completions.drop("latency"), task.scores


def test_a_resumed_run_is_that_of_one_that_never_stopped(tmp_path: Path) -> None:
    """Only what the journal lacks is asked; tables, numbers and counts are those of a whole run."""
    whole = ak.run(TASK, dataset=make_rows(80), model=Asked().say, out=tmp_path / "whole")
    stop_in_the_second_chunk(tmp_path / "run")  # after 55 calls: nothing comes from the cache
    model = Asked()
    run = ak.resume(tmp_path / "run", model=model.say)
    assert (len(model.questions), run.status) == (25, "complete")
    for resumed, expected in zip(read_tables(run), read_tables(whole), strict=True):
        assert resumed.equals(expected)
    assert run.metrics == whole.metrics
    assert [read_calls(run)[name] for name in ("calls", "asked", "failed")] == [80, 80, 0]


@pytest.mark.parametrize("version", [ak.__version__, "0.0.1"])
def test_rows_are_checked_again_after_an_update_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Rows that the same version checked and found in order are not checked when a run goes on."""
    with monkeypatch.context() as patched:
        patched.setitem(manifest.ENVIRONMENT, "answerkey_version", version)
        stop_in_the_second_chunk(tmp_path / "run")
    stages = []
    ak.resume(tmp_path / "run", model=Asked().say, progress=lambda stage, *_: stages.append(stage))
    assert ("check" in stages) == (version != ak.__version__)


def test_rows_are_checked_again_where_some_were_wrong(tmp_path: Path) -> None:
    """They are known as wrong when the run goes on, and stay FAILED."""
    rows = make_rows(80)
    rows[70]["answer"] = "Z"
    stop_in_the_second_chunk(tmp_path / "run", rows, allow_failed=1)
    model = Asked()
    run = ak.resume(tmp_path / "run", model=model.say)
    assert (run.status, len(model.questions)) == ("complete", 24)
    assert run.tasks["quiz"].counts["failed"] == 1


def test_damage_during_a_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its call is made again, and the run says so."""
    stop_in_the_second_chunk(tmp_path / "run")
    mend, model = CallStore.mend, Asked()

    def mend_and_spoil(journal: CallStore) -> None:
        mend(journal)
        journal._connection.execute("UPDATE calls SET trial = 1 WHERE place = 52")

    monkeypatch.setattr(CallStore, "mend", mend_and_spoil)
    run = ak.resume(tmp_path / "run", model=model.say)
    assert (run.status, len(model.questions)) == ("complete", 26)
    assert "damaged or missing records of the journal: 1" in run.manifest["notices"][-1]


def test_a_run_goes_on_with_the_function_it_was_started_with(tmp_path: Path, call: Any) -> None:  # noqa: ANN401 - the command line
    """Without it, with another, and on the command line: E507, which says what to do."""
    ak.run(TASK, dataset=make_rows(8), model=fail_on_three, out=tmp_path / "run")
    hint = r"give the same function again: `ak.resume\(run, model=FUNCTION\)`"
    message = f"its model is the Python function `fail_on_three`(.|\n)*{hint}"
    with pytest.raises(ak.RunError, match=message):
        ak.resume(tmp_path / "run")
    with pytest.raises(ak.RunError, match="its model `fail_on_three` is not the same any more"):
        ak.resume(tmp_path / "run", model=Asked().say)
    called = call("resume", tmp_path / "run")
    assert (called.code, "E507" in called.err, "Python function" in called.err) == (2, True, True)
    with pytest.raises(ak.SpecError, match="`model` cannot be changed"):
        ak.resume(tmp_path / "run", model="builtin/random")


@pytest.mark.parametrize(("kind", "limit"), [("say", None), ("say", 3), ("say_later", 3)])
def test_an_interrupt_ends_the_run_in_order(tmp_path: Path, kind: str, limit: int | None) -> None:
    """Ctrl-C: what was answered is in the journal, the run says that it was interrupted, and it can
    go on.
    """
    model = Asked(0.01)
    say: Any = getattr(model, kind)

    def strike() -> None:
        while len(model.questions) < 20:
            threading.Event().wait(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(target=strike)
        thread.start()
        options: dict[str, Any] = {"model": say, "max_concurrent": limit}
        with pytest.raises(KeyboardInterrupt):
            ak.run(TASK, dataset=make_rows(2_000), out=tmp_path / "run", **options)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    more = {"model": say, "max_concurrent": limit and 64}
    require_stopped(tmp_path / "run", model, lost=1, **more)


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [
        (ak.SpecError, {"batch": True}, r"`batch` cannot be used with `Asked\.say`"),
        (ak.SpecError, {"max_cost": 1.0}, r"what `Asked\.say` costs is not known"),
        (ak.SpecError, {"max_concurrent": 0}, "`max_concurrent` is 0; it must be"),
        (ak.SpecError, {"model": 3}, "`model` is of type `int`, which has no `complete`"),
    ],
)
def test_limits_that_need_an_endpoint_are_refused(
    error: type[Exception], options: dict[str, Any], message: str
) -> None:
    """A function takes no batches, and its cost is unknown."""
    with pytest.raises(error, match=message):
        ak.score(TASK, make_rows(2), **{"model": Asked().say, **options})


class Ranking:
    """A model that can only rank."""

    def loglikelihoods(self, _context: str, continuations: list[str]) -> list[float]:
        """Hold all continuations to be equally likely."""
        return [0.0 for _ in continuations]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Asked, r"`model` is the class `Asked`, not an object\n.*write `model=Asked\(\)`"),
        (Ranking(), r"type `Ranking`, which has no `complete`\n.*an object with `complete\(req"),
    ],
)
def test_what_cannot_be_called_is_refused_before_the_first_sample(
    model: Any,  # noqa: ANN401 - anything
    message: str,
) -> None:
    """A class without its brackets, and an object that cannot answer, are E301 with the cure."""
    with pytest.raises(ak.SpecError, match=message):
        ak.run(TASK, dataset=make_rows(2), model=model)
    with pytest.raises(ak.SpecError, match=message):
        asyncio.run(ak.arun(TASK, dataset=make_rows(2), model=model))


def test_a_dry_run_asks_nothing_and_knows_no_price() -> None:
    """The prompts are counted; a function may cost anything."""
    model = Asked()
    planned = ak.plan_calls(TASK, dataset=make_rows(3), model=model.say).tasks[0]
    assert (planned.model, planned.calls, planned.cost) == ("Asked.say", 3, None)
    assert model.questions == []


def test_a_run_may_be_started_inside_a_running_loop(tmp_path: Path) -> None:
    """A notebook has a loop.

    `run` waits in it, and an async function has a loop of its own meanwhile.
    """
    model = Asked()

    async def cell() -> ak.Run:
        return ak.run(TASK, dataset=make_rows(6), model=model.say_later, out=tmp_path / "run")

    assert asyncio.run(cell()).metrics["Accuracy"].value == 0.5
    assert model.threads == {"answerkey-Asked.say_later"}


def test_arun_leaves_the_loop_free_and_calls_the_function_in_it(tmp_path: Path) -> None:
    """So a client that belongs to the loop can be used, and other tasks go on."""
    model, ticks = Asked(0.01), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def cell() -> ak.Run:
        ticking = asyncio.create_task(tick())
        run = await ak.arun(TASK, dataset=make_rows(6), model=model.say_later, out=tmp_path / "run")
        ticking.cancel()
        return run

    assert asyncio.run(cell()).metrics["Accuracy"].value == 0.5
    assert model.threads == {threading.current_thread().name}
    assert ticks > 10


@pytest.mark.parametrize("kind", ["say", "say_later"])
def test_cancelling_arun_ends_the_run_in_order(tmp_path: Path, kind: str) -> None:
    """As Ctrl-C does: what was answered is kept, and the run can go on."""
    model = Asked(0.01)
    say: Any = getattr(model, kind)

    async def cell() -> None:
        options: dict[str, Any] = {"model": say, "max_concurrent": 4}
        running = ak.arun(TASK, dataset=make_rows(2_000), out=tmp_path / "run", **options)
        task = asyncio.create_task(running)
        while len(model.questions) < 20:  # noqa: ASYNC110 - another thread asks
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cell())
    require_stopped(tmp_path / "run", model, lost=4, model=say, max_concurrent=64)


def test_what_is_wrong_with_a_run_is_raised_where_it_is_awaited(tmp_path: Path) -> None:
    """Errors and unknown options come out of `arun` as out of `run`."""
    with pytest.raises(ak.Problems, match="E206"):
        asyncio.run(ak.arun(TASK, dataset=[{"other": 1}], model=Asked().say, out=tmp_path / "run"))
    with pytest.raises(TypeError, match="`run` has no option `modle`; did you mean `model`"):
        asyncio.run(ak.arun(TASK, modle="x"))  # type: ignore[call-arg]  # what is tested


KILLED = """\
import os, signal, sys
import answerkey as ak

def ask(messages):
    with open("asked", "a") as file:
        print(messages[0]["content"].partition("\\n")[0], file=file)
    if sys.argv[1:] and sum(1 for _ in open("asked")) == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return "A"

rows = [{"question": f"Question {n}?", "options": ["x", "y"], "answer": "A"} for n in range(60)]
task = ak.mcqa(question="{{ sample.question }}", options="{{ sample.options }}", truth="{{ sample.answer }}")
run = ak.run(task, dataset=rows, model=ask, out="run") if sys.argv[1:] else ak.resume("run", model=ask)
print(run.status, run.metrics["Accuracy"].value)
"""  # noqa: E501 - the text as it is written


def test_a_process_that_is_killed_loses_the_last_few_answers(tmp_path: Path) -> None:
    """Another process goes on.

    Of 40 calls, those of the last group that was not written are made again.
    """
    (tmp_path / "script.py").write_text(KILLED, encoding="utf-8")
    command = [sys.executable, "script.py"]
    killed = subprocess.run([*command, "kill"], cwd=tmp_path, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "complete 1.0\n"
    questions = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert len(set(questions)) == 60
    assert len(questions) == 60 + 8
