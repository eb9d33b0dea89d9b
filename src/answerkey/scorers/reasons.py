"""Why a completion is INVALID: the reasons, in the order in which they are tried, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from answerkey.scorers.characters import LONGEST_CHARACTER, WHITE_SPACE, compose, measure_character
from answerkey.scorers.choices import show
from answerkey.scorers.parts import explain_parts
from answerkey.types import Completion, Score, ScoreStatus


@dataclass(frozen=True)
class Reason:
    """One reason: when it applies, and the sentence for one completion (`{c}` its first character)."""

    name: str
    when: str
    why: str


REASONS: dict[str, Reason] = {
    reason.name: reason
    for reason in (
        Reason(
            "REFUSED",
            "the provider marked the message as a refusal",
            "the provider marked the reply as a refusal, which answers nothing",
        ),
        Reason(
            "NO_TEXT",
            "there is a reply but no text in it: null content, only tool calls",
            "there is a reply, but no text in it",
        ),
        Reason(
            "EMPTY",
            "the text is empty or only white space",
            "the text is empty or only white space",
        ),
        Reason(
            "NOT_A_CHOICE",
            "the first character is not one of the choices",
            "the first character, {c!r}, is not one of the choices {choices}",
        ),
        Reason(
            "SEVERAL_CHOICES",
            "the first character is joined, on its line, to another choice",
            "the completion begins with {c!r} joined to another of the choices {choices}",
        ),
        Reason(
            "PART_OF_A_WORD",
            "the first character is the beginning of a longer word or number",
            "{c!r} is only the beginning of a longer word or number",
        ),
        Reason(
            "RUNS_INTO_TEXT",
            "the first character is followed, on its line, by a word other than `is`, `because`, `since`",
            "{c!r} runs into the words after it: nothing sets it off",
        ),
        Reason(
            "ECHOES_CHOICES",
            "the completion lists the choices again, from the first one on",
            "the completion begins with {c!r} and then lists the other choices alike: it repeats the options",
        ),
    )
}

#: Why a row is FAILED: the dataset's fault, not the model's.
FAULTS = {
    "BAD_TRUTH": "the ground truth of this row is not one single character out of its choices",
    "BAD_CHOICES": "the choices of this row are not a list of distinct single characters",
    "TEMPLATE_FAILED": "a template of the scorer could not be rendered on this row",
}


def explain_verdict(completion: str | Completion | None, choices: Sequence[str], score: Score) -> str:
    """Return, in one sentence, why `judge` decided so."""
    if score.status is ScoreStatus.FAILED:
        return f"FAILED: {FAULTS.get(str(score.reason), score.reason)}"
    if score.status is ScoreStatus.ERROR:
        return "ERROR: the call failed, so there is nothing to judge"
    text = (completion.text if isinstance(completion, Completion) else completion) or ""
    by_part = explain_parts(text, choices, score.metadata) if "answer_span" in score.metadata else None
    if by_part is not None:
        return by_part
    predicted, truth = score.metadata["predicted_choice"], score.metadata["ground_truth_choice"]
    if predicted is not None:
        relation = "is" if predicted == truth else "is not"
        return f"VALID: the completion begins with {predicted!r}, which {relation} the ground truth {truth!r}"
    first = _find_first(text, is_literal=score.metadata["extraction_rule"] == "first_character_literal")
    why = REASONS[str(score.metadata["validity_reason"])].why
    return f"INVALID: {why.format(c=first, choices=show(list(choices)))}"


def _find_first(text: str, *, is_literal: bool) -> str:
    if is_literal:
        return text[:1]
    text = text.lstrip(WHITE_SPACE)
    return compose(text[: min(measure_character(text), LONGEST_CHARACTER)])
