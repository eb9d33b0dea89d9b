"""The scorers that ask another model about a completion: for a score, a verdict, or a label.

Metadata of all: `judge_text` (the judge's whole reply) and `judge_error` (why there is no score),
both also when the sample is FAILED.
"""

from __future__ import annotations

import ast
import json
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

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
    RowChecks,
    RowFault,
    Scorer,
    Types,
    call_by_trial,
    call_model,
    compile_templates,
    reads_completion,
    report_faults,
)
from answerkey.templates import RowError, Template
from answerkey.text import parse_syntax
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Request,
    Row,
    Samples,
    Score,
    ScoreStatus,
)

if TYPE_CHECKING:
    from answerkey.models.model import LiveModel

JUDGE_CALL_FAILED = "JUDGE_CALL_FAILED"
JUDGE_UNREADABLE = "JUDGE_UNREADABLE"
#: How an endpoint rejects a request that asks for JSON of a given schema.
_REFUSALS = ("HTTP 400", "HTTP 404", "HTTP 415", "HTTP 422", "HTTP 501")
#: What the prompts of a judge may use.
NAMES = (
    "sample",
    "solver_output",
    "model_output",
    "messages",
    "input_prompt",
    "trace",
    "model_outputs",
)
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

_WORDS: Types = {"judge_text": pl.String(), "judge_error": pl.String()}
#: The lowest and the highest score that a judge may give.
Scale = tuple[float, float]


