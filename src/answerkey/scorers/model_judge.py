"""The scorers that ask another model about a completion: for a score, a verdict, or a label.

Metadata of all: `judge_text` (the judge's whole reply) and `judge_error` (why there is no score),
both also when the sample is FAILED.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import polars as pl

from answerkey.errors import InternalError, SpecError
from answerkey.models.config import Model
from answerkey.reader.characters import WHITE_SPACE
from answerkey.reader.explain import shorten
from answerkey.reader.markup import split_thoughts
from answerkey.scorers.base import (
    UNANSWERED,
    FieldErrors,
    Prompt,
    Scorer,
    Types,
    ask_model,
)
from answerkey.templates import RowError, Template
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Row,
    Samples,
    Score,
    ScoreStatus,
)

JUDGE_CALL_FAILED = "JUDGE_CALL_FAILED"
JUDGE_UNREADABLE = "JUDGE_UNREADABLE"
#: What a judge is asked for where the endpoint takes a schema; the reasoning comes first.
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "number"},
        "confidence": {"type": "number"},
    },
    "required": ["reasoning", "score", "confidence"],
    "additionalProperties": False,
}
_FORM = """Answer with one JSON object and nothing else:
{{"reasoning": "<why, in a few sentences>", "score": <a number {scale}>, \
"confidence": <how sure you are, a number from 0 to 1>}}"""

#: How a judge is asked for a label; blanks and quotes around the label are ignored.
_LABELS = "Answer with one of these labels and nothing else: "
_ANY_LABEL = "Answer with the label and nothing else."
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u2039\u203a\u00ab\u00bb"
_BLANKS_AND_QUOTES = WHITE_SPACE + _QUOTES

_WORDS: Types = dict.fromkeys(("judge_text", "judge_error"), pl.String())
#: The lowest and the highest score that a judge may give.
Scale = tuple[float, float]
#: What a judge said, on its own scale: the score, the reasoning and the confidence.
Verdict = tuple[float, str | None, float | None]


@dataclass(frozen=True)
class ModelJudge(Scorer):
    """Asks a model about each completion; `bind` must give it the model of `model_key` first.

    A kind of judge says what its replies hold (`value_types`, `metadata_types`), how it asks for
    that (`schema`, `form`) and how it reads it (`read_reply`).
    """

    model_key: str
    user_prompt: str
    system_prompt: str | None = None
    use_structured_outputs: bool = False
    _model: Model | None = field(default=None, kw_only=True)
    _key: str = field(default="", kw_only=True)

    template_fields = ("system_prompt", "user_prompt")
    reply_fields = template_fields
    reply_names = (
        "sample",
        "solver_output",
        "model_output",
        "messages",
        "input_prompt",
        "trace",
        "model_outputs",
    )

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, object]:
        """The JSON schema of a reply, for endpoints that take one."""

    @property
    @abstractmethod
    def form(self) -> str:
        """How the judge is to answer: the end of its prompt."""

    @abstractmethod
    def read_reply(self, text: str) -> dict[str, object]:
        """Return the values and metadata that a reply holds. Raise UnreadableVerdict."""

    @property
    def needs_completion(self) -> bool:
        """Whether a prompt shows the completion; False for a judge of the samples themselves."""
        return bool(self.completion_fields)

    def bind(
        self,
        model: Model,
        *,
        key: str,
    ) -> Self:
        """Return the scorer with its model; its calls are stored under `key`, the scorer's own."""
        from answerkey.models.model import calls_endpoint

        if getattr(model, "needs", None):
            message = f"model `{model.name}` answers multiple-choice questions and cannot judge"
            hint = "name a live model in `model_key`"
            raise SpecError("E301", message, hint=hint)
        if self.use_structured_outputs and calls_endpoint(model):
            model = model.with_schema(self.schema) or model
        return replace(self, _model=model, _key=key)

    def score(
        self,
        samples: Samples,
        completions: Completions,
    ) -> list[Score]:
        """Return the scores; a row whose prompt cannot be rendered is FAILED."""
        if self._model is None:
            raise InternalError("E901", f"the judge `{self.model_key}` was not bound to a model")
        scores = [UNANSWERED] * len(samples)
        prompts = {}
        templates = self.templates()
        needs_completion = self.needs_completion
        rows = zip(samples.rows(), completions, strict=True)
        for row, (sample, completion) in enumerate(rows):
            if needs_completion and completion.status is CompletionStatus.ERROR:
                continue
            try:
                prompts[row] = self._build_prompt(templates, sample, completion)
            except RowError as problem:
                scores[row] = _fail("TEMPLATE_FAILED", problem.message)
        purpose = f"judge:{self._key}"
        replies = ask_model(self._model, purpose, prompts, completions)
        for row, reply in replies.items():
            scores[row] = self._read(reply)
        return scores

    def _build_prompt(
        self,
        templates: Mapping[str, Template],
        sample: Row,
        completion: Completion,
    ) -> Prompt:
        """Return the messages that ask about one completion. Raise RowError."""
        context = self.build_context(sample, completion)
        prompt = []
        if "system_prompt" in templates:
            text = templates["system_prompt"].render(**context)
            prompt.append({"role": "system", "content": text})
        text = templates["user_prompt"].render(**context)
        prompt.append({"role": "user", "content": f"{text.rstrip()}\n\n{self.form}"})
        return prompt

    def build_context(
        self,
        sample: Row,
        completion: Completion,
    ) -> dict[str, object]:
        """Return what the prompts see.

        `input_prompt` is the text that is judged, as the format calls it: the answer, the words of
        a refusal, or nothing.
        """
        text = completion.text
        if text is None:
            refusal = (completion.reply or {}).get("refusal")
            text = refusal if isinstance(refusal, str) else ""
        solver_output: dict[str, Any] = completion.solver_output()
        model_output = ModelOutput(text)
        model_output.choices = solver_output["output"]["choices"]
        model_output.usage = solver_output["output"]["usage"]
        return {
            **solver_output,
            "sample": sample,
            "solver_output": solver_output,
            "model_output": model_output,
            "input_prompt": text,
        }

    def close(self) -> None:
        """Close the connections of a judge that is asked for JSON of a schema."""
        if self.use_structured_outputs:
            getattr(self._model, "close", lambda: None)()

    def _read(self, reply: Completion) -> Score:
        """Return the score that a reply gives."""
        if reply.status is CompletionStatus.ERROR:
            failure = {"judge_error": reply.error}
            return Score(ScoreStatus.ERROR, JUDGE_CALL_FAILED, metadata=failure)
        if reply.status is CompletionStatus.REFUSED or reply.text is None:
            return _fail(JUDGE_UNREADABLE, "the judge refused, or its reply has no text")
        # A live model's thoughts are split off already, unless `thinking: keep` is set.
        _, text = split_thoughts(reply.text) or ("", reply.text)
        try:
            cells = self.read_reply(text)
        except UnreadableVerdict as problem:
            message = str(problem)
            if reply.finish_reason == "length":
                message += " (the reply was cut off by the token limit)"
            return _fail(JUDGE_UNREADABLE, message, reply.text)
        metadata = {**cells, "judge_text": reply.text}
        return Score(ScoreStatus.SCORED, values=cells, metadata=metadata)


