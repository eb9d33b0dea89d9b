"""Laws of checks before a run, and of calls under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import answerkey as ak
from answerkey.evaluate.observer import Observer, Reasons, count_calls
from answerkey.models.calls import BatchPending, BatchPolled, Call, Finished, Retried, Reused
from answerkey.models.config import Price
from answerkey.models.store import CallStore
from answerkey.types import Completion, CompletionStatus, Notice

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500: oops")


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def observe() -> tuple[Observer, Clock, list[Notice]]:
    """Return an observer of 200 calls, its clock, and what it warns of."""
    clock, heard = Clock(), list[Notice]()
    return Observer("quiz", total=200, warn=heard.append, clock=clock), clock, heard


def finish(number: int, completion: Completion | str, purpose: str = "solve") -> Finished:
    """Return the event of a call that has its completion."""
    if isinstance(completion, str):
        completion = Completion(completion, prompt_tokens=10, completion_tokens=2)
    call = Call(f"key{number}", f"{number + 1:06d}", 0, [], purpose)
    return Finished(call, completion)


def remember(*texts: Completion | str) -> Reused:
    """Return the event of calls that are not made: what was said to them is known."""
    events = [finish(number, text) for number, text in enumerate(texts)]
    return Reused([(event.call, event.completion) for event in events])


def test_it_counts_what_is_done_known_failed_and_retried() -> None:
    """Known calls are done, but cost no tokens; a failed one is done as well."""
    observer, _, _ = observe()
    observer.hear(remember("A"))
    observer.hear(finish(1, "A"))
    observer.hear(Retried(finish(2, "A").call, "HTTP 429: slow down", 1.0, 1))
    observer.hear(finish(2, ERROR))
    seen = observer.look()
    assert (seen.done, seen.total, seen.remembered, seen.failed, seen.retried) == (3, 200, 1, 1, 1)
    assert (seen.prompt_tokens, seen.completion_tokens) == (10, 2)


def test_the_last_trouble_is_known_until_something_is_answered() -> None:
    """What the cache answers says nothing about the endpoint."""
    observer, _, _ = observe()
    observer.hear(Retried(finish(0, "A").call, "cannot connect to `h`", 1.0, 1))
    observer.hear(remember("A"))
    assert observer.look().problem == "cannot connect to `h`"
    observer.hear(finish(2, "A"))
    assert observer.look().problem is None


def test_the_pace_is_that_of_calls_made_now() -> None:
    """Calls per second over the last fifteen seconds, and the time that the rest will take."""
    observer, clock, _ = observe()
    observer.hear(remember(*["A"] * 50))
    assert observer.look().pace is None
    clock.now += 10
    for number in range(50, 100):
        observer.hear(finish(number, "AB"[number % 2]))
    assert (observer.look().pace, observer.look().seconds_left) == (5.0, 20.0)
    for _ in range(20):
        clock.now += 1
        seen = observer.look()
    assert (seen.pace, seen.seconds_left) == (0.0, None)


def test_the_calls_of_a_judge_are_counted_apart() -> None:
    """When the judge is asked, it is the judge's calls that are shown."""
    observer, _, _ = observe()
    observer.hear(finish(0, "A"))
    observer.hear(finish(0, "0.5", "judge:quality"))
    seen = observer.look()
    assert (seen.purpose, seen.done) == ("judge:quality", 1)


def test_batches_are_shown_until_they_are_over() -> None:
    """The last look at each counts; one that is left goes on, which is a warning."""
    observer, _, heard = observe()
    waiting = BatchPolled("batch_1", "in_progress", 3, 10, is_over=False)
    observer.hear(BatchPolled("batch_1", "validating", 0, 10, is_over=False))
    observer.hear(waiting)
    observer.hear(BatchPolled("batch_2", "completed", 5, 5, is_over=True))
    assert observer.look().batches == (waiting,)
    observer.hear(BatchPending("batch_1", 10))
    message = "the batch `batch_1` of 10 calls goes on at the endpoint, and is paid for"
    hint = "`answerkey resume` collects it; nothing is handed in twice"
    assert heard == [Notice(message, hint=hint)]


def call(number: int = 0, *, purpose: str = "solve", **fields: Any) -> tuple[Call, Completion]:  # noqa: ANN401 - of a completion
    """Return a call that was answered at once."""
    known: dict[str, Any] = {"text": "A", "source": "live", "attempts": 1, "latency": 1.0}
    known |= {"prompt_tokens": 10, "completion_tokens": 2}
    request = Call(f"{purpose}{number}", f"s{number}", 0, [], purpose)
    return request, Completion(**{**known, **fields})


