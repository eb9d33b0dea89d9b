from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

import answerkey as ak
from answerkey.errors import DataError, SpecError
from answerkey.importers import READERS, Log, LogPreview, Record, detect_kind, import_log

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

ROWS = [
    {
        "id": "a",
        "question": "?",
        "options": ["x", "yy"],
        "answer": "A",
        "output": "A",
        "score": 1,
        "pred": "A",
    },
    {
        "id": "b",
        "question": "?",
        "options": ["x", "yy"],
        "answer": "B",
        "output": "Hm.",
        "score": 1,
        "pred": "B",
    },
]


def test_an_import_is_a_project_that_runs_as_it_is(desk: Desk) -> None:
    """Task, dataset and completions fit together, and their verdicts are compared with ours."""
    found = desk.bring(desk.lines("mine.jsonl", ROWS))
    run = ak.run(found.folder, out=desk.folder / "run")
    (task,) = run.tasks.values()
    assert (run.status, task.metrics["Accuracy"].value) == ("complete", 0.5)
    theirs = task.tally["theirs"]
    assert (theirs["compared"], theirs["both_right"], theirs["only_theirs"]["count"]) == (2, 1, 1)
    assert theirs["only_theirs"]["reasons"]["NOTHING_STATED"]["example"] == {
        "sample_id": "b",
        "completion": "Hm.",
        "predicted_choice": None,
        "their_answer": "B",
    }


def test_an_import_says_what_it_holds(desk: Desk) -> None:
    """`import.json` is for programs."""
    desk.bring(desk.lines("mine.jsonl", ROWS))
    told = json.loads(desk.text("import.json"))
    assert (told["kind"], told["samples"], told["completions"]) == ("plain", 2, {"OK": 2})
    assert told["theirs"] == {"score": "score", "judged": 2, "mean": 1.0, "reported": {}}


def test_a_folder_that_holds_something_is_left_alone(desk: Desk) -> None:
    """An empty one is used."""
    (desk.folder / "out").mkdir()
    log = desk.lines("mine.jsonl", ROWS)
    desk.bring(log)
    with pytest.raises(SpecError, match="is there already; nothing was written") as caught:
        desk.bring(log)
    assert caught.value.code == "E119"


def test_nothing_is_left_of_an_import_that_failed(desk: Desk) -> None:
    """Neither the folder nor drafts beside it."""
    log = desk.lines("mine.jsonl", [*ROWS, ROWS[0]])
    with pytest.raises(DataError, match="samples are there twice: `a`"):
        desk.bring(log)
    assert [path.name for path in desk.folder.iterdir()] == ["mine.jsonl"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [("inspct", "there is no kind of log `inspct`"), ("lm_eval", "there is no kind of log `lm_eval`")],
)
def test_a_mistyped_kind_is_refused(desk: Desk, kind: str, message: str) -> None:
    """With what was probably meant."""
    with pytest.raises(SpecError, match=message) as caught:
        desk.bring(desk.lines("mine.jsonl", ROWS), kind)
    assert "did you mean" in str(caught.value.hint)


def test_a_log_of_no_known_kind_is_refused(desk: Desk) -> None:
    """With the kinds that there are, and what lies there."""
    (desk.folder / "log.bin").write_bytes(b"\x00\x01")
    with pytest.raises(DataError, match="the kind of the log") as caught:
        desk.bring(desk.folder / "log.bin")
    assert "`inspect`" in str(caught.value.hint)
    with pytest.raises(DataError, match="there is no log"):
        desk.bring(desk.folder / "nowhere")


def test_the_name_of_a_log_names_its_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without endings, below `imported`."""
    monkeypatch.chdir(desk.folder)
    assert import_log("auto", desk.lines("my.answers.jsonl", ROWS)).folder == Path("imported/my.answers")


class EchoReader:
    """A reader of somebody's own."""

    kind: ClassVar[str] = "echo"
    title: ClassVar[str] = "Echo"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the file says so."""
        return preview.head.startswith("echo")

    def read(self, log: Log) -> Iterator[Record]:  # noqa: ARG002 - the protocol's signature
        """Yield nothing."""
        yield from ()


def test_packages_bring_readers_of_their_own(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked as ours are; a log without a line is refused."""
    monkeypatch.setitem(READERS._own, "echo", EchoReader)
    log = desk.folder / "log.json"
    log.write_text("echo", encoding="utf-8")
    monkeypatch.delitem(READERS._own, "plain")
    assert detect_kind(log) == "echo"
    with pytest.raises(DataError, match="the log has no completions") as caught:
        desk.bring(log)
    assert caught.value.code == "E210"
