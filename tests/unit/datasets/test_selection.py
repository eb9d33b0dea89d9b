"""Which rows are used, and in which chunks."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.datasets.dataset import (
    Chunk,
    Dataset,
    Selection,
    rank_id,
    select_rows,
    share_out,
    split_into_chunks,
)
from answerkey.datasets.tables import load_rows
from answerkey.errors import DataError, SpecError
from answerkey.types import Samples


def build(count: int, subjects: int = 3) -> Samples:
    """Return samples with ids `s0`, `s1`, … and subjects in turn."""
    return load_rows(
        [{"sample_id": f"s{n}", "subject": f"t{n % subjects}", "n": n} for n in range(count)],
        name="rows",
    ).samples


def select(samples: Samples, selection: Selection) -> Samples:
    """Return the selected samples."""
    return samples.take(pl.Series(select_rows(samples, selection), dtype=pl.UInt32))


def rank(ids: list[str], seed: int) -> list[int]:
    """Return the positions of ids, the one that is chosen first at the beginning."""
    ranks = [rank_id(key, seed) for key in ids]
    return sorted(range(len(ids)), key=ranks.__getitem__)


def test_head_takes_the_first_rows() -> None:
    """`head` is the beginning of the dataset; a number beyond it gives every row, in order."""
    assert select(build(9), Selection(2)).ids.to_list() == ["s0", "s1"]
    for selection in (Selection(99), Selection(99, "random")):
        assert select(build(4), selection).ids.to_list() == ["s0", "s1", "s2", "s3"]


def test_random_depends_on_the_seed_and_the_ids_alone() -> None:
    """The same seed gives the same samples, for ever, in the order of the dataset, whatever that
    is.

    A larger choice with the same seed contains the smaller one.
    """
    samples, selection = build(1000), Selection(5, "random", 7)
    chosen = select(samples, selection).ids.to_list()
    assert chosen == ["s125", "s166", "s268", "s485", "s535"]
    assert select(samples, Selection(5, "random", 8)).ids.to_list() != chosen
    assert select(samples.take([*range(999, -1, -1)]), selection).ids.to_list() == chosen[::-1]
    assert set(chosen) < set(select(samples, Selection(20, "random", 7)).ids)


def test_random_is_fair() -> None:
    """Over many seeds each of ten rows is chosen about as often as the others."""
    ids = [f"s{n}" for n in range(10)]
    firsts = [rank(ids, seed)[0] for seed in range(2000)]
    assert all(140 < firsts.count(n) < 260 for n in range(10))


def test_strata_keep_their_shares() -> None:
    """Each value of the column is there in proportion, picked by the same ranking, in dataset
    order.
    """
    rows = [{"sample_id": f"s{n}", "subject": "big" if n < 60 else "small"} for n in range(90)]
    samples = load_rows(rows, name="rows").samples
    chosen = select(samples, Selection(9, "random", 1, "subject"))
    assert chosen.values("subject") == ["big"] * 6 + ["small"] * 3
    ranked = [n for n in rank(samples.ids.to_list(), 1) if n >= 60][:3]
    assert chosen.ids.to_list()[6:] == [f"s{n}" for n in sorted(ranked)]


def test_null_is_a_stratum_of_its_own() -> None:
    """Rows without a value form a stratum and are not mistaken for a text."""
    samples = load_rows([{"x": cell} for cell in (None, None, "None", "None")], name="rows").samples
    assert select(samples, Selection(2, stratify_by="x")).values("x") == [None, "None"]


@pytest.mark.parametrize(
    ("total", "sizes", "expected"),
    [
        (10, [50, 30, 20], [5, 3, 2]),
        (10, [1, 1, 1], [4, 3, 3]),
        (4, [5, 3, 1], [2, 1, 1]),
        (1, [1, 9], [0, 1]),
        (0, [3, 3], [0, 0]),
        (2, [2, 2, 2], [1, 1, 0]),
    ],
)
def test_largest_remainders_get_more(total: int, sizes: list[int], expected: list[int]) -> None:
    """Whole shares first; equal remainders go to the larger stratum, then to the earlier one."""
    assert share_out(total, sizes) == expected


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.data())
def test_shares_add_up_and_fit(sizes: list[int], draw: st.DataObject) -> None:
    """Shares add up to what is wanted, and no stratum gives more than it has."""
    total = draw.draw(st.integers(0, sum(sizes)))
    shares = share_out(total, sizes)
    assert sum(shares) == total
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))


def test_an_unknown_stratum_column_is_refused() -> None:
    """`stratify_by` with an unknown column gives E206, also when all rows are used.

    No samples E108.
    """
    with pytest.raises(DataError, match=r"(?s)E206.*did you mean `subject`\?$"):
        select(build(4), Selection(stratify_by="subjct"))
    with pytest.raises(SpecError, match="E108"):
        select(build(4), Selection(0))


def test_ranking_is_the_same_on_every_machine() -> None:
    """The ranking is part of what makes runs repeatable: it never changes."""
    ids = pl.Series([f"{n:06d}" for n in range(1, 9)]).to_list()
    assert rank(ids, 0) == [7, 3, 5, 0, 1, 4, 6, 2]


def make_chunk() -> Chunk:
    """Return the second chunk of a dataset: rows 5 to 9, of which the last is wrong."""
    rows = load_rows([{"question": str(number)} for number in range(12)], name="rows").rows
    return list(split_into_chunks(Dataset.of(rows, name="rows"), 5, failed=[9]))[1]


def read_questions(chunk: Chunk) -> list[str]:
    """Return the questions of a chunk."""
    return [str(row["question"]) for row in chunk.samples.load().rows()]


def test_parts_are_the_chunk_for_trial() -> None:
    """Each row, and each row that is wrong, is in one of the parts; what comes of them is not kept.

    The search for a row ends with it: a single one is one part, however many are wanted.
    """
    parts = make_chunk().split(2)
    first, second = parts
    assert (read_questions(first), first.offset, first.failed) == (["5", "6", "7"], 5, ())
    assert (read_questions(second), second.offset, second.failed) == (["8", "9"], 8, (1,))
    assert [part.index for part in parts] == [1, 1]
    single = [read_questions(part) for part in make_chunk().split(64)]
    assert single == [["5"], ["6"], ["7"], ["8"], ["9"]]
    (row,) = make_chunk().cut(2, 3).split(2)
    assert read_questions(row) == ["7"]


def test_rows_that_are_withheld_are_left_out() -> None:
    """They keep their places."""
    chunk = make_chunk()
    result = chunk.skip([chunk.cut(0, 1), chunk.cut(2, 3)])
    assert (result.skipped, result.left, result.failed) == ((0, 2), [1, 3, 4], (4,))
