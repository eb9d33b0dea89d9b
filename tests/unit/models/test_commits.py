"""Laws of the way of finished calls to a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import pytest

from answerkey.errors import RunError
from answerkey.models import calls as commits
from answerkey.models.calls import Call, MemoryLedger, Notes, PlainCommits, open_commits
from answerkey.types import Completion

Finished = Sequence[tuple[Call, Completion]]


@dataclass
class Swift:
    """A ledger in two steps, which writes down what is asked of it, and fails when told."""

    seen: list[str] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)
    may_settle: Event = field(default_factory=Event)
    is_settling: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.may_settle.set()

    def find(self, calls: Sequence[Call]) -> dict[str, Completion]:
        """Return nothing."""
        del calls
        return {}

    def add(self, finished: Finished) -> None:
        """Take all that is left."""
        self._take("add", finished)

    def write(self, finished: Finished) -> None:
        """Take the first step."""
        self._take("write", finished)

    def settle(self, finished: Finished) -> None:
        """Take the second step, when it may."""
        self.is_settling.set()
        self.may_settle.wait(300)
        self._take("settle", finished)

    def _take(self, step: str, finished: Finished) -> None:
        self.seen.append(f"{step} {' '.join(call.key for call, _ in finished)}")
        if step in self.fails:
            raise self.fails[step]


@dataclass
class Heard:
    """What was said of the calls."""

    freed: int = 0
    kept: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def free(self, count: int) -> None:
        """Count places."""
        self.freed += count

    def keep(self, call: Call, completion: Completion) -> None:
        """Note a call that is safe."""
        assert completion.text == call.key
        self.kept.append(call.key)

    @property
    def notes(self) -> Notes:
        """The three of them."""
        return Notes(self.free, self.keep, self.failures.append)


async def come_true(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, but not for ever."""
    async with asyncio.timeout(300):
        while not is_so():  # noqa: ASYNC110 - what is waited for is a list that another thread may fill
            await asyncio.sleep(0.001)


def put(way: PlainCommits, *keys: str) -> None:
    """Hand in calls with these keys."""
    for key in keys:
        way.put(Call(key, "000001", 0, []), Completion(key))


def follow(ledger: Swift | MemoryLedger, heard: Heard, steps: Callable[[PlainCommits], object]) -> None:
    """Open the way to a ledger, take steps on it, and flush it; a step that is a coroutine is awaited."""

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            way = open_commits(ledger, executor, heard.notes)
            done = steps(way)
            if asyncio.iscoroutine(done):
                await done
            await way.flush()

    asyncio.run(run())


def test_a_swift_ledger_frees_places_before_it_is_safe() -> None:
    """Once written, calls need no place; all is over when they are safe."""
    ledger, heard = Swift(), Heard()

    async def steps(way: PlainCommits) -> None:
        ledger.may_settle.clear()
        put(way, "a", "b")
        await come_true(lambda: bool(heard.freed))
        assert (ledger.seen, heard.freed, heard.kept) == (["write a b"], 2, ["a", "b"])
        ledger.may_settle.set()

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a b", "settle a b"]
    assert (heard.freed, heard.kept, heard.failures) == (2, ["a", "b"], [])


def test_calls_gather_while_others_are_made_safe() -> None:
    """What is written meanwhile is made safe in the next go, all of it at once."""
    ledger, heard = Swift(), Heard()

    async def steps(way: PlainCommits) -> None:
        ledger.may_settle.clear()
        sent: list[str] = []
        for key in ("a", "b", "c"):
            sent.append(key)
            put(way, key)
            await come_true(lambda: len(ledger.seen) == len(sent))
            if key == "a":
                await come_true(ledger.is_settling.is_set)  # the thread waits with `a`
        ledger.may_settle.set()

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a", "write b", "write c", "settle a", "settle b c"]
    assert heard.kept == ["a", "b", "c"]


