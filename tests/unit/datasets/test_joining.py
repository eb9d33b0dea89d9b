from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets import rows as rows_module
from answerkey.datasets import tables
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import FolderSource, LocalSource
from answerkey.datasets.tables import Table
from answerkey.errors import DataError, Problems, SpecError
from answerkey.templates import RowFilter

Write = Callable[[str, str | bytes], Path]


@pytest.fixture(params=["held", "stored"], autouse=True)
def _both_ways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let joined files be held in memory, or be kept in a table cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "stored":
            patch.setattr(tables, "HELD_BYTES", 0)
            patch.setattr(rows_module, "BLOCK_ROWS", 2)
            patch.setattr(tables, "CHUNK_ROWS", 2)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def read(source: LocalSource | FolderSource) -> Table:
    """Return the rows of a source."""
    return source.read(name="x")


def test_files_of_a_folder_follow_each_other_by_name(write: Write, tmp_path: Path) -> None:
    """Rows are numbered across files; each knows its own file and line."""
    write("b.csv", "q,answer\nthree,C\n")
    write("a.csv", "q,answer\none,A\ntwo,B\n")
    samples = read(FolderSource(str(tmp_path))).samples
    assert samples.frame["q"].to_list() == ["one", "two", "three"]
    assert samples.ids.to_list() == ["000001", "000002", "000003"]
    assert [str(samples.place(one)) for one in range(3)] == [
        f"{tmp_path}/a.csv:2",
        f"{tmp_path}/a.csv:3",
        f"{tmp_path}/b.csv:2",
    ]


def test_parts_of_joined_rows_know_their_files(write: Write, tmp_path: Path) -> None:
    """A slice, a choice of rows and a copy in another process name the same places."""
    for name in "abc":
        write(f"{name}.jsonl", f'{{"q": "{name}1"}}\n{{"q": "{name}2"}}\n')
    rows = read(FolderSource(str(tmp_path))).rows
    near = rows.slice(1, 3).load()
    assert [near.place(one).file for one in range(3)] == [
        f"{tmp_path}/a.jsonl",
        f"{tmp_path}/b.jsonl",
        f"{tmp_path}/b.jsonl",
    ]
    picked = rows.take(pl.Series([0, 3, 5])).load()
    assert picked.frame["q"].to_list() == ["a1", "b2", "c2"]
    assert [picked.place(one).line for one in range(3)] == [1, 2, 2]
    copy = pickle.loads(pickle.dumps(rows.slice(2, 2)))  # noqa: S301 - our own bytes
    assert copy.load().frame["q"].to_list() == ["b1", "b2"]
    assert copy.load().place(0).file == f"{tmp_path}/b.jsonl"


def test_columns_that_differ_between_files_have_one_type(write: Write, tmp_path: Path) -> None:
    """A column that a file lacks is null there; values without a common type keep theirs."""
    write("a.jsonl", '{"q": "one", "other": {"solution": "x"}, "n": 1}\n')
    write("b.jsonl", '{"q": "two", "other": null, "passage": "p"}\n')
    write("c.jsonl", '{"q": "three", "other": {"source": "y"}, "n": 2}\n')
    samples = read(FolderSource(str(tmp_path))).samples
    assert [row["other"] for row in samples.rows()] == [{"solution": "x"}, None, {"source": "y"}]
    assert samples.frame["passage"].to_list() == [None, "p", None]
    assert samples.frame["n"].to_list() == [1, None, 2]


def test_the_file_of_a_row_is_a_column_if_it_is_asked_for(write: Write, tmp_path: Path) -> None:
    """`file_column` holds the path within the folder; derived columns may read it."""
    (tmp_path / "deep").mkdir()
    write("deep/law_test.csv", "q\none\n")
    write("art_test.csv", "q\ntwo\n")
    source = FolderSource(
        str(tmp_path),
        file_column="file",
        derive={"subject": "{{ sample.file | regex_replace('^.*/', '') | replace('_test.csv', '') }}"},
    )
    frame = read(source).samples.frame
    assert frame.rows(named=True) == [
        {"q": "two", "file": "art_test.csv", "subject": "art"},
        {"q": "one", "file": "deep/law_test.csv", "subject": "law"},
    ]


def test_derived_columns_see_the_row_as_the_file_has_it(write: Write) -> None:
    """They may replace a column, and read what another replaces."""
    path = write("q.jsonl", '{"question": {"stem": "why", "choices": ["x", "y"]}, "label": 1}\n')
    source = LocalSource(
        str(path),
        derive={
            "question": "{{ sample.question.stem }}",
            "options": "{{ sample.question.choices }}",
            "answer": "{{ 'AB'[sample.label] }}",
        },
    )
    row = read(source).samples.row(0)
    assert row == {"question": "why", "label": 1, "options": ["x", "y"], "answer": "B"}


