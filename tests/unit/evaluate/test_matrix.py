"""Several models at once: endpoints asked at the same time, errors that stop one run alone, going
on.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import SCORER, read_results

import answerkey as ak
from answerkey.datasets.dataset import open_dataset
from answerkey.evaluate import evaluate, job
from answerkey.evaluate.evaluate import Evaluation
from answerkey.testing import Behaviour, TestServer, answer_by_hash

from .conftest import Project

Messages = Sequence[Mapping[str, object]]
Serve = Callable[..., TestServer]
LETTERS = answer_by_hash(["A", "B"])
#: No test waits so long, unless it fails.
LONG = 20.0


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what starts an endpoint."""
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(TestServer(*given))


def name(server: TestServer, model: str = "m") -> str:
    """Return the name of a model of an endpoint."""
    return f"{server.url}#{model}"


def run_matrix(
    project: Project,
    models: Sequence[Any],
    out: str = "all",
    **options: Any,  # noqa: ANN401
) -> ak.Matrix:
    """Run the task file of a project with several models."""
    task, rows = project.folder / "task.yaml", project.folder / "rows.jsonl"
    options = {"dataset": rows, "cache_policy": "no-cache", **options}
    return ak.run_matrix(task, models=models, out=project.folder / out, **options)


def find_accuracy(run: ak.Run) -> float | None:
    """Return the first number of a run."""
    return next(iter(run.metrics.values())).value


def read_status(project: Project, out: str = "all") -> list[str]:
    """Return the status of each run below a folder, as its file says."""
    files = sorted((project.folder / out).glob("*/run.json"))
    return [json.loads(file.read_text())["status"] for file in files]


def answer_together(count: int) -> Callable[[Messages], str]:
    """Return a model that answers once this many calls are waiting."""
    barrier = threading.Barrier(count)

    def answer(_messages: Messages) -> str:
        barrier.wait(LONG)
        return "A"

    return answer


def test_four_endpoints_are_asked_at_the_same_time(project: Project, serve: Serve) -> None:
    """Each answers only once all of them have been asked."""
    answer = answer_together(4)
    project.write_rows([{"question": "q", "answer": "A"}])
    made = run_matrix(project, [name(serve(answer)) for _ in range(4)])
    assert (made.status, made.errors, len(made.runs)) == ("complete", {}, 4)
    assert [find_accuracy(run) for run in made.runs] == [1.0] * 4


