"""Laws of the observer: numbers while a run is under way."""

from __future__ import annotations

from typing import Any

import pytest

import answerkey as ak
from answerkey.datasets import Dataset, InlineSource, load_rows
from answerkey.errors import SolverError
from answerkey.evaluate import Observer
from answerkey.evaluate.prepare import Prepared
from answerkey.models import Adapted, BatchLeft, BatchSeen, Call, Finished, Retried
from answerkey.spec import DatasetSpec, Specification
from answerkey.types import Completion, CompletionStatus, Notice

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
ERROR = Completion(None, CompletionStatus.ERROR, error="HTTP 500: no")


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def prepare(rows: int = 200, **definition: Any) -> Prepared:  # noqa: ANN401 - any part of a definition
    """Return a task whose right answer is always A."""
    task = ak.load_task(
        {
            "key": "quiz",
            "display_name": "Quiz",
            "description": "Letters.",
            "definition": {"scorers": [SCORER], **definition},
        }
    )
    dataset = Dataset.of(load_rows([{"answer": "A"}] * rows, name="rows").samples, name="rows")
    return Prepared(Specification("quiz", task, DatasetSpec("rows", InlineSource(rows=()))), dataset)


def observe(prepared: Prepared | None = None, **options: Any) -> tuple[Observer, Clock, list[Notice]]:  # noqa: ANN401 - of Observer
    """Return an observer of 200 calls, its clock, and what it warns of."""
    clock, heard = Clock(), list[Notice]()
    return (
        Observer(prepared or prepare(), total=200, warn=heard.append, clock=clock, **options),
        clock,
        heard,
    )


def finish(
    number: int, completion: Completion | str, *, is_known: bool = False, purpose: str = "solve"
) -> Finished:
    """Return the event of a call that has its completion."""
    if isinstance(completion, str):
        completion = Completion(completion, prompt_tokens=10, completion_tokens=2)
    call = Call(f"key{number}", f"{number + 1:06d}", 0, [], purpose)
    return Finished(call, completion, is_known)


def test_it_counts_what_is_done_known_failed_and_retried() -> None:
    """Known calls are done, but cost no tokens; a failed one is done as well."""
    observer, _, _ = observe()
    observer.hear(finish(0, "A", is_known=True))
    observer.hear(finish(1, "A"))
    observer.hear(Retried(finish(2, "A").call, "HTTP 429: slow down", 1.0, 1))
    observer.hear(Adapted(4, "status 429"))
    observer.hear(finish(2, ERROR))
    seen = observer.look()
    assert (seen.done, seen.total, seen.known, seen.failed, seen.retried) == (3, 200, 1, 1, 1)
    assert (seen.prompt_tokens, seen.completion_tokens) == (10, 2)


def test_the_last_trouble_is_known_until_something_is_answered() -> None:
    """What the cache answers says nothing about the endpoint."""
    observer, _, _ = observe()
    observer.hear(Retried(finish(0, "A").call, "cannot connect to `h`", 1.0, 1))
    observer.hear(finish(1, "A", is_known=True))
    assert observer.look().trouble == "cannot connect to `h`"
    observer.hear(finish(2, "A"))
    assert observer.look().trouble is None


def test_the_running_accuracy_is_the_scorers_with_its_interval() -> None:
    """Right, wrong and INVALID are what the task's own scorer says; failed calls are left out."""
    observer, _, _ = observe()
    for number, text in enumerate(["A", "A", "B", "None of these"]):
        observer.hear(finish(number, text))
    observer.hear(finish(4, ERROR))
    seen = observer.look()
    assert (seen.judged.scored, seen.judged.correct, seen.judged.invalid) == (4, 2, 1)
    assert seen.accuracy is not None
    assert seen.accuracy[0] == 0.5
    assert seen.accuracy[1] == pytest.approx((0.1500, 0.8500), abs=1e-4)
    assert seen.invalid_share == 0.25


def test_nothing_is_judged_twice() -> None:
    """Looking again changes nothing, and later completions are added."""
    observer, _, _ = observe()
    observer.hear(finish(0, "A"))
    assert observer.look().judged == observer.look().judged
    observer.hear(finish(1, "B"))
    assert observer.look().judged.scored == 2


