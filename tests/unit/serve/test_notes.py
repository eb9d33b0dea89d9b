"""Laws of the notes on samples."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from answerkey.errors import RunError, ServeError
from answerkey.serve.notes import Notes


def test_notes_are_found_by_task_sample_and_trial(tmp_path: Path) -> None:
    """Each has its own; what was never noted has none."""
    notes = Notes(tmp_path)
    notes.write("mcqa", "000001", 0, "one")
    notes.write("mcqa", "000001", 1, "two")
    notes.write("other", "000001", 0, "three")
    again = Notes(tmp_path)
    assert [note.text for note in again.list()] == ["one", "two", "three"]
    assert again.find("mcqa", "000001", 1) == "two"
    assert again.find("mcqa", "000002", 0) is None


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    """It has the form that the docs state."""
    Notes(tmp_path).write("mcqa", "000017", 0, "truth is wrong")
    stored = json.loads((tmp_path / "notes.json").read_text(encoding="utf-8"))
    assert stored["format_version"] == 1
    changed = stored["notes"][0].pop("changed_at")
    assert changed.endswith("+00:00")
    assert stored["notes"] == [{"task": "mcqa", "sample_id": "000017", "trial": 0, "text": "truth is wrong"}]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.json"]


def test_an_empty_note_is_removed_and_with_the_last_one_the_file(tmp_path: Path) -> None:
    """A run without notes is as it was."""
    notes = Notes(tmp_path)
    notes.write("mcqa", "1", 0, "one")
    notes.write("mcqa", "2", 0, "two")
    notes.write("mcqa", "1", 0, "")
    assert [note.sample_id for note in notes.list()] == ["2"]
    notes.write("mcqa", "2", 0, "")
    notes.write("mcqa", "2", 0, "")
    assert list(tmp_path.iterdir()) == []


def test_what_another_viewer_wrote_is_seen(tmp_path: Path) -> None:
    """Nothing is remembered that the file no longer says."""
    one, other = Notes(tmp_path), Notes(tmp_path)
    one.write("mcqa", "1", 0, "one")
    assert other.find("mcqa", "1", 0) == "one"
    other.write("mcqa", "2", 0, "two")
    assert one.find("mcqa", "2", 0) == "two"


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    """Notes written at the same time, by several viewers of the run, are all there."""
    viewers = [Notes(tmp_path) for _ in range(4)]

    def write(number: int) -> None:
        viewers[number % 4].write("mcqa", str(number), 0, f"note {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert sorted(int(note.sample_id) for note in Notes(tmp_path).list()) == list(range(40))


def test_a_note_that_is_no_longer_what_it_was_is_not_overwritten(tmp_path: Path) -> None:
    """The words that came between stay."""
    notes = Notes(tmp_path)
    notes.write("mcqa", "1", 0, "one")
    with pytest.raises(ServeError) as caught:
        notes.write("mcqa", "1", 0, "two", was="")
    assert (caught.value.code, caught.value.status) == ("E705", 409)
    assert notes.find("mcqa", "1", 0) == "one"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"notes": []}', '{"format_version": 2, "notes": []}', '{"format_version": 1}'],
)
def test_a_file_that_is_not_understood_is_not_overwritten(tmp_path: Path, text: str) -> None:
    """It may hold notes of a newer release, or of somebody's hand."""
    (tmp_path / "notes.json").write_text(text, encoding="utf-8")
    notes = Notes(tmp_path)
    with pytest.raises(RunError) as caught:
        notes.write("mcqa", "1", 0, "one")
    assert caught.value.code == "E503"
    assert (tmp_path / "notes.json").read_text(encoding="utf-8") == text


def test_links_in_a_foreign_run_folder_lead_nowhere(tmp_path: Path) -> None:
    """A note does not overwrite what a link, laid there by whoever made the run, points to."""
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine", encoding="utf-8")
    folder.mkdir()
    for name in (".notes.json.draft", ".notes.json.", "notes.json.tmp", "lock", "notes.lock"):
        (folder / name).symlink_to(victim)
    Notes(folder).write("mcqa", "1", 0, "one")
    assert victim.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="rights do not bind this user")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """E502 with what to check."""
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(RunError) as caught:
            Notes(tmp_path).write("mcqa", "1", 0, "one")
    finally:
        tmp_path.chmod(0o755)
    assert caught.value.code == "E502"
