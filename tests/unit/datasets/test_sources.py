"""Sources: rows in YAML, files, folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.samples import refuse

from answerkey.datasets.sources import (
    SOURCES,
    FolderSource,
    InlineSource,
    LocalSource,
    Source,
    list_files,
)

Write = Callable[[str, str | bytes], Path]


def test_the_built_in_kinds_are_found_by_type() -> None:
    """Each has a type, filters and a way to read its rows.

    An unregistered kind raises KeyError.
    """
    assert (SOURCES["local"], SOURCES["inline"]) == (LocalSource, InlineSource)
    assert isinstance(LocalSource("a.csv"), Source)
    assert isinstance(InlineSource(()), Source)
    with pytest.raises(KeyError):
        SOURCES["nowhere"]


def test_only_the_named_files_are_read(write: Write, tmp_path: Path) -> None:
    """`extension` with or without its dot, compressed or not."""
    write("a.csv", "q\none\n")
    write("b_test.csv", "q\ntwo\n")
    write("LICENSE", "text")
    for extension in ("csv", ".CSV"):
        table = FolderSource(str(tmp_path), extension=extension).read(name="x")
        assert table.samples.values("q") == ["one", "two"]


def test_a_mixture_of_data_files_and_others_is_refused(write: Write, tmp_path: Path) -> None:
    """E201 names the other: nothing is left out by guess."""
    write("a.jsonl", '{"q": 1}\n')
    write("README.md", "text")
    refuse(FolderSource(str(tmp_path)), r"(?s)E201.*`README\.md` names no format")


def test_nothing_to_read_is_refused(write: Write, tmp_path: Path) -> None:
    """No folder, an empty one, and one without such files: E201 with what there is."""
    refuse(FolderSource(str(tmp_path / "none")), "does not exist")
    refuse(FolderSource(str(tmp_path)), "files there: none")
    refuse(FolderSource(str(write("a.csv", "q\none\n"))), "is a file, not a folder")
    refuse(FolderSource(str(tmp_path), extension="jsonl"), r"(?s)E201.*files there: `a\.csv`")


def test_hidden_files_and_links_to_folders_are_left_out(write: Write, tmp_path: Path) -> None:
    """A link that leads in a circle does no harm."""
    write("a.csv", "q\none\n")
    write(".hidden.csv", "q\ntwo\n")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert list(list_files(tmp_path)) == ["a.csv"]


def test_documents_are_rows(write: Write, tmp_path: Path) -> None:
    """Each text file is a row: the hash of its content, its name, all of it.

    Columns may be derived.
    """
    (tmp_path / "deep").mkdir()
    write("deep/one.md", "---\nanswer: B\n---\n\nWhich? A) x B) y\n")
    write("two.md", "Why?\n")
    derive = {"words": "{{ sample.content.split() | length }}"}
    samples = FolderSource(str(tmp_path), extension="md", derive=derive).read(name="x").samples
    assert samples.columns == ["sample_id", "content", "file_name", "words"]
    assert [tuple(row.values())[1:] for row in samples.rows()] == [
        ("---\nanswer: B\n---\n\nWhich? A) x B) y\n", "deep/one.md", 9),
        ("Why?\n", "two.md", 1),
    ]
    assert [len(sample.id) for sample in samples] == [64, 64]


def test_a_document_that_is_no_text_is_refused(write: Write, tmp_path: Path) -> None:
    """E203, as for any file."""
    write("one.txt", b"\xff\xfe text")
    refuse(FolderSource(str(tmp_path)), "E203")
