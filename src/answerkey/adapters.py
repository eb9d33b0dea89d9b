"""The reader in other programs: Inspect, lm-eval, lighteval, and trainers that want a reward.

Each adapter hands completion, choices and options to `answerkey.reader` and returns what is read in
the form that its program wants. Importing this module loads none of them: an adapter imports its
own when it is used.
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
]  # and `inspect_scorer`, which wants Inspect


def reward(
    completions: Sequence[str | Sequence[Mapping[str, Any]]],
    choices: Sequence[str] | Sequence[Sequence[str]],
    answer: str | Sequence[str],
    options: Sequence[str] | Sequence[Sequence[str] | None] | None = None,
    **_columns: object,
) -> list[float]:
    """Return 1.0 for each completion that states the answer and 0.0 for each other one.

    A completion is a text or a list of chat messages; of these, the assistant's last is read.
    Choices, answer and options are the same for all completions, or lists with one entry per
    completion. Other columns of the dataset, which trainers pass too, are ignored. ValueError where
    an answer is not one of its choices.
    """
    count = len(completions)
    rows = zip(
        completions,
        _list_each(choices, count),
        [answer] * count if isinstance(answer, str) else answer,
        _list_each(options, count),
        strict=True,
    )
    return [
        float(_judge(_read_text(completion), list(labels), texts, {truth})[0])
        for completion, labels, truth, texts in rows
    ]


class LmEvalFilter:
    """A filter of lm-eval that makes each response the choice that it states, or `fallback`.

    `options` names the field of a document with the texts of the options; None where it has none.
    `choices` names the field with their labels, or lists them; default: A, B, …. A dotted name
    reaches into a field.
    """

    def __init__(
        self,
        options: str | None = "choices",
        choices: str | Sequence[str] | None = None,
        fallback: str = "[invalid]",
    ) -> None:
        self._options = options
        self._choices = choices
        self._fallback = fallback

    def apply(
        self, resps: Iterable[Sequence[Any]], docs: Sequence[Mapping[str, Any]]
    ) -> list[list[str]]:
        """Return a list of choices for each document, in the order of its responses."""
        return [
            [reading.choice or self._fallback for reading in self._read(responses, doc)]
            for responses, doc in zip(resps, docs, strict=True)
        ]

    def _read(self, responses: Sequence[Any], doc: Mapping[str, Any]) -> list[Reading]:
        options = None if self._options is None else list(_get_field(doc, self._options))
        choices = (
            _get_field(doc, self._choices) if isinstance(self._choices, str) else self._choices
        )
        labels = list(_label(options or ()) if choices is None else choices)
        # A call that failed has no text.
        texts = [response if isinstance(response, str) else "" for response in responses]
        return read_many(texts, labels, options)


def lighteval_metric(name: str = "stated_answer") -> Any:  # noqa: ANN401 - a class of lighteval
    """Return a metric of lighteval: the share of a document's generations that state a right
    choice.

    `Doc.choices` are the texts of the options, whose labels are then A, B, …, or these labels
    themselves.
    """
    from lighteval.metrics.metrics_sample import SampleLevelComputation
    from lighteval.metrics.utils.metric_utils import SampleLevelMetric
    from lighteval.tasks.requests import SamplingMethod

    class StatedAnswer(SampleLevelComputation):  # type: ignore[misc] # lighteval is not installed here
        """Reads the answer that each generation states."""

        def compute(self, doc: Any, model_response: Any, **_rest: object) -> float:  # noqa: ANN401
            """Return the share of right ones among the generations of a document."""
            labels = _label(doc.choices)
            texts = [choice.strip() for choice in doc.choices]
            options = None if texts == labels else texts
            golds = [doc.gold_index] if isinstance(doc.gold_index, int) else doc.gold_index
            truths = {labels[at] for at in golds}
            verdicts = [
                _judge(text, labels, options, truths)[0] for text in model_response.final_text
            ]
            return sum(verdicts) / len(verdicts)

    return SampleLevelMetric(
        metric_name=name,
        higher_is_better=True,
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=StatedAnswer(),
        corpus_level_fn=_average,
    )


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class of Inspect
    """Define `inspect_scorer` when it is first used: Inspect registers the decorated function
    itself.
    """
    if name != "inspect_scorer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()], name="stated_answer")  # type: ignore[untyped-decorator]
    def inspect_scorer(choices: Sequence[str] | None = None) -> Any:  # noqa: ANN401
        """Score the choice that a completion states.

        `choices` are labels for samples that list none.
        """

        async def score(state: Any, target: Any) -> Any:  # noqa: ANN401
            options = [choice.value for choice in state.choices]
            positions = [choice.original_position for choice in state.choices]
            if positions != list(range(len(positions))):
                raise ValueError(
                    "`multiple_choice(shuffle=…)` rewrites completions: use the "
                    "dataset's `shuffle_choices`"
                )
            labels = _label(options) if choices is None else list(choices)
            truth = target.text.strip() if choices else target.text.strip().upper()
            is_correct, reading = _judge(state.output.completion, labels, options or None, {truth})
            return Score(
                value=CORRECT if is_correct else INCORRECT,
                answer=reading.choice,
                explanation=state.output.completion,
                metadata={
                    "validity_reason": reading.reason,
                    "part": reading.part,
                    "span": reading.span,
                },
            )

        return score

    globals()[name] = inspect_scorer
    return inspect_scorer


def _judge(
    text: str, choices: Sequence[str], options: Sequence[str] | None, truths: Collection[str]
) -> tuple[bool, Reading]:
    """Return whether a text states a right choice, and what was read."""
    for truth in truths:
        if truth not in choices:
            raise ValueError(f"the answer {truth!r} is not one of the choices {list(choices)}")
    reading = read(text, choices, options)
    return reading.choice in truths, reading


def _label(options: Sequence[str]) -> list[str]:
    """Return A, B, …: a letter for each option."""
    if not 0 < len(options) <= len(ascii_uppercase):
        raise ValueError(
            f"there are letters for 1 to {len(ascii_uppercase)} options, not for {len(options)}"
        )
    return list(ascii_uppercase[: len(options)])


def _list_each(texts: Any, count: int) -> Sequence[Any]:  # noqa: ANN401 - texts, or lists of them
    """Return the texts of each completion; plain texts are those of all completions."""
    if texts is None or all(isinstance(text, str) for text in texts):
        return [texts] * count
    return texts  # type: ignore[no-any-return]


def _read_text(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a completion: of chat messages, what the assistant said last.

    "" for none.
    """
    if isinstance(completion, str):
        return completion
    content = None
    for message in completion:
        if message.get("role", "assistant") == "assistant":
            content = message["content"]
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _get_field(doc: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever a dataset holds
    """Return a field of a document; a dotted name reaches into it."""
    value: Any = doc
    for part in name.split("."):
        value = value[part]
    return value


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)