def _fail(reason: str, error: str, text: str | None = None) -> Score:
    metadata = {"judge_text": text, "judge_error": error}
    return Score(ScoreStatus.FAILED, reason, metadata=metadata)


@dataclass(frozen=True)
class ModelAsAJudge(ModelJudge):
    """Asks for a number: value `score`, from 0 to 1; `raw_score` is what the judge said."""

    score_min: float = 0.0
    score_max: float = 1.0

    type = "model_as_a_judge_scorer"
    title = "Model Scorer"
    value_types: ClassVar[Types] = {"score": pl.Float64()}
    metadata_types: ClassVar[Types] = {
        "reasoning": pl.String(),
        "confidence": pl.Float64(),
        "raw_score": pl.Float64(),
        **_WORDS,
    }
    main_value = "score"
    default_metric_name = "Mean Score"
    schema = SCHEMA

    @property
    def form(self) -> str:
        """JSON with the score, and the scale."""
        return _FORM.format(scale=_name_scale(self.scale))

    def read_reply(self, text: str) -> dict[str, object]:
        """Return the score, brought to a scale from 0 to 1, and what else the judge said."""
        score, reasoning, confidence = read_verdict(text, self.scale)
        width = self.score_max - self.score_min
        return {
            "score": (score - self.score_min) / width,
            "reasoning": reasoning,
            "confidence": confidence,
            "raw_score": score,
        }

    @property
    def scale(self) -> Scale:
        """The scores that the judge may give."""
        return self.score_min, self.score_max

    @property
    def scales(self) -> Mapping[str, Scale]:
        """Scores are brought to a scale from 0 to 1."""
        share = (0.0, 1.0)
        return {"score": share, "confidence": share, "raw_score": self.scale}

    def check_fields(self) -> FieldErrors:
        """Return what is wrong with the scale."""
        is_finite = all(map(math.isfinite, self.scale))
        if is_finite and self.score_min < self.score_max:
            return []
        low = f"`score_min`, {self.score_min:g}"
        message = f"`score_max` is {self.score_max:g}, which is not above {low}"
        error = SpecError("E108", message, hint="give the ends of the judge's scale")
        return [("score_max", error)]


