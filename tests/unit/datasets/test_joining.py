from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.samples import refuse

import answerkey
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import FolderSource, LocalSource
from answerkey.datasets.tables import DataTable
from answerkey.errors import Problems
from answerkey.templates import RowFilter

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


def read(source: LocalSource | FolderSource) -> DataTable:
    """Return the rows of a source."""
    return source.read(name="x")


def test_files_of_a_folder_follow_each_other_by_name(write: Write, tmp_path: Path) -> None:
    """Rows are numbered across files; each knows its own file and line."""
    write("b.csv", "q,answer\nthree,C\n")
    write("a.csv", "q,answer\none,A\ntwo,B\n")
    samples = read(FolderSource(str(tmp_path))).samples
    assert samples.values("q") == ["one", "two", "three"]
    assert samples.ids.to_list() == ["000001", "000002", "000003"]
    places = [str(samples.place(number)).removeprefix(f"{tmp_path}/") for number in range(3)]
    assert places == ["a.csv:2", "a.csv:3", "b.csv:2"]


def test_parts_of_joined_rows_know_their_files(write: Write, tmp_path: Path) -> None:
    """A slice, a choice of rows and a copy in another process name the same places."""
    for name in "abc":
        write(f"{name}.jsonl", f'{{"q": "{name}1"}}\n{{"q": "{name}2"}}\n')
    rows = read(FolderSource(str(tmp_path))).rows
    near = rows.slice(1, 3).load()
    assert [str(near.place(n).file)[-7:] for n in range(3)] == ["a.jsonl", "b.jsonl", "b.jsonl"]
    picked = rows.take(pl.Series([0, 3, 5])).load()
    assert picked.values("q") == ["a1", "b2", "c2"]
    assert [picked.place(number).line for number in range(3)] == [1, 2, 2]
    copy = pickle.loads(pickle.dumps(rows.slice(2, 2)))  # noqa: S301 - our own bytes
    assert copy.load().values("q") == ["b1", "b2"]
    assert copy.load().place(0).file == f"{tmp_path}/b.jsonl"


def test_columns_that_differ_between_files_have_one_type(write: Write, tmp_path: Path) -> None:
    """A column that a file lacks is null there; values without a common type keep theirs."""
    write("a.jsonl", '{"q": "one", "other": {"solution": "x"}, "n": 1}\n')
    write("b.jsonl", '{"q": "two", "other": null, "passage": "p"}\n')
    write("c.jsonl", '{"q": "three", "other": {"source": "y"}, "n": 2}\n')
    samples = read(FolderSource(str(tmp_path))).samples
    assert [row["other"] for row in samples.rows()] == [{"solution": "x"}, None, {"source": "y"}]
    assert samples.values("passage") == [None, "p", None]
    assert samples.values("n") == [1, None, 2]


def test_the_file_of_a_row_is_a_column_if_it_is_asked_for(write: Write, tmp_path: Path) -> None:
    """`file_column` holds the path within the folder; derived columns may read it."""
    (tmp_path / "deep").mkdir()
    write("deep/law_test.csv", "q\none\n")
    write("art_test.csv", "q\ntwo\n")
    subject = "{{ sample.file | regex_replace('^.*/', '') | replace('_test.csv', '') }}"
    source = FolderSource(str(tmp_path), file_column="file", derive={"subject": subject})
    assert [dict(row) for row in read(source).samples.rows()] == [
        {"q": "two", "file": "art_test.csv", "subject": "art"},
        {"q": "one", "file": "deep/law_test.csv", "subject": "law"},
    ]


def test_derived_columns_see_the_row_as_the_file_has_it(write: Write) -> None:
    """They may replace a column, and read what another replaces."""
    path = write("q.jsonl", '{"question": {"stem": "why", "choices": ["x", "y"]}, "label": 1}\n')
    derive = {"question": "{{ sample.question.stem }}", "options": "{{ sample.question.choices }}"}
    row = read(LocalSource(str(path), derive=derive)).samples.row(0)
    assert row == {"question": "why", "label": 1, "options": ["x", "y"]}


