from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from answerkey.scorers import StringEquals, StringEqualsMcqa
from answerkey.scorers.lenses import LENSES
from answerkey.scorers.rereading import (
    MOST_SPOTS,
    RULE_NAMES,
    Passages,
    choose_spots,
    count_readings,
    list_passages,
    list_readers,
    pick_spots,
    reread,
)
from answerkey.types import Completions, Samples

LETTERS = ("A", "B", "C", "D")
SCORER = StringEqualsMcqa(ground_truth_choice="{{ sample.answer }}", choices=list(LETTERS))
TEXTS = ["B", "Answer: B", " C", "(D)", None, "A or B"]


def make_tables(texts: list[str | None], answers: list[str]) -> tuple[Samples, Completions]:
    """Return samples with these truths, and their completions."""
    ids = pl.Series([str(number) for number in range(len(texts))], dtype=pl.String)
    options = [["one", "two", "three", "four"]] * len(texts)
    samples = Samples(pl.DataFrame({"answer": answers, "options": options}), ids)
    return samples, Completions.build_texts(ids, pl.Series(texts, dtype=pl.String), source="recorded")


def test_readers_are_the_rules_and_the_lenses() -> None:
    """Every rule without a pattern and every lens is a reader, the rules first."""
    assert [reader.name for reader in list_readers()] == [*RULE_NAMES, *LENSES]
    assert [reader.name for reader in list_readers(lenses=False)] == list(RULE_NAMES)


def test_each_reader_reads_each_text() -> None:
    """Readings come back in the order of the texts; where there is no text, nothing is read."""
    passages = Passages(["B", None, "Answer: C", "B"], [LETTERS] * 4, [None] * 4)
    found = reread(passages, list_readers())
    assert found["first_character"].to_list() == ["B", None, None, "B"]
    assert found["first_character_literal"].to_list() == ["B", None, "A", "B"]
    assert found["stated_answer"].to_list() == ["B", None, "C", "B"]
    assert found["deepeval"].to_list() == ["B", None, None, "B"]


def test_only_lenses_see_options_that_the_scorer_does_not_give() -> None:
    """A rule reads what a rescore would read; a lens uses whatever is known."""
    text = "It must be Canberra."
    options = [("Sydney", "Canberra", "Perth", "Hobart")]
    hidden = Passages([text], [LETTERS], options)
    told = Passages([text], [LETTERS], options, is_told=True)
    assert reread(hidden, list_readers())["lm-eval"].to_list() == ["B"]
    assert reread(hidden, list_readers())["stated_answer"].to_list() == [None]
    assert reread(told, list_readers())["stated_answer"].to_list() == ["B"]


def test_passages_of_a_scorer_have_its_choices_and_options() -> None:
    """Choices are those of the scores; texts of refusals are not read."""
    samples, completions = make_tables(TEXTS, list("BBCDAA"))
    passages = list_passages(SCORER, samples, completions, SCORER.score(samples, completions))
    assert passages.texts == TEXTS
    assert passages.choices == [LETTERS] * 6
    assert passages.options == [("one", "two", "three", "four")] * 6
    assert not passages.is_told


def test_counts_are_of_the_rows_asked_for() -> None:
    """Each rule has how many it reads rightly and how many not at all, the run's own among them."""
    samples, completions = make_tables(TEXTS, list("BBCDAA"))
    scores = SCORER.score(samples, completions)
    found = count_readings(SCORER, samples, completions, scores, range(6))
    assert found["n"] == 6
    assert found["own_rule"] == {"first_character": 6}
    assert found["rules"]["own"] == {"correct": 2, "invalid": 4}
    assert found["rules"]["stated_answer"] == {"correct": 4, "invalid": 2}
    assert count_readings(SCORER, samples, completions, scores, [0])["rules"]["own"]["correct"] == 1


def test_other_scorers_have_no_readings() -> None:
    """A scorer that reads no choices is not compared with rules."""
    samples, completions = make_tables(["x"], ["A"])
    scores = SCORER.score(samples, completions)
    assert count_readings(StringEquals("x"), samples, completions, scores, [0]) == {}


@pytest.mark.parametrize("count", [0, 1, MOST_SPOTS, MOST_SPOTS + 1, 1_000_000])
def test_spots_depend_on_the_count_alone(count: int) -> None:
    """There are at most 1,000 spots, in order and each once; all rows where there are no more."""
    spots = choose_spots(count)
    assert spots == choose_spots(count)
    assert len(spots) == min(count, MOST_SPOTS)
    assert list(spots) == sorted(set(spots))
    assert all(0 <= spot < count for spot in spots)


def test_spots_of_a_stretch_are_its_rows() -> None:
    """However samples are cut, each spot is picked once, with all its trials."""
    spots = (0, 3, 4, 9)
    assert pick_spots(spots, range(3, 6), 1) == [0, 1]
    assert pick_spots(spots, range(3, 10), 2) == [0, 1, 2, 3, 12, 13]
    assert pick_spots(spots, range(5, 9), 3) == []


def test_rules_that_give_the_verdict_of_others_are_counted_where_verdicts_differ() -> None:
    """Of the completions that another tool judged otherwise than the run."""
    samples, said = make_tables(TEXTS, ["B", "B", "C", "D", "A", "A"])
    theirs = pl.Series("their_score", [1.0, 1.0, None, 1.0, 0.0, 0.5])
    judged = Completions(said.frame.with_columns(theirs))
    scores = SCORER.score(samples, judged)
    found = count_readings(SCORER, samples, judged, scores, range(6))["theirs"]
    assert found["n"] == 2
    assert (found["readers"]["stated_answer"], found["readers"]["first_character"]) == (2, 0)
    assert set(found["readers"]) == {*RULE_NAMES, *LENSES}
    assert "theirs" not in count_readings(SCORER, samples, said, scores, range(6))


def test_passages_without_options_have_none() -> None:
    """Where neither the scorer nor the dataset has the texts, lenses see labels alone."""
    samples, completions = make_tables(["B"], ["B"])
    bare = samples.select(["answer"])
    passages = list_passages(SCORER, bare, completions, SCORER.score(bare, completions))
    assert passages.options == [None]


def test_rows_kept_out_of_the_metrics_are_passed_over() -> None:
    """Neither a row without a score nor one that a rule keeps out is counted."""
    samples, completions = make_tables(TEXTS, list("BBCDAA"))
    scores = SCORER.score(samples, completions)
    kept_out = pl.Series("excluded_by", [None, "rule", None, None, None, None], dtype=pl.String)
    found = count_readings(
        SCORER, samples, completions, replace(scores, frame=scores.frame.with_columns(kept_out)), range(6)
    )
    assert (found["n"], found["samples"]) == (5, 5)
    assert count_readings(SCORER, samples, completions, scores, range(6))["n"] == 6
