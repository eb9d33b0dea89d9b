"""Built-in models: baselines that answer from the sample's choices, and a simulator that knows the
answer key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from answerkey.errors import SpecError
from answerkey.models.config import OPTIONS_HINT, ModelParameter
from answerkey.types import Completion, CompletionStatus, Draws, Request

#: Scripts that put no spaces between words (Thai, Kana, Han): one character stands for a word.
UNSPACED = r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]"
WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+")
SEED = ModelParameter(0, minimum=0)


#: The forms of each style; `{c}` is the choice, `{t}` its option text, `{o}` another choice.
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
        "A good question: it depends on the definition.",
        "Before choosing I compared all options. {t} fits best, so {c}.",
        "Clearly {c} is right.",
        "Depending on the reading it could be {o}, but the answer is {c}.",
    ),
    "several": ("{c} or {o}", "{c}, {o}", "{c}/{o}"),
    "refusal": ("I can't help with that question.", "I'm not able to answer this."),
    "empty": ("", "\n"),
}

#: The number of completions of each style, out of 100 in the style `mixed`.
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
class BuiltinModel:
    """A built-in model, which answers each question from what it knows about the sample.

    `needs` is what it must know: `choices`, `options`, `truth`. `values` are those of its
    parameters.
    """

    answer: Callable[[BuiltinModel, Request], Completion]
    needs: frozenset[str] = frozenset()
    parameters: Mapping[str, ModelParameter] = field(default_factory=dict)
    is_simulated: bool = False
    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion for each request, in order."""
        completions = []
        for request in requests:
            completion = self.answer(self, request)
            completions.append(completion.with_fields(source="builtin"))
        return completions

    def explain_missing_logprobs(self) -> str:
        """Return why there will be no log-probabilities."""
        return f"the built-in model `{self.name}` has none"


def answer_constant(model: BuiltinModel, _question: Request) -> Completion:
    """Give the same answer to every question."""
    return Completion(model.values["choice"], finish_reason="stop")


def answer_random(model: BuiltinModel, question: Request) -> Completion:
    """Draw one of the sample's choices, all equally likely."""
    draws = _draw_for(model, question)
    choices = read_choices(model.name, question)
    choice = draws.pick(choices, "choice")
    return Completion(choice, finish_reason="stop")


def _draw_for(model: BuiltinModel, question: Request) -> Draws:
    seed = model.values["seed"]
    return Draws(seed, question.sample_id, question.trial)


def answer_longest(model: BuiltinModel, question: Request) -> Completion:
    """Pick the choice with the longest option text, in characters; ties are drawn."""
    options = read_options(model.name, question)
    lengths = [len(option.strip()) for option in options]
    return _pick_highest(model, question, lengths)


def answer_overlap(model: BuiltinModel, question: Request) -> Completion:
    """Pick the choice whose option shares the most distinct words with the question; ties are
    drawn.

    Case is ignored. Lines of the question that list the options do not count.
    """
    options = read_options(model.name, question)
    words = split_words(remove_options(question.text, options))
    overlaps = [len(split_words(option) & words) for option in options]
    return _pick_highest(model, question, overlaps)


def _pick_highest(model: BuiltinModel, question: Request, numbers: Sequence[int]) -> Completion:
    choices = read_choices(model.name, question)
    highest = max(numbers)
    best = []
    for choice, number in zip(choices, numbers, strict=True):
        if number == highest:
            best.append(choice)
    draws = Draws(0, question.sample_id)
    return Completion(draws.pick(best, "tie"), finish_reason="stop")


def answer_simulated(model: BuiltinModel, question: Request) -> Completion:
    """Choose the right answer with probability `accuracy`, else a wrong one, and phrase it in a
    style.

    Each sample is drawn independently, from the seed, its id and the trial. `accuracy` is that of
    the intended answers; what a scorer reads depends on the style.
    """
    draws = _draw_for(model, question)
    style = model.values["style"]
    if style == "mixed":
        style = draws.pick_share(MIXED_SHARES, "style")
    form = draws.pick(STYLES[style], "form")
    if style == "refusal":
        reply = {"role": "assistant", "content": None, "refusal": form}
        return Completion(
            None,
            CompletionStatus.REFUSED,
            reply=reply,
            finish_reason="stop",
        )
    choices = read_choices(model.name, question)
    meant = _draw_meant(model, question, draws)
    option = "this option"
    options = question.options or ()
    if len(options) == len(choices) and meant in choices:
        option = options[choices.index(meant)].strip()
    rivals = [choice for choice in choices if choice != meant] or [meant]
    rival = draws.pick(rivals, "other")
    text = form.format(c=meant, t=option, o=rival)
    return Completion(text, finish_reason="stop")


def _draw_meant(model: BuiltinModel, question: Request, draws: Draws) -> str:
    """Return the choice that the simulated model intends."""
    truth = question.truth
    if truth is None:
        raise SpecError(
            "E301",
            f"model `{model.name}` knows the key, and sample `{question.sample_id}` has none",
            hint="give the task a scorer with a ground truth, such as `string_equals_mcqa`",
        )
    choices = read_choices(model.name, question)
    wrong = [choice for choice in choices if choice != truth]
    is_right = draws.draw("knows") < model.values["accuracy"]
    if is_right or not wrong:
        return truth
    return draws.pick(wrong, "wrong")


def split_words(text: str) -> set[str]:
    """Return the distinct words of a text, ignoring case."""
    return {word.casefold() for word in WORD.findall(text)}


def remove_options(text: str, options: Sequence[str]) -> str:
    """Return the text without the last occurrence of each option as a whole, the longest first."""
    stripped = [option.strip() for option in options]
    for option in sorted(filter(None, stripped), key=len, reverse=True):
        places = list(re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text))
        if places:
            start, end = places[-1].span()
            text = f"{text[:start]} {text[end:]}"
    return text


def read_choices(name: str, question: Request) -> Sequence[str]:
    """Return the question's choices; raise SpecError E301 if there are none."""
    if not question.choices:
        raise SpecError(
            "E301",
            f"model `{name}` answers from the choices, and sample `{question.sample_id}` has none",
            hint="give the task a scorer with `choices`, such as `string_equals_mcqa`",
        )
    return question.choices


def read_options(name: str, question: Request) -> Sequence[str]:
    """Return the question's option texts, one per choice; raise SpecError E301 otherwise."""
    choices = read_choices(name, question)
    options = question.options
    if options is not None and len(options) == len(choices):
        return options
    count = "none"
    if options is not None:
        count = f"{len(options)} for {len(choices)} choices"
    raise SpecError(
        "E301",
        f"model `{name}` reads the option texts, and sample `{question.sample_id}` has {count}",
        hint=OPTIONS_HINT,
    )


BUILTIN_MODELS: dict[str, BuiltinModel] = {
    "constant": BuiltinModel(
        answer_constant,
        parameters={"choice": ModelParameter("A")},
    ),
    "random": BuiltinModel(
        answer_random,
        frozenset({"choices"}),
        {"seed": SEED},
    ),
    "longest": BuiltinModel(answer_longest, frozenset({"choices", "options"})),
    "overlap": BuiltinModel(answer_overlap, frozenset({"choices", "options"})),
    "simulated": BuiltinModel(
        answer_simulated,
        frozenset({"choices", "truth"}),
        {
            "accuracy": ModelParameter(0.8, minimum=0, maximum=1),
            "style": ModelParameter("mixed", allowed=STYLE_NAMES),
            "seed": SEED,
        },
        is_simulated=True,
    ),
}
