"""Laws of the table of samples: which rows are found, what a line says, what is said of one
sample.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.reports import samples
from answerkey.reports.sample_view import cut_reply, show_decision
from answerkey.reports.samples import Query
from answerkey.runs import Run
from answerkey.testing import Reply, TestServer

from .conftest import SCORER, MakeRun, list_rows, lose_dataset, open_table, write_lines

EXACT = {"type": "string_equals", "key": "exact", "ground_truth": "{{ sample.answer }}"}
STATED = {**SCORER, "extraction": "stated_answer"}


def pick(found: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return one value of each row."""
    return [one[name] for one in found]


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
    found = open_table(small).find(query)
    assert found.dtype == pl.UInt32
    assert found.to_list() == positions


def test_rows_as_they_stand_need_no_index(small: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page of a million rows is read where it lies."""
    monkeypatch.setattr(
        samples.SampleSource, "build_index", lambda _: pytest.fail("all rows were read")
    )
    table = open_table(small)
    assert pick(table.list(table.find(Query()).slice(2, 2)), "p") == [2, 3]


def test_of_many_rows_some_are_read_by_every_rule(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them depends on nothing but their number."""
    run = make_run(rows=list_rows(20))
    assert open_table(run).flips.to_list() == list(range(2, 100, 5))
    monkeypatch.setattr(samples, "MAX_REREAD", 20)
    flips = open_table(run).flips.to_list()
    assert 0 < len(flips) < 20
    assert {position % 5 for position in flips} == {2}
    assert open_table(run).flips.to_list() == flips


def test_kinds_of_rows_without_a_validity(make_run: MakeRun) -> None:
    """A scorer that does not say what is VALID leaves it to the completions.

    Every row is of one kind.
    """
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    table = open_table(make_run(rows=list_rows(q0="A"), scorers=[scorer]))
    found = {
        show: table.find(Query(show=show)).to_list()
        for show in ("right", "wrong", "invalid", "failed")
    }
    assert found == {"right": [0], "wrong": [1, 2, 4], "invalid": [3], "failed": []}


# ── how rows are read


@pytest.mark.parametrize("seed", range(30))
def test_every_row_is_read_once_and_in_order(seed: int, small: Run) -> None:
    """Whatever is asked for, from stretches that are not too long."""
    draw = random.Random(seed)
    source = open_table(small).source
    source.num_trials, source.chunk = draw.choice([1, 2, 5]), draw.choice([1, 7, 100, 10_000])
    wanted = sorted(draw.sample(range(5_000), draw.randrange(1, 400)))
    stretches = list(source._cut(wanted))
    assert [position for stretch in stretches for position in stretch] == wanted
    size = source.num_trials
    assert all(stretch[-1] // size - stretch[0] // size < source.chunk for stretch in stretches)


def test_rows_far_apart_are_not_read_together(small: Run) -> None:
    """Between them would lie more than is worth reading."""
    source = open_table(small).source
    source.chunk = 1_000
    assert list(source._cut([0, 1, 500])) == [[0, 1], [500]]
    assert list(source._cut([])) == []


def test_rows_are_the_same_however_they_are_read(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together with those between them, or each where it lies.

    In any order, and as often as asked for.
    """
    table = open_table(make_run(rows=list_rows(40)))
    wanted = [199, 0, 1, 7, 64, 0, 65, 180]
    together = table.list(wanted)
    monkeypatch.setattr(samples, "NEAR_PART", 1_000_000)
    assert pick(together, "id") == [f"{position + 1:06d}" for position in wanted]
    assert open_table(table.run).list(wanted) == together
    assert table.list([]) == []


# ── what a line of the table says


def test_a_line_of_the_table_says_what_the_verdict_is(small: Run) -> None:
    """Each row has the keys of the contract, and values as the scores have them.

    Several are found by id in one pass; who is not there is left out.
    """
    assert open_table(small).locate(["000005", "000001", "nobody"]) == {"000005": 4, "000001": 0}
    found = open_table(small).list(range(5))
    assert list(found[0].items()) == [
        *(("p", 0), ("id", "000001"), ("trial", None), ("category", "mathematics")),
        *(
            ("truth", "A"),
            ("predicted", "A"),
            ("status", "SCORED"),
            ("value", 1.0),
            ("validity", "VALID"),
        ),
        *(
            ("reason", None),
            ("flipped", False),
            ("said", ["", "A", "."]),
            ("head", "Two plus two?"),
        ),
    ]
    assert pick(found, "reason") == [None, None, "NOT_A_CHOICE", "NO_TEXT", "EMPTY"]
    assert pick(found, "category") == ["mathematics", "mathematics", "nature", "nature", "(none)"]
    assert pick(found, "flipped") == [False, False, True, False, False]


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


def test_a_long_completion_in_one_line_is_cut() -> None:
    """After what decided; and in the middle where nothing did, for answers stand at both ends."""
    assert show_decision("B, " + "for it fits " * 100, (0, 1)) == [
        "",
        "B",
        (", " + "for it fits " * 14)[:160] + "…",
    ]
    (line, *rest) = show_decision("Begin " + "word " * 1_000 + "end", None) or []
    assert (line[:6], line[-9:], rest) == ("Begin ", " word end", ["", ""])
    assert " … " in line
    assert len(line) <= 80


def test_a_sample_has_every_answer_that_it_states(make_run: MakeRun) -> None:
    """In the order of the text, with the choices named and where; a long thought is folded."""
    sample = open_table(make_run()).describe(2)
    assert sample["completion"]["text"] == "The answer is C."
    assert sample["stated"] == [{"choices": ["C"], "span": [4, 15]}]
    assert sample["folded"] == []


def test_a_scorer_without_choices_has_validity_by_the_completion(make_run: MakeRun) -> None:
    """A reply without text is INVALID, as the counts have it; truth and answer are texts."""
    run = make_run(scorers=[EXACT])
    table = open_table(run)
    found = table.list(range(5))
    assert pick(found, "validity") == ["VALID", "VALID", "VALID", "INVALID", "VALID"]
    assert run.tasks["quiz"].counts["invalid"] == 1
    assert pick(found, "flipped") == [None] * 5
    assert pick(found, "predicted")[2] == "The answer is C."
    assert table.find(Query(show="flipped")).to_list() == []
    assert table.describe(1)["readings"] == []
    (verdict,) = table.describe(3)["verdicts"]
    assert (verdict["validity"], verdict["reason"]) == ("INVALID", "NO_TEXT")


def test_trials_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each trial is a row with its number; a sample is found at its first."""
    said = [
        {"sample_id": f"{number:06d}", "trial": trial, "completion": text}
        for number in range(1, 6)
        for trial, text in enumerate(["A", "B"])
    ]
    file = write_lines(tmp_path / "said.jsonl", said)
    plain = [{name: row[name] for name in ("question", "answer")} for row in list_rows()]
    table = open_table(make_run("trials", plain, "--completions", file, trials={"num_trials": 2}))
    assert len(table) == 10
    told = [[row[name] for name in ("id", "trial", "predicted")] for row in table.list([2, 3])]
    assert told == [["000002", 0, "A"], ["000002", 1, "B"]]
    assert table.locate(["000002"]) == {"000002": 2}
    assert table.describe(3)["completion"]["text"] == "B"
    assert table.find(Query(show="right")).to_list() == [0, 3, 6, 9]


def test_orders_of_options_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each order is a row with its own id; choices are shown as they were asked."""
    orders = ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    said = [{"sample_id": "000001", "option_order": order, "completion": "A"} for order in orders]
    file = write_lines(tmp_path / "said.jsonl", said)
    plain = [
        {name: row[name] for name in ("question", "options", "answer")} for row in list_rows()[:1]
    ]
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    table = open_table(make_run("orders", plain, "--completions", file, choice_order=order))
    found = [table.describe(position) for position in range(3)]
    assert pick(found, "id") == ["000001", "000001~1", "000001~2"]
    shown = [tuple(pick(one["choices"], "text")) for one in found]
    assert len(set(shown)) == 3
    assert all(sorted(texts) == ["five", "four", "six"] for texts in shown)
    assert [[one["text"] for one in each["choices"] if one["is_truth"]] for each in found] == [
        ["four"]
    ] * 3
    assert table.locate(["000001"]) == {"000001": 0}


# ── what is said of one sample


def test_a_sample_is_shown_with_all_there_is(small: Run) -> None:
    """Row, question, choices, completion with the deciding passage, verdict and why."""
    sample = open_table(small).describe(0)
    about = [sample[name] for name in ("p", "id", "trial", "where", "prompt", "span", "missing")]
    assert about == [0, "000001", None, "rows.jsonl:1", None, [0, 1], None]
    assert sample["fields"][1] == {"name": "options", "text": '["four", "five", "six"]'}
    assert sample["question"] == "Two plus two?"
    assert sample["choices"][0] == {
        "label": "A",
        "text": "four",
        "is_truth": True,
        "is_predicted": True,
    }
    assert pick(sample["choices"], "is_truth") == [True, False, False]
    assert (sample["completion"]["text"], sample["completion"]["status"]) == ("A.", "OK")
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


def test_every_rule_says_what_it_reads_and_where(small: Run) -> None:
    """The run's own rule comes first.

    Rules say the passage, extractors of other harnesses the choice.
    """
    readings = open_table(small).describe(2)["readings"]
    own = {"name": "first_character", "kind": "own", "choice": None, "is_right": None, "part": None}
    assert readings[0] == {**own, "span": [0, 1]}
    named = {one["name"]: (one["kind"], one["choice"], one["is_right"]) for one in readings}
    assert named["stated_answer"] == ("rule", "C", True)
    assert named["simple-evals"][0] == "lens"
    assert len(readings) == len(named) == 17


def test_spans_count_characters_not_bytes(make_run: MakeRun) -> None:
    """A passage after characters beyond ASCII is where a reader sees it."""
    rows = [{"question": "q", "answer": "B", "completion": "😀😀 é Answer: B"}]
    sample = open_table(make_run(rows=rows, scorers=[STATED])).describe(0)
    begin, end = sample["span"]
    assert sample["completion"]["text"][begin:end].endswith("B")
    assert end == 14


def test_every_scorer_has_its_verdict(make_run: MakeRun) -> None:
    """Verdicts are in the order of the task; texts that are compared exactly say so."""
    verdicts = open_table(make_run(scorers=[SCORER, EXACT])).describe(1)["verdicts"]
    assert pick(verdicts, "scorer") == ["string_equals_mcqa", "exact"]
    assert verdicts[1]["why"] == "the answer is 'C', the ground truth 'B'"


def test_label_of_a_judge_is_the_reason(make_run: MakeRun) -> None:
    """A judge that answers with a label says which, whether it is a value or metadata."""
    with TestServer("'fine'.") as server:
        judge = {"model_key": f"{server.url}#judge", "user_prompt": "{{ input_prompt }}"}
        right = {"correct_labels": ["fine"], "incorrect_labels": ["odd"]}
        scorers = [
            {"type": "model_as_a_judge_classifier", **judge, **right},
            {"type": "labeler_via_model", "purpose": "qa", **judge},
        ]
        table = open_table(make_run(scorers=scorers))
    verdicts = table.describe(0)["verdicts"]
    assert [one["why"] for one in verdicts] == ["the label is 'fine'"] * 2
    assert [one["value"] for one in verdicts] == [1.0, None]


def test_rows_that_cannot_be_scored_say_why(make_run: MakeRun) -> None:
    """A FAILED row has its reason, and the check's own sentence."""
    bad = [
        *list_rows(),
        {"question": "Bad?", "answer": "Z", "completion": "A", "category": "nature"},
    ]
    table = open_table(make_run("bad", bad, "--allow-failed", "1"))
    assert table.find(Query(show="failed")).to_list() == [5]
    (row,) = table.list([5])
    assert (row["status"], row["reason"], row["value"], row["flipped"]) == (
        "FAILED",
        "BAD_TRUTH",
        None,
        None,
    )
    why = table.describe(5)["verdicts"][0]["why"]
    assert why == "sample `000006`: ground truth 'Z' is not among the choices ['A', 'B', 'C']"


def test_what_an_action_keeps_out_is_said(make_run: MakeRun) -> None:
    """The verdict names the action; the row does not count as flipped."""
    rule = {"op": "equals", "expression": "{{ sample.category }}", "value": "nature"}
    action = {"key": "no-nature", "action": "exclude_from_metrics", "filter": rule}
    table = open_table(make_run(actions=[action]))
    why = table.describe(2)["verdicts"][0]["why"]
    assert why.endswith(
        "is not one of the choices ['A', 'B', 'C']; kept out of the metrics by action `no-nature`"
    )
    assert pick(table.list([2]), "flipped") == [None]


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
    choices = open_table(make_run(rows=[row])).describe(0)["choices"]
    assert pick(choices, "text") == texts
    assert pick(choices, "is_truth") == [True, False, False]


def test_what_was_asked_and_how_likely_choices_were_is_shown(tmp_path: Path) -> None:
    """The prompt as it was sent, what the call took, and the likeliest choice with its
    probability.
    """
    rows = [{"question": "q1", "answer": "B"}, {"question": "q2", "answer": "A"}]
    file = write_lines(tmp_path / "rows.jsonl", rows)
    messages = [{"role": "user", "content": "{{ sample.question }}"}]
    chat = {"type": "chat_completion", "input_messages": messages}
    solver = {"type": "single_turn_solver", "input_builder": chat}
    likely = {**SCORER, "type": "choice_probabilities", "choices": ["A", "B"]}
    words = {"key": "quiz", "display_name": "Quiz", "description": ""}
    (tmp_path / "task.yaml").write_text(
        json.dumps({**words, "definition": {"solver": solver, "scorers": [likely]}})
    )
    with TestServer(Reply("B", logprobs={"B": math.log(0.75), "A": math.log(0.25)})) as server:
        model = f"{server.url}?top_logprobs=5#m"
        run = ak.run(tmp_path / "task.yaml", dataset=file, model=model, out=tmp_path / "out")
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
    told = [[row[name] for name in ("predicted", "head", "flipped")] for row in table.list([0, 2])]
    assert told == [["A", "", None], [None, "", None]]
    assert table.find(Query(show="invalid")).to_list() == [2, 3, 4]
    assert table.find(Query(text="00002")).to_list() == [1]
    sample = table.describe(0)
    assert (sample["fields"], sample["question"], sample["where"]) == ([], None, None)
    assert pick(sample["choices"], "label") == ["A", "B", "C"]
    assert sample["completion"]["text"] is None
    assert "gone or has changed" in sample["missing"]
    assert "/" not in sample["missing"]


def test_completions_that_the_run_keeps_outlive_the_dataset(make_run: MakeRun) -> None:
    """With `--copy`, rows without their questions show what was said."""
    table = open_table(lose_dataset(make_run("kept", None, "--copy")))
    assert pick(table.list([0, 2]), "said") == [["", "A", "."], ["", "T", "he answer is C."]]
    assert table.describe(2)["completion"]["text"] == "The answer is C."
    assert table.find(Query(show="flipped")).to_list() == [2]


def test_long_texts_are_cut_and_say_so(make_run: MakeRun) -> None:
    """A field keeps its beginning, a completion its end, with the passage in its place."""
    long = [
        {"question": "q" * 30_000, "answer": "B", "completion": "x" * 100_000 + " The answer is B."}
    ]
    table = open_table(make_run(rows=long, scorers=[STATED]))
    sample = table.describe(0)
    assert sample["question"].endswith("[cut: the first 20,000 of 30,000 characters]")
    text = sample["completion"]["text"]
    assert len(text) < 60_100
    assert "[cut: the last 60,000 of 100,017 characters]" in text
    begin, end = sample["span"]
    assert text[begin:end].rstrip(".").endswith("B")
    assert len(table.list([0])[0]["head"]) == 160


def test_a_passage_is_found_again() -> None:
    """The same characters stand at its new place; short texts stay as they are."""
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(100_000))
    shown, offset = cut_reply(text)
    for begin in (40_000, 80_000, 99_990):
        assert str(shown)[begin + offset : begin + offset + 10] == text[begin : begin + 10]
    assert [cut_reply(short) for short in ("short", None)] == [("short", 0), (None, 0)]
