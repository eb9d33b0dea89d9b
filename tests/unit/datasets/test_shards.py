from __future__ import annotations

from answerkey.datasets import Dataset, Shard, cut_shards, load_rows


def make_shard() -> Shard:
    """Return the second shard of a dataset: rows 5 to 9, of which the last is wrong."""
    rows = load_rows([{"question": str(number)} for number in range(12)], name="rows").rows
    return list(cut_shards(Dataset.of(rows, name="rows"), 5, failed=[9]))[1]


def read_questions(shard: Shard) -> list[str]:
    """Return the questions of a shard."""
    return shard.samples.load().frame["question"].to_list()


def test_halves_are_the_shard_in_two_for_trial() -> None:
    """Each row, and each row that is wrong, is in one of the halves; what comes of them is not kept."""
    first, second = make_shard().halve() or (None, None)
    assert first is not None
    assert second is not None
    assert (read_questions(first), first.offset, first.failed) == (["5", "6"], 5, ())
    assert (read_questions(second), second.offset, second.failed) == (["7", "8", "9"], 7, (2,))
    assert (first.is_trial, second.is_trial, first.index) == (True, True, 1)


def test_a_single_row_has_no_halves() -> None:
    """The search for a row ends with it."""
    assert make_shard().cut(2, 3).halve() is None


def test_rows_that_are_withheld_are_left_out() -> None:
    """They keep their places; the stretches between them hold all other rows."""
    shard = make_shard()
    found = shard.withhold([shard.cut(0, 1), shard.cut(2, 3)])
    assert (found.withheld, found.left, found.failed, found.is_trial) == ((0, 2), [1, 3, 4], (4,), False)
    assert [read_questions(one) for one in found.cut_around()] == [["6"], ["8", "9"]]
    assert [one.failed for one in found.cut_around()] == [(), (1,)]


def test_nothing_is_left_of_a_shard_with_all_rows_withheld() -> None:
    """There is a stretch all the same, without rows."""
    shard = make_shard().cut(2, 3)
    assert [read_questions(one) for one in shard.withhold([shard]).cut_around()] == [[]]
