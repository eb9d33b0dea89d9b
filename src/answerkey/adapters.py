"""The reader in other programs: Inspect, lm-eval, lighteval, and trainers that need a reward.

Each adapter passes completion, choices and options to `answerkey.reader` and returns the reading in
the form that its program expects. Importing this module imports none of the programs: an adapter
imports its own on first use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from answerkey.reader import Reading, read, read_many

__all__ = [
    "LmEvalFilter",
    "lighteval_metric",
    "reward",
]  # and `inspect_scorer`, which needs Inspect


Texts = Sequence[str]
Messages = Sequence[Mapping[str, Any]]


def reward(
    completions: Sequence[str | Messages],
    choices: Texts | Sequence[Texts],
    answer: str | Texts,
    options: Texts | Sequence[Texts | None] | None = None,
    **_columns: object,
) -> list[float]:
    """Return 1.0 for each completion that states the answer, and 0.0 for all others.

    A completion is a text or a list of chat messages, of which the assistant's last one is read.
    Choices, answer and options are the same for all completions, or lists with one entry per
    completion. Other columns of the dataset, which trainers also pass, are ignored. ValueError if
    an answer is not one of its choices.
    """
    count = len(completions)
    answers = [answer] * count if isinstance(answer, str) else answer
    rows = zip(
        completions,
        _list_each(choices, count),
        answers,
        _list_each(options, count),
        strict=True,
    )
    rewards = []
    for completion, labels, truth, texts in rows:
        text = _read_text(completion)
        is_correct, _ = _judge(text, list(labels), texts, {truth})
        rewards.append(float(is_correct))
    return rewards


class LmEvalFilter:
    """A filter of lm-eval that replaces each response with the choice that it states, or with
    `fallback`.

    `options` names the document's field with the texts of the options; None if there is none.
    `choices` names the field with their labels, or lists them; default: A, B, …. A dotted name
    reads a nested field.
    """

    def __init__(
        self,
        options: str | None = "choices",
        choices: str | Texts | None = None,
        fallback: str = "[invalid]",
    ) -> None:
        self._options = options
        self._choices = choices
        self._fallback = fallback

    def apply(
        self, resps: Iterable[Sequence[Any]], docs: Sequence[Mapping[str, Any]]
    ) -> list[list[str]]:
        """Return a list of choices for each document, in the order of its responses."""
        choices = []
        for responses, doc in zip(resps, docs, strict=True):
            readings = self._read(responses, doc)
            choices.append([reading.choice or self._fallback for reading in readings])
        return choices

    def _read(self, responses: Sequence[Any], doc: Mapping[str, Any]) -> list[Reading]:
        options = None
        if self._options is not None:
            options = list(_get_field(doc, self._options))
        choices = self._choices
        if choices is None:
            choices = _label(options or ())
        elif isinstance(choices, str):
            choices = _get_field(doc, choices)
        texts = []
        for response in responses:
            # A failed call has no text.
            texts.append(response if isinstance(response, str) else "")
        return read_many(texts, list(choices), options)


def lighteval_metric(name: str = "stated_answer") -> Any:  # noqa: ANN401 - a class of lighteval
    """Return a metric of lighteval: the share of a document's generations that state a right
    choice.

    `Doc.choices` are the texts of the options, with the labels A, B, …, or the labels themselves.
    """
    from lighteval.metrics.metrics_sample import SampleLevelComputation
    from lighteval.metrics.utils.metric_utils import SampleLevelMetric
    from lighteval.tasks.requests import SamplingMethod

    class StatedAnswer(SampleLevelComputation):  # type: ignore[misc] # lighteval is not installed here
        """Reads the answer that each generation states."""

        def compute(self, doc: Any, model_response: Any, **_rest: object) -> float:  # noqa: ANN401
            """Return the share of a document's generations that are right."""
            labels = _label(doc.choices)
            texts = [choice.strip() for choice in doc.choices]
            options = None if texts == labels else texts
            golds = doc.gold_index
            if isinstance(golds, int):
                golds = [golds]
            truths = {labels[at] for at in golds}
            right = 0
            for text in model_response.final_text:
                is_correct, _ = _judge(text, labels, options, truths)
                right += is_correct
            return right / len(model_response.final_text)

    return SampleLevelMetric(
        metric_name=name,
        higher_is_better=True,
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=StatedAnswer(),
        corpus_level_fn=_average,
    )


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class of Inspect
    """Define `inspect_scorer` on first use: Inspect registers the decorated function itself."""
    if name != "inspect_scorer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()], name="stated_answer")  # type: ignore[untyped-decorator]
    def inspect_scorer(choices: Texts | None = None) -> Any:  # noqa: ANN401
        """Score the choice that a completion states.

        `choices` are the labels for samples that list none.
        """

        async def score(state: Any, target: Any) -> Any:  # noqa: ANN401
            options = [choice.value for choice in state.choices]
            positions = [choice.original_position for choice in state.choices]
            if positions != list(range(len(positions))):
                raise ValueError(
                    "`multiple_choice(shuffle=…)` rewrites completions: use the "
                    "dataset's `shuffle_choices`"
                )
            labels = list(choices or _label(options))
            truth = target.text.strip()
            if not choices:
                truth = truth.upper()
            text = state.output.completion
            is_correct, reading = _judge(text, labels, options or None, {truth})
            metadata = {
                "validity_reason": reading.reason,
                "part": reading.part,
                "span": reading.span,
            }
            return Score(
                value=CORRECT if is_correct else INCORRECT,
                answer=reading.choice,
                explanation=text,
                metadata=metadata,
            )

        return score

    globals()[name] = inspect_scorer
    return inspect_scorer


def _judge(
    text: str,
    choices: Texts,
    options: Texts | None,
    truths: Collection[str],
) -> tuple[bool, Reading]:
    """Return whether a text states a right choice, and the reading."""
    for truth in truths:
        if truth not in choices:
            raise ValueError(f"the answer {truth!r} is not one of the choices {list(choices)}")
    reading = read(text, choices, options)
    return reading.choice in truths, reading


def _label(options: Texts) -> list[str]:
    """Return A, B, …: a letter for each option."""
    most = len(ascii_uppercase)
    size = len(options)
    if not 0 < size <= most:
        raise ValueError(f"there are letters for 1 to {most} options, but there are {size}")
    return list(ascii_uppercase[:size])


def _list_each(texts: Any, count: int) -> Sequence[Any]:  # noqa: ANN401 - texts, or lists of them
    """Return the texts of each completion; a plain list of texts is shared by all completions."""
    if texts is None or all(isinstance(text, str) for text in texts):
        return [texts] * count
    return texts  # type: ignore[no-any-return]


def _read_text(completion: str | Messages) -> str:
    """Return the text of a completion; for chat messages, the assistant's last message.

    Empty if there is none.
    """
    if isinstance(completion, str):
        return completion
    content = None
    for message in completion:
        if message.get("role", "assistant") == "assistant":
            content = message["content"]
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part["text"] for part in content if part.get("type") == "text"]
    return "\n".join(texts)


def _get_field(doc: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever a dataset holds
    """Return a field of a document; a dotted name reads a nested field."""
    value: Any = doc
    for part in name.split("."):
        value = value[part]
    return value


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)
