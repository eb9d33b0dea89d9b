from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.errors import RunError, SpecError
from answerkey.reports.pages import excerpts, rows
from answerkey.reports.pages.filtering import Query
from answerkey.reports.pages.row_index import RowIndex
from answerkey.reports.pages.rows import open_rows
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.testing import Reply, TestServer

from .conftest import SCORER, MakeRun, list_rows, lose_dataset

KEYS = [
    "p", "id", "trial", "category", "truth", "predicted",
    "status", "value", "validity", "reason", "flipped", "head",
]  # fmt: skip


def pick(found: list[dict[str, Any]], name: str) -> list[Any]:
    """Return one value of each row."""
    return [one[name] for one in found]


def test_a_line_of_the_table_says_what_the_verdict_is(make_run: MakeRun) -> None:
    """Each row has the keys of the contract, and values as the scores have them."""
    book = open_rows(make_run())
    found = book.list(range(5))
    assert [list(one) for one in found] == [KEYS] * 5
    assert found[0] == {
        "p": 0,
        "id": "000001",
        "trial": None,
        "category": "mathematics",
        "truth": "A",
        "predicted": "A",
        "status": "SCORED",
        "value": 1.0,
        "validity": "VALID",
        "reason": None,
        "flipped": False,
        "head": "Two plus two?",
    }
    assert pick(found, "reason") == [None, None, "NOT_A_CHOICE", "NO_TEXT", "EMPTY"]
    assert pick(found, "category") == ["mathematics", "mathematics", "nature", "nature", "(none)"]
    assert pick(found, "flipped") == [False, False, True, False, False]


def test_rows_come_in_the_order_asked_for(make_run: MakeRun) -> None:
    """Positions may be in any order, and come again."""
    book = open_rows(make_run())
    assert pick(book.list([3, 0, 3]), "id") == ["000004", "000001", "000004"]
    assert book.list([]) == []


@pytest.mark.parametrize(
    ("query", "positions"),
    [
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
    ],
)
def test_a_query_finds_its_rows(make_run: MakeRun, query: Query, positions: list[int]) -> None:
    """Filters hold together; equals keep their order; rows without the value come last."""
    found = open_rows(make_run()).find(query)
    assert found.dtype == pl.UInt32
    assert found.to_list() == positions


