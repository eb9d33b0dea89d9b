"""One line of another tool's log in our words; what every reader yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from answerkey.types import Completion


@dataclass(frozen=True, slots=True)
class Theirs:
    """The tool's own verdict: 1 for right, 0 for wrong, None where it gave none; and what it read."""

    value: float | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked. `choices` are labels of one character, `options` their texts in the same order.

    `truth` is a label where one can be told, else what the log says. `original` is the row as the tool had
    it, for whoever wants more of it.
    """

    question: str | None = None
    choices: tuple[str, ...] | None = None
    options: tuple[str, ...] | None = None
    truth: str | None = None
    category: str | None = None
    original: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """What was asked, what the model said to it, and how that was judged.

    A log in two files yields lines that only ask and lines that only answer; they belong together by
    `sample_id`. Trials are told apart by any numbers that ascend. `logprobs` of a completion are of the
    forms that the scorer `choice_probabilities` reads.
    """

    sample_id: str
    asked: Asked | None = None
    completion: Completion | None = None
    theirs: Theirs = Theirs()
    trial: int = 0
