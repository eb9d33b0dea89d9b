"""Rows of lm-eval's logs that are read as columns: the same records as row by row, error for error."""

from __future__ import annotations

import json
import os
import random
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

from answerkey.datasets import blocks
from answerkey.importers import harnesses, logs
from answerkey.importers.logs import ImportOptions, Log
from answerkey.importers.project import RecordStore, _fill, _SeveralRight

SEEDS = 2_000 if os.environ.get("ANSWERKEY_LONG") else 28
#: The first line is broken, and the caller names the metric.
KEPT = 1341
NAME = "samples_made_2026-11-16T00-12-21.468220.jsonl"
TEXTS = (
    "the river",
    "A",
    "é 里",
    'say "x"',
    "a\nb",
    "C:\\n",
    "[1, 2]",
    "(B) two",
    "",
    " x ",
    "\u2028",
    "42",
    "/",
)
SAID = ("A", "B.", "(C)", "The answer is A", "[invalid]", "", "x\ny", 'a","b', "\ud800", "the river")
#: What is put in place of a value, somewhere in a row.
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e30,
    "",
    "x",
    "[",
    [],
    {},
    ["A"],
    [["A"]],
    {"0": ["A"]},
    "A,B",
)


def write_row(choice: random.Random, number: int, form: str) -> dict[str, Any]:
    """Return a sample as lm-eval writes it; `form` says how its question states its options."""
    texts = [f"option {number} {one}" for one in "abcd"]
    texts = choice.choice((texts, texts, texts, texts, choice.sample(TEXTS, 4), list("ABCD")))
    label = choice.choice("ABCD")
    shown = choice.choice((*[texts] * 8, texts[::-1], ["one", "two", "three", "four"]))
    lines = [f"{one}) {text}" for one, text in zip("ABCD", shown, strict=True)]
    question = choice.choice(
        ("What lies there?",) * 6 + ("What\nlies?", "\n".join(["What?", *lines]), "(1) what?")
    )
    stated = choice.choice(("usual",) * 8 + ("['one', 'two']",))
    docs = {
        "listed": {"question": question, "options": texts, "answer": label},
        "lettered": {"question": question, "options": lines, "answer": label},
        "shown": {"question": question, "answers": stated, "subject": "law", "answer": label},
        "indexed": {"question": question, "choices": texts, "answer": "ABCD".index(label), "note": None},
    }
    said = choice.choice(SAID)
    asked = {"arg_0": "\n".join([question, *lines, "Answer:"]), "arg_1": {"until": ["\n"], "n": 1}}
    return {
        "doc_id": number,
        "doc": docs[form],
        "target": choice.choice((label,) * 12 + (f"{label}, D", f"{label},D", '["B"]', texts[1])),
        "arguments": {"gen_args_0": asked},
        "resps": [[said]],
        "filtered_resps": [said],
        "filter": "none",
        "exact_match": choice.choice((0.0, 1.0)),
    }


def spoil(choice: random.Random, row: dict[str, Any]) -> None:
    """Replace, remove or add a value somewhere in a row."""
    inside = [row, row["doc"], row["arguments"]["gen_args_0"]]
    place = choice.choice(inside)
    key = choice.choice(list(place))
    change = choice.randrange(4)
    if change == 0:
        del place[key]
    elif change == 1:
        place["more"] = choice.choice(ODD)
    elif change == 2:
        row["resps"] = [[choice.choice(SAID), "B"]]
    else:
        place[key] = choice.choice(ODD)


def write_log(choice: random.Random) -> bytes:
    """Return lines that are nearly alike, some of which are odd or broken."""
    marks = choice.choice(((",", ":"), (", ", ": ")))
    dump = partial(json.dumps, ensure_ascii=choice.random() < 0.2, separators=marks)
    form = choice.choice(("listed", "lettered", "shown", "indexed"))
    rows = [write_row(choice, number, form) for number in range(choice.randint(1, 30))]
    for row in choice.sample(rows, min(len(rows), choice.choice((0, 0, 1, 3)))):
        spoil(choice, row)
    lines = [dump(row).encode("utf-8", "replace") for row in rows]
    if choice.random() < 0.3:
        at = choice.randrange(len(lines))
        lines[at] = choice.choice((b"", b"{", lines[at][:-9], lines[at] * 2, b"\xff" + lines[at], b"[1]"))
    return b"\n".join(lines) + choice.choice((b"\n", b""))


def read(path: Path, folder: Path, score: str | None) -> tuple[object, ...]:
    """Return the records of a log, and what was said of it."""
    folder.mkdir()
    log = Log(path, ImportOptions(score=score))
    with closing(RecordStore(folder)) as store:
        read = _fill(
            store,
            _SeveralRight(log, is_allowed=True).leave_out(harnesses.LmEvalReader().read(log)),
            log,
            0,
            None,
        )
        frame = pl.concat([pl.read_parquet(one) for one in sorted(folder.glob("*.parquet"))])
        said = [(one.message, str(one.where)) for one in log.errors.errors]
        counted = (dict(store.counts), dict(store.statuses), store.truths, store.right)
    return (
        frame.schema,
        frame.rows(),
        said,
        log.seen,
        log.broken,
        read,
        str(log.notices),
        counted,
        log.description,
    )


@pytest.mark.parametrize("part", range(4))
def test_rows_read_as_columns_are_what_they_are_one_by_one(part: int, tmp_path: Path) -> None:
    """A log has the same records, errors and notices whether its rows are taken in blocks or one by one."""
    taken = []

    def note(raw: bytes) -> object:
        taken.append(blocks.split_leaves(raw) is not None)
        return blocks.split_leaves(raw)

    for seed in {*range(part, SEEDS, 4), KEPT}:
        choice = random.Random(seed)
        path, score = tmp_path / NAME, choice.choice((None, None, "exact_match", "exact_match,none", "acc"))
        path.write_bytes(write_log(choice))
        with patch.object(logs, "BLOCK_BYTES", choice.choice((900, 4_000, 2**21))):
            with patch.object(harnesses, "split_leaves", note):
                found = read(path, tmp_path / f"{seed}-blocks", score)
            with patch.object(harnesses, "split_leaves", lambda _: None):
                assert found == read(path, tmp_path / f"{seed}-rows", score), seed
    assert sum(taken) > len(taken) / 4