def count(
    calls: Sequence[tuple[Call, Completion]],
    prices: Mapping[str, Price | None] | None = None,
    retried: Reasons | None = None,
) -> dict[str, dict[str, Any]]:
    """Return what a task asked whose journal has these calls, and those of another task."""
    with closing(CallStore(None)) as journal:
        journal.write(calls, "quiz")
        journal.write([call(1_000)], "other")
        return count_calls(journal, "quiz", prices or {}, retried or Reasons())


def test_calls_tokens_and_cost_add_up() -> None:
    """What comes from the cache is counted apart and costs nothing.

    A price that is not known is not 0.
    """
    calls = [call(0), call(1, attempts=3), call(2, source="cache")]
    total = count(calls, {"solve": Price(0.01, 0.1)})["solve"]
    assert (total["calls"], total["asked"], total["cached"], total["retries"]) == (3, 2, 1, 2)
    assert (total["prompt_tokens"], total["completion_tokens"]) == (20, 4)
    assert total["cost"] == pytest.approx(0.6)
    assert count(calls)["solve"]["cost"] is None


def test_a_call_in_a_batch_costs_half_and_a_cached_token_its_own_price() -> None:
    """Tokens are summed whatever they cost; calls of one task may have come in both ways."""
    cached = call(0, reasoning_tokens=1, cached_tokens=4, cache_write_tokens=2)
    price = Price(0.01, 0.1, cached=0.001, written=0.02)
    sums = count([cached, call(1, source="batch")], {"solve": price})["solve"]
    assert (sums["asked"], sums["prompt_tokens"]) == (2, 20)
    assert (sums["reasoning_tokens"], sums["cached_tokens"], sums["cache_write_tokens"]) == (
        1,
        4,
        2,
    )
    in_batch = (10 * 0.01 + 2 * 0.1) / 2
    assert sums["cost"] == pytest.approx(4 * 0.01 + 4 * 0.001 + 2 * 0.02 + 2 * 0.1 + in_batch)


def test_latency_is_that_of_calls_that_were_made() -> None:
    """The median and the 95th percentile, the cache aside; none when nothing was asked."""
    calls = [call(number, latency=float(number)) for number in range(101)]
    total = count([*calls, call(101, source="cache", latency=900.0)])["solve"]
    assert total["latency"] == {"p50": 50.0, "p95": 95.0}
    assert count([call(source="cache")])["solve"]["latency"] is None
    assert count([call(latency=2.0)])["solve"]["latency"] == {"p50": 2.0, "p95": 2.0}


def test_failures_are_grouped_by_purpose_and_reason_with_an_example_each() -> None:
    """The reason is what stands before the colon; the largest group comes first."""
    retried = Reasons()
    retried.add("judge:quality", "HTTP 429: slow down", "s0")
    failures = ["HTTP 400: prompt too long", "HTTP 500: oops", "HTTP 500: oops again"]
    failed: dict[str, Any] = {"text": None, "status": CompletionStatus.ERROR}
    calls = [call(number, error=why, **failed) for number, why in enumerate(failures)]
    result = count([*calls, call(3), call(0, purpose="judge:quality")], {}, retried)
    assert (list(result), result["solve"]["failed"]) == (["solve", "judge:quality"], 3)
    assert result["solve"]["errors"] == [
        {"reason": "HTTP 500", "count": 2, "example": {"sample_id": "s1", "error": failures[1]}},
        {"reason": "HTTP 400", "count": 1, "example": {"sample_id": "s0", "error": failures[0]}},
    ]
    assert result["solve"]["retried"] == []
    assert result["judge:quality"]["retried"][0]["reason"] == "HTTP 429"


# A mistake is told where it is made, once.

TASK = """\
key: mcqa
display_name: Questions
description: Multiple choice questions.
config_spec:
  - type: dataset_column
    key: column
    display_name: C
    default_value: answer
definition:
  dataset: {key: questions}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - {role: system, content: Answer.}
        - role: user
          content: "{{ sample.question }}"
  scorers:
    - type: string_equals_mcqa
      ground_truth_choice: "{{ sample.answer }}"
      choices: "{{ sample.choices }}"
"""
DATASET = """\
key: questions
display_name: Questions
source:
  type: local
  file_path: questions.jsonl
"""
RUN = "datasets: [{$ref: dataset.yaml}]\ntasks: [{$ref: task.yaml}]\n"
SOLVER = TASK[TASK.index("    type: single") : TASK.index("  scorers")]
TRACE_SOLVER = "    type: pass_through_solver\n    trace_column: said\n"
EXAMPLES = "    examples:\n      dataset: questions\n      num_examples: 1\n      by: level\n"
SOURCE = "source:\n  type: local\n  file_path: questions.jsonl"
ROWS = '{"question": "Q", "answer": "A", "choices": ["A", "B"]}\n' * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a sound project in it."""
    monkeypatch.chdir(tmp_path)
    files = {"task.yaml": TASK, "dataset.yaml": DATASET, "run.yaml": RUN, "questions.jsonl": ROWS}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def find_errors(folder: Path, name: str, old: str, new: str) -> list[tuple[str, str]]:
    """Return code and place of every error after a change of one file."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return [(error.code, str(error.where)) for error in ak.check("run.yaml").errors]