def list_models(urls: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the models of a run file, by their keys."""
    return [{"key": key, "config": {"url": url, "model_key": key}} for key, url in urls.items()]


def plan_two_endpoints(project: Project, urls: Sequence[str]) -> Path:
    """Write a run file with a task for each endpoint, named `one`, `two`; return the folder."""
    keys = ["one", "two"]
    specifications = [{"key": key, "model_key": key} for key in keys]
    folder = project.plan(*specifications)
    plan = json.loads((folder / "run.yaml").read_text())
    plan["models"] = list_models(dict(zip(keys, urls, strict=True)))
    (folder / "run.yaml").write_text(json.dumps(plan))
    return folder


def test_two_specifications_of_one_run_are_asked_together(project: Project, serve: Serve) -> None:
    """Where their endpoints differ: each answers only once both have been asked."""
    answer = answer_together(2)
    project.write_rows([{"question": "q", "answer": "A"}])
    folder = plan_two_endpoints(project, [serve(answer).url, serve(answer).url])
    run = ak.run(folder, out=folder / "run")
    assert (run.status, list(run.tasks)) == ("complete", ["one", "two"])
    assert [len(entry["calls"]) for entry in run.manifest["tasks"]] == [1, 1]


def test_an_endpoint_that_is_down_stops_only_its_own(project: Project, serve: Serve) -> None:
    """The run says so, keeps what was answered, and `resume` asks only what is left."""
    server = serve(LETTERS)
    folder = plan_two_endpoints(project, ["http://127.0.0.1:9/v1", server.url])
    with pytest.raises(ak.SolverError, match="E306"):
        ak.run(folder, out=folder / "run")
    stopped = json.loads((folder / "run" / "run.json").read_text())
    assert (stopped["status"], stopped["stopped"]["code"]) == ("incomplete", "E306")
    assert [entry["counts"] is None for entry in stopped["tasks"]] == [True, False]
    assert server.asked.total == 6


def test_runs_at_once_are_those_of_one_after_the_other(project: Project, serve: Serve) -> None:
    """Every file is the same, byte for byte but for times, whatever else runs."""
    project.write_rows([{"question": f"q{n}", "answer": "AB"[n % 2]} for n in range(120)])
    answers = answer_by_hash(["A", "B", "x"])
    models = [name(serve(answers, Behaviour(seed=seed)), f"m{seed}") for seed in range(3)]
    made = run_matrix(project, models)
    assert sorted((project.folder / "all").iterdir()) == [run.path for run in made.runs]
    for number, model in enumerate(models):
        project.run(f"alone-{number}", model=model, cache_policy="no-cache")
        results = read_results(Path(str(made.runs[number].path)))
        assert results == read_results(project.folder / f"alone-{number}")


def test_models_of_one_endpoint_share_its_limits(project: Project, serve: Serve) -> None:
    """An endpoint that takes three requests at a time never gets a fourth, from any run."""
    project.write_rows([{"question": f"q{n}", "answer": "A"} for n in range(12)])
    server = serve("A", Behaviour(delay=0.003, max_concurrent=3))
    made = run_matrix(project, [name(server, letter) for letter in "abcd"], max_concurrent=3)
    assert (made.status, dict(server.asked.statuses)) == ("complete", {200: 48})


def test_each_dataset_is_opened_once(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For two tasks with the same prompt and three models, rows are read once."""
    opened = list[str]()
    real_open = open_dataset

    def open_one(*given: Any, **more: Any) -> Any:  # noqa: ANN401 - as `open_dataset`
        opened.append(more["name"])
        return real_open(*given, **more)

    monkeypatch.setattr(job, "open_dataset", open_one)
    folder = project.plan()
    plan = json.loads((folder / "run.yaml").read_text())
    tasks = [{"task_key": "quiz"}, {"task_key": "quiz", "key": "b"}]
    plan["evaluation"] = {"key": "e", "task_specifications": tasks}
    models = ["one", "two", "three"]
    plan["models"] = list_models({key: serve(LETTERS).url for key in models})
    (folder / "run.yaml").write_text(json.dumps(plan))
    made = ak.run_matrix(folder, models=models, out=folder / "all", cache_policy="no-cache")
    assert [list(run.tasks) for run in made.runs] == [["quiz", "b"]] * 3
    assert opened == ["rows"]


def test_a_run_that_fails_does_not_stop_the_others(project: Project, serve: Serve) -> None:
    """A refused key and a closed port end their own runs.

    `resume_matrix` asks only what is left.
    """
    good, locked = serve(LETTERS), serve(LETTERS, Behaviour(api_key="right"))
    models = [name(locked, "locked"), name(good, "good"), "http://127.0.0.1:9/v1#down"]
    made = run_matrix(project, models)
    statuses = ["incomplete", "complete", "incomplete"]
    assert (made.status, [run.status for run in made.runs]) == ("incomplete", statuses)
    codes = {key: error.code for key, error in made.errors.items()}
    assert codes == {models[0]: "E304", models[2]: "E306"}
    assert (read_status(project), good.asked.total) == (statuses, 6)
    locked.change(api_key=None)
    locked.forget()
    again = ak.resume_matrix(project.folder / "all")
    assert [run.status for run in again.runs] == ["complete", "complete", "incomplete"]
    assert list(again.errors) == models[2:]
    assert (good.asked.total, locked.asked.total) == (6, 6)


def test_a_model_that_is_down_ends_only_tasks_that_need_it(project: Project, serve: Serve) -> None:
    """The fallback of one task cannot be reached: the tasks without it are finished, before and
    after.
    """
    server = serve("hmm")
    second = {"task_key": "other", "model_key": "mine"}
    first = {"model_key": "mine"}
    keys = {"before": first, "asks": second, "again": second}
    folder = project.plan(*({"key": key, **entry} for key, entry in keys.items()), first)
    plan = json.loads((folder / "run.yaml").read_text())
    fallback = {**SCORER, "extraction": {"rule": "stated_answer", "fallback": "down"}}
    plan["tasks"].append({**project.task(scorers=[fallback]), "key": "other"})
    urls = {"mine": server.url, "down": "http://127.0.0.1:9/v1"}
    plan["models"] = list_models(urls)
    (folder / "run.yaml").write_text(json.dumps(plan))
    with pytest.raises(ak.SolverError) as raised:
        ak.run(folder, out=folder / "run", cache_policy="no-cache")
    assert raised.value.code == "E306"
    stopped = ak.load_run(folder / "run")
    assert (stopped.status, list(stopped.tasks)) == ("incomplete", ["before", "quiz"])
    # The second task that needs it is not begun.
    assert ["calls" in entry for entry in stopped.manifest["tasks"]] == [True, True, False, True]


class Interrupting:
    """Answers, and at a question with this number sends this process Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, messages: Messages) -> str:
        """Return an answer."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return LETTERS(messages)


@pytest.fixture
def heeded() -> Iterator[None]:
    """Heed Ctrl-C also where this process was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_ctrl_c_stops_all_runs_and_says_how_to_go_on(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that run, and one that was to begin later; going on, each sample is asked once."""
    monkeypatch.setattr(evaluate, "MAX_THREADS", 2)
    project.write_rows([{"question": f"q{n}", "answer": "AB"[n % 2]} for n in range(40)])
    slow = Behaviour(delay=0.01)
    servers = [serve(Interrupting(5), slow), serve(LETTERS, slow), serve(LETTERS)]
    with pytest.raises(KeyboardInterrupt) as stopped:
        run_matrix(project, [name(server) for server in servers], max_concurrent=2)
    assert stopped.value.__notes__ == [f"answerkey resume {project.folder / 'all'}"]
    assert (read_status(project), servers[2].asked.total) == (["incomplete"] * 3, 0)
    made = ak.resume_matrix(project.folder / "all")
    assert (made.status, [server.asked.total for server in servers]) == ("complete", [40] * 3)


def test_an_error_of_ours_stops_all_runs(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception is raised after the other runs were stopped in order."""
    evaluate_rows = Evaluation.evaluate_rows

    def break_one(run: Evaluation, prepared: Any, *given: Any, **more: Any) -> object:  # noqa: ANN401 - as `evaluate_rows`
        if prepared.model.name.endswith("#broken"):
            raise ZeroDivisionError
        return evaluate_rows(run, prepared, *given, **more)

    monkeypatch.setattr(Evaluation, "evaluate_rows", break_one)
    models = [name(serve(LETTERS), "broken"), name(serve(LETTERS, Behaviour(delay=0.2)))]
    with pytest.raises(ZeroDivisionError) as stopped:
        run_matrix(project, models)
    assert stopped.value.__notes__ == [f"answerkey resume {project.folder / 'all'}"]


def test_nothing_is_begun_unless_every_run_can_be(project: Project, serve: Serve) -> None:
    """A folder that is taken is found before the first call; what was made meanwhile is removed."""
    server = serve(LETTERS)
    taken = project.folder / "all" / "2-builtin-constant-choice-A"
    taken.mkdir(parents=True)
    (taken / "run.json").write_text("{}")
    with pytest.raises(ak.RunError) as raised:
        run_matrix(project, [name(server), "builtin/constant?choice=A"])
    assert (raised.value.code, server.asked.total) == ("E502", 0)
    assert [path.name for path in (project.folder / "all").iterdir()] == [taken.name]


def test_a_run_that_is_gone_is_told_of(project: Project) -> None:
    """Each run knows which others there are; a folder without any run is refused."""
    made = run_matrix(project, ["builtin/random", "builtin/constant?choice=A"])
    for path in sorted(Path(str(made.runs[0].path)).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = ak.resume_matrix(project.folder / "all")
    assert [run.path for run in again.runs] == [made.runs[1].path]
    assert list(again.errors) == ["1-builtin-random"]
    assert again.errors["1-builtin-random"].code == "E507"
    (project.folder / "none").mkdir()
    with pytest.raises(ak.RunError) as raised:
        ak.resume_matrix(project.folder / "none")
    assert raised.value.code == "E501"


def test_a_run_that_cannot_go_on_does_not_stop_the_others(project: Project, serve: Serve) -> None:
    """One whose folder is damaged is among the errors."""
    run_matrix(project, ["http://127.0.0.1:9/v1#down", name(serve(LETTERS))])
    (broken,) = (project.folder / "all").glob("1-*/run.json")
    broken.write_text("{")
    again = ak.resume_matrix(project.folder / "all")
    assert [run.status for run in again.runs] == ["complete"]
    assert [error.code for error in again.errors.values()] == ["E503"]


def test_models_may_be_functions_and_a_table_is_read_once(project: Project) -> None:
    """Two of the same name are told apart by their numbers."""
    rows = pl.DataFrame({"question": ["a", "b"], "answer": ["A", "B"]})

    def say(messages: list[dict[str, Any]]) -> str:
        return str(messages[-1]["content"]).upper()

    def fail(_messages: list[dict[str, Any]]) -> str:
        raise ValueError("no")

    made = run_matrix(project, [say, fail, "builtin/constant?choice=A"], dataset=rows)
    assert [run.status for run in made.runs] == ["complete", "incomplete", "complete"]
    assert find_accuracy(made.runs[0]) == 1.0


def test_one_model_has_the_folder_itself_and_raises(project: Project) -> None:
    """One run alone is as with `run`; several names of both kinds are refused."""
    assert run_matrix(project, ["builtin/constant?choice=A"]).runs[0].path == project.folder / "all"
    with pytest.raises(ak.SolverError):
        run_matrix(project, ["http://127.0.0.1:9/v1#down"], out="down")
    models = ["builtin/constant?choice=A", "builtin/random"]
    with pytest.raises(ak.SpecError, match="both given several times"):
        run_matrix(project, models, completion_columns=["a", "b"])
