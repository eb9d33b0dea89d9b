"""A simulator that knows the key and answers in the styles of real models; for demos, planning and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from answerkey.errors import SpecError
from answerkey.models.builtin import SEED, read_choices
from answerkey.models.draws import Draws
from answerkey.models.parameters import Parameter
from answerkey.types import Completion, CompletionStatus, Question

#: The ways of each style; `{c}` is the choice, `{t}` its option text, `{o}` another choice.
STYLES: dict[str, tuple[str, ...]] = {
    "bare": ("{c}",),
    "punctuated": ("{c}.", "{c})", " {c}", "{c}:", "\n{c}"),
    "text": ("{c}) {t}", "{c}. {t}", "{c}: {t}", " {c}. {t}", "{c} - {t}"),
    "sentence": (
        "The answer is {c}.",
        "Answer: {c}",
        "The correct answer is ({c}).",
        "The correct option is {c}) {t}",
        "Based on the question, the best choice is {c}.",
    ),
    "markdown": ("**{c}**", "**{c}.** {t}", "**Answer: {c}**", "`{c}`", "$\\boxed{{{c}}}$"),
    "prose": (
        "A careful look at the options leads to {c}.",
        "Before choosing I compared all options. {t} fits best, so {c}.",
        "Clearly {c} is right.",
        "Depending on the reading it could be {o}, but the answer is {c}.",
    ),
    "several": ("{c} or {o}", "{c}, {o}", "{c}/{o}"),
    "refusal": ("I can't help with that question.", "I'm not able to answer this."),
    "empty": ("", "\n"),
}

#: Of 100 completions in the style `mixed`, how many are of which style.
MIXED_SHARES: dict[str, int] = {
    "bare": 45,
    "punctuated": 22,
    "text": 15,
    "sentence": 8,
    "markdown": 4,
    "prose": 2,
    "several": 1,
    "refusal": 2,
    "empty": 1,
}

STYLE_NAMES = ("mixed", "bare", "punctuated", "text", "sentence", "markdown")


@dataclass(frozen=True)
class SimulatedModel:
    """Means the right choice with probability `accuracy`, otherwise a wrong one, and puts it in some style.

    Each sample is drawn by itself, from the seed, its id and the trial. `accuracy` is what the model means;
    what a scorer reads of it depends on the style.
    """

    name: str
    accuracy: float
    style: str
    seed: int
    is_simulated: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"choices", "truth"})
    parameters: ClassVar[dict[str, Parameter]] = {
        "accuracy": Parameter(0.8, "how likely the right choice is meant", minimum=0, maximum=1),
        "style": Parameter("mixed", "how the choice is put", allowed=STYLE_NAMES),
        "seed": SEED,
    }

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return a simulated completion for each question."""
        return [self._answer_one(question) for question in questions]

    def _answer_one(self, question: Question) -> Completion:
        draws = Draws(self.seed, question.sample_id, question.trial)
        style = draws.pick_share(MIXED_SHARES, "style") if self.style == "mixed" else self.style
        form = draws.pick(STYLES[style], "form")
        if style == "refusal":
            reply = {"role": "assistant", "content": None, "refusal": form}
            return Completion(None, CompletionStatus.REFUSED, reply=reply, finish_reason="stop")
        return Completion(self._fill(form, question, draws), finish_reason="stop")

    def _fill(self, form: str, question: Question, draws: Draws) -> str:
        choices = read_choices(self.name, question)
        truth = self._read_truth(question)
        wrong = [choice for choice in choices if choice != truth]
        means_truth = draws.draw("knows") < self.accuracy or not wrong
        meant = truth if means_truth else draws.pick(wrong, "wrong")
        others = [choice for choice in choices if choice != meant] or [meant]
        return form.format(c=meant, t=_name_option(question, meant), o=draws.pick(others, "other"))

    def _read_truth(self, question: Question) -> str:
        if question.truth is None:
            hint = "give the task a scorer with a ground truth, such as `string_equals_mcqa`"
            message = f"model `{self.name}` knows the key, and sample `{question.sample_id}` has none"
            raise SpecError("E301", message, hint=hint)
        return question.truth


def _name_option(question: Question, choice: str) -> str:
    choices, options = list(question.choices or ()), question.options
    if options is None or len(options) != len(choices) or choice not in choices:
        return "this option"
    return options[choices.index(choice)].strip()
