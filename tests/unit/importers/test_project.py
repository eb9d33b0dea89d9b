"""Laws of an import: records in files, joined into two tables, and the project they become."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import DataError, RunError, SpecError
from answerkey.importers import (
    READERS,
    Log,
    LogPreview,
    Question,
    Record,
    Verdict,
    detect_kind,
    import_log,
)
from answerkey.importers.records import NOT_IN_LOG, RecordStore
from answerkey.types import Completion, CompletionStatus

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

ASKED = {"question": "?", "options": ["x", "yy"], "score": 1}
ROWS = [
    {"id": "a", **ASKED, "answer": "A", "output": "A", "pred": "A"},
    {"id": "b", **ASKED, "answer": "B", "output": "Hm.", "pred": "B"},
]


def test_an_import_is_a_project_that_runs_as_it_is(desk: Desk) -> None:
    """Task, dataset and completions fit together, and their verdicts are compared with ours."""
    found = desk.bring(desk.lines("mine.jsonl", ROWS))
    run = ak.run(found.folder, out=desk.folder / "run")
    (task,) = run.tasks.values()
    assert (run.status, task.metrics["Accuracy"].value) == ("complete", 0.5)
    theirs = task.totals["theirs"]
    assert (theirs["compared"], theirs["both_right"], theirs["only_theirs"]["count"]) == (2, 1, 1)
    assert theirs["only_theirs"]["reasons"]["NOTHING_STATED"]["example"] == {
        "sample_id": "b",
        "completion": "Hm.",
        "predicted_choice": None,
        "their_answer": "B",
    }


def test_texts_of_options_are_told_where_the_log_has_them(desk: Desk) -> None:
    """A reply may be the text of an option; a question without texts is read by its letters."""
    text = {"id": "c", **ASKED, "answer": "B", "output": "yy", "pred": "B"}
    bare = {
        "id": "d",
        "question": "?",
        "choices": ["A", "B"],
        "answer": "B",
        "output": "So it is (B).",
    }
    found = desk.bring(desk.lines("mine.jsonl", [text, bare]))
    assert "      options:" in desk.text("task.yaml")
    run = ak.run(found.folder, out=desk.folder / "run")
    (task,) = run.tasks.values()
    assert (task.metrics["Accuracy"].value, task.counts["valid"]) == (1.0, 2)


def test_an_import_says_what_it_holds(desk: Desk) -> None:
    """`import.json` is for programs."""
    desk.bring(desk.lines("mine.jsonl", ROWS))
    told = json.loads(desk.text("import.json"))
    assert (told["kind"], told["samples"], told["completions"]) == ("plain", 2, {"OK": 2})
    assert told["theirs"] == {"score": "score", "judged": 2, "mean": 1.0, "reported": {}}


def test_a_folder_that_holds_something_is_left_alone(desk: Desk) -> None:
    """An empty one is used."""
    out = desk.folder / "out"
    out.mkdir()
    log = desk.lines("mine.jsonl", ROWS)
    desk.bring(log, out=out)
    with pytest.raises(SpecError, match="is there already; nothing was written") as caught:
        desk.bring(log, out=out)
    assert caught.value.code == "E119"


def test_nothing_is_left_of_an_import_that_failed(desk: Desk) -> None:
    """Neither the folder nor drafts beside it."""
    log = desk.lines("mine.jsonl", [*ROWS, ROWS[0]])
    desk.refuse("samples are there twice: `a`", log)
    assert [path.name for path in desk.folder.iterdir()] == ["mine.jsonl"]


def test_a_log_of_no_known_kind_is_refused(desk: Desk) -> None:
    """With what was probably meant, or the kinds that there are."""
    for kind in ("inspct", "lm_eval"):
        error = desk.refuse(
            f"there is no kind of log `{kind}`", desk.lines("mine.jsonl", ROWS), kind
        )
        assert "did you mean" in str(error.hint)
    error = desk.refuse("the kind of the log", desk.write("log.bin", "\x00\x01"))
    assert "`inspect`" in str(error.hint)
    desk.refuse("there is no log", desk.folder / "nowhere")


def test_the_name_of_a_log_names_its_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without endings, below `imported`."""
    monkeypatch.chdir(desk.folder)
    assert import_log("auto", desk.lines("my.answers.jsonl", ROWS)).folder == Path(
        "imported/my.answers"
    )


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
    monkeypatch.setitem(READERS._own, "echo", None)
    monkeypatch.setitem(READERS._loaded, "echo", EchoReader)
    log = desk.write("log.json", "echo")
    monkeypatch.delitem(READERS._own, "plain")
    assert detect_kind(log) == "echo"
    assert desk.refuse("the log has no completions", log).code == "E210"


