"""The baselines: models that answer from the sample's own choices, at no cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.models.draws import Draws
from answerkey.models.parameters import Parameter
from answerkey.types import Completion, Question

#: Scripts that put no spaces between words (Thai, Kana, Han): one character stands for a word.
UNSPACED = r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]"
WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+")
SEED = Parameter(0, "another seed, other draws", minimum=0)

TIE_SEED = 0

OPTIONS_HINT = (
    "give the scorer a field `options` (a template that yields the texts of the choices, in their order), "
    "or the dataset a column `options`"
)


@dataclass(frozen=True)
class ConstantModel:
    """Answers every question alike."""

    name: str
    choice: str
    is_simulated: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    parameters: ClassVar[dict[str, Parameter]] = {"choice": Parameter("A", "the text of every completion")}

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return the same completion for each question."""
        return [Completion(self.choice, finish_reason="stop") for _ in questions]


@dataclass(frozen=True)
class RandomModel:
    """Draws one of the sample's choices, each as likely as the others."""

    name: str
    seed: int
    is_simulated: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"choices"})
    parameters: ClassVar[dict[str, Parameter]] = {"seed": SEED}

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return a drawn choice for each question."""
        return [self._answer_one(question) for question in questions]

    def _answer_one(self, question: Question) -> Completion:
        draws = Draws(self.seed, question.sample_id, question.trial)
        return Completion(draws.pick(read_choices(self.name, question), "choice"), finish_reason="stop")


@dataclass(frozen=True)
class LongestModel:
    """Picks the choice with the longest option text, in characters; ties are drawn."""

    name: str
    is_simulated: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"choices", "options"})
    parameters: ClassVar[dict[str, Parameter]] = {}

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return the choice of the longest option for each question."""
        return [self._answer_one(question) for question in questions]

    def _answer_one(self, question: Question) -> Completion:
        lengths = [len(option.strip()) for option in read_options(self.name, question)]
        return pick_highest(self.name, question, lengths)


@dataclass(frozen=True)
class OverlapModel:
    """Picks the choice whose option shares most distinct words with the question; ties are drawn.

    Words are compared without case. Where the question text lists the options, those lines do not count.
    """

    name: str
    is_simulated: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"choices", "options"})
    parameters: ClassVar[dict[str, Parameter]] = {}

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return the choice of the option nearest to the question for each question."""
        return [self._answer_one(question) for question in questions]

    def _answer_one(self, question: Question) -> Completion:
        options = read_options(self.name, question)
        words = split_words(remove_options(question.text, options))
        return pick_highest(self.name, question, [len(split_words(option) & words) for option in options])


def split_words(text: str) -> set[str]:
    """Return the distinct words of a text, without case."""
    return {word.casefold() for word in WORD.findall(text)}


def remove_options(text: str, options: Sequence[str]) -> str:
    """Return the text without the last place where each option stands as a whole; the longest goes first."""
    for option in sorted(filter(None, map(str.strip, options)), key=len, reverse=True):
        places = list(re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text))
        if places:
            text = f"{text[: places[-1].start()]} {text[places[-1].end() :]}"
    return text


def pick_highest(name: str, question: Question, numbers: Sequence[int]) -> Completion:
    """Return the choice with the highest number; ties are drawn by the sample's id."""
    choices = read_choices(name, question)
    best = [choice for choice, number in zip(choices, numbers, strict=True) if number == max(numbers)]
    return Completion(Draws(TIE_SEED, question.sample_id).pick(best, "tie"), finish_reason="stop")


def read_choices(name: str, question: Question) -> Sequence[str]:
    """Return the question's choices; SpecError E301 when the model was asked without any."""
    if not question.choices:
        hint = "give the task a scorer with `choices`, such as `string_equals_mcqa`"
        message = f"model `{name}` answers from the choices, and sample `{question.sample_id}` has none"
        raise SpecError("E301", message, hint=hint)
    return question.choices


def read_options(name: str, question: Question) -> Sequence[str]:
    """Return the question's option texts, as many as choices; SpecError E301 otherwise."""
    choices = read_choices(name, question)
    options = question.options
    if options is not None and len(options) == len(choices):
        return options
    found = "none" if options is None else f"{len(options)} for {len(choices)} choices"
    message = f"model `{name}` reads the option texts, and sample `{question.sample_id}` has {found}"
    raise SpecError("E301", message, hint=OPTIONS_HINT)
