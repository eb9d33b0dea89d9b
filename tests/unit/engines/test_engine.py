from __future__ import annotations

from collections.abc import Iterator

import pytest

from answerkey.engines import ENGINES, open_engine
from answerkey.errors import EngineError


def test_local_engine_keeps_shard_order() -> None:
    """What comes back is in the order of the shards."""
    assert list(open_engine("local").map(lambda shard: shard * 10, [3, 1, 2])) == [30, 10, 20]


def test_local_engine_reads_one_shard_at_a_time() -> None:
    """A shard is read only when the one before it is done."""
    seen: list[str] = []

    def shards() -> Iterator[int]:
        for number in (1, 2):
            seen.append(f"read {number}")
            yield number

    def work(shard: int) -> int:
        seen.append(f"work {shard}")
        return shard

    assert list(open_engine().map(work, shards())) == [1, 2]
    assert seen == ["read 1", "work 1", "read 2", "work 2"]


def test_a_failing_shard_stops_the_work() -> None:
    """An error in a shard reaches the caller as it is."""
    with pytest.raises(ZeroDivisionError):
        list(open_engine("local").map(lambda shard: 1 // shard, [1, 0]))


def test_ray_is_refused_by_name() -> None:
    """An engine of a later release is named as such."""
    with pytest.raises(EngineError) as caught:
        open_engine("ray")
    assert caught.value.code == "E601"
    assert caught.value.message == "the engine `ray` is not in this release"
    assert caught.value.hint == "use `--engine local`"


def test_unknown_engine_gets_a_suggestion() -> None:
    """A mistyped engine is answered with the nearest name."""
    with pytest.raises(EngineError) as caught:
        open_engine("locale")
    assert caught.value.hint == "did you mean `local`?"


def test_engines_are_listed_by_their_own_name() -> None:
    """The registry's keys are the engines' names."""
    assert {name: engine.name for name, engine in ENGINES.items()} == {"local": "local"}