def test_the_project_is_sound(folder: Path) -> None:
    """Each law below is about one change of it."""
    assert find_errors(folder, "run.yaml", "tasks", "tasks") == []


@pytest.mark.parametrize(
    ("file", "old", "new", "code", "place"),
    [
        ("task", "sample.question }}", "sample.qestion }}", "E206", "18:20"),
        ("task", "content: Answer.", 'content: "{{ sample.rule }}"', "E206", "16:35"),
        ("task", "default_value: answer", "default_value: anser", "E206", "8:20"),
        ("task", SOLVER, TRACE_SOLVER, "E206", "13:19"),
        ("task", "  scorers:", f"{EXAMPLES}  scorers:", "E206", "22:11"),
        ("dataset", "questions.jsonl", "question.jsonl", "E201", "5:14"),
        ("dataset", "questions.jsonl", "questions.txt", "E201", "5:14"),
        ("dataset", SOURCE, "file_path: none.jsonl", "E201", "3:12"),  # an old place
    ],
)
def test_what_is_named_in_vain_is_told_where_that_is_done(
    folder: Path, file: str, old: str, new: str, code: str, place: str
) -> None:
    """Columns of prompts, traces, groups of examples and defaults.

    Files, typed columns and filters.
    """
    assert find_errors(folder, f"{file}.yaml", old, new) == [(code, f"{file}.yaml:{place}")]


def test_the_errors_of_a_row_stay_with_the_row(folder: Path) -> None:
    """The data file, its line and the column."""
    errors = find_errors(folder, "questions.jsonl", '"answer": "A"', '"answer": "C"')
    assert [code for code, _ in errors] == ["E204", "E204"]
    assert errors[0][1].endswith("questions.jsonl:1, column `answer`")


def test_the_errors_of_one_file_are_told_line_by_line(folder: Path) -> None:
    """In the order of the file: the prompt stands above the scorers, but is checked after them."""
    (folder / "questions.jsonl").write_text('{"other": 1}\n', encoding="utf-8")
    places = [place for _, place in find_errors(folder, "run.yaml", "tasks", "tasks")]
    assert places == ["task.yaml:8:20", "task.yaml:18:20", "task.yaml:21:28", "task.yaml:22:16"]


def test_no_allowance_is_proposed_where_no_row_would_be_left(project: Project) -> None:
    """The hint is about the rows alone."""
    project.write_task(project.task(solver=None))
    rows = project.write_rows([{"question": "q", "answer": "E", "completion": "A"}] * 2)
    errors = ak.check(project.folder / "task.yaml", dataset=rows).errors
    assert [error.code for error in errors] == ["E204"] * 2
    assert "--allow-failed" not in str(errors[0].hint)


def test_a_broken_solver_is_the_only_mistake(project: Project) -> None:
    """No error says that completions are missing, which the solver would have made."""
    solver = project.task()["definition"]["solver"]
    solver["input_builder"]["input_messages"][0]["role"] = "usr"
    project.write_task(project.task(solver=solver))
    rows = project.write_rows([{"question": "q", "answer": "A"}])
    errors = ak.check(project.folder / "task.yaml", dataset=rows).errors
    assert [error.code for error in errors] == ["E108"]


def test_too_few_examples_are_reported_once(project: Project) -> None:
    """What the task asks for is at fault, not each of the rows: one error, where the task asks for
    it.
    """
    examples = {"dataset": "shots", "num_examples": 20}
    solver = {**project.task()["definition"]["solver"], "examples": examples}
    project.write_rows([{"question": "q", "answer": "A"}] * 2, "shots")
    pair = {"model_key": "builtin/random"}
    plan = project.plan(pair, datasets=("rows", "shots"), solver=solver, dataset={"key": "rows"})
    (error,) = ak.check(plan).errors
    message = "20 examples are needed, and dataset `shots` has 2 that are not the sample itself"
    assert (error.code, error.message) == ("E302", message)
    assert error.hint == "lower `num_examples`"
    assert "run.yaml:1:" in str(error.where)
    with pytest.raises(ak.DataError, match="20 examples are needed"):
        ak.run(plan, out=project.folder / "out")
