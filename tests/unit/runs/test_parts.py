from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

from answerkey.errors import RunError
from answerkey.runs import (
    FolderParts,
    FolderTask,
    HeldParts,
    KeptCompletions,
    MemoryTask,
    Parts,
    write_frames,
)
from answerkey.runs.files import unify_parts
from answerkey.types import Completion, Completions, Samples

FRAME = pl.DataFrame({"sample_id": [f"{n:02d}" for n in range(20)], "n": range(20)})
SIZES = (7, 7, 6)


def cut(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Return a frame in three parts."""
    return [frame.slice(7 * number, size) for number, size in enumerate(SIZES)]


@pytest.fixture(params=["folder", "memory"])
def parts(request: pytest.FixtureRequest, tmp_path: Path) -> Parts:
    """Return the same table in parts, on disk or in memory."""
    if request.param == "memory":
        return HeldParts(cut(FRAME))
    for number, part in enumerate(cut(FRAME)):
        part.write_parquet(tmp_path / f"part-{number:05d}.parquet")
    return FolderParts(tmp_path)


def test_any_range_is_that_of_the_whole(parts: Parts) -> None:
    """A range may begin and end in any part; columns can be chosen."""
    assert len(parts) == 20
    assert parts.read_all().equals(FRAME)
    assert [part.height for part in parts] == list(SIZES)
    for offset, length in ((0, 1), (5, 4), (6, 9), (0, 99), (19, 5)):
        assert parts.read(offset, length).equals(FRAME.slice(offset, length))
    assert parts.read(6, 2, ["n"]).to_dict(as_series=False) == {"n": [6, 7]}


def test_no_parts_are_an_empty_table(tmp_path: Path) -> None:
    """A run that keeps no completions has a table without rows."""
    for empty in (FolderParts(tmp_path), FolderParts(tmp_path / "none"), HeldParts()):
        assert len(empty) == 0
        assert empty.read_all().is_empty()
        assert empty.read(0, 5).is_empty()


def test_a_damaged_part_is_e503(tmp_path: Path) -> None:
    """Whatever is asked for, a part that cannot be read is the run folder's trouble."""
    (tmp_path / "part-00000.parquet").write_bytes(b"nonsense")
    for ask in (len, lambda parts: parts.read(0, 1), lambda parts: parts.read_all()):
        with pytest.raises(RunError) as caught:
            ask(FolderParts(tmp_path))
        assert caught.value.code == "E503"


def test_kept_completions_are_cut_by_samples(tmp_path: Path) -> None:
    """Each sample has the completions of all its trials, in another process, too."""
    ids = [name for name in "abc" for _ in range(2)]
    said = Completions.build(ids, [Completion(str(n)) for n in range(6)], source="live")
    said.frame.write_parquet(tmp_path / "part-00000.parquet")
    kept = KeptCompletions(FolderParts(tmp_path), num_trials=2)
    samples = Samples(pl.DataFrame({"q": ["x", "y", "z"]}), pl.Series("sample_id", ["a", "b", "c"]))
    assert kept.read(samples).frame["completion"].to_list() == ["0", "1", "2", "3", "4", "5"]
    last = pickle.loads(pickle.dumps(kept.slice(1, 2).slice(1, 1)))  # noqa: S301 - our own bytes
    assert last.read(samples.slice(2, 1)).frame["completion"].to_list() == ["4", "5"]


def test_frames_become_one_file(tmp_path: Path) -> None:
    """They are written one after the other, and nothing is left beside the file."""
    write_frames(tmp_path / "rows.parquet", iter(cut(FRAME)))
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(FRAME)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_draft_is_adopted_with_its_tables(tmp_path: Path) -> None:
    """A task takes over what was written before it was there; the draft stays as it is."""
    draft, task = FolderTask(tmp_path / "draft", is_draft=True).make(), FolderTask(tmp_path / "task").make()
    for index in (1, 0, 2):
        draft.write_scores(index, cut(FRAME)[index])
    task.adopt(draft)
    assert task.read_scores().equals(FRAME)
    assert draft.read_scores().equals(FRAME)
    held, other = MemoryTask(), MemoryTask()
    for index in (2, 0, 1):
        held.write_scores(index, cut(FRAME)[index])
    other.adopt(held)
    assert other.read_scores().equals(FRAME)


@pytest.mark.parametrize("name", ["run[1]", "run["])
def test_a_folder_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    """Parts are read, and given one form, in a folder with brackets in its name."""
    folder = tmp_path / name
    folder.mkdir()
    for number, part in enumerate(cut(FRAME)):
        part.write_parquet(folder / f"part-{number:05d}.parquet")
    unify_parts(folder)
    assert FolderParts(folder).read(5, 4).equals(FRAME.slice(5, 4))
