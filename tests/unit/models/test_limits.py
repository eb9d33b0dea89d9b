"""The laws of rates: even, never above the average, in debt for large calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from answerkey.models.retry import Bucket, Clock


@dataclass
class Hand:
    """A clock that is moved by hand."""

    time: float = 0.0

    def clock(self) -> Clock:
        """Return the clock."""
        return Clock(lambda: self.time, lambda: self.time, asyncio.sleep)


def test_requests_are_spread_over_the_minute() -> None:
    """60 a minute: the first goes at once, each further one a second after the one before."""
    bucket = Bucket(60, Hand().clock())
    assert [bucket.take(1) for _ in range(4)] == [0, 1, 2, 3]


def test_the_first_second_brings_no_more_than_any_other() -> None:
    """600 a minute: ten go in the first second, a tenth of a second apart, and ten in the next."""
    bucket = Bucket(600, Hand().clock())
    waits = [bucket.take(1) for _ in range(20)]
    assert waits == pytest.approx([number / 10 for number in range(20)])


def test_idle_time_is_not_saved_up() -> None:
    """After an idle hour no more goes at once than after a second."""
    hand = Hand()
    bucket = Bucket(60, hand.clock())
    hand.time = 3600
    assert [bucket.take(1), bucket.take(1)] == [0, 1]


def test_a_large_call_passes_and_leaves_a_debt() -> None:
    """A call of more tokens than a second brings is let through; the next one waits for what it took."""
    bucket = Bucket(600, Hand().clock())
    assert bucket.take(110) == 0
    assert bucket.take(10) == pytest.approx(11)


def test_what_was_estimated_too_high_comes_back() -> None:
    """An estimate is corrected by what was used, in both directions."""
    bucket = Bucket(600, Hand().clock())
    bucket.take(110)
    bucket.give_back(100)
    assert bucket.take(1) == pytest.approx(1.0)
    bucket.give_back(-10)
    assert bucket.take(1) == pytest.approx(2.1)


def test_the_bucket_does_not_run_over() -> None:
    """What comes back is at most what was taken: nothing is saved up."""
    bucket = Bucket(60, Hand().clock())
    bucket.give_back(100)
    assert [bucket.take(1), bucket.take(1)] == [0, 1]