@dataclass(frozen=True)
class _LabelJudge(ModelJudge):
    """Asks for one of the labels of `label_fields`; for any label where these are empty."""

    label_fields: ClassVar[tuple[str, ...]]

    @property
    def labels(self) -> list[str]:
        """The labels that the judge may answer."""
        labels: list[str] = []
        for name in self.label_fields:
            labels += getattr(self, name)
        return labels

    @property
    def schema(self) -> Mapping[str, object]:
        """An object with one of the labels."""
        label: dict[str, object] = {"type": "string"}
        if self.labels:
            label["enum"] = self.labels
        return {**SCHEMA, "properties": {"label": label}, "required": ["label"]}

    @property
    def form(self) -> str:
        """The list of the labels."""
        if not self.labels:
            return _ANY_LABEL
        quoted = [json.dumps(label, ensure_ascii=False) for label in self.labels]
        return _LABELS + ", ".join(quoted)

    def check_fields(self) -> FieldErrors:
        """Return an error for labels that are listed twice, and for a field without any."""
        errors: FieldErrors = []
        hint = "list what the judge may answer, each label once: `[correct]`, `[incorrect]`"
        counts = Counter(self.labels)
        for name in self.label_fields:
            labels = getattr(self, name)
            is_missing = self.main_value is not None and not labels
            if is_missing or any(counts[label] > 1 for label in labels):
                message = f"`{name}` is empty, or one of its labels is listed twice"
                errors.append((name, SpecError("E108", message, hint=hint)))
        return errors

    def read_reply(self, text: str) -> dict[str, object]:
        """Return the label, and whether it is one for right.

        The JSON around it is removed if it was asked for.
        """
        if self.use_structured_outputs:
            with suppress(ValueError, RecursionError):
                match json.loads(text):
                    case {"label": str(text)}:
                        pass
        label = read_label(text, self.labels)
        right_labels = getattr(self, "correct_labels", ())
        return {"label": label, "is_correct": float(label in right_labels)}


@dataclass(frozen=True)
class ModelClassifier(_LabelJudge):
    """Asks for a label of one of two kinds: value `is_correct`; `label` is the metadata."""

    system_prompt: str | None = "You judge the output of another model."
    correct_labels: tuple[str, ...] = field(kw_only=True)
    incorrect_labels: tuple[str, ...] = field(kw_only=True)

    type = "model_as_a_judge_classifier"
    title = "Model Classifier"
    label_fields = ("correct_labels", "incorrect_labels")
    value_types: ClassVar[Types] = {"is_correct": pl.Float64()}
    metadata_types: ClassVar[Types] = {"label": pl.String(), **_WORDS}
    main_value = "is_correct"
    default_metric_name = "Accuracy"


@dataclass(frozen=True)
class ModelLabeler(_LabelJudge):
    """Asks for a label, which is the value."""

    system_prompt: str | None = "You label the output of another model."
    valid_labels: tuple[str, ...] = field(default=(), kw_only=True)

    type = "labeler_via_model"
    title = "Model Labeler"
    label_fields = ("valid_labels",)
    value_types: ClassVar[Types] = {"label": pl.String()}
    metadata_types: ClassVar[Types] = _WORDS
    default_metrics = ({"type": "frequency", "field": "label"},)


