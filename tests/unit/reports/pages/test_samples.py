"""Laws of the table of samples: which rows are found, what is said and shown of a sample."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import SCORER as MCQA
from tests.projects import describe_solver, write_rows, write_task

import answerkey as ak
from answerkey.reports import html, sample_view, samples
from answerkey.reports.sample_view import show_decision
from answerkey.reports.samples import Query, locate
from answerkey.runs import Run, load_run
from answerkey.testing import Reply, TestServer

from .conftest import SCORER, MakeRun, list_rows, lose_dataset, open_table

EXACT = {"type": "string_equals", "key": "exact", "ground_truth": "{{ sample.answer }}"}
STATED = {**SCORER, "extraction": "stated_answer"}


def pick(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return one value of each row."""
    return [row[name] for row in rows]


# ── which rows are found

QUERIES = [
    (Query(), [0, 1, 2, 3, 4]),
    (Query(show="right"), [0]),
    (Query(show="wrong"), [1]),
    (Query(show="invalid"), [2, 3, 4]),
    (Query(show="failed"), []),
    (Query(show="flipped"), [2]),
    (Query(reason="EMPTY"), [4]),
    (Query(category="nature"), [2, 3]),
    (Query(category="(none)"), [4]),
    (Query(category="nobody"), []),
    (Query(truth="B"), [1, 4]),
    (Query(predicted="C"), [1]),
    (Query(text="two PLUS"), [0]),
    (Query(text="ANSWER is"), [2]),
    (Query(text="00004"), [3]),
    (Query(text="(.*"), []),
    (Query(show="invalid", category="nature", text="sky"), [3]),
    (Query(descending=True), [4, 3, 2, 1, 0]),
    (Query(sort="id", descending=True), [4, 3, 2, 1, 0]),
    (Query(sort="value"), [1, 2, 3, 4, 0]),
    (Query(sort="reason"), [4, 2, 3, 0, 1]),
    (Query(sort="reason", descending=True), [3, 2, 4, 0, 1]),
    (Query(sort="category", descending=True), [2, 3, 0, 1, 4]),
]


@pytest.mark.parametrize(("query", "positions"), QUERIES)
def test_a_query_finds_its_rows(small: Run, query: Query, positions: list[int]) -> None:
    """Filters hold together; equals keep their order; rows without the value come last."""
    places = open_table(small).find(query)
    assert places.dtype == pl.UInt32
    assert places.to_list() == positions


# ── how rows are read