class Verdict(NamedTuple):
    """What a judge said, on its own scale."""

    score: float
    reasoning: str | None = None
    confidence: float | None = None


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
    _learned: dict[str, bool] = field(
        default_factory=dict,
        init=False,
        repr=False,
        compare=False,
    )

    template_fields = ("system_prompt", "user_prompt")

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

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The prompts that read the completion."""
        return tuple(name for name in self.template_fields if reads_completion(getattr(self, name)))

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field, which sees the sample and its completion."""
        source = getattr(self, field)
        if source is None:
            return None
        return Template.compile(source, names=NAMES)

    def check_rows(self, samples: Samples) -> RowChecks:
        """Return the rows on which a prompt fails, as far as that shows without a completion.

        A prompt that reads the completion is only tried on the first row, for columns that do not
        exist.
        """
        templates, errors = compile_templates(self)
        if errors or not len(samples):
            return [], []
        faults = []
        for name, template in templates.items():
            if name in self.completion_fields:
                values: list[object] = [_find_missing_column(template, samples)]
            else:
                values = Template.compile(template.source).values(samples)
            for row, value in enumerate(values):
                if isinstance(value, RowError):
                    faults.append((row, RowFault.from_error(name, value)))
        return report_faults(faults, templates, samples), []

    def try_field(
        self,
        field: str,
        samples: Samples,
        completions: Completions,
    ) -> RowError | None:
        """Return the first error of a prompt on these rows; None if there is none."""
        template = self.templates()[field]
        for sample, completion in zip(
            samples.rows(),
            completions.rows(),
            strict=True,
        ):
            problem = _try_prompt(template, sample, completion)
            if problem is not None:
                return problem
        return None

    def bind(
        self,
        model: Model,
        *,
        key: str,
    ) -> Self:
        """Return the scorer with its model; its calls are stored under `key`, the scorer's own."""
        if getattr(model, "needs", None):
            message = f"model `{model.name}` answers multiple-choice questions and cannot judge"
            hint = "name a live model in `model_key`"
            raise SpecError("E301", message, hint=hint)
        return replace(self, _model=model, _key=key)

    @property
    def model(self) -> Model:
        """The model that the judge is bound to."""
        if self._model is None:
            raise InternalError("E901", f"the judge `{self.model_key}` was not bound to a model")
        return self._model

    def score(self, samples: Samples, completions: Completions) -> list[Score]:
        """Return the scores.

        A reply that cannot be read is asked for once more, then the row is FAILED.
        """
        prompts = {}
        scores = {}
        templates = self.templates()
        needs_completion = self.needs_completion
        rows = zip(samples.rows(), completions, strict=True)
        for row, (sample, completion) in enumerate(rows):
            if needs_completion and completion.status is CompletionStatus.ERROR:
                scores[row] = UNANSWERED
                continue
            try:
                prompts[row] = build_prompt(templates, sample, completion, self.form)
            except RowError as problem:
                scores[row] = _fail("TEMPLATE_FAILED", problem.message)
        scores |= self._judge(prompts, completions)
        repairs = {}
        for row, score in scores.items():
            if score.reason == JUDGE_UNREADABLE:
                repairs[row] = build_repair(prompts[row], score.metadata, self.form)
        for row, score in self._judge(repairs, completions).items():
            text = score.metadata.get("judge_text") or scores[row].metadata["judge_text"]
            scores[row] = replace(score, metadata={**score.metadata, "judge_text": text})
        return [scores[row] for row in range(len(samples))]

    def close(self) -> None:
        """Close the judge's own connections; whoever opened the model it was given closes that."""
        if "_structured" in self.__dict__ and self._structured is not None:
            self._structured.close()

    def _judge(self, prompts: Mapping[int, Prompt], completions: Completions) -> dict[int, Score]:
        """Return the judge's score for each prompt."""
        replies = call_by_trial(self._call, prompts, completions)
        return {row: self._read(reply) for row, reply in replies.items()}

    def _call(
        self,
        requests: Sequence[Request],
        trial: int,
    ) -> Sequence[Completion]:
        """Return the replies; the first one shows whether the endpoint takes a schema."""
        purpose = f"judge:{self._key}"
        structured = self._structured
        takes_schema = self._learned.get("takes schema")
        if structured is None or takes_schema is False:
            return call_model(self.model, requests, trial, purpose)
        if takes_schema:
            return call_model(structured, requests, trial, purpose)
        [first] = call_model(structured, requests[:1], trial, purpose)
        is_refused = (first.error or "").startswith(_REFUSALS)
        self._learned["takes schema"] = not is_refused
        if is_refused:
            return call_model(self.model, requests, trial, purpose)
        return [first, *call_model(structured, requests[1:], trial, purpose)]

    @cached_property
    def _structured(self) -> LiveModel | None:
        """The same model, asked for JSON of our schema; None if that is not wanted or possible."""
        from answerkey.models.model import calls_endpoint

        if not self.use_structured_outputs or not calls_endpoint(self.model):
            return None
        return self.model.with_schema(self.schema)

    def _read(self, reply: Completion) -> Score:
        """Return the score that a reply gives."""
        if reply.status is CompletionStatus.ERROR:
            failure = {"judge_error": reply.error}
            return Score(ScoreStatus.ERROR, JUDGE_CALL_FAILED, metadata=failure)
        if reply.status is CompletionStatus.REFUSED:
            return _fail(JUDGE_UNREADABLE, "the judge refused")
        if reply.text is None:
            return _fail(JUDGE_UNREADABLE, "the reply has no text")
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


def _fail(
    reason: str,
    error: str,
    text: str | None = None,
) -> Score:
    metadata = {"judge_text": text, "judge_error": error}
    return Score(ScoreStatus.FAILED, reason, metadata=metadata)