def test_rows_as_they_stand_need_no_index(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page of a million rows is read where it lies."""
    monkeypatch.setattr(rows, "build_index", lambda _: pytest.fail("all rows were read"))
    book = open_rows(make_run())
    assert pick(book.list(book.find(Query()).slice(2, 2)), "p") == [2, 3]


def test_a_query_is_remembered(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page after page of the same query is found once; after eight others it is forgotten."""
    book, asked = open_rows(make_run()), list[Query]()

    def sort(_: SampleSource, __: RowIndex, query: Query, positions: pl.Series) -> pl.Series:
        asked.append(query)
        return positions

    monkeypatch.setattr(rows, "sort_rows", sort)
    for _ in range(3):
        book.find(Query(text="two"))
    assert len(asked) == 1
    for number in range(8):
        book.find(Query(text=f"word {number}"))
    book.find(Query(text="two"))
    assert len(asked) == 10


@pytest.mark.parametrize("words", [{"show": "odd"}, {"sort": "price"}])
def test_what_cannot_be_asked_is_refused(words: dict[str, str]) -> None:
    """An unknown filter or order is a mistake of the caller."""
    with pytest.raises(SpecError) as caught:
        Query.parse(words)
    assert caught.value.code == "E119"


def test_an_address_becomes_a_query() -> None:
    """Empty words ask for nothing, unknown ones are passed over."""
    words = {"show": "wrong", "text": "", "category": "x", "offset": "7", "descending": "true"}
    assert Query.parse(words) == Query(show="wrong", category="x", descending=True)


def test_a_sample_is_shown_with_all_there_is(make_run: MakeRun) -> None:
    """Row, question, choices, completion with the deciding passage, verdict and why."""
    sample = open_rows(make_run()).describe(0)
    assert (sample["p"], sample["id"], sample["trial"], sample["where"]) == (
        0,
        "000001",
        None,
        "rows.jsonl:1",
    )
    assert sample["fields"][1] == {"name": "options", "text": '["four", "five", "six"]'}
    assert sample["question"] == "Two plus two?"
    assert sample["choices"][0] == {"label": "A", "text": "four", "is_truth": True, "is_predicted": True}
    assert [one["is_truth"] for one in sample["choices"]] == [True, False, False]
    assert sample["prompt"] is None
    assert (sample["completion"]["text"], sample["completion"]["status"]) == ("A.", "OK")
    assert sample["span"] == [0, 1]
    assert sample["verdicts"] == [
        {
            "scorer": "string_equals_mcqa",
            "rule": "first_character",
            "status": "SCORED",
            "validity": "VALID",
            "reason": None,
            "value": 1.0,
            "why": "VALID: the completion begins with 'A', which is the ground truth 'A'",
        }
    ]
    assert (sample["missing"], sample["note"]) == (None, None)


def test_every_rule_says_what_it_reads_and_where(make_run: MakeRun) -> None:
    """The run's own rule comes first; rules say the passage, lenses only the choice."""
    readings = {one["name"]: one for one in open_rows(make_run()).describe(2)["readings"]}
    assert next(iter(readings)) == "first_character"
    assert readings["first_character"] == {
        "name": "first_character",
        "kind": "own",
        "choice": None,
        "is_right": None,
        "part": None,
        "span": [0, 1],
    }
    stated = readings["stated_answer"]
    assert (stated["kind"], stated["choice"], stated["is_right"]) == ("rule", "C", True)
    assert readings["simple-evals"]["kind"] == "lens"
    assert len(readings) == 17


def test_spans_count_characters_not_bytes(make_run: MakeRun) -> None:
    """A passage after characters beyond ASCII is where a reader sees it."""
    rows_with_emoji = [{"question": "q", "answer": "B", "completion": "😀😀 é Answer: B"}]
    stated = {**SCORER, "extraction": "stated_answer"}
    sample = open_rows(make_run(rows=rows_with_emoji, scorers=[stated])).describe(0)
    begin, end = sample["span"]
    assert sample["completion"]["text"][begin:end].endswith("B")
    assert end == 14


def test_a_row_that_is_not_there_is_refused(make_run: MakeRun) -> None:
    """E504, with how many there are."""
    with pytest.raises(RunError, match="there is no row 5") as caught:
        open_rows(make_run()).describe(5)
    assert caught.value.code == "E504"


def test_samples_are_found_by_id(make_run: MakeRun) -> None:
    """By the whole id or the number of a generated one; several in one pass."""
    book = open_rows(make_run())
    assert (book.locate("000003"), book.locate("3"), book.locate("nobody")) == (2, 2, None)
    assert book.locate_all(["000005", "000001", "nobody"]) == {"000005": 4, "000001": 0}


def test_without_its_dataset_rows_have_no_texts(make_run: MakeRun) -> None:
    """Verdicts stay; what is missing is said, without a path."""
    run = make_run()
    lose_dataset(run)
    book = open_rows(run)
    found = book.list([0, 2])
    assert pick(found, "predicted") == ["A", None]
    assert pick(found, "head") == ["", ""]
    assert pick(found, "flipped") == [None, None]
    assert book.find(Query(show="invalid")).to_list() == [2, 3, 4]
    assert book.find(Query(text="00002")).to_list() == [1]
    sample = book.describe(0)
    assert (sample["fields"], sample["question"], sample["where"]) == ([], None, None)
    assert [one["label"] for one in sample["choices"]] == ["A", "B", "C"]
    assert sample["completion"]["text"] is None
    assert "gone or has changed" in sample["missing"]
    assert "/" not in sample["missing"]


def test_completions_that_the_run_keeps_outlive_the_dataset(make_run: MakeRun) -> None:
    """With `--copy`, rows without their questions show what was said."""
    run = make_run("kept", None, "--copy")
    lose_dataset(run)
    book = open_rows(run)
    assert pick(book.list([0]), "head") == ["A."]
    assert book.describe(2)["completion"]["text"] == "The answer is C."
    assert book.find(Query(show="flipped")).to_list() == [2]


def test_rows_far_apart_are_read_where_they_lie(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """However rows are read together, they are the same."""
    many = [{**row, "question": f"{row['question']} {n}"} for n in range(40) for row in list_rows()]
    book = open_rows(make_run(rows=many))
    wanted = [0, 1, 7, 64, 65, 180, 199]
    together = book.list(wanted)
    monkeypatch.setattr(excerpts, "NEAR_PART", 1_000_000)
    apart = open_rows(book.run).list(wanted)
    assert pick(together, "id") == [f"{position + 1:06d}" for position in wanted]
    assert apart == together


def test_of_many_rows_some_are_read_by_every_rule(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them depends on nothing but their number."""
    monkeypatch.setattr(rows, "MOST_REREAD", 20)
    many = [row for _ in range(20) for row in list_rows()]
    book = open_rows(make_run(rows=many))
    assert len(book.reread) == 20
    assert book.reread.to_list() == open_rows(book.run).reread.to_list()
    assert book.flips.to_list() == [one for one in book.reread if one % 5 == 2]


def test_every_scorer_has_its_verdict(make_run: MakeRun) -> None:
    """Verdicts are in the order of the task; texts that are compared exactly say so."""
    exact = {"type": "string_equals", "key": "exact", "ground_truth": "{{ sample.answer }}"}
    sample = open_rows(make_run(scorers=[SCORER, exact])).describe(1)
    assert [one["scorer"] for one in sample["verdicts"]] == ["string_equals_mcqa", "exact"]
    assert sample["verdicts"][1]["why"] == "the text is not the ground truth"


def test_a_scorer_without_choices_has_validity_by_the_completion(make_run: MakeRun) -> None:
    """A reply without text is INVALID, as the counts have it; truth and answer are texts."""
    exact = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    run = make_run(scorers=[exact])
    book = open_rows(run)
    found = book.list(range(5))
    assert pick(found, "validity") == ["VALID", "VALID", "VALID", "INVALID", "VALID"]
    assert run.tasks["quiz"].counts["invalid"] == 1
    assert pick(found, "flipped") == [None] * 5
    assert pick(found, "predicted")[2] == "The answer is C."
    assert book.find(Query(show="flipped")).to_list() == []
    assert book.describe(1)["readings"] == []
    assert book.describe(3)["verdicts"][0]["validity"] == "INVALID"
    assert book.describe(3)["verdicts"][0]["reason"] == "NO_TEXT"


def test_rows_that_cannot_be_scored_say_why(make_run: MakeRun) -> None:
    """A FAILED row has its reason, and the check's own sentence."""
    bad = [*list_rows(), {"question": "Bad?", "answer": "Z", "completion": "A", "category": "nature"}]
    book = open_rows(make_run("bad", bad, "--allow-failed", "1"))
    assert book.find(Query(show="failed")).to_list() == [5]
    row = book.list([5])[0]
    assert (row["status"], row["reason"], row["value"], row["flipped"]) == ("FAILED", "BAD_TRUTH", None, None)
    why = book.describe(5)["verdicts"][0]["why"]
    assert why == "sample `000006`: ground truth 'Z' is not among the choices ['A', 'B', 'C']"


def test_what_an_action_keeps_out_is_said(make_run: MakeRun) -> None:
    """The verdict names the action; the row does not count as flipped."""
    rule = {"op": "equals", "expression": "{{ sample.category }}", "value": "nature"}
    action = {"key": "no-nature", "action": "exclude_from_metrics", "filter": rule}
    book = open_rows(make_run(actions=[action]))
    why = book.describe(2)["verdicts"][0]["why"]
    assert why.endswith(
        "is not one of the choices ['A', 'B', 'C']; kept out of the metrics by action `no-nature`"
    )
    assert pick(book.list([2]), "flipped") == [None]


def test_long_texts_are_cut_and_say_so(make_run: MakeRun) -> None:
    """A field keeps its beginning, a completion its beginning and its end, with the passage in its place."""
    long = [{"question": "q" * 30_000, "answer": "B", "completion": "x" * 100_000 + " The answer is B."}]
    stated = {**SCORER, "extraction": "stated_answer"}
    book = open_rows(make_run(rows=long, scorers=[stated]))
    sample = book.describe(0)
    assert sample["question"].endswith("[cut: the first 20,000 of 30,000 characters]")
    text = sample["completion"]["text"]
    assert len(text) < 60_100
    assert "[cut: 40,017 of 100,017 characters are left out here]" in text
    begin, end = sample["span"]
    assert text[begin:end].rstrip(".").endswith("B")
    assert len(book.list([0])[0]["head"]) == 160


def test_columns_and_category_are_known(make_run: MakeRun) -> None:
    """What the dataset has, and where its categories stand."""
    book = open_rows(make_run())
    assert book.columns == ["question", "options", "answer", "completion", "category"]
    assert (len(book), book.category_column, book.missing) == (5, "category", None)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["A. one", "B. two", "C. three"], ["one", "two", "three"]),
        (["A", "B", "C"], [None, None, None]),
        (["one", "two"], [None, None, None]),
        (["A. one", "two", "C. three"], ["A. one", "two", "C. three"]),
    ],
)
def test_choices_have_the_texts_of_their_options(
    make_run: MakeRun, options: list[str], texts: list[str | None]
) -> None:
    """Labels are not said twice, and options that fit no label are not guessed at."""
    row = {"question": "q", "options": options, "answer": "A", "completion": "A"}
    choices = open_rows(make_run(rows=[row])).describe(0)["choices"]
    assert [one["text"] for one in choices] == texts
    assert [one["is_truth"] for one in choices] == [True, False, False]


