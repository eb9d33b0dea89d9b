from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from answerkey.datasets.dataset import Dataset, Selection, open_dataset, split_into_chunks
from answerkey.datasets.sources import InlineSource, LocalSource
from answerkey.datasets.tables import load_rows
from answerkey.errors import DataError, Problems
from answerkey.templates import RowFilter

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")
ROWS: tuple[dict[str, object], ...] = tuple(
    {"n": n, "subject": "a" if n % 2 else "b"} for n in range(10)
)


def test_chunks_are_the_samples_in_order() -> None:
    """Chunks put together are the dataset.

    Each knows where it starts and which of its rows are wrong.
    """
    dataset = open_dataset(InlineSource(ROWS), name="mine")
    chunks = list(split_into_chunks(dataset, 4, failed=[0, 5, 9]))
    places = [(chunk.index, chunk.offset, len(chunk.samples)) for chunk in chunks]
    assert places == [(0, 0, 4), (1, 4, 4), (2, 8, 2)]
    assert [chunk.failed for chunk in chunks] == [(0,), (1,), (1,)]
    ids = [name for chunk in chunks for name in chunk.samples.ids]
    assert ids == dataset.samples().ids.to_list()


def test_filters_must_all_hold_and_ids_stay() -> None:
    """Rows are numbered before they are filtered; `num_samples` counts those that pass."""
    is_a = RowFilter("equals", "{{ sample.subject }}", "a")
    filters = (is_a, RowFilter("greater_than", "{{ sample.n }}", 3))
    dataset = open_dataset(InlineSource(ROWS, filters=filters), name="mine")
    assert dataset.samples().ids.to_list() == ["000006", "000008", "000010"]
    assert (dataset.rows_read, dataset.rows_filtered) == (10, 7)
    assert list(dataset.kept) == [5, 7, 9]
    first = open_dataset(InlineSource(ROWS, filters=filters), selection=Selection(1), name="mine")
    assert first.samples().ids.to_list() == ["000006"]


def test_an_undefined_column_in_a_filter_is_refused(write: Write) -> None:
    """A filter over a column that is not there gives one E206 with file and line."""
    path = write("a.jsonl", '\n{"answer": "B"}\n{"answer": "C"}\n')
    source = LocalSource(
        file_path=str(path), filters=(RowFilter("equals", "{{ sample.anser }}", "B"),)
    )
    words = (
        r"E206.*`anser`.*\(and in 1 more rows\)\n  --> .*a\.jsonl:2.*\n.*did you mean `answer`\?"
    )
    with pytest.raises(DataError, match=words):
        open_dataset(source, name="mine")


def test_a_filter_that_fails_on_rows_is_refused() -> None:
    """An expression that cannot be evaluated gives E207 for each kind of failure, at its first
    row.
    """
    rows: tuple[dict[str, object], ...] = ({"n": 1}, {"n": 0}, {"n": "x"}, {"n": 0})
    source = InlineSource(rows, filters=(RowFilter("greater_than", "{{ 1 / sample.n }}", 0),))
    with pytest.raises(Problems) as caught:
        open_dataset(source, name="mine")
    errors = [(error.code, error.where and error.where.line) for error in caught.value.errors]
    assert errors == [("E207", 2), ("E207", 3)]


def test_filters_that_leave_nothing_are_refused() -> None:
    """A dataset whose rows are all filtered out gives E210 that says so."""
    source = InlineSource(ROWS, filters=(RowFilter("equals", "{{ sample.n }}", 99),))
    nothing = r"E210.*dataset `mine`: the filters leave none of its 10 rows\n"
    with pytest.raises(DataError, match=nothing):
        open_dataset(source, name="mine")


def test_a_shortage_is_noticed() -> None:
    """Fewer rows than asked for is said aloud."""
    dataset = open_dataset(InlineSource(ROWS), selection=Selection(99), name="mine")
    assert [notice.message for notice in dataset.notices] == [
        "dataset `mine` has 10 rows, fewer than `num_samples` 99: all are used"
    ]


def test_the_fingerprint_is_that_of_what_is_used(write: Write) -> None:
    """Content, typing, filters and selection change it.

    The file's name, place and compression do not.
    """
    text = "n,m\n1,2\n3,4\n"
    path, copy = str(write("a.csv", text)), str(write("b.csv", text))
    keep = RowFilter("greater_than", "{{ sample.n }}", 0)
    base = open_dataset(LocalSource(path), name="x").fingerprint
    packed = str(write("a.csv.gz", gzip.compress(text.encode(), mtime=0)))
    everything = Selection(None, "random", 5)
    for same, selection in ((copy, None), (packed, None), (path, everything)):
        assert open_dataset(LocalSource(same), selection=selection, name="y").fingerprint == base
    sources = [
        LocalSource(path, columns={"n": "int"}),
        LocalSource(path, filters=(keep,)),
        LocalSource(str(write("c.csv", text + "5,6\n"))),
    ]
    results = {open_dataset(source, name="x").fingerprint for source in sources}
    selections = [Selection(1), Selection(1, "random"), Selection(1, "random", 1)]
    results |= {
        open_dataset(LocalSource(path), selection=chosen, name="x").fingerprint
        for chosen in selections
    }
    assert len({base, *results}) == 7


def test_samples_in_memory_are_a_dataset() -> None:
    """`Dataset.of` uses all samples and gives equal samples equal fingerprints."""
    samples = load_rows(ROWS, name="rows").samples
    dataset = Dataset.of(samples, name="mine")
    assert (len(dataset), dataset.rows_read, dataset.rows_filtered) == (10, 10, 0)
    assert dataset.samples() is samples
    second = Dataset.of(load_rows(ROWS, name="more").samples, name="other")
    assert dataset.fingerprint == second.fingerprint
    assert dataset.fingerprint != Dataset.of(samples.slice(0, 9), name="mine").fingerprint