@dataclass(frozen=True)
class ModelAsAJudge(ModelJudge):
    """Asks for a number: value `score`, from 0 to 1; `raw_score` is what the judge said."""

    use_structured_outputs: bool = True
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
        verdict = read_verdict(text, self.scale)
        score = (verdict.score - self.score_min) / (self.score_max - self.score_min)
        return {**verdict._asdict(), "score": score, "raw_score": verdict.score}

    @property
    def scale(self) -> Scale:
        """The scores that the judge may give."""
        return self.score_min, self.score_max

    @property
    def scales(self) -> Mapping[str, Scale]:
        """Scores are brought to a scale from 0 to 1."""
        return {"score": (0.0, 1.0), "confidence": (0.0, 1.0), "raw_score": self.scale}

    def check_fields(self) -> FieldErrors:
        """Return what is wrong with the scale."""
        if all(map(math.isfinite, self.scale)) and self.score_min < self.score_max:
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
        return [label for name in self.label_fields for label in getattr(self, name)]

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
        quoted = [json.dumps(label, ensure_ascii=False) for label in self.labels]
        return _LABELS + ", ".join(quoted) if quoted else _ANY_LABEL

    def check_fields(self) -> FieldErrors:
        """Return labels that are listed twice, and empty fields of a judge of right and wrong."""
        messages = {}
        seen = set()
        for name in self.label_fields:
            labels = getattr(self, name)
            if not labels and self.main_value:
                messages[name] = f"`{name}` is empty"
            for label in labels:
                if label in seen:
                    messages[name] = f"the label {label!r} is given twice"
                seen.add(label)
        hint = "list what the judge may answer, each label once: `[correct]`, `[incorrect]`"
        return [
            (
                name,
                SpecError(
                    "E108",
                    text,
                    hint=hint,
                ),
            )
            for name, text in messages.items()
        ]

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
        return {
            "label": label,
            "is_correct": float(
                label
                in getattr(
                    self,
                    "correct_labels",
                    (),
                )
            ),
        }


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


# What a judge is asked: the user's prompts on a sample and its completion, and the form of the
# answer.


class ModelOutput(str):
    """The text that is judged; `choices` and `usage` of the whole reply can be reached through it.

    Files of both eras write `{{ model_output }}` and `{{ model_output.choices[0].message.content
    }}`.
    """

    __slots__ = ("choices", "usage")
    choices: object
    usage: object


def build_context(sample: Row, completion: Completion) -> dict[str, object]:
    """Return what the prompts see.

    `input_prompt` is the text that is judged, as the format calls it: the answer, the words of a
    refusal, or nothing.
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


def build_prompt(
    templates: Mapping[str, Template],
    sample: Row,
    completion: Completion,
    form: str,
) -> Prompt:
    """Return the messages that ask about one completion. Raise RowError."""
    context = build_context(sample, completion)
    prompt = []
    if "system_prompt" in templates:
        text = templates["system_prompt"].render(**context)
        prompt.append({"role": "system", "content": text})
    text = templates["user_prompt"].render(**context)
    prompt.append({"role": "user", "content": f"{text.rstrip()}\n\n{form}"})
    return prompt


def build_repair(
    prompt: Prompt,
    judged: Mapping[str, object],
    form: str,
) -> Prompt:
    """Return the messages that ask once more, with the judge's text and what is wrong with it."""
    text = str(judged["judge_text"] or "")
    again = f"Your reply could not be used: {judged['judge_error']}. {form}"
    if text.strip():
        reply = {"role": "assistant", "content": text}
        return [*prompt, reply, {"role": "user", "content": again}]
    # Some endpoints refuse an empty message, so an empty reply is not repeated to the judge.
    *earlier, last = prompt
    return [*earlier, {**last, "content": f"{last['content']}\n\n{again}"}]


def _try_prompt(
    template: Template,
    sample: Row,
    completion: Completion,
) -> RowError | None:
    try:
        template.render(**build_context(sample, completion))
    except RowError as problem:
        return problem
    return None


def _find_missing_column(template: Template, samples: Samples) -> RowError | None:
    """Return the error about a column that does not exist; None if the prompt reads no such."""
    problem = _try_prompt(template, samples.row(0), Completion(""))
    if problem is None or not problem.is_undefined or problem.column in {None, *samples.columns}:
        return None
    return problem


def _name_scale(scale: Scale) -> str:
    return "from {:.15g} to {:.15g}".format(*scale)


# Reading what a judge says: the one score it names, or why there is none; never a guess.

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
#: Longer literals, and more objects than this in one reply, are not read.
_LONGEST_LITERAL = 20_000
_MOST_OBJECTS = 1_000
#: The names and values of an object, in order; a name may occur twice.
_Pairs = list[tuple[str, object]]


