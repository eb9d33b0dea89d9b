"""An audit says what scoring again would say, however the rows are cut."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from answerkey.datasets.questions import QuestionColumns
from answerkey.datasets.tables import load_rows
from answerkey.metrics.base import merge_parts
from answerkey.run_audit.audit import merge_audit_parts
from answerkey.scorers import StringEqualsMcqa, count_readings
from answerkey.scorers.mcqa import list_passages, reread
from answerkey.types import RULE_NAMES, Completions, Samples

LETTERS = ["A", "B", "C", "D"]
SCORER = StringEqualsMcqa(
    ground_truth_choice="{{ sample.answer }}", choices=[*LETTERS], options="{{ sample.options }}"
)
WORDS = st.sampled_from(
    [
        "A",
        "B",
        "(C)",
        "D.",
        "answer",
        "is",
        ":",
        "the",
        "one",
        "two",
        "\n",
        "**",
        "\\boxed{B}",
        "not",
        "or",
        "C)",
    ]
)
TEXTS = st.one_of(st.none(), st.text(max_size=12), st.lists(WORDS, max_size=8).map(" ".join))
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from(LETTERS)), min_size=1, max_size=12)


def make_tables(rows: list[tuple[str | None, str]]) -> tuple[Samples, Completions]:
    """Return samples and completions of these texts and truths."""
    ids = pl.Series([str(number) for number in range(len(rows))], dtype=pl.String)
    options = [["one", "two", "three", "four"]] * len(rows)
    samples = Samples(pl.DataFrame({"answer": [truth for _, truth in rows], "options": options}), ids)
    texts = pl.Series([text for text, _ in rows], dtype=pl.String)
    return samples, Completions.build_texts(ids, texts, source="recorded")


@given(rows=ROWS)
def test_a_rule_reads_what_scoring_by_it_reads(rows: list[tuple[str | None, str]]) -> None:
    """What the audit says of a rule is what a run with this `extraction` would predict."""
    samples, completions = make_tables(rows)
    passages = list_passages(SCORER, samples, completions, SCORER.score(samples, completions))
    found = reread(passages, RULE_NAMES)
    for name in RULE_NAMES:
        scored = replace(SCORER, extraction=name).score(samples, completions).column("predicted_choice")
        assert scored is not None
        assert found[name].to_list() == scored.to_list()


@given(rows=ROWS, cut=st.integers(min_value=0, max_value=12))
def test_readings_of_parts_add_up(rows: list[tuple[str | None, str]], cut: int) -> None:
    """The short form of two parts is that of the whole."""
    samples, completions = make_tables(rows)
    scores = SCORER.score(samples, completions)
    whole = count_readings(SCORER, samples, completions, scores, range(len(rows)))
    parts = [
        count_readings(
            SCORER, samples, completions, scores, [row for row in range(len(rows)) if (row < cut) is side]
        )
        for side in (True, False)
    ]
    assert merge_parts(parts) == whole


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=6), st.integers(0, 6))
def test_parts_merge_in_any_grouping(parts: list[dict[str, int]], cut: int) -> None:
    """Merging some parts first changes nothing."""
    grouped = [merge_audit_parts(parts[:cut]), merge_audit_parts(parts[cut:])]
    assert merge_audit_parts(grouped) == merge_audit_parts(parts)


CELLS = st.sampled_from(["A", "b", "(B)", "C. ", "A) one", "B) two", "one", "ONE", " two", "", "3"])
ROWS = st.tuples(
    st.one_of(st.none(), st.lists(CELLS, max_size=4)),
    st.one_of(st.none(), st.lists(CELLS, max_size=4)),
    st.one_of(st.none(), CELLS),
)


@given(
    rows=st.lists(ROWS, min_size=1, max_size=6),
    form=st.sampled_from(["label", "text", "0"]),
    has_choices=st.booleans(),
)
def test_a_question_is_read_as_it_is_alone(
    rows: list[tuple[list[str] | None, list[str] | None, str | None]], *, form: str, has_choices: bool
) -> None:
    """Whether all truths are written as their options, or only some, changes nothing for a row."""
    lists = pl.List(pl.String)
    table = pl.DataFrame(
        {"options": [one for one, _, _ in rows], "choices": [one for _, one, _ in rows]},
        schema={"options": lists, "choices": lists},
    ).with_columns(pl.Series("truth", [one for _, _, one in rows], pl.String))
    roles = ("options", "truth", *(["choices"] if has_choices else []))
    columns = QuestionColumns({role: role for role in roles}, form=form)
    samples = load_rows(table.with_columns(question=pl.lit("?")), name="samples").rows.load()
    alone = [columns.derive(samples.slice(row, 1)).frame for row in range(len(rows))]
    assert columns.derive(samples).frame.rows() == pl.concat(alone).rows()
