"""Laws of an import: records become two tables, scored as they are or kept in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

import answerkey as ak
from answerkey import types
from answerkey.errors import DataError, RunError, SpecError
from answerkey.importers import (
    READERS,
    Imported,
    Log,
    LogPreview,
    LogReader,
    Question,
    Record,
    detect_kind,
    imports,
)
from answerkey.importers.task_tables import NOT_IN_LOG
from answerkey.types import Completion, Registry

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

ASKED = {"question": "?", "options": ["x", "yy"], "score": 1}
ROWS = [
    {"id": "a", **ASKED, "answer": "A", "output": "A", "pred": "A"},
    {"id": "b", **ASKED, "answer": "B", "output": "Hm.", "pred": "B"},
]


def test_an_import_says_what_it_holds(desk: Desk) -> None:
    """`import.json` is for programs."""
    desk.bring(desk.lines("mine.jsonl", ROWS))
    content = json.loads(desk.text("import.json"))
    assert (content["kind"], content["samples"]) == ("plain", 2)
    (task,) = content["tasks"]
    assert task["completions"] == {"OK": 2}
    assert task["verdicts"] == {"score": "score", "judged": 2, "mean": 1.0}


def test_a_folder_that_holds_something_is_left_alone(desk: Desk) -> None:
    """An empty one is used."""
    out = desk.folder / "out"
    out.mkdir()
    log = desk.lines("mine.jsonl", ROWS)
    desk.bring(log, out=out)
    with pytest.raises(SpecError, match=r"already exists; nothing was written"):
        desk.bring(log, out=out)


def test_nothing_is_left_of_an_import_that_failed(desk: Desk) -> None:
    """Neither the folder nor drafts beside it."""
    log = desk.lines("mine.jsonl", [*ROWS, ROWS[0]])
    assert desk.refuse("duplicate sample ids: `a`", log).code == "E208"
    assert [path.name for path in desk.folder.iterdir()] == ["mine.jsonl"]


def test_a_log_of_no_known_kind_is_refused(desk: Desk) -> None:
    """With what was probably meant, or the kinds that there are."""
    log = desk.lines("mine.jsonl", ROWS)
    assert "did you mean" in str(desk.refuse("unknown kind of log `lm_eval`", log, "lm_eval"))
    error = desk.refuse("the kind of the log", desk.write("log.bin", "\x00\x01"))
    assert "`inspect`" in str(error.hint)
    desk.refuse("the log .* does not exist", desk.folder / "nowhere")


class ListReader:
    """A third party's reader, whose records are in a list."""

    kind: ClassVar[str] = "listed"
    title: ClassVar[str] = "List"
    records: ClassVar[list[Record]] = []
    last_wins: ClassVar[bool] = False

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether the file says so."""
        return preview.head.startswith("listed")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield the records."""
        log.description.last_wins = self.last_wins
        yield from self.records


