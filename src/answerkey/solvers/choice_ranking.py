"""`choice_ranking_solver`: how likely a base model finds each choice as the continuation of the prompt.

Nothing is generated: each choice is one call, whose text is echoed with its log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from answerkey.errors import DataError, SpecError, raise_all
from answerkey.models.config import Model
from answerkey.models.responses import measure_continuation, read_text
from answerkey.solvers.single_turn import SHOWN, ChatInput, Examples, GenericInput, SingleTurnSolver
from answerkey.solvers.solver import ONE_TRIAL, Compiled, Prompt, PromptError, describe_row_errors
from answerkey.templates import RowError, Template
from answerkey.types import Completion, Completions, CompletionStatus, Known, Question, Samples


@dataclass(frozen=True)
class ChoiceRankingSolver:
    """Asks the model once for each continuation of each sample.

    `continuations` is a template that yields the texts in the order of the choices; each is put directly
    after the prompt, which is the text of all messages, parted by an empty line.
    """

    input_builder: ChatInput | GenericInput
    continuations: str | list[str]
    examples: Examples | None = None

    type: ClassVar[str] = "choice_ranking_solver"
    needs_model: ClassVar[bool] = True

    @cached_property
    def _asking(self) -> SingleTurnSolver:
        return SingleTurnSolver(self.input_builder, examples=self.examples)

    @cached_property
    def _template(self) -> Template:
        return Template.compile(self.continuations)

    def compile_templates(self) -> Compiled:
        """Return the templates that compile and the errors of the others, by field."""
        compiled, errors = self._asking.compile_templates()
        try:
            return {**compiled, "continuations": self._template}, errors
        except SpecError as error:
            return compiled, [*errors, ("continuations", error)]

    def build_prompts(self, samples: Samples, examples: Samples | None) -> list[Prompt | RowError]:
        """Return the messages for each sample, without a continuation, or why there are none."""
        return self._asking.build_prompts(samples, examples)

    def list_calls(self, samples: Samples, examples: Samples | None) -> list[list[Prompt]]:
        """Return what the model is asked for each sample: one text for each continuation."""
        pairs = zip(self.build_prompts(samples, examples), self.list_continuations(samples), strict=True)
        return [
            [] if isinstance(prompt, RowError) or isinstance(texts, RowError) else _continue(prompt, texts)
            for prompt, texts in pairs
        ]

    def list_continuations(self, samples: Samples) -> list[list[str] | RowError]:
        """Return the continuations of each sample, or why there are none."""
        return [_read_texts(value) for value in self._template.values(samples)]

    def check_rows(self, samples: Samples, examples: Samples | None) -> list[tuple[int, DataError]]:
        """Return the rows whose prompt or continuations cannot be built."""
        found = self._asking.check_rows(samples, examples)
        if not self.compile_templates()[1]:
            found = [*found, *describe_row_errors(samples, self.list_continuations(samples))]
        return found

    def solve(
        self,
        samples: Samples,
        *,
        model: Model | None,
        known: Known | None,  # noqa: ARG002 - the protocol's signature
        examples: Samples | None,
        trials: range = ONE_TRIAL,
    ) -> Completions:
        """Return for each sample the log-probability of its continuations; there is no text to be read."""
        require_echo(model)
        prompts, texts = self.build_prompts(samples, examples), self.list_continuations(samples)
        errors = {
            str(error): error
            for found in (prompts, texts)
            for _, error in describe_row_errors(samples, found)
        }
        raise_all(list(errors.values())[:SHOWN])
        pairs = [
            (str(sample_id), prompt, continuations)
            for sample_id, prompt, continuations in zip(samples.ids, prompts, texts, strict=True)
            if not isinstance(prompt, RowError) and not isinstance(continuations, RowError)
        ]
        questions = [
            Question(sample_id, messages, trial=trial)
            for sample_id, prompt, continuations in pairs
            for trial in trials
            for messages in _continue(prompt, continuations)
        ]
        said = iter(model.answer(questions) if model else ())
        completions = [
            _rank(prompt, continuations, [next(said) for _ in continuations])
            for _, prompt, continuations in pairs
            for _ in trials
        ]
        return Completions.build(samples.repeat(len(trials)).ids, completions, source="live")


def _rank(prompt: Prompt, continuations: Sequence[str], said: Sequence[Completion]) -> Completion:
    """Return one completion for a sample in one trial; a call that failed fails it."""
    failed = next((one for one in said if one.status is CompletionStatus.ERROR), None)
    if failed is not None:
        return replace(failed, prompt=prompt)
    start, ranking = _write(prompt), []
    for one, text in zip(said, continuations, strict=True):
        found = measure_continuation(one, start, text)
        told: dict[str, object] = {"continuation": text}
        if isinstance(found, str):
            told |= {"logprob": None, "why": found}
        else:
            told |= {"logprob": found.logprob, "tokens": found.tokens, "bytes": len(text.encode())}
            told |= {"is_split": True} if found.is_split else {}
        ranking.append(told)
    return Completion(
        None,
        prompt=prompt,
        prompt_tokens=_add(one.prompt_tokens for one in said),
        completion_tokens=_add(one.completion_tokens for one in said),
        latency=sum(one.latency or 0.0 for one in said),
        logprobs={"ranking": ranking},
        source=said[0].source if said else None,
    )


def _add(counts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None when nothing is."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def _write(prompt: Prompt) -> str:
    """Return the messages as the text that a completions API is sent."""
    return "\n\n".join(read_text(message) for message in prompt)


def _continue(prompt: Prompt, continuations: Sequence[str]) -> list[Prompt]:
    start = _write(prompt)
    return [[{"role": "user", "content": start + text}] for text in continuations]


def _read_texts(value: object) -> list[str] | RowError:
    if isinstance(value, RowError):
        return value
    texts = value if isinstance(value, list | tuple) else None
    if not texts or not all(isinstance(one, str) and one for one in texts):
        return PromptError(
            f"`continuations` yields {value!r:.80}, not a list of texts",
            hint="for letters write \"{{ [' A', ' B', ' C', ' D'] }}\"",
        )
    return list(texts)


def require_echo(model: Model | None) -> None:
    """Raise SpecError E301 for a model that does not send the log-probabilities of a text back."""
    from answerkey.models.model import LiveModel

    if isinstance(model, LiveModel) and model.connection.generation.echo:
        return
    named = "no model" if model is None else f"model `{model.name}`"
    raise SpecError(
        "E301",
        f"`{ChoiceRankingSolver.type}` needs an endpoint that echoes log-probabilities, and {named} is not"
        " asked to",
        hint="use the completions API with `echo`: `--model 'http://HOST/v1?api=completions&echo=true#NAME'`",
    )