class ModelOutput(str):
    """The text that is judged; `choices` and `usage` of the whole reply can be reached through it.

    Files of both eras write `{{ model_output }}` and `{{ model_output.choices[0].message.content
    }}`.
    """

    __slots__ = ("choices", "usage")
    choices: object
    usage: object


def _name_scale(scale: Scale) -> str:
    return "from {:.15g} to {:.15g}".format(*scale)


# Reading what a judge says: the one score it names, or why there is none; never a guess.

#: More objects than this in one reply are not read.
_MOST_OBJECTS = 1_000


class UnreadableVerdict(Exception):  # noqa: N818 - it becomes a FAILED score, never an error of a run
    """A judge's text that names no score, or more than one; the message says which."""


def read_verdict(text: str, scale: Scale) -> Verdict:
    """Return the verdict that a judge's text holds. Raise UnreadableVerdict.

    It is a JSON object with a `score`, bare, in a code fence or with prose around it, or nothing
    but a number. Several objects must agree on the score. A score outside the scale is not moved
    into it.
    """
    text = text.strip()
    if not text:
        raise UnreadableVerdict("the reply is empty")
    objects = _parse_objects(text)
    if not objects and _to_number(text) is not None:
        objects = [{"score": text}]
    if not objects:
        raise UnreadableVerdict(f"the reply has no JSON object with a `score`: {shorten(text)}")
    verdicts = [_read_object(cells, scale) for cells in objects]
    scores = dict.fromkeys(score for score, _, _ in verdicts)
    if len(scores) > 1:
        listed = ", ".join(f"{score:.15g}" for score in scores)
        raise UnreadableVerdict(f"the reply names several scores: {listed}")
    return verdicts[0]


def _parse_objects(text: str) -> list[dict[str, object]]:
    """Return the JSON objects with a score in a text.

    An object without a score may hold one that has it.
    """
    objects = []
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        end = start + 1
        with suppress(ValueError, RecursionError):
            cells, after = _DECODER.raw_decode(text, start)
            if "score" in cells:
                end = after
                objects.append(cells)
        start = text.find("{", end)
    return objects


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object by its names in lower case. Raise UnreadableVerdict for two scores."""
    cells: dict[str, object] = {}
    for name, value in pairs:
        key = name.strip().lower()
        if key == "score" and key in cells:
            raise UnreadableVerdict("the reply names several scores in one object")
        cells[key] = value
    return cells


_DECODER = json.JSONDecoder(object_pairs_hook=_build_object, strict=False)


def _read_object(cells: Mapping[str, object], scale: Scale) -> Verdict:
    """Return the verdict of one object. Raise UnreadableVerdict."""
    score = _to_number(cells["score"])
    if score is None:
        raise UnreadableVerdict(f"the score is {shorten(cells['score'])}, not a number")
    if not scale[0] <= score <= scale[1]:
        limits = _name_scale(scale)
        raise UnreadableVerdict(f"the score is {score:.15g}, and the scale goes {limits}")
    reasoning = cells.get("reasoning")
    if not isinstance(reasoning, str | None):
        reasoning = json.dumps(reasoning, ensure_ascii=False)
    confidence = _to_number(cells.get("confidence"))
    if confidence is not None and not 0 <= confidence <= 1:
        confidence = None
    return score, reasoning, confidence


def read_label(text: str, labels: Sequence[str]) -> str:
    """Return the label that a judge's text is. Raise UnreadableVerdict.

    Without labels, any text is one. White space, quotes and a final full stop are ignored, unless
    they belong to a label. Case matters.
    """
    text = text.strip()
    bare = text.strip(_BLANKS_AND_QUOTES)
    shortest = bare.removesuffix(".").rstrip(_BLANKS_AND_QUOTES)
    for label in (text, bare, shortest):
        if label and label in labels:
            return label
    if not shortest:
        raise UnreadableVerdict("the reply is empty")
    if labels:
        raise UnreadableVerdict(f"the reply is none of the labels: {shorten(text)}")
    return shortest


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        number = float(value)
        if math.isfinite(number):
            return number
    return None