def test_rows_are_the_same_in_all_reads(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one chunk or from many, in any order, and as often as asked for."""
    table = open_table(make_run(rows=list_rows(40)))
    places = [199, 0, 1, 7, 64, 0, 65, 180]
    together = table.list(places)
    monkeypatch.setattr(samples, "fit_rows", lambda *_: 7)
    assert pick(together, "id") == [f"{position + 1:06d}" for position in places]
    assert open_table(table.run).list(places) == together
    assert table.list([]) == []


# ── what a line of the table says


def test_a_line_of_the_table_says_what_the_verdict_is(small: Run) -> None:
    """Each row has the keys of the contract, and values as the scores have them.

    Several are found by id in one pass; who is not there is left out.
    """
    ids = ["000005", "000001", "nobody"]
    assert locate(small.tasks["quiz"], ids) == {"000005": 4, "000001": 0}
    result = open_table(small).list(range(5))
    keys = "p id trial category truth predicted status value validity reason flipped said question"
    assert list(result[0]) == keys.split()
    about = [0, "000001", None, "mathematics", "A", "A", "SCORED", 1.0, "VALID", None, False]
    assert list(result[0].values()) == [*about, ["", "A", "."], "Two plus two?"]
    assert pick(result, "reason") == [None, None, "NOT_A_CHOICE", "NO_TEXT", "EMPTY"]
    assert pick(result, "category") == ["mathematics", "mathematics", "nature", "nature", "(none)"]
    assert pick(result, "flipped") == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("text", "span", "shown"),
    [
        (None, None, None),
        ("", None, ["", "", ""]),
        ("no idea,\n really ", None, ["no idea, really", "", ""]),
        ("B. Paris", (0, 1), ["", "B", ". Paris"]),
        ("So\n\n the answer is (B).\n", (5, 21), ["So ", "the answer is (B", ")."]),
        ("x" * 700 + "B", (700, 701), [f"… {'x' * 28}", "B", ""]),
    ],
)
def test_a_completion_in_one_line_keeps_what_decided_in_sight(
    text: str | None, span: tuple[int, int] | None, shown: list[str] | None
) -> None:
    """White space is one space; little stands before what decided."""
    assert show_decision(text, span) == shown


def test_a_scorer_without_choices_has_validity_by_the_completion(make_run: MakeRun) -> None:
    """A reply without text is INVALID, as the counts have it; truth and answer are texts."""
    run = make_run(scorers=[EXACT])
    table = open_table(run)
    result = table.list(range(5))
    assert pick(result, "validity") == ["VALID", "VALID", "VALID", "INVALID", "VALID"]
    assert run.tasks["quiz"].counts["invalid"] == 1
    assert pick(result, "flipped") == [None] * 5
    assert pick(result, "predicted")[2] == "The answer is C."
    assert table.find(Query(show="flipped")).to_list() == []
    assert table.describe(1)["readings"] == []
    assert table.describe(1)["extractors"] == {}
    (verdict,) = table.describe(3)["verdicts"]
    assert (verdict["validity"], verdict["reason"]) == ("INVALID", "NO_TEXT")


def test_trials_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each trial is a row with its number; a sample is found at its first."""
    replies = [
        {
            "sample_id": f"00000{1 + number // 2}",
            "trial": number % 2,
            "completion": "AB"[number % 2],
        }
        for number in range(10)
    ]
    file = write_rows(tmp_path / "replies.jsonl", replies)
    plain = [{name: row[name] for name in ("question", "answer")} for row in list_rows()]
    table = open_table(make_run("trials", plain, "--completions", file, trials={"num_trials": 2}))
    assert len(table) == 10
    shown = [[row[name] for name in ("id", "trial", "predicted")] for row in table.list([2, 3])]
    assert shown == [["000002", 0, "A"], ["000002", 1, "B"]]
    assert locate(table.task_run, ["000002"]) == {"000002": 2}
    assert table.describe(3)["completion"]["text"] == "B"
    assert table.find(Query(show="right")).to_list() == [0, 3, 6, 9]


def test_orders_of_options_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each order is a row with its own id; choices are shown as they were asked."""
    orders = ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    replies = [{"sample_id": "000001", "option_order": cell, "completion": "A"} for cell in orders]
    file = write_rows(tmp_path / "replies.jsonl", replies)
    plain = [{name: list_rows()[0][name] for name in ("question", "options", "answer")}]
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    table = open_table(make_run("orders", plain, "--completions", file, choice_order=order))
    results = [table.describe(position) for position in range(3)]
    assert pick(results, "id") == ["000001", "000001~1", "000001~2"]
    shown = {tuple(pick(row["choices"], "text")) for row in results}
    assert shown == {("four", "five", "six"), ("five", "six", "four"), ("six", "four", "five")}
    for row in results:
        assert [choice["text"] for choice in row["choices"] if choice["is_truth"]] == ["four"]
    assert locate(table.task_run, ["000001"]) == {"000001": 0}


# ── what is said of one sample


def test_a_sample_is_shown_with_all_there_is(small: Run) -> None:
    """Row, question, choices, completion with the deciding passage, verdict and why."""
    sample = open_table(small).describe(0)
    about = [sample[name] for name in ("p", "id", "trial", "where", "prompt", "span", "missing")]
    assert about == [0, "000001", None, "rows.jsonl:1", None, [0, 1], None]
    assert sample["fields"][1] == {"name": "options", "text": '["four", "five", "six"]'}
    assert sample["question"] == "Two plus two?"
    choice = {"label": "A", "text": "four", "is_truth": True, "is_predicted": True}
    assert sample["choices"][0] == choice
    assert pick(sample["choices"], "is_truth") == [True, False, False]
    assert (sample["completion"]["text"], sample["completion"]["status"]) == ("A.", "OK")
    why = "VALID: the completion begins with 'A', which is the ground truth 'A'"
    rule = {"scorer": "string_equals_mcqa", "rule": "first_character", "status": "SCORED"}
    validity = {"validity": "VALID", "reason": None, "value": 1.0, "why": why}
    assert sample["verdicts"] == [{**rule, **validity}]


def test_every_rule_says_what_it_reads_and_where(small: Run) -> None:
    """The run's own rule comes first.

    Rules say the passage, extractors of other harnesses the choice.
    """
    sample = open_table(small).describe(2)
    rules = {reading["name"]: reading for reading in sample["readings"]}
    expected = {"name": "first_character", "choice": None, "part": None, "span": [0, 1]}
    assert sample["readings"][0] == expected
    assert rules["stated_answer"]["choice"] == "C"
    assert (sample["truth"], sample["extractors"]["lighteval"]) == ("C", "C")
    assert (len(rules), len(sample["extractors"])) == (4, 13)


def test_spans_count_characters_not_bytes(make_run: MakeRun) -> None:
    """A passage after characters beyond ASCII is where a reader sees it."""
    rows = [{"question": "q", "answer": "B", "completion": "😀😀 é Answer: B"}]
    sample = open_table(make_run(rows=rows, scorers=[STATED])).describe(0)
    begin, end = sample["span"]
    assert sample["completion"]["text"][begin:end].endswith("B")
    assert end == 14


def test_rows_that_cannot_be_scored_say_why(make_run: MakeRun) -> None:
    """A FAILED row has its reason, and the check's own sentence."""
    bad = {"question": "Bad?", "answer": "Z", "completion": "A", "category": "nature"}
    table = open_table(make_run("bad", [*list_rows(), bad], "--allow-failed", "1"))
    assert table.find(Query(show="failed")).to_list() == [5]
    (row,) = table.list([5])
    values = [row[name] for name in ("status", "reason", "value", "flipped")]
    assert values == ["FAILED", "BAD_TRUTH", None, None]
    why = table.describe(5)["verdicts"][0]["why"]
    assert why == "sample `000006`: ground truth 'Z' is not among the choices ['A', 'B', 'C']"


def test_what_was_asked_and_how_likely_choices_were_is_shown(tmp_path: Path) -> None:
    """The prompt as it was sent, what the call took, and the likeliest choice with its
    probability.
    """
    rows = [{"question": "q1", "answer": "B"}, {"question": "q2", "answer": "A"}]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    likely = MCQA | {"type": "choice_probabilities"}
    task = write_task(tmp_path / "task.yaml", likely, solver=describe_solver())
    with TestServer(Reply("B", logprobs={"B": math.log(0.75), "A": math.log(0.25)})) as server:
        model = f"{server.url}?top_logprobs=5#m"
        run = ak.run(task, dataset=file, model=model, out=tmp_path / "out")
    sample = open_table(run).describe(1)
    assert sample["prompt"] == [{"role": "user", "text": "q2"}]
    assert sample["completion"]["latency"] > 0
    assert sample["completion"]["tokens"]["prompt"] > 0
    (verdict,) = sample["verdicts"]
    assert (verdict["value"], verdict["validity"]) == (0.0, "VALID")
    assert verdict["why"] == "the answer is 'B', the ground truth 'A'"
    assert pick(sample["choices"], "is_truth") == [True, False]
    assert pick(sample["choices"], "is_predicted") == [False, True]


# ── what is gone, and what is too long


def test_without_its_dataset_rows_have_no_texts(make_run: MakeRun) -> None:
    """Verdicts stay; what is missing is said, without a path."""
    table = open_table(lose_dataset(make_run()))
    shown = [
        [row[name] for name in ("predicted", "question", "flipped")] for row in table.list([0, 2])
    ]
    assert shown == [["A", "", None], [None, "", None]]
    assert table.find(Query(show="invalid")).to_list() == [2, 3, 4]
    assert table.find(Query(text="00002")).to_list() == [1]
    sample = table.describe(0)
    assert (sample["fields"], sample["question"], sample["where"]) == ([], None, None)
    assert pick(sample["choices"], "label") == ["A", "B", "C"]
    assert sample["completion"]["text"] is None
    assert "gone or has changed" in sample["missing"]
    assert "/" not in sample["missing"]


def test_long_texts_are_cut_and_say_so(make_run: MakeRun) -> None:
    """A field keeps its beginning, a completion its end, with the passage in its place."""
    completion = "x" * 100_000 + " The answer is B."
    long = {"question": "q" * 30_000, "answer": "B", "completion": completion}
    table = open_table(make_run(rows=[long], scorers=[STATED]))
    sample = table.describe(0)
    assert sample["question"].endswith("[cut: the first 20,000 of 30,000 characters]")
    text = sample["completion"]["text"]
    assert len(text) < 60_100
    assert "[cut: the last 60,000 of 100,017 characters]" in text
    begin, end = sample["span"]
    assert text[begin:end].rstrip(".").endswith("B")
    assert len(table.list([0])[0]["question"]) == 160


# Images are shown from the files of the dataset while these are the same.

ROOT = Path(__file__).parents[4]
CIRCLE = "[image: image/png, 351 bytes, sha256 2189284913ea]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example."""
    return Path(shutil.copytree(ROOT / "examples/images", tmp_path / "project"))


@pytest.fixture
def make(project: Path, tmp_path: Path, call: Callable[..., Any]) -> Callable[[], Run]:
    """Return a function that runs the project."""

    def run() -> Run:
        done = call("run", project, "--out", tmp_path / "run")
        assert done.code == 0, done.err
        return load_run(tmp_path / "run")

    return run


def find_images(run: Run, room: int = sample_view.ROOM) -> list[Any]:
    """Return the images of each row."""
    source = open_table(run).source
    (part,) = source.read()
    return [sample["images"] for _, sample in sample_view.view_samples(source, part, room)]


def test_an_image_is_shown_with_its_sample(make: Callable[[], Run]) -> None:
    """It stands in the sample as a data URI; the prompt tells of it in a line."""
    run = make()
    [first, second] = find_images(run)
    [circle] = first
    assert circle["name"] == CIRCLE
    assert circle["data"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert second[0]["data"] != circle["data"]
    prompt = open_table(run).describe(0)["prompt"]
    assert prompt[0]["text"].startswith(f"{CIRCLE}\nWhich shape is this?\nA. circle")


def test_images_that_are_gone_or_others_are_told(make: Callable[[], Run], project: Path) -> None:
    """What is shown is what was sent, or nothing."""
    run = make()
    (project / "pictures/circle.png").write_bytes((project / "pictures/square.png").read_bytes())
    [[circle], [square]] = find_images(run)
    assert (circle["data"], square["data"] is None) == (None, False)
    (project / "questions.jsonl").unlink()
    assert find_images(run)[0] == [{"name": CIRCLE, "data": None}]


def test_pages_hold_small_images(make: Callable[[], Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """One has at most a hundredth of the room, which is shared by all."""
    run = make()
    monkeypatch.setattr(html, "MIN_PACKED", 1_000_000)
    for room in (35_000, 21_300):
        [[circle], [square]] = find_images(run, room)
        assert (circle["data"], square["data"] is None) == (None, False)
    source = open_table(run).source
    for room, is_shown in ((20_000_000, True), (100, False)):
        _, [block] = html.embed_samples(source, range(2), room=room)
        assert ("data:image/png" in block) is is_shown
