"""What a model is asked, and what is known of the samples before it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """What a model is asked for one sample; choices, options and truth are for built-in models only.

    A model that draws draws anew for each `trial`.
    """

    sample_id: str
    messages: Sequence[Mapping[str, object]]
    choices: Sequence[str] | None = None
    options: Sequence[str] | None = None
    truth: str | None = None
    text: str = ""
    trial: int = 0


@dataclass(frozen=True)
class Known:
    """What a scorer knows of each sample before a model is asked; lists as long as the samples."""

    choices: Sequence[Sequence[str] | None]
    truths: Sequence[str | None]
    options: Sequence[Sequence[str] | None]
