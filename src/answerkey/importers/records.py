"""What a log becomes: records of what was asked, said and judged, and what it says of itself as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from answerkey.types import Completion


@dataclass(frozen=True, slots=True)
class Verdict:
    """The other tool's verdict: 1 for right, 0 for wrong, None where it gave none; and what it extracted."""

    value: float | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
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
class Record:
    """What was asked, what the model said to it, and how that was judged.

    A log in two files yields records that only ask and records that only answer; they belong together by
    `sample_id`. Trials are told apart by any numbers that ascend. `logprobs` of a completion are of the
    forms that the scorer `choice_probabilities` reads.
    """

    sample_id: str
    question: Question | None = None
    completion: Completion | None = None
    verdict: Verdict = Verdict()
    trial: int = 0


@dataclass(frozen=True)
class ImportOptions:
    """What the caller says beside the path.

    `score` is one of several scores of the log. `dataset` is a file with what was asked, where the log has
    not got it. `columns` says which column of a plain file is what (`completion` → `my_output`).
    """

    score: str | None = None
    dataset: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class LogDescription:
    """What a log says of itself as a whole.

    `score` is the name of the imported verdict. `reported` are numbers that the tool itself gives for all
    samples, `expected` how many samples it was to have. With `last_wins` a sample that is there twice was
    written anew.
    """

    task: str | None = None
    model: str | None = None
    score: str | None = None
    reported: dict[str, float] = field(default_factory=dict)
    expected: int | None = None
    last_wins: bool = False
