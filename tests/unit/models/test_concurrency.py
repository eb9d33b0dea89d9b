"""The laws of how many requests are under way at once."""

from __future__ import annotations

import asyncio

from answerkey.models.retry import Pace, RequestSemaphore


def pass_window(pace: Pace, troubles: int = 0) -> int:
    """Note one window of outcomes, the troubles first; return the limit that follows."""
    epoch = pace.epoch
    for count in range(max(pace.limit, 8)):
        pace.note(epoch, is_trouble=count < troubles)
    return pace.limit


def test_the_start_is_slow_and_doubles() -> None:
    """A healthy endpoint gets 8 requests at once, then 16, 32, 64, and never more than the cap."""
    pace = Pace(100)
    assert [pace.limit, *(pass_window(pace) for _ in range(5))] == [8, 16, 32, 64, 100, 100]


def test_a_small_cap_is_the_start() -> None:
    """A model that takes two requests at once never gets a third."""
    pace = Pace(2)
    assert [pace.limit, pass_window(pace), pass_window(pace)] == [2, 2, 2]


def test_overload_halves_down_to_one() -> None:
    """Where half of the requests and more fail, the limit is halved, until one is left."""
    pace = Pace(64)
    assert [pass_window(pace, troubles=8) for _ in range(5)] == [4, 2, 1, 1, 1]


def test_growth_after_a_cut_is_even() -> None:
    """After the first cut the limit grows by a sixteenth of the cap for each healthy window."""
    pace = Pace(64)
    for _ in range(3):
        pass_window(pace)
    assert pass_window(pace, troubles=40) == 32
    assert [pass_window(pace) for _ in range(3)] == [36, 40, 44]


def test_load_that_halving_relieves_stays_halved() -> None:
    """A light overload halves the limit; when that helps, growth goes on from there."""
    pace = Pace(64)
    for _ in range(3):
        pass_window(pace)
    assert pass_window(pace, troubles=20) == 32
    assert pass_window(pace) == 36


def test_faults_that_have_nothing_to_do_with_load_do_not_slow_down() -> None:
    """A share of troubles that halving does not lower becomes the usual one; the cut is taken back."""
    pace = Pace(64)
    for _ in range(3):
        pass_window(pace)
    assert pass_window(pace, troubles=13) == 32
    assert pass_window(pace, troubles=7) == 64
    assert [pass_window(pace, troubles=13) for _ in range(3)] == [64, 64, 64]


def test_outcomes_from_before_a_cut_do_not_cut_again() -> None:
    """A cut is judged by requests that were sent after it."""
    pace = Pace(64)
    before = pace.epoch
    assert pass_window(pace, troubles=8) == 4
    changes = [pace.note(before, is_trouble=True) for _ in range(50)]
    assert not any(changes)
    assert pace.limit == 4


def test_the_gate_lets_in_as_many_as_the_limit() -> None:
    """The third has to wait until one of two has left."""

    async def run() -> list[int]:
        gate = RequestSemaphore(Pace(2))
        seen = []
        await gate.enter()
        await gate.enter()
        third = gate.enter()
        await asyncio.sleep(0)
        seen.append(gate.busy)
        gate.finish()
        await third
        return [*seen, gate.busy]

    assert asyncio.run(run()) == [2, 2]


def test_calls_that_are_asked_again_go_first() -> None:
    """A waiting retry gets the next place, before new calls that came earlier."""

    async def run() -> list[str]:
        gate = RequestSemaphore(Pace(1))
        order: list[str] = []

        async def wait_for_turn(name: str, *, is_again: bool) -> None:
            await (gate.enter_again() if is_again else gate.enter())
            order.append(name)
            gate.finish()

        await gate.enter()
        new = asyncio.create_task(wait_for_turn("new", is_again=False))
        await asyncio.sleep(0)
        again = asyncio.create_task(wait_for_turn("again", is_again=True))
        await asyncio.sleep(0)
        gate.leave()
        await asyncio.gather(new, again)
        return order

    assert asyncio.run(run()) == ["again", "new"]


def test_new_calls_wait_while_twice_the_limit_is_unfinished() -> None:
    """Calls that wait for their next attempt hold no place, but new ones are not let in without end."""

    async def run() -> tuple[bool, bool]:
        gate = RequestSemaphore(Pace(1))
        for _ in range(2):
            await gate.enter()
            gate.leave()
        third = gate.enter()
        await asyncio.sleep(0)
        waits = not third.done()
        await gate.enter_again()
        gate.finish()
        await third
        return waits, third.done()

    assert asyncio.run(run()) == (True, True)


def test_a_cancelled_wait_takes_no_place() -> None:
    """A task that is cancelled while it waits is passed over."""

    async def run() -> int:
        gate = RequestSemaphore(Pace(1))
        await gate.enter()
        gone = gate.enter()
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        gate.finish()
        await gate.enter()
        return gate.busy

    assert asyncio.run(run()) == 1