def test_filters_see_derived_columns_and_ids_may_be_derived(write: Write) -> None:
    """A derived `sample_id` is the id of the row."""
    source = LocalSource(
        str(write("q.jsonl", '{"id": 7, "label": 0}\n{"id": 9, "label": 1}\n')),
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
    problems = [
        (fault.code, fault.message.split(":")[0], str(fault.where)) for fault in caught.value.errors
    ]
    assert problems == [
        ("E207", "derived column `x`", f"{path}:1"),
        ("E206", "derived column `y`", f"{path}:1, column `b`"),
    ]
    assert "(and in 2 more rows)" in caught.value.errors[1].message


def test_an_id_that_two_files_use_is_refused_with_both_places(write: Write, tmp_path: Path) -> None:
    """E208 names the file and the line of each."""
    write("a.csv", "sample_id,q\nx,one\n")
    write("b.csv", "sample_id,q\ny,two\nx,three\n")
    words = (
        r"`x` is used twice, first on line 2 of `.*a\.csv`\n  --> .*/b\.csv:3, column `sample_id`\n"
    )
    refuse(FolderSource(str(tmp_path)), words)


def test_what_is_said_about_files_is_part_of_the_fingerprint(write: Write, tmp_path: Path) -> None:
    """Another template, header, format or file name that is a column: other rows, another
    digest.
    """
    path = str(write("q.csv", "a,b\nc,d\ne,f\n"))
    plain = read(LocalSource(path)).digest
    variants = [
        LocalSource(path, header=("x", "y")),
        LocalSource(path, format="tsv", header=("x",)),
        LocalSource(path, derive={"c": "{{ sample.a }}"}),
        LocalSource(path, derive={"c": "{{ sample.b }}"}),
        LocalSource(path, file_column="f"),
    ]
    digests = [read(variant).digest for variant in variants]
    assert len({plain, *digests}) == 6
    renamed = tmp_path / "other.csv"
    renamed.write_text("a,b\nc,d\ne,f\n")
    assert read(LocalSource(str(renamed), derive={"c": "{{ sample.a }}"})).digest == digests[2]
    assert read(LocalSource(str(renamed), file_column="f")).digest != digests[4]


def test_names_that_cannot_be_are_refused(write: Write) -> None:
    """A file column that the file has is E212, a derived column without a name E202."""
    path = str(write("q.csv", "q\none\n"))
    refuse(
        LocalSource(path, file_column="q"), "`file_column` is `q`, which is a column of the file"
    )
    refuse(LocalSource(path, derive={"": "{{ sample.q }}"}), "column 2 has no name")


HEAD = "question,A,B,C,D,answer"
ROWS = ["2+2?,4,5,6,7,A", "Capital of France?,Rome,Paris,Oslo,Bern,B"]


def write_csv(path: Path, column: str, cells: list[str]) -> Path:
    """Write two questions with one more column; return the file."""
    lines = [f"{HEAD},{column}", *(f"{row},{cell}" for row, cell in zip(ROWS, cells, strict=True))]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def list_groups(task: answerkey.TaskRun) -> list[str | None]:
    """Return the groups whose accuracy was measured."""
    return [value.group for groups in task.metrics["Accuracy"].groups for value in groups.values]


def test_a_ready_made_task_keeps_the_subjects_of_its_files(tmp_path: Path) -> None:
    """In the groups and in the prompt, file by file: a column where there is one, else the file's
    name.
    """
    write_csv(tmp_path / "data" / "a_test.csv", "subject", ["arithmetic", "geography"])
    write_csv(tmp_path / "data" / "law_test.csv", "level", ["1", "2"])
    run = answerkey.run(
        "mmlu", dataset=str(tmp_path / "data"), model="builtin/longest", out=tmp_path / "out"
    )
    task = run.tasks["mmlu"]
    assert list_groups(task) == ["arithmetic", "geography", "law"]
    assert "question about arithmetic." in task.completions["prompt"][0]


def test_a_ready_made_task_keeps_the_ids_and_category_of_a_file(tmp_path: Path) -> None:
    """`sample_id` is the id wherever there is one."""
    choices = {"text": ["x", "y"], "label": ["A", "B"]}
    row = {"sample_id": "mine", "id": "theirs", "question": "?", "category": "own"}
    file = tmp_path / "arc.jsonl"
    file.write_text(json.dumps({**row, "choices": choices, "answerKey": "A"}) + "\n")
    run = answerkey.run("arc", dataset=str(file), model="builtin/longest", out=tmp_path / "out")
    task = run.tasks["arc"]
    assert task.completions["sample_id"].to_list() == ["mine"]
    assert list_groups(task) == ["own"]


@pytest.mark.parametrize("column", ["options", "file"])
def test_a_column_that_a_ready_made_task_needs_itself_is_an_error(
    tmp_path: Path, call: Callable[..., Any], column: str
) -> None:
    """It would be lost, and the task cannot do with it: nothing is run."""
    file = write_csv(tmp_path / "mine.csv", column, ["x", "y"])
    done = call("run", "mmlu", "--dataset", file, "--model", "builtin/longest", "-q")
    assert done.code == 2
    assert re.search(f"error.E212.: .*`{column}`", done.err)


def test_a_derived_column_replaces_only_one_that_it_reads(write: Write) -> None:
    """Else E212 names the file, the column and what to do."""
    path = str(write("a.csv", "q,answer\none,A\n"))
    derived = read(LocalSource(path, derive={"answer": "{{ sample.answer | lower }}"}))
    assert derived.samples.row(0) == {"q": "one", "answer": "a"}
    lost = r"E212.*`answer` would replace the column `answer`, which it does not read"
    words = r"a\.csv, column `answer`\n  = help: rename it, or read `sample.answer`"
    refuse(LocalSource(path, derive={"answer": "{{ sample.q }}"}), f"(?s){lost}.*{words}")
