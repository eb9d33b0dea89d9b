"""Laws of the scorer `choice_probabilities`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame, score_table

from answerkey.scorers.choice_probabilities import (
    ChoiceProbabilities,
    judge_probabilities,
    read_label,
)
from answerkey.types import Completion, Completions, CompletionStatus, Score

CASES = read_cases(__file__)

CHOICES = ("A", "B", "C", "D")


def send(first: str, top: Mapping[str, float], *before: str) -> dict[str, object]:
    """Return chat log-probabilities: some opening tokens, then the answer's with probabilities of
    `top`.
    """
    opening = [{"token": text, "logprob": -0.1, "top_logprobs": []} for text in before]
    listed = [{"token": token, "logprob": math.log(share)} for token, share in top.items()]
    return {"content": [*opening, {"token": first, "logprob": -0.5, "top_logprobs": listed}]}


def judge(
    top: Mapping[str, float], truth: str = "A", text: str | None = "A", first: str = "A"
) -> Score:
    """Return the verdict on the alternatives of one token."""
    return judge_probabilities(
        send(first, {first: top.get(first, 1e-9), **top}), CHOICES, truth, text
    )


@pytest.mark.parametrize(
    "token", ["B", " B", "(B", "**B", "B.", " B)", '"B"', "\nB:", "（B）", "[B]"]
)
def test_marks_around_a_label_do_not_count(token: str) -> None:
    """A token stands for the choice that it holds."""
    assert read_label(token) == "B"


@pytest.mark.parametrize("token", ["Based", "BB", "b", "", " ", "The"])
def test_other_tokens_stand_for_no_choice(token: str) -> None:
    """Words that begin with a label, and other cases of it, are not the label."""
    assert read_label(token) not in CHOICES


def test_spellings_of_a_choice_add_up() -> None:
    """`B` and ` B` are the same answer."""
    result = judge({"A": 0.3, "B": 0.25, " B": 0.2, "The": 0.1})
    assert result.metadata["predicted_choice"] == "B"
    assert result.values["choice_mass"] == pytest.approx(0.75)
    assert result.metadata["probabilities"] == [pytest.approx(0.4), pytest.approx(0.6), None, None]


LONG_THOUGHT = ("<think>", *("hm " for _ in range(200)), "</think>")


@pytest.mark.parametrize("before", [*CASES["thoughts"], LONG_THOUGHT, ("\n", "(", "**")])
def test_probabilities_are_read_where_the_answer_begins(before: tuple[str, ...]) -> None:
    """The first token of the answer counts, not that of a thought, nor that of JSON or marks around
    a choice.
    """
    sent = send("B", {"B": 0.99, "A": 0.01}, *before)
    result = judge_probabilities(sent, CHOICES, "B", "B")
    assert (result.metadata["predicted_choice"], result.metadata["answer_token"]) == ("B", "B")
    assert result.values["truth_probability"] == pytest.approx(0.99)
    assert result.values["is_correct"] == 1.0


def test_thoughts_without_an_answer_have_no_answer_token() -> None:
    """What is cut off within its thoughts names no choice."""
    thinking = judge_probabilities(send("A", {"A": 0.9}, "<think>"), CHOICES, "A")
    assert thinking.reason == "NO_ANSWER_TOKEN"


def test_values_are_those_of_their_definitions() -> None:
    """Probabilities are given that one of the choices is the answer."""
    assert judge({"A": 0.5, "B": 0.25, "C": 0.15, "D": 0.1}, truth="B", text="A").values == {
        "is_correct": 0.0,
        "confidence": pytest.approx(0.5),
        "truth_probability": pytest.approx(0.25),
        "nll": pytest.approx(-math.log(0.25)),
        "brier": pytest.approx(0.5**2 + 0.75**2 + 0.15**2 + 0.1**2),
        "choice_mass": pytest.approx(1.0),
        "text_mismatch": 0.0,
        "is_partial": 0.0,
    }


def test_the_text_may_say_something_else() -> None:
    """That is a mismatch; a text that names no choice says nothing."""
    top = {"A": 0.6, "B": 0.4}
    assert judge(top, text="B").values["text_mismatch"] == 1.0
    assert judge(top, text=None).values["text_mismatch"] is None


def test_a_truth_outside_the_alternatives_has_no_known_probability() -> None:
    """Its NLL is null, not a made-up number; the answer is wrong all the same."""
    result = judge({"A": 0.6, "B": 0.4}, truth="D")
    assert (result.values["truth_probability"], result.values["nll"]) == (None, None)
    assert (result.values["is_correct"], result.values["is_partial"]) == (0.0, 1.0)
    assert result.metadata["choices_outside"] == 2


def test_equally_likely_choices_are_right_to_their_part() -> None:
    """None of them is predicted: the first one is not favoured."""
    result = judge({"A": 0.3, "B": 0.3, "C": 0.1}, truth="B")
    assert (result.values["is_correct"], result.metadata["predicted_choice"]) == (0.5, None)


@pytest.mark.parametrize(("logprobs", "reason"), CASES["reasons"])
def test_a_row_without_probabilities_is_failed_with_why(logprobs: object, reason: str) -> None:
    """It is never wrong, and never guessed."""
    result = judge_probabilities(logprobs, CHOICES, "A")
    assert (result.status, result.reason, dict(result.values)) == ("FAILED", reason, {})


@pytest.mark.parametrize("length", [0, -1, 1.0, "2", None, 1 << 63, 10**400])
def test_a_continuation_without_a_length_cannot_be_divided_by_it(length: object) -> None:
    """Neither can one whose length no continuation has."""
    ranking = [{"logprob": -1.0, "tokens": length}, {"logprob": -2.0, "tokens": 1}]
    score = judge_probabilities({"ranking": ranking}, "AB", "A", normalise="tokens")
    assert score.reason == "NO_LOGPROBS"


@pytest.mark.parametrize(("normalise", "best"), [("none", "A"), ("tokens", "B"), ("bytes", "C")])
def test_ranked_continuations_may_be_divided_by_their_length(normalise: str, best: str) -> None:
    """By tokens or by bytes; without that the shortest is at an advantage."""
    counted = ((-2.0, 1, 2), (-3.0, 4, 3), (-4.0, 2, 90))
    ranking = [{"logprob": total, "tokens": n, "bytes": size} for total, n, size in counted]
    result = judge_probabilities({"ranking": ranking}, "ABC", "A", normalise=normalise)  # type: ignore[arg-type]  # a literal
    assert result.metadata["predicted_choice"] == best


def test_the_column_form_says_the_same_row_by_row() -> None:
    """A failed call stays an error, and a bad row keeps its own reason."""
    logprobs = [send("A", {"A": 0.7, "B": 0.3}), None, send("B", {"B": 0.6, "C": 0.4}), None]
    statuses = [
        CompletionStatus.OK,
        CompletionStatus.OK,
        CompletionStatus.OK,
        CompletionStatus.ERROR,
    ]
    completions = [
        Completion(None if status is CompletionStatus.ERROR else "A", status, logprobs=entry)
        for entry, status in zip(logprobs, statuses, strict=True)
    ]
    frame = pl.DataFrame({"answer": ["A", "A", "E", "A"]})
    ids = pl.Series(["1", "2", "3", "4"])
    scorer = ChoiceProbabilities("{{ sample.answer }}", list(CHOICES))
    replies = Completions.build(ids, completions, source="live")
    rows = list(score_table(scorer, samples_from_frame(frame, ids), replies).rows())
    assert [row.status.value for row in rows] == ["SCORED", "FAILED", "FAILED", "ERROR"]
    assert [row.reason for row in rows] == [None, "NO_LOGPROBS", "BAD_TRUTH", "CALL_FAILED"]
    alone = judge_probabilities(json.loads(json.dumps(logprobs[0])), CHOICES, "A", "A")
    assert (rows[0].values, rows[0].metadata) == (alone.values, alone.metadata)


def test_rows_and_fields_are_those_of_the_text_scorer() -> None:
    """Choices, truth and options are read and checked as `string_equals_mcqa` does."""
    scorer = ChoiceProbabilities("{{ sample.answer }}", list(CHOICES), extraction="first_charakter")
    templates, errors = scorer.compiled
    assert sorted(templates) == ["choices", "ground_truth_choice"]
    assert [field for field, _ in errors] == ["extraction"]
    frame = pl.DataFrame({"answer": ["B", "E"], "options": [["w", "x", "y", "z"]] * 2})
    samples = samples_from_frame(frame)
    plain = ChoiceProbabilities("{{ sample.answer }}", list(CHOICES))
    problems, notices = plain.check_rows(samples)
    assert [(problem.position, problem.reason) for problem in problems] == [(1, "BAD_TRUTH")]
    assert notices == []
    facts = plain.sample_facts(samples)
    assert (facts.choices, facts.truths[0]) == ([CHOICES] * 2, "B")
    assert facts.options == [("w", "x", "y", "z")] * 2


def test_choices_outside_the_alternatives_are_counted() -> None:
    """One of four was sent; the answer's own token is told."""
    result = judge({"A": 0.5, "The": 0.2})
    assert result.metadata["choices_outside"] == 3
    assert (result.values["is_partial"], result.metadata["answer_token"]) == (1.0, "A")


def test_the_answer_is_looked_for_behind_eight_opening_tokens() -> None:
    """Not behind more."""
    for count, expected in ((8, None), (9, "NO_ANSWER_TOKEN")):
        result = judge_probabilities(send("A", {"A": 0.5}, *["**"] * count), CHOICES, "A")
        assert result.reason == expected


def test_no_mass_is_more_than_all() -> None:
    """Rounding of what the endpoint sends may add up to a little more."""
    assert judge({"A": 0.7, "B": 0.31}).values["choice_mass"] == 1.0