def test_what_all_records_have_in_common_is_known_at_the_end(tmp_path: Path) -> None:
    """Counts, statuses, truths and verdicts.

    Columns that hold nothing are left out of the tables.
    """
    asked = Question("q", ("A", "B"), ("x", "y"), "A", None, {"n": 1})
    failed = Completion(None, CompletionStatus.ERROR, error="e")
    store = fill(
        tmp_path,
        [
            Record("1", asked, Completion("A"), Verdict(1.0, "A")),
            Record("2", Question("q", truth="B"), failed),
        ],
    )
    names = ("asks", "says", "choices", "options", "their_score")
    assert [store.counts[name] for name in names] == [2, 2, 1, 1, 1]
    assert (store.truths, store.statuses, store.right) == ({"A", "B"}, {"OK": 1, "ERROR": 1}, 1.0)
    store.write_tables(tmp_path, file="log", last_wins=False)
    frame = pl.read_parquet(tmp_path / "dataset.parquet")
    assert frame.columns == ["sample_id", "question", "options", "choices", "answer", "original"]
    assert frame["original"].to_list() == ['{"n": 1}', None]


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    """No file can hold it, and no line is lost for it."""
    odd = Record("1", Question("a \ud800 b", options=("\udfff", "y")), Completion("ok\0"))
    assert join(tmp_path, [record("0"), odd, record("2")]) == (3, 1, 0)
    rows = read(tmp_path, "dataset.parquet", "sample_id", "question", "options")
    assert rows[1:] == [("1", "a \ufffd b", ["\ufffd", "y"]), ("2", "ask 2", None)]
    assert read(tmp_path, "completions.parquet", "completion")[1] == ("ok\0",)


def test_a_text_that_no_table_would_take_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named by its sample; other records are taken."""
    monkeypatch.setattr("answerkey.datasets.content.DEFAULT_LINE_BYTES", 400)
    log = desk.lines("mine.jsonl", [*ROWS, {**ROWS[0], "id": "c", "output": "x" * 51}])
    desk.refuse("a text of sample `c` has more than 5e-05 MB", log)
    assert desk.bring(log, allow_failed="1").samples == 2


@pytest.fixture(params=[3, 1_000])
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a few rows at a time, or all at once."""
    monkeypatch.setattr("answerkey.importers.records._GROUP_ROWS", request.param)


def fill(folder: Path, records: list[Record]) -> RecordStore:
    """Return a store of some records."""
    (folder / "stage").mkdir()
    store = RecordStore(folder / "stage")
    assert all(store.add(one) for one in records)
    store.finish()
    return store


def record(name: str, trial: int = 0, text: str | None = None, *, asks: bool = True) -> Record:
    """Return a record; its question and its text say whose it is."""
    asked = Question(question=f"ask {name}", choices=("A", "B"), truth="A") if asks else None
    said = Completion(text or f"{name} {trial}") if text != "" else None
    return Record(name, asked, said, Verdict(1.0, "A"), trial)


def join(folder: Path, records: list[Record], *, last_wins: bool = False) -> tuple[int, int, int]:
    """Write the tables of some records; return samples, trials and gaps."""
    store = fill(folder, records)
    return store.write_tables(folder, file="log", last_wins=last_wins)