def test_a_disk_that_is_too_slow_holds_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is written, and no place is freed, while too many calls are not safe."""
    monkeypatch.setattr(commits, "MOST_UNSETTLED", 2)
    ledger, heard = Swift(), Heard()

    async def steps(way: PlainCommits) -> None:
        ledger.may_settle.clear()
        put(way, "a", "b")
        await come_true(lambda: bool(heard.freed))
        put(way, "c")
        await come_true(ledger.is_settling.is_set)
        assert (ledger.seen, heard.freed) == (["write a b"], 2)
        ledger.may_settle.set()
        await come_true(lambda: heard.freed == 3)

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a b", "settle a b", "write c", "settle c"]
    assert heard.kept == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("step", "seen"),
    [("write", ["write a b", "add a b c"]), ("settle", ["write a b", "settle a b", "add a b c"])],
)
def test_what_a_swift_ledger_does_not_take_is_handed_over_once_more(step: str, seen: list[str]) -> None:
    """After a failure nothing is written, whatever comes; in the end all of it is tried again, in one go."""
    full = RunError("E502", "no room")
    ledger, heard = Swift(fails={step: full}), Heard()

    async def steps(way: PlainCommits) -> None:
        put(way, "a", "b")
        await come_true(lambda: bool(heard.failures))
        put(way, "c")

    follow(ledger, heard, steps)
    assert ledger.seen == seen
    assert heard.failures == [full]


def test_a_bug_of_a_ledger_does_not_make_anyone_wait_for_ever() -> None:
    """Any exception ends the asking, in the loop as well."""
    bug = ZeroDivisionError("bug")
    ledger, heard = Swift(fails={"write": bug}), Heard()
    heard_by_loop: list[object] = []

    async def steps(way: PlainCommits) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, what: heard_by_loop.append(what["exception"])
        )
        put(way, "a")
        await come_true(lambda: bool(heard.failures))

    follow(ledger, heard, steps)
    assert (heard.failures, heard_by_loop) == ([bug], [bug])


def test_a_flush_does_not_wait_for_its_time() -> None:
    """What is handed in right before the end is written and made safe at once."""
    ledger, heard = Swift(), Heard()
    follow(ledger, heard, lambda way: put(way, "a"))
    assert ledger.seen == ["write a", "settle a"]
    assert (heard.freed, heard.kept) == (1, ["a"])


def test_any_other_ledger_does_both_in_one_step() -> None:
    """Places are freed when calls are safe."""
    ledger, heard = MemoryLedger(), Heard()
    follow(ledger, heard, lambda way: put(way, "a", "b"))
    assert (heard.freed, heard.kept, list(ledger.kept)) == (2, ["a", "b"], ["a", "b"])


def test_a_swift_ledger_that_fails_while_others_are_made_safe_waits_for_them() -> None:
    """What is on its way to the disk counts; the rest is handed over once more."""
    ledger, heard = Swift(), Heard()
    full = RunError("E502", "no room")

    async def steps(way: PlainCommits) -> None:
        ledger.may_settle.clear()
        put(way, "a")
        await come_true(lambda: bool(heard.freed))
        await come_true(ledger.is_settling.is_set)  # the thread waits with `a`
        ledger.fails["write"] = full
        put(way, "b")
        await come_true(lambda: bool(heard.failures))
        asyncio.get_running_loop().call_later(0.01, ledger.may_settle.set)

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a", "write b", "settle a", "add b"]
    assert (heard.kept, heard.failures) == (["a"], [full])


def test_a_swift_ledger_that_fails_in_the_end_is_not_waited_for() -> None:
    """The flush itself writes; where that fails, nothing is on its way to the disk."""
    full = RunError("E502", "no room")
    ledger, heard = Swift(fails={"write": full}), Heard()
    follow(ledger, heard, lambda way: put(way, "a"))
    assert (ledger.seen, heard.failures) == (["write a", "add a"], [full])


def test_what_is_safe_already_is_not_made_safe_twice() -> None:
    """A time that comes when there is nothing left to do passes."""
    ledger, heard = Swift(), Heard()

    async def steps(way: PlainCommits) -> None:
        put(way, "a")
        await way.flush()
        assert isinstance(way, commits.SwiftCommits)
        way._settle()

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a", "settle a"]


def test_a_writing_keeps_its_time_when_others_become_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is planned once; the flush does not wait for it."""
    monkeypatch.setattr(commits, "GATHER_SECONDS", 60.0)
    ledger, heard = Swift(), Heard()

    async def steps(way: PlainCommits) -> None:
        put(way, "a")
        await come_true(lambda: bool(heard.freed))
        put(way, "b")
        await come_true(lambda: "settle a" in ledger.seen)

    follow(ledger, heard, steps)
    assert ledger.seen == ["write a", "settle a", "write b", "settle b"]


@pytest.mark.parametrize("kind", [Swift, MemoryLedger])
def test_a_way_that_is_cut_off_says_nothing(kind: type[Swift | MemoryLedger]) -> None:
    """A task that is cancelled with the whole run is no failure of the ledger."""
    heard = Heard()

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            way = open_commits(kind(), executor, heard.notes)
            put(way, "a")
            if isinstance(way, commits.SwiftCommits):
                way._write_now()
                way._settle()
            task = way._task
            assert task is not None
            task.cancel()
            await asyncio.wait({task})
            assert task.done()

    asyncio.run(run())
    assert heard.failures == []


def test_a_bug_of_a_plain_ledger_is_told_and_its_calls_are_not_tried_again() -> None:
    """Nobody knows what became of them; those that came later are handed over in the end."""

    class Buggy(MemoryLedger):
        def add(self, finished: Finished) -> None:
            if [call.key for call, _ in finished] == ["a"]:
                raise ZeroDivisionError("bug")
            super().add(finished)

    for later in ([], ["b"]):
        ledger, heard = Buggy(), Heard()

        async def steps(way: PlainCommits, heard: Heard = heard, later: list[str] = later) -> None:
            put(way, "a")
            await come_true(lambda: bool(heard.failures))
            put(way, *later)

        follow(ledger, heard, steps)
        assert [type(one) for one in heard.failures] == [ZeroDivisionError]
        assert (heard.kept, list(ledger.kept)) == ([], later)


def test_what_a_plain_ledger_does_not_take_is_handed_over_once_more() -> None:
    """As long as it refuses, nothing is lost that it may take in the end."""
    full = RunError("E502", "no room")

    class Full(MemoryLedger):
        tries = 0

        def add(self, finished: Finished) -> None:
            self.tries += 1
            if self.tries == 1:
                raise full
            super().add(finished)

    ledger, heard = Full(), Heard()

    async def steps(way: PlainCommits) -> None:
        put(way, "a")
        await come_true(lambda: bool(heard.failures))
        put(way, "b")

    follow(ledger, heard, steps)
    assert (heard.failures, list(ledger.kept)) == ([full], ["a", "b"])
