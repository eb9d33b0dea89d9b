"""Laws of the files that a user names: the whole of one, or what was there before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from answerkey.errors import RunError
from answerkey.runs import write_output


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """While it is written, what was there before stays."""
    file = tmp_path / "rows.csv"
    file.write_text("before")

    def write(path: Path) -> None:
        path.write_text("after")
        assert file.read_text() == "before"

    write_output(file, write)
    assert ([one.name for one in tmp_path.iterdir()], file.read_text()) == (["rows.csv"], "after")


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(28, "No space left on device"), RunError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_what_is_broken_off_leaves_nothing(
    error: BaseException, told: type[BaseException], tmp_path: Path
) -> None:
    """A full disk, or Ctrl-C, in the middle: the old file is untouched, and nothing lies beside it."""
    file = tmp_path / "rows.csv"
    file.write_text("before")

    def write(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(told):
        write_output(file, write)
    assert ([one.name for one in tmp_path.iterdir()], file.read_text()) == (["rows.csv"], "before")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that it leads to is written."""
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_output(tmp_path / "link.csv", lambda path: path.write_text("after"))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "after"


def test_a_pipe_is_written_as_it_goes_along(tmp_path: Path) -> None:
    """Who reads at its other end gets the rows."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_output(pipe, lambda path: path.write_text("rows"))
    reader.join(10)
    assert (heard, pipe.is_fifo()) == (["rows"], True)