def test_before_the_first_completion_there_is_no_accuracy() -> None:
    """No number is better than one out of nothing."""
    observer, _, _ = observe()
    assert observer.look().accuracy is None
    assert observer.look().invalid_share is None


def test_with_actions_no_accuracy_is_shown() -> None:
    """What rules will leave out of the metrics is only known in the end."""
    rule = {
        "key": "only-a",
        "action": "exclude_from_metrics",
        "filter": {"op": "equals", "expression": "{{ sample.answer }}", "value": "B"},
    }
    observer, _, _ = observe(prepare(actions=[rule]))
    observer.hear(finish(0, "A"))
    assert observer.look().accuracy is None


def test_the_pace_is_that_of_calls_made_now() -> None:
    """Calls per second over the last fifteen seconds, and the time that the rest will take."""
    observer, clock, _ = observe()
    for number in range(50):
        observer.hear(finish(number, "A", is_known=True))
    assert observer.look().pace is None
    clock.now += 10
    for number in range(50, 100):
        observer.hear(finish(number, "AB"[number % 2]))
    seen = observer.look()
    assert seen.pace == 5.0
    assert seen.seconds_left == 20.0
    for _ in range(20):
        clock.now += 1
        seen = observer.look()
    assert seen.pace == 0.0
    assert seen.seconds_left is None


def test_the_calls_of_a_judge_are_counted_apart() -> None:
    """When the judge is asked, it is the judge's calls that are shown."""
    observer, _, _ = observe()
    observer.hear(finish(0, "A"))
    observer.hear(finish(0, "0.5", purpose="judge:quality"))
    seen = observer.look()
    assert (seen.purpose, seen.done) == ("judge:quality", 1)
    assert seen.judged.scored == 1


def test_fifty_completions_without_a_choice_are_a_warning_at_once() -> None:
    """The warning comes with the fiftieth, while the run goes on."""
    observer, _, heard = observe()
    for number in range(49):
        observer.hear(finish(number, f"Well, {number}"))
    assert heard == []
    for number in range(49, 120):
        observer.hear(finish(number, f"Well, {number}"))
    assert [notice.message for notice in heard] == [
        "the first 50 completions are all INVALID; for example 'Well, 0'"
    ]


def test_nonsense_stops_the_asking_when_that_is_wanted() -> None:
    """With `stops` it is E305, and no warning."""
    observer, _, heard = observe(stops=True)
    for number in range(49):
        observer.hear(finish(number, f"Well, {number}"))
    with pytest.raises(SolverError, match="stopped: the first 50 completions are all INVALID") as caught:
        observer.hear(finish(49, "Well, 49"))
    assert caught.value.code == "E305"
    assert heard == []


def test_many_completions_are_judged_though_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be judged does not pile up."""
    monkeypatch.setattr("answerkey.evaluate.session.WAITING", 10)
    observer, _, _ = observe()
    for number in range(25):
        observer.hear(finish(number, "A"))
    assert len(observer._waiting) == 5
    assert observer.look().judged.scored == 25


def test_batches_are_shown_until_they_are_over() -> None:
    """The last look at each counts."""
    observer, _, _ = observe()
    waiting = BatchSeen("batch_1", "in_progress", 3, 10, is_over=False)
    observer.hear(BatchSeen("batch_1", "validating", 0, 10, is_over=False))
    observer.hear(waiting)
    observer.hear(BatchSeen("batch_2", "completed", 5, 5, is_over=True))
    assert observer.look().batches == (waiting,)


def test_a_batch_that_is_left_is_a_warning() -> None:
    """It says that the batch goes on, and how to collect it."""
    observer, _, heard = observe()
    observer.hear(BatchLeft("batch_1", 10))
    assert heard == [
        Notice(
            "the batch `batch_1` of 10 calls goes on at the endpoint, and is paid for",
            hint="`answerkey resume` collects it; nothing is handed in twice",
        )
    ]
