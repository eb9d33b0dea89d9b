"""A task followed while its model is asked: how far it is, how it goes, what is odd about it.

models ──► Observer.hear (each event, at once) ──► counts ──► Observer.look (when somebody looks)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from answerkey.errors import SolverError
from answerkey.metrics import wilson
from answerkey.models.calls import BatchLeft, BatchSeen, Event, Finished, Retried
from answerkey.pipeline import Prepared
from answerkey.solvers import ChoiceRankingSolver
from answerkey.types import Completion, CompletionStatus, Notice
from answerkey.verbs.judge_models import SOLVE
from answerkey.verbs.judging import Judged, QuickJudge
from answerkey.verbs.nonsense import EarlyWarning
from answerkey.verbs.tallying import Reasons

#: The pace is that of the last so many seconds.
WINDOW_SECONDS = 15.0
#: Completions that wait to be judged; beyond that they are judged even if nobody looks.
WAITING = 5000


@dataclass(frozen=True)
class Standing:
    """How far the asking is. `known` calls were answered from the cache or the journal, and are done, too.

    `retried` counts attempts that will be made again. Tokens are those of calls made now. `pace` is in calls
    per second, `seconds_left` None when it cannot be told yet. `correct` and `invalid` are out of `scored`.
    `batches` are those that are waited for. `trouble` is why the last attempt is made again, as long as
    nothing was answered since.
    """

    task: str
    purpose: str
    done: int
    total: int
    known: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    pace: float | None = None
    seconds_left: float | None = None
    judged: Judged = field(default_factory=Judged)
    batches: tuple[BatchSeen, ...] = ()
    trouble: str | None = None

    @property
    def accuracy(self) -> tuple[float, tuple[float, float]] | None:
        """The share of right completions so far, and its 95 % Wilson interval; None without any."""
        if not self.judged.scored:
            return None
        return self.judged.correct / self.judged.scored, wilson(self.judged.correct, self.judged.scored)

    @property
    def invalid_share(self) -> float | None:
        """The share of INVALID completions so far; None where the scorer knows none."""
        if not self.judged.scored or self.judged.invalid is None:
            return None
        return self.judged.invalid / self.judged.scored


class Onlooker(Protocol):
    """Who wants to see a run while it is under way."""

    def follow(self, observer: Observer) -> None:
        """Take the observer of a task that begins to ask; `look` may be called from any thread."""

    def warn(self, notice: Notice) -> None:
        """Hear what the user should know now; called from any thread, in a hurry."""

    def say(self, text: str) -> None:
        """Hear a line about how the run goes on."""


@dataclass
class _Counts:
    """The calls of one purpose."""

    done: int = 0
    known: int = 0
    failed: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Observer:
    """Follows the calls of one task; safe for threads.

    `total` is how many calls of each purpose there will be. With `stops`, completions that make no sense end
    the asking: SolverError E305.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        total: int,
        warn: Callable[[Notice], None],
        stops: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = prepared.key
        self.total = total
        self.retried = Reasons()
        self._warn = warn
        self._stops = stops
        self._clock = clock
        self._judge = QuickJudge(prepared.task, prepared.dataset.samples(prepared.columns))
        # What actions leave out of the metrics is only known in the end.
        self._shows_accuracy = self._judge.is_able and not prepared.task.actions
        self._early = EarlyWarning(self._judge)
        # What is ranked is echoed, not said.
        self._has_texts = not isinstance(prepared.task.solver, ChoiceRankingSolver)
        self._counts: dict[str, _Counts] = {}
        self._purpose = SOLVE
        self._waiting: list[tuple[str, Completion]] = []
        self._judged = Judged()
        self._batches: dict[str, BatchSeen] = {}
        self._trouble: str | None = None
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._lock = threading.Lock()
        self._looking = threading.Lock()

    def hear(self, event: Event) -> None:
        """Take an event in; raises SolverError E305 when the asking should stop."""
        if isinstance(event, Finished):
            self._note_finished(event)
        elif isinstance(event, Retried):
            with self._lock:
                self._count(event.call.purpose).retried += 1
                self._trouble = event.why
                self.retried.add(event.call.purpose, event.why, event.call.sample_id)
        elif isinstance(event, BatchSeen):
            with self._lock:
                self._batches[event.batch] = event
        elif isinstance(event, BatchLeft):
            message = (
                f"the batch `{event.batch}` of {event.calls} calls goes on at the endpoint, and is paid for"
            )
            self._warn(Notice(message, hint="`answerkey resume` collects it; nothing is handed in twice"))

    def _note_finished(self, event: Finished) -> None:
        call, completion = event.call, event.completion
        with self._lock:
            counts = self._count(call.purpose)
            counts.done += 1
            counts.known += event.is_known
            if not event.is_known:
                self._trouble = None
                counts.prompt_tokens += completion.prompt_tokens or 0
                counts.completion_tokens += completion.completion_tokens or 0
            if completion.status is CompletionStatus.ERROR:
                counts.failed += 1
                return
            if call.purpose != SOLVE:
                return
            if self._shows_accuracy:
                self._waiting.append((call.sample_id, completion))
            is_full = len(self._waiting) >= WAITING
            found = self._early.look_at(call.sample_id, completion) if self._has_texts else None
        if is_full:
            self._judge_waiting()
        if found is not None:
            self._speak(*found)

    def _count(self, purpose: str) -> _Counts:
        if purpose != self._purpose:
            self._purpose = purpose
            self._marks = deque([(self._clock(), 0)])
        return self._counts.setdefault(purpose, _Counts())

    def _speak(self, notice: Notice, is_useless: bool) -> None:  # noqa: FBT001 - the pair that was found
        if self._stops and is_useless:
            hint = (notice.hint or "").removeprefix("Ctrl-C stops the run; ")
            raise SolverError("E305", f"stopped: {notice.message}", hint=f"{hint}; then start a new run")
        self._warn(notice)

    def look(self) -> Standing:
        """Return how far the asking is now."""
        self._judge_waiting()
        with self._lock:
            counts = self._counts.get(self._purpose, _Counts())
            pace = self._measure_pace(counts.done - counts.known)
            left = max(0, self.total - counts.done)
            return Standing(
                task=self.key,
                purpose=self._purpose,
                done=counts.done,
                total=max(self.total, counts.done),
                known=counts.known,
                failed=counts.failed,
                retried=counts.retried,
                prompt_tokens=counts.prompt_tokens,
                completion_tokens=counts.completion_tokens,
                pace=pace,
                seconds_left=left / pace if pace else None,
                judged=self._judged,
                batches=tuple(one for one in self._batches.values() if not one.is_over),
                trouble=self._trouble,
            )

    def _measure_pace(self, asked: int) -> float | None:
        """Return the calls per second of the last seconds; None before there is a second to look back on."""
        now = self._clock()
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now - WINDOW_SECONDS:
            marks.popleft()
        then, before = marks[0]
        marks.append((now, asked))
        return (asked - before) / (now - then) if now - then >= 1 else None

    def _judge_waiting(self) -> None:
        with self._looking:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                judged = self._judge.judge(waiting)
                with self._lock:
                    self._judged += judged
