"""Lenses that look at the text as a whole, or at its two ends."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.scorers.lenses.lens import Lens


def _look_up(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - a lens
    label = text.strip()
    return label if label in choices else None


def _compare(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - a lens
    return text if text in choices else None


def _look_at_start(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    return next((label for label in choices if text.startswith(label)), None)


def _look_at_ends(text: str, choices: Sequence[str], options: Sequence[str]) -> str | None:  # noqa: ARG001 - same
    """Return a capital that stands alone at the start, else at the end, offered or not."""
    bare = text.strip()
    if bare[:1].isupper() and (len(bare) == 1 or bare[1].isspace()):
        return bare[0]
    if bare[-1:].isupper() and bare[-2:-1].isspace():
        return bare[-1]
    return None


HELM = Lens(
    "HELM",
    "the whole text, without white space around it, must be the label",
    _look_up,
)
DEEPEVAL = Lens("deepeval", "the whole text must be the label, character by character", _compare)
OPENAI_EVALS = Lens("openai/evals", "the text must start with a label, whatever follows it", _look_at_start)
COMPL_AI = Lens(
    "compl-ai",
    "a capital at the start before a blank or the end, else a capital at the end after a blank; it need not"
    " be an offered label",
    _look_at_ends,
)