@pytest.fixture
def log(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a log of which `ListReader` knows the records."""
    monkeypatch.setitem(READERS._own, "listed", None)
    monkeypatch.setitem(READERS._loaded, "listed", ListReader)
    monkeypatch.delitem(READERS._own, "plain")
    return desk.write("log.json", "listed")


def record(name: str, trial: int = 0, text: str | None = None, *, asks: bool = True) -> Record:
    """Return a record; its question and its text say whose it is."""
    question = Question(question=f"ask {name}", choices=("A", "B"), truth="A") if asks else None
    completion = None
    if text != "":
        text = text or f"{name} {trial}"
        completion = Completion(text, trial=trial, imported_score=1.0, imported_answer="A")
    return Record(name, question, completion)


def bring(desk: Desk, *records: Record, last_wins: bool = False) -> Imported:
    """Import some records."""
    ListReader.records, ListReader.last_wins = list(records), last_wins
    return desk.bring(desk.folder / "log.json")


def test_packages_bring_readers_of_their_own(desk: Desk, log: Path) -> None:
    """They are asked as ours are; a log without a line is refused."""
    ListReader.records = []
    assert detect_kind(log) == "listed"
    assert desk.refuse("the log has no completions", log).code == "E210"


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("names", ["bacabccab", "bbbaaaccc"])
def test_samples_that_come_again_are_trials_in_any_order(desk: Desk, names: str) -> None:
    """Questions stand once; trials count from 0 on, whatever their numbers were."""
    trials = {name: iter((2, 5, 9)) for name in "abc"}
    imported = bring(desk, *(record(name, next(trials[name])) for name in names))
    assert (imported.samples, imported.tasks[0].num_trials) == (3, 3)
    assert desk.asked("sample_id") == ["b", "a", "c"]
    rows = [(name, n, f"{name} {trial}") for name in "bac" for n, trial in enumerate((2, 5, 9))]
    assert desk.said("sample_id", "trial", "completion") == rows


@pytest.mark.usefixtures("log")
def test_a_trial_that_is_missing_is_an_error(desk: Desk) -> None:
    """Never a wrong answer, and never left out."""
    records = [record("a", 1), record("a", 2), record("b", 2), record("c", 1)]
    assert "2 completions are not in the log" in bring(desk, *records).notices[0].message
    columns = ("sample_id", "trial", "completion", "completion_status", "error")
    assert desk.said(*columns) == [
        ("a", 0, "a 1", "OK", None),
        ("a", 1, "a 2", "OK", None),
        ("b", 0, None, "ERROR", NOT_IN_LOG),
        ("b", 1, "b 2", "OK", None),
        ("c", 0, "c 1", "OK", None),
        ("c", 1, None, "ERROR", NOT_IN_LOG),
    ]


@pytest.mark.usefixtures("log")
def test_questions_and_answers_apart_belong_together_by_their_ids(desk: Desk) -> None:
    """The order is that of the questions.

    A question without an answer is an ERROR, an answer without a question is refused.
    """
    questions = [record(name, text="") for name in "abc"]
    bring(desk, *questions, record("c", asks=False), record("a", asks=False))
    assert desk.said("sample_id", "completion") == [("a", "a 0"), ("b", None), ("c", "c 0")]
    ListReader.records = [*questions, record("z", asks=False)]
    error = desk.refuse(r"completions without a question: 1 \(`z`\)", desk.folder / "log.json")
    assert error.code == "E209"


@pytest.mark.usefixtures("log")
def test_answers_alone_become_completions_without_a_dataset(desk: Desk) -> None:
    """In their own order."""
    assert not bring(desk, *(record(name, asks=False) for name in "cab")).has_questions
    assert desk.said("sample_id") == ["c", "a", "b"]
    assert not (desk.out / "run.yaml").exists()


@pytest.mark.usefixtures("log")
def test_the_last_of_the_same_trial_counts_where_a_tool_writes_anew(desk: Desk) -> None:
    """As its own readers do."""
    records = [record("a"), record("b"), record("a", text="new"), record("c")]
    bring(desk, *records, last_wins=True)
    assert desk.said("sample_id", "completion") == [("a", "new"), ("b", "b 0"), ("c", "c 0")]


@pytest.mark.usefixtures("log")
def test_half_a_surrogate_pair_becomes_a_replacement_character(desk: Desk) -> None:
    """No file can hold it, and no line is lost for it; neither for a number that JSON lacks."""
    question = Question("a \ud800 b", options=("\udfff", "y"), original={"n": float("nan")})
    bring(desk, record("0"), Record("1", question, Completion("ok\0")))
    questions = desk.asked("question", "options", "original")
    assert questions[1] == ("a \ufffd b", ["\ufffd", "y"], {"n": None})
    assert desk.said("completion")[1] == "ok\0"


def test_a_row_that_no_table_takes_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named by its sample; other records are taken."""
    monkeypatch.setattr("answerkey.datasets.content.DEFAULT_LINE_BYTES", 800)
    log = desk.lines("mine.jsonl", [*ROWS, {**ROWS[0], "id": "c", "output": "x" * 400}])
    desk.refuse("the row of sample `c` has more than", log)
    assert desk.bring(log, allow_failed="1").samples == 2


def test_a_run_of_an_import_refuses_a_truth_that_is_no_choice(desk: Desk) -> None:
    """E204 names the sample; the import itself takes it as the log has it."""
    rows = [{**ROWS[0], "id": str(number)} for number in range(30)]
    rows[0]["answer"] = "Z"
    assert desk.bring(desk.lines("one.jsonl", rows)).notices == ()
    with pytest.raises(DataError, match="sample `0`: ground truth 'Z' is not among") as caught:
        ak.run(desk.out, out=desk.folder / "run")
    assert caught.value.code == "E204"


def test_a_log_is_accepted_wherever_a_run_is(desk: Desk) -> None:
    """It is scored in memory."""
    question = {"question": "Which?", "options": ["x", "y"], "answer": "B"}
    logs = []
    for name, reply in (("one", "B"), ("two", "A")):
        rows = [{**question, "id": str(number), "completion": reply} for number in range(9)]
        logs.append(desk.lines(f"{name}.jsonl", rows))
    compared = str(ak.compare(*logs))
    assert "100" in compared
    assert "one-jsonl" in compared
    run = ak.load_run(logs[0])
    assert (run.status, run.metrics["Accuracy"].value, run.path) == ("complete", 1.0, None)
    with pytest.raises(RunError, match="is not a run folder"):
        ak.load_run(desk.write("note.md", "no log"))


# Importers that another package brings through an entry point.


class QuizReader(LogReader):
    """Reads rows of an invented tool, which are rows of a plain table as well."""

    kind: ClassVar[str] = "quiz"
    row_keys: ClassVar[tuple[set[str], ...]] = ({"prompt_text", "verdict"},)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield the rows of each file."""
        for file in log.files():
            for row in log.rows(file):
                question = Question(row.text("prompt_text"), choices=("A", "B"), truth="A")
                yield Record(str(row.text("id")), question, Completion(row.text("completion")))


def test_logs_of_other_packages_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader is asked before the one that takes any table."""
    point = EntryPoint("quiz", f"{__name__}:QuizReader", "answerkey.importers")
    monkeypatch.setattr(types, "entry_points", lambda **_: [point])
    kinds = {reader.kind: reader for reader in imports._KINDS}
    readers: Registry[LogReader] = Registry("answerkey.importers", kinds, kinds.__getitem__)
    monkeypatch.setattr(imports, "READERS", readers)
    monkeypatch.setitem(readers._loaded, "quiz", QuizReader)
    row = {"id": "1", "prompt_text": "A or B?", "completion": "A", "verdict": 1}
    (tmp_path / "log.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert detect_kind(tmp_path / "log.jsonl") == "quiz"
    (tmp_path / "table.jsonl").write_text('{"id": "1", "completion": "A"}', encoding="utf-8")
    assert detect_kind(tmp_path / "table.jsonl") == "plain"