def test_filters_see_derived_columns_and_ids_may_be_derived(write: Write) -> None:
    """A derived `sample_id` is the id of the row."""
    path = write("q.jsonl", '{"id": 7, "label": 0}\n{"id": 9, "label": 1}\n')
    source = LocalSource(
        str(path),
        derive={"sample_id": "{{ sample.id }}", "answer": "{{ 'AB'[sample.label] }}"},
        filters=(RowFilter("equals", "{{ sample.answer }}", "B"),),
    )
    dataset = open_dataset(source, name="x")
    assert dataset.rows.ids.to_list() == ["9"]
    assert (dataset.rows_read, dataset.rows_filtered) == (2, 1)


def test_a_template_that_fails_is_told_once_for_each_kind(write: Write) -> None:
    """E206 for a column that there is not, E207 for what fails on rows, at the first of them."""
    path = write("q.jsonl", '{"a": 5}\n{"a": 1}\n{"a": 5}\n')
    source = LocalSource(str(path), derive={"x": "{{ 'AB'[sample.a] }}", "y": "{{ sample.b }}"})
    with pytest.raises(Problems) as caught:
        read(source)
    told = [(error.code, error.message.split(":")[0], str(error.where)) for error in caught.value.errors]
    assert told == [
        ("E207", "derived column `x`", f"{path}:1"),
        ("E206", "derived column `y`", f"{path}:1, column `b`"),
    ]
    assert "(and in 2 more rows)" in caught.value.errors[1].message


def test_an_id_that_two_files_use_is_refused_with_both_places(write: Write, tmp_path: Path) -> None:
    """E208 names the file and the line of each."""
    write("a.csv", "sample_id,q\nx,one\n")
    write("b.csv", "sample_id,q\ny,two\nx,three\n")
    with pytest.raises(
        DataError, match=r"sample id `x` is used twice, first in `.*a\.csv` on line 2"
    ) as caught:
        read(FolderSource(str(tmp_path)))
    assert str(caught.value.where) == f"{tmp_path}/b.csv:3, column `sample_id`"


def test_what_is_said_about_files_is_part_of_the_fingerprint(write: Write, tmp_path: Path) -> None:
    """Another template, header, format or file name that is a column: other rows, another digest."""
    path = str(write("q.csv", "a,b\nc,d\ne,f\n"))
    plain = read(LocalSource(path)).digest
    others = [
        LocalSource(path, header=("x", "y")),
        LocalSource(path, skip_rows=1),
        LocalSource(path, format="tsv", header=("x",)),
        LocalSource(path, derive={"c": "{{ sample.a }}"}),
        LocalSource(path, derive={"c": "{{ sample.b }}"}),
        LocalSource(path, file_column="f"),
    ]
    digests = [read(one).digest for one in others]
    assert len({plain, *digests}) == 7
    renamed = tmp_path / "other.csv"
    renamed.write_text("a,b\nc,d\ne,f\n")
    assert read(LocalSource(str(renamed), derive={"c": "{{ sample.a }}"})).digest == digests[3]
    assert read(LocalSource(str(renamed), file_column="f")).digest != digests[5]


def test_the_second_reading_gives_the_same(write: Write, tmp_path: Path) -> None:
    """Whether rows come from files or from the cache: same cells, same files, same notices."""
    write("a.csv", "q, a\none,A\n")
    write("b.csv", "q, a\ntwo,B\n")
    source = FolderSource(str(tmp_path), derive={"n": "{{ sample.q | length }}"})
    first, second = read(source), read(source)
    assert first.samples.frame.equals(second.samples.frame)
    assert first.samples.files is not None
    assert second.samples.files is not None
    assert first.samples.files.to_list() == second.samples.files.to_list()
    assert len(first.notices) == len(second.notices) == 2
    assert first.digest == second.digest


def test_names_that_cannot_be_are_refused(write: Write) -> None:
    """A file column that the file has is E212, a derived column without a name E202."""
    path = str(write("q.csv", "q\none\n"))
    with pytest.raises(DataError, match="`file_column` is `q`, which is a column of the file"):
        read(LocalSource(path, file_column="q"))
    with pytest.raises(DataError, match="column 1 has no name"):
        read(LocalSource(path, derive={"": "{{ sample.q }}"}))
    with pytest.raises(SpecError, match="`skip_rows` is -1"):
        LocalSource(path, skip_rows=-1)
