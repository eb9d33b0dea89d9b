"""Every law over bytes that Hypothesis draws: seeds that were changed, words in any order, and
anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from .apart import close_workers
from .changing import change_json
from .law import LONGEST, Law
from .targets import TARGETS

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
#: So many times as many examples in the long series; the short one has a part of them.
LONGER, SHORTER = 125, 6
#: So many seeds are checked as they are.
SEEDS = 1_000 if IS_LONG else 4
#: Computing time that no input may take, whatever it holds.
SECONDS = 10.0


@st.composite
def change(draw: st.DrawFn, seeds: list[bytes], words: list[bytes]) -> bytes:
    """Return a seed with some of its bytes cut, doubled, replaced by words, or put elsewhere."""
    raw = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 5))):
        begin = draw(st.integers(0, len(raw)))
        end = min(len(raw), begin + draw(st.integers(0, 40)))
        piece = draw(st.sampled_from(words) | st.binary(max_size=6) | st.just(raw[begin:end] * 2))
        raw = raw[:begin] + piece + raw[end:]
    cut = draw(st.integers(0, 9))
    return raw if cut else raw[: draw(st.integers(0, len(raw)))]


def draw_bytes(law: Law) -> st.SearchStrategy[bytes]:
    """Return bytes of which many mean something to a law."""
    words = [*law.words, b"\x00", b"\xff", b" "]
    anything = st.binary(max_size=60)
    made = st.lists(st.sampled_from(words) | st.binary(max_size=3), max_size=16).map(b"".join)
    seeds = list(law.seeds())
    ways = [change(seeds, words), made, anything]
    if any(change_json(seed, Random(0)) != seed for seed in seeds):
        ways += [st.builds(change_json, st.sampled_from(seeds), st.integers().map(Random))] * 2
    return st.one_of(ways).map(lambda raw: raw[:LONGEST])


@pytest.fixture(autouse=True, scope="module")
def _close_workers() -> Iterator[None]:
    yield
    close_workers()


@pytest.mark.parametrize("name", TARGETS)
def test_law_holds_for_any_bytes(name: str) -> None:
    """The outcome is as promised, or an error with a code; and it comes in time."""
    law = TARGETS[name]
    for seed in list(law.seeds())[:SEEDS]:
        law.check(seed)

    @hypothesis.given(draw_bytes(law))
    @settings(
        max_examples=law.examples * LONGER if IS_LONG else law.examples // SHORTER,
        derandomize=not IS_LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(raw: bytes) -> None:
        began = time.process_time()
        law.check(raw)
        assert time.process_time() - began < SECONDS

    check()