def test_trials_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each trial is a row with its number; a sample is found at its first."""
    said = [
        {"sample_id": f"{number:06d}", "trial": trial, "completion": text}
        for number in range(1, 6)
        for trial, text in enumerate(["A", "B"])
    ]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    plain = [{name: value for name, value in row.items() if name != "completion"} for row in list_rows()]
    words = ("--completions", str(tmp_path / "said.jsonl"))
    book = open_rows(make_run("trials", plain, *words, trials={"num_trials": 2}))
    assert len(book) == 10
    found = book.list([2, 3])
    assert pick(found, "id") == ["000002", "000002"]
    assert pick(found, "trial") == [0, 1]
    assert pick(found, "predicted") == ["A", "B"]
    assert book.locate("000002") == 2
    assert book.describe(3)["completion"]["text"] == "B"
    assert book.find(Query(show="right")).to_list() == [0, 3, 6, 9]


def test_what_was_asked_and_how_likely_choices_were_is_shown(tmp_path: Path) -> None:
    """The prompt as it was sent, what the call took, and the likeliest choice with its probability."""
    rows_to_ask = [{"question": "q1", "answer": "B"}, {"question": "q2", "answer": "A"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_to_ask))
    messages = [{"role": "user", "content": "{{ sample.question }}"}]
    solver = {
        "type": "single_turn_solver",
        "input_builder": {"type": "chat_completion", "input_messages": messages},
    }
    likely = {**SCORER, "type": "choice_probabilities", "choices": ["A", "B"]}
    definition = {"solver": solver, "scorers": [likely]}
    task = {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    reply = Reply("B", logprobs={"B": math.log(0.75), "A": math.log(0.25)})
    with TestServer(reply) as server:
        run = ak.run(
            tmp_path / "task.yaml",
            dataset=tmp_path / "rows.jsonl",
            model=f"{server.url}?top_logprobs=5#m",
            out=tmp_path / "out",
        )
    sample = open_rows(run).describe(1)
    assert sample["prompt"] == [{"role": "user", "text": "q2"}]
    assert sample["completion"]["latency"] > 0
    assert set(sample["completion"]["tokens"]) == {"prompt", "completion"}
    (verdict,) = sample["verdicts"]
    assert (verdict["value"], verdict["validity"]) == (0.0, "VALID")
    assert verdict["why"] == (
        "the likeliest choice is 'B' (probability 0.750), which is not the ground truth 'A'"
    )
    assert [(one["is_truth"], one["is_predicted"]) for one in sample["choices"]] == [
        (True, False),
        (False, True),
    ]