def read(folder: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table that was written."""
    return pl.read_parquet(folder / name).select(columns).rows()


@pytest.mark.usefixtures("few_rows")
def test_records_of_different_samples_keep_their_order(tmp_path: Path) -> None:
    """There is no column for trials where there is one of each."""
    found = join(tmp_path, [record(name) for name in "cabdegf"])
    assert found == (7, 1, 0)
    assert read(tmp_path, "dataset.parquet", "sample_id", "question")[:2] == [
        ("c", "ask c"),
        ("a", "ask a"),
    ]
    columns = ("sample_id", "completion", "completion_status", "their_score", "their_answer")
    rows = [(name, f"{name} 0", "OK", 1.0, "A") for name in "cabdegf"]
    assert read(tmp_path, "completions.parquet", *columns) == rows
    assert tuple(pl.read_parquet(tmp_path / "completions.parquet").columns) == columns


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("is_mixed", [False, True])
def test_samples_that_come_again_are_trials_in_any_order(tmp_path: Path, *, is_mixed: bool) -> None:
    """Questions stand once; completions follow the order of samples, then of trials from 0 on."""
    names, trials = (
        ("bacabccab", (2, 1, 1, 3, 1, 3, 2, 2, 3)) if is_mixed else ("bbbaaaccc", (1, 2, 3) * 3)
    )
    found = join(tmp_path, [record(*one) for one in zip(names, trials, strict=True)])
    assert found == (3, 3, 0)
    assert read(tmp_path, "dataset.parquet", "sample_id") == [("b",), ("a",), ("c",)]
    rows = [(name, trial, f"{name} {trial + 1}") for name in "bac" for trial in range(3)]
    assert read(tmp_path, "completions.parquet", "sample_id", "trial", "completion") == rows


@pytest.mark.usefixtures("few_rows")
def test_a_trial_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Never a wrong answer, and never left out."""
    found = join(tmp_path, [record("a", 1), record("a", 2), record("b", 2), record("c", 1)])
    assert found == (3, 2, 2)
    columns = ("sample_id", "trial", "completion", "completion_status", "error")
    assert read(tmp_path, "completions.parquet", *columns) == [
        ("a", 0, "a 1", "OK", None),
        ("a", 1, "a 2", "OK", None),
        ("b", 0, None, "ERROR", NOT_IN_LOG),
        ("b", 1, "b 2", "OK", None),
        ("c", 0, "c 1", "OK", None),
        ("c", 1, None, "ERROR", NOT_IN_LOG),
    ]


@pytest.mark.usefixtures("few_rows")
def test_questions_and_answers_apart_belong_together_by_their_ids(tmp_path: Path) -> None:
    """The order is that of the questions; a question without an answer is an ERROR."""
    questions = [record(name, text="") for name in "abcdefg"]
    answers = [record(name, asks=False) for name in "gfdcba"]
    assert join(tmp_path, [*questions, *answers]) == (7, 1, 1)
    assert read(tmp_path, "dataset.parquet", "sample_id") == [(name,) for name in "abcdefg"]
    assert read(tmp_path, "completions.parquet", "sample_id", "completion") == [
        (name, None if name == "e" else f"{name} 0") for name in "abcdefg"
    ]


@pytest.mark.usefixtures("few_rows")
def test_answers_alone_become_completions_without_a_dataset(tmp_path: Path) -> None:
    """In their own order."""
    assert join(tmp_path, [record(name, asks=False) for name in "cab"]) == (3, 1, 0)
    assert not (tmp_path / "dataset.parquet").exists()
    assert read(tmp_path, "completions.parquet", "sample_id") == [("c",), ("a",), ("b",)]


@pytest.mark.usefixtures("few_rows")
def test_an_answer_without_a_question_is_refused(tmp_path: Path) -> None:
    """With its id."""
    with pytest.raises(DataError, match=r"completions without a question: 1 \(`z`\)") as caught:
        join(tmp_path, [record("a", text=""), record("a", asks=False), record("z", asks=False)])
    assert caught.value.code == "E209"


@pytest.mark.usefixtures("few_rows")
def test_the_same_trial_twice_is_refused(tmp_path: Path) -> None:
    """Nobody can tell which of them counts."""
    with pytest.raises(DataError, match="samples are there twice: `b`") as caught:
        join(tmp_path, [record("a"), record("b"), record("b", text="other")])
    assert caught.value.code == "E208"


@pytest.mark.usefixtures("few_rows")
def test_the_last_of_the_same_trial_counts_where_a_tool_writes_anew(tmp_path: Path) -> None:
    """As its own readers do."""
    records = [record("a"), record("b"), record("a", text="new"), record("c")]
    assert join(tmp_path, records, last_wins=True) == (3, 1, 0)
    rows = read(tmp_path, "completions.parquet", "sample_id", "completion")
    assert rows == [("a", "new"), ("b", "b 0"), ("c", "c 0")]


def test_an_import_says_what_a_run_of_it_would_refuse(desk: Desk) -> None:
    """The first truth that is none of the choices, and how many more there are."""
    rows = [
        {
            "id": number,
            "question": f"{number}?",
            "options": ["x", "y"],
            "answer": "A",
            "completion": "A",
        }
        for number in range(30)
    ]
    assert desk.bring(desk.lines("fine.jsonl", rows)).notices == ()
    for row in rows[:2]:
        row["answer"] = "Z"
    found = desk.bring(desk.lines("two.jsonl", rows))
    message = found.notices[-1].message
    assert message.startswith("`answerkey run` would refuse it: sample `0`: ground truth 'Z'")
    assert message.endswith(", and 1 more")


def test_an_export_of_ours_can_be_imported_again(desk: Desk) -> None:
    """With its trials, its verdicts, and the labels that the scorer had."""
    rows = [
        {
            "id": str(number),
            "question": f"{number}?",
            "options": ["x", "y"],
            "answer": "B",
            "completion": said,
        }
        for number, said in enumerate(("B", "The answer is A.", "none"))
    ]
    found = desk.bring(desk.lines("said.jsonl", rows))
    run = ak.run(found.folder, out=desk.folder / "run")
    ak.export(run, "jsonl", desk.folder / "out.jsonl")
    again = desk.bring(desk.folder / "out.jsonl")
    assert (again.kind, again.samples, again.tasks[0].their_mean) == ("answerkey", 3, 1 / 3)
    assert desk.asked("question", "options", "choices", "answer")[0] == (
        "0?",
        ["x", "y"],
        ["A", "B"],
        "B",
    )
    assert desk.said("completion", "their_answer")[1] == ("The answer is A.", "A")
    told = {"model": "m", "completion_error": "gone", "cached_tokens": 3, "finish_reason": "length"}
    told["prompt"] = [{"role": "user", "content": "Which?"}]
    named = desk.bring(desk.lines("told.jsonl", [exported(**told)]))
    assert named.tasks[0].description.model == "m"
    (said,) = desk.said()
    assert (said["finish_reason"], json.loads(said["prompt"])[-1]["content"]) == (
        "length",
        "Which?",
    )
    desk.out = again.folder
    second = ak.run(again.folder, out=desk.folder / "second")
    assert second.metrics["Accuracy"].value == run.metrics["Accuracy"].value
    desk.refuse(
        "the row has no `sample_id`", desk.lines("bad.jsonl", [{**exported(), "sample_id": None}])
    )


def exported(**fields: object) -> dict[str, object]:
    """Return a row as we export it."""
    row: dict[str, object] = {
        "sample_id": "1",
        "trial": 0,
        "completion": "B",
        "completion_status": "OK",
    }
    return {**row, "scores": {}, "sample": {}, **fields}


def test_a_log_is_accepted_wherever_a_run_is(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported and scored once; what was told then is told again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(desk.folder / "cache"))
    asked = {"question": "Which?", "options": ["x", "y"], "answer": "B"}
    one, two = (
        desk.lines(
            f"{name}.jsonl",
            [{**asked, "id": str(number), "completion": said} for number in range(9)],
        )
        for name, said in (("one", "B"), ("two", "A"))
    )
    compared = ak.compare(one, two)
    assert "+100" in str(compared) or "-100" in str(compared)
    run = ak.load_run(one)
    assert (run.status, run.metrics["Accuracy"].value) == ("complete", 1.0)
    place = run.path
    assert place is not None
    assert ak.load_run(one).path == place
    assert len(list((desk.folder / "cache" / "answerkey" / "logs").iterdir())) == 2
    shutil.rmtree(str(place))
    assert ak.load_run(one).status == "complete"
    with pytest.raises(RunError, match="is not a run folder"):
        ak.load_run(desk.write("note.md", "no log"))
    log = desk.lines("three.jsonl", [{**exported(), "sample": {**asked, "version": 1}}])
    assert ak.load_run(log).tasks