class UnreadableVerdict(Exception):  # noqa: N818 - it becomes a FAILED score, never an error of a run
    """A judge's text that names no score, or more than one; the message says which."""


def read_verdict(text: str, scale: Scale) -> Verdict:
    """Return the verdict that a judge's text holds. Raise UnreadableVerdict.

    It is a JSON object with a `score`, bare, in a code fence or with prose around it; a Python
    literal will do. A text that is nothing but a number is a score too. Several objects must agree
    on the score. A score outside the scale is not moved into it.
    """
    text = text.strip()
    if not text:
        raise UnreadableVerdict("the reply is empty")
    objects = _parse_objects(text) or _parse_literals(text)
    if not objects:
        if _to_number(text) is None:
            raise UnreadableVerdict(f"the reply has no JSON object with a `score`: {shorten(text)}")
        return Verdict(_read_score(text, scale))
    verdicts = [_read_object(pairs, scale) for pairs in objects]
    scores = dict.fromkeys(verdict.score for verdict in verdicts)
    if len(scores) > 1:
        listed = ", ".join(f"{score:.15g}" for score in scores)
        raise UnreadableVerdict(f"the reply names several scores: {listed}")
    return max(verdicts, key=_rate_completeness)


def _rate_completeness(verdict: Verdict) -> tuple[bool, bool]:
    return verdict.reasoning is not None, verdict.confidence is not None


def _parse_objects(text: str) -> list[_Pairs]:
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
            pairs, after = _DECODER.raw_decode(text, start)
            if _list_scores(pairs):
                end = after
                objects.append(pairs)
        start = text.find("{", end)
    return objects


_DECODER = json.JSONDecoder(object_pairs_hook=list, strict=False)


def _parse_literals(text: str) -> list[_Pairs]:
    """Return the Python dicts with a score in code fences, or in the text from brace to brace."""
    pieces = _FENCE.findall(text)
    pieces.append(text[text.find("{") : text.rfind("}") + 1])
    objects = []
    for piece in dict.fromkeys(pieces):
        pairs = _parse_literal(piece.strip())
        if _list_scores(pairs):
            objects.append(pairs)
    return objects


def _parse_literal(piece: str) -> _Pairs:
    """Return the pairs of a dict written in Python: single quotes, a comma too many."""
    if len(piece) > _LONGEST_LITERAL or not piece.startswith("{"):
        return []
    pairs = []
    try:
        tree = parse_syntax(piece, "eval").body
        if not isinstance(tree, ast.Dict):
            return []
        for key, value in zip(tree.keys, tree.values, strict=True):
            if key is None:
                return []
            pairs.append((str(ast.literal_eval(key)), ast.literal_eval(value)))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []
    return pairs


def _list_scores(pairs: _Pairs) -> list[object]:
    return [value for name, value in pairs if name.strip().lower() == "score"]


def _read_object(pairs: _Pairs, scale: Scale) -> Verdict:
    """Return the verdict of one object. Raise UnreadableVerdict."""
    scores = {_read_score(value, scale) for value in _list_scores(pairs)}
    if len(scores) > 1:
        raise UnreadableVerdict("the reply names several scores in one object")
    cells = {name.strip().lower(): value for name, value in pairs}
    reasoning = cells.get("reasoning")
    if not isinstance(reasoning, str | None):
        reasoning = json.dumps(reasoning, ensure_ascii=False, default=str)
    confidence = _to_number(cells.get("confidence"))
    if confidence is not None and not 0 <= confidence <= 1:
        confidence = None
    return Verdict(scores.pop(), reasoning, confidence)


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


def _read_score(value: object, scale: Scale) -> float:
    number = _to_number(value)
    if number is None:
        raise UnreadableVerdict(f"the score is {shorten(value)}, not a number")
    if not scale[0] <= number <= scale[1]:
        limits = _name_scale(scale)
        raise UnreadableVerdict(f"the score is {number:.15g}, and the scale goes {limits}")
    return number


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        number = float(value)
        if math.isfinite(number):
            return number
    return None
