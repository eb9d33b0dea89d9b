"""Laws of where the files of a run are: the same in a folder, on object storage and in memory."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.samples import samples_from_frame

from answerkey.errors import RunError
from answerkey.runs import (
    KeptCompletions,
    StoredFolder,
    StoredTable,
    TaskWriter,
    write_frames,
    write_output,
)
from answerkey.runs.store import FolderStore, MemoryStore, ObjectStore, RunStore
from answerkey.runs.writing import unify_parts
from answerkey.types import Completion, Completions

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

FRAME = pl.DataFrame({"sample_id": [f"{n:02d}" for n in range(20)], "n": range(20)})
SIZES = (7, 7, 6)
PARTS = [FRAME.slice(7 * number, size) for number, size in enumerate(SIZES)]


@pytest.fixture(params=["folder", "folder with [brackets", "memory", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RunStore:
    """Return a store in which nothing is."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "objects":
        bucket: Bucket = request.getfixturevalue("bucket")
        return ObjectStore(StoredFolder(f"{bucket.url}/runs/one"))
    return FolderStore(tmp_path / request.param)


def fill(store: RunStore, *order: int) -> TaskWriter:
    """Return a task of which the scores are written in some order."""
    task = TaskWriter(store, "tasks/quiz")
    for index in order:
        task.write_part("scores", index, PARTS[index])
    return task


def test_any_range_is_that_of_the_whole(store: RunStore) -> None:
    """A range may begin and end in any part, whatever was written first; columns can be chosen."""
    fill(store, 2, 0, 1)
    table = StoredTable(store, "tasks/quiz/scores")
    assert len(table) == 20
    assert table.read_all().equals(FRAME)
    assert [part.height for part in table] == list(SIZES)
    for offset, length in ((0, 1), (5, 4), (6, 9), (0, 99), (19, 5)):
        assert table.read(offset, length).equals(FRAME.slice(offset, length))
    assert table.read(6, 2, ["n"]).to_dict(as_series=False) == {"n": [6, 7]}
    empty = StoredTable(store, "tasks/quiz/completions")
    assert (len(empty), empty.read_all().width, empty.read(0, 5).width) == (0, 0, 0)


def test_parts_of_different_types_get_one_schema(store: RunStore) -> None:
    """Numbers in one chunk and text in another, or a name in one only: any reader reads all parts
    as one.
    """
    task = TaskWriter(store, "tasks/quiz")
    chunks = ({"x": 1.5}, {"x": '"high"', "y": 2.0}, {"y": 3.0, "x": "null"})
    for index, values in enumerate(chunks):
        frame = pl.DataFrame([{"own": {"status": "SCORED", "values": values}}])
        task.write_part("scores", index, frame)
    assert len(task.scores) == 3
    unify_parts(store, task.scores.base)
    parts = list(StoredTable(store, "tasks/quiz/scores"))
    assert len({str(part.schema) for part in parts}) == 1
    assert [row["values"] for row in pl.concat(parts)["own"].to_list()] == [
        {"x": "1.5", "y": None},
        {"x": '"high"', "y": 2.0},
        {"x": "null", "y": 3.0},
    ]


def test_parts_of_one_schema_are_left_as_they_are(tmp_path: Path) -> None:
    """Parts that agree are not written twice."""
    task = fill(FolderStore(tmp_path), 0, 1)
    parts = sorted((tmp_path / "tasks/quiz/scores").iterdir())
    before = [(part.stat().st_ino, part.stat().st_mtime_ns) for part in parts]
    unify_parts(task.store, task.scores.base)
    assert [(part.stat().st_ino, part.stat().st_mtime_ns) for part in parts] == before


@pytest.mark.parametrize("store", ["folder", "objects"], indirect=True)
@pytest.mark.parametrize(
    "ask", [len, lambda table: table.read(0, 1), lambda table: table.read_all()]
)
def test_a_damaged_part_is_e503(store: RunStore, ask: object) -> None:
    """Whatever is asked for, a part that cannot be read is an error of the run folder."""
    fill(store).store.write_bytes("tasks/quiz/scores/part-00000.parquet", b"nonsense")
    with pytest.raises(RunError, match="E503"):
        ask(StoredTable(store, "tasks/quiz/scores"))  # type: ignore[operator]  # a function


def test_kept_completions_are_cut_by_samples(tmp_path: Path) -> None:
    """Each sample has the completions of all its trials, in another process, too."""
    ids = [name for name in "abc" for _ in range(2)]
    completions = Completions.build(ids, [Completion(str(n)) for n in range(6)], source="live")
    fill(FolderStore(tmp_path)).write_part("completions", 0, completions.frame)
    table = StoredTable(FolderStore(tmp_path), "tasks/quiz/completions")
    kept = KeptCompletions(table, num_trials=2)
    sample_ids = pl.Series("sample_id", ["a", "b", "c"])
    samples = samples_from_frame(pl.DataFrame({"q": ["x", "y", "z"]}), sample_ids)
    assert kept.read(samples).frame["completion"].to_list() == ["0", "1", "2", "3", "4", "5"]
    last = pickle.loads(pickle.dumps(kept.take(range(1, 3)).take(range(1, 2))))  # noqa: S301 - our own bytes
    assert last.read(samples.slice(2, 1)).frame["completion"].to_list() == ["4", "5"]


def test_frames_become_one_file(tmp_path: Path) -> None:
    """They are written one after the other, and nothing is left beside the file."""
    write_frames(tmp_path / "rows.parquet", iter(PARTS))
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(FRAME)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """While it is written, what was there before stays."""
    file = tmp_path / "rows.csv"
    file.write_text("before")

    def write(path: Path) -> None:
        path.write_text("after")
        assert file.read_text() == "before"

    write_output(file, write)
    names = [entry.name for entry in tmp_path.iterdir()]
    assert (names, file.read_text()) == (["rows.csv"], "after")


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(28, "No space left on device"), RunError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_what_is_broken_off_leaves_nothing(
    error: BaseException, raised: type[BaseException], tmp_path: Path
) -> None:
    """A full disk, or Ctrl-C, in the middle: the old file is untouched, and nothing lies beside
    it.
    """
    file = tmp_path / "rows.csv"
    file.write_text("before")

    def write(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises(raised):
        write_output(file, write)
    names = [entry.name for entry in tmp_path.iterdir()]
    assert (names, file.read_text()) == (["rows.csv"], "before")


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    """The file that a link leads to is written.

    Who reads at the other end of a pipe gets the rows.
    """
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_output(tmp_path / "link.csv", lambda path: path.write_text("after"))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "after"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_output(pipe, lambda path: path.write_text("rows"))
    reader.join(10)
    assert (heard, pipe.is_fifo()) == (["rows"], True)
