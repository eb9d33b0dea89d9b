"""An audit says what scoring again would say, however the rows are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import samples_from_frame, score_table

from answerkey.metrics import add_counts
from answerkey.reader import EXTRACTORS
from answerkey.scorers import StringEqualsMcqa, count_readings
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.rereading import list_passages, reread
from answerkey.types import RULE_NAMES, Completions, Samples

LETTERS = ["A", "B", "C", "D"]
SCORER = StringEqualsMcqa(
    ground_truth_choice="{{ sample.answer }}", choices=[*LETTERS], options="{{ sample.options }}"
)
PLAIN = "A B (C) D. answer is : the one two ** \\boxed{B} not or C)"
WORDS = st.sampled_from([*PLAIN.split(), "\n"])
TEXTS = st.one_of(st.none(), st.text(max_size=12), st.lists(WORDS, max_size=8).map(" ".join))
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from(LETTERS)), min_size=1, max_size=12)


def make_tables(rows: list[tuple[str | None, str]]) -> tuple[Samples, Completions]:
    """Return samples and completions of these texts and truths."""
    ids = pl.Series([str(number) for number in range(len(rows))], dtype=pl.String)
    options = [["one", "two", "three", "four"]] * len(rows)
    frame = pl.DataFrame({"answer": [truth for _, truth in rows], "options": options})
    samples = samples_from_frame(frame, ids)
    texts = pl.Series([text for text, _ in rows], dtype=pl.String)
    return samples, Completions.build_texts(ids, texts, source="recorded")


@given(rows=ROWS)
def test_a_rule_reads_what_scoring_by_it_reads(rows: list[tuple[str | None, str]]) -> None:
    """What the audit says of a rule is what a run with this `extraction` would predict."""
    samples, completions = make_tables(rows)
    scores = score_table(SCORER, samples, completions)
    result = reread(list_passages(SCORER, samples, completions, scores), RULE_NAMES, is_told=True)
    for name in RULE_NAMES:
        scored = score_table(replace(SCORER, extraction=name), samples, completions)
        assert result[name].to_list() == scored.columns["predicted_choice"].to_list()


@given(rows=ROWS, cut=st.integers(min_value=0, max_value=12))
def test_readings_of_parts_add_up(rows: list[tuple[str | None, str]], cut: int) -> None:
    """The short form of two parts is that of the whole."""
    samples, completions = make_tables(rows)
    scores = score_table(SCORER, samples, completions)
    whole = count_readings(SCORER, samples, completions, scores, range(len(rows)))
    sides = range(min(cut, len(rows))), range(cut, len(rows))
    parts = [count_readings(SCORER, samples, completions, scores, side) for side in sides]
    assert add_counts(parts) == whole


#: Characters that case, white space and patterns treat in their own ways, and words of cues.
TOKENS = (
    "A (B) C. **D** $A$ _B Z I İ ß é A\u0301 K ΑΣ 答案 选 。 ： : , . 1. => <answer> <a "
    "Antwort: one two. not my choice: ' # a Answer anſwer: boxed{A}"
)
AWKWARD = [
    *TOKENS.split(), "ANSWER :", "the answer is", "The correct answer is", "final answer is",
    "\n", "\r\n", "\t", "\x1c", "\x85", "\u2028", "-" * 70, " " * 80, "réponse :", "I hope",
    "> ",
]  # fmt: skip
JOINED = st.tuples(st.sampled_from(["", " "]), st.lists(st.sampled_from(AWKWARD), max_size=40)).map(
    lambda drawn: drawn[0].join(drawn[1])
)
LABELS = st.sampled_from(
    ["ABCD", "ABCDEFGHIJ", "1234", "abcd", ["é", "A", "ß"], ["A\u0301", "B"], "(.:", "Kkſs", "答选"]
)
OPTIONS = st.sampled_from(
    [None, [], ["one", "two", "(not)"], ["", "."], ["ΑΣ", "ß", "İ"], ["\x1cone", " my choice "]]
)


@given(
    rows=st.lists(st.tuples(st.none() | JOINED, LABELS, OPTIONS), min_size=1, max_size=8),
    is_told=st.booleans(),
)
def test_completions_are_reread_as_one_by_one(
    *, rows: list[tuple[str | None, Sequence[str], list[str] | None]], is_told: bool
) -> None:
    """What is read in distinct texts, with the options that may be in them, is what is read in each
    row.
    """
    texts = [text for text, _, _ in rows]
    choices = [tuple(labels) for _, labels, _ in rows]
    options = [None if option_texts is None else tuple(option_texts) for _, _, option_texts in rows]
    passages = list(zip(texts, choices, options, strict=True))
    for name, column in reread(passages, (*RULE_NAMES, *EXTRACTORS), is_told=is_told).items():
        for (text, labels, option_texts), label in zip(rows, column, strict=True):
            if text is None:
                assert label is None
            elif name in EXTRACTORS:
                assert label == EXTRACTORS[name].read(text, tuple(labels), option_texts)
            else:
                seen = option_texts if is_told else None
                assert label == find_rule(name).read(text, tuple(labels), seen).choice
