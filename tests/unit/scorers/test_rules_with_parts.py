from __future__ import annotations

import polars as pl

from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.scorers.extraction import RULES, find_rule, find_schema
from answerkey.types import Completion, Completions, CompletionStatus, Samples

CHOICES = ("A", "B")


def test_every_rule_keeps_its_schema() -> None:
    """The columns of the readings do not depend on the texts, not even on whether there is one."""
    for rule in (*RULES.values(), find_rule({"pattern": "(.)"})):
        for texts in ([], ["A"], ["", "x"]):
            table = rule.read_all(pl.Series(texts, dtype=pl.String), CHOICES)
            assert dict(table.schema) == find_schema(rule)
            assert table.height == len(texts)


def test_options_of_each_row_reach_the_rule() -> None:
    """The same text is read with the options of its own row; a lone label is read without them."""
    texts = pl.Series(["The answer is Rome.", "The answer is Rome.", "B", "B", "Rome"])
    options = pl.Series(
        [["Paris", "Rome"], ["Rome", "Oslo"], ["x", "y"], None, None], dtype=pl.List(pl.String)
    )
    table = find_rule("stated_answer").read_all(texts, CHOICES, options)
    assert table["choice"].to_list() == ["B", "A", "B", "B", None]


def build(options: str | None) -> tuple[StringEqualsMcqa, Samples, Completions]:
    """Return a scorer, rows with different choices, and completions of every kind."""
    rows = [
        {"truth": "B", "choices": ["A", "B"], "texts": ["Paris", "Rome"]},
        {"truth": "C", "choices": ["A", "B", "C"], "texts": ["x", "y", "z"]},
        {"truth": "A", "choices": ["A", "B"], "texts": ["Rome", "Oslo"]},
        {"truth": "A", "choices": ["A", "B"], "texts": None},
        {"truth": "Z", "choices": ["A", "B"], "texts": None},
    ]
    samples = Samples(pl.DataFrame(rows), pl.Series([str(number) for number in range(len(rows))]))
    said = [
        Completion("The answer is Rome."),
        Completion("Answer: C"),
        Completion("The answer is Rome."),
        Completion(None, CompletionStatus.REFUSED),
        Completion("A"),
    ]
    scorer = StringEqualsMcqa(
        "{{ sample.truth }}", "{{ sample.choices }}", extraction="stated_answer", options=options
    )
    return scorer, samples, Completions.build(samples.ids, said, source="recorded")


def test_scorer_tells_the_rule_what_its_field_gives() -> None:
    """With `options` a text counts; without it the column of that name does not."""
    scorer, samples, completions = build("{{ sample.texts }}")
    told = list(scorer.score(samples, completions).rows())
    assert [one.metadata["predicted_choice"] for one in told] == ["B", "C", "A", None, None]
    assert [one.metadata["validity_reason"] for one in told] == [None, None, None, "REFUSED", None]
    assert [one.metadata["answer_span"] for one in told] == [[4, 18], [0, 9], [4, 18], None, None]
    scorer, samples, completions = build(None)
    untold = list(scorer.score(samples, completions).rows())
    assert [one.metadata["predicted_choice"] for one in untold] == [None, "C", None, None, None]


def test_judge_takes_the_same_options() -> None:
    """One completion is judged as in a column."""
    score = judge("The answer is Rome.", ["A", "B"], "B", "stated_answer", ["Paris", "Rome"])
    assert score.values == {"is_correct": 1.0}
