"""The scorers that ask another model about a completion: for a number, for right or wrong, for a label.

Metadata of all: `judge_text` (the judge's whole reply) and `judge_error` (why there is no score), both also
when the sample is FAILED.
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
from typing import TYPE_CHECKING, ClassVar, Self

import polars as pl

from answerkey.errors import InternalError, SpecError
from answerkey.models.config import Model
from answerkey.reader.characters import WHITE_SPACE
from answerkey.reader.explain import shorten
from answerkey.reader.markup import split_thoughts
from answerkey.scorers.base import (
    CALL_FAILED,
    RowFault,
    RowProblem,
    Scorer,
    build_scores,
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
    Notice,
    Question,
    Sample,
    Samples,
    Scores,
    ScoreStatus,
)

if TYPE_CHECKING:
    from answerkey.models.model import LiveModel

JUDGE_CALL_FAILED = "JUDGE_CALL_FAILED"
JUDGE_UNREADABLE = "JUDGE_UNREADABLE"
#: How an endpoint says no to a request that asks for JSON of a given shape.
_REFUSALS = ("HTTP 400", "HTTP 404", "HTTP 415", "HTTP 422", "HTTP 501")
#: What the prompts of a judge may use.
NAMES = ("sample", "solver_output", "model_output", "messages", "input_prompt", "trace", "model_outputs")
#: What a judge is asked for where the endpoint can be asked for a shape; it gives reasons before it decides.
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

#: How a judge is asked for a label; what is said of one may be taken away from both of its ends.
_LABELS = "Answer with one of these labels and nothing else: "
_ANY_LABEL = "Answer with the label and nothing else."
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u2039\u203a\u00ab\u00bb"
_BLANKS_AND_QUOTES = WHITE_SPACE + _QUOTES

Prompt = list[dict[str, object]]


#: The lowest and the highest score that a judge may give.
Scale = tuple[float, float]
#: What a judge said, on its own scale: the score, its reasoning, its confidence.
Verdict = tuple[float, str | None, float | None]


@dataclass(frozen=True)
class ModelJudge(Scorer):
    """Asks a model about each completion; before it can, `bind` gives it the model of `model_key`.

    `columns` are the values and metadata that a reply says, by name; a kind of judge says how it asks for
    them (`schema`, `form`) and how it reads them (`read_reply`).
    """

    model_key: str
    user_prompt: str
    system_prompt: str | None = None
    use_structured_outputs: bool = False
    _model: Model | None = field(default=None, kw_only=True)
    _key: str = field(default="", kw_only=True)
    _learned: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    columns: ClassVar[Mapping[str, pl.DataType]]
    template_fields = ("system_prompt", "user_prompt")

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, object]:
        """The JSON that is asked for where the endpoint can be asked for a shape."""

    @property
    @abstractmethod
    def form(self) -> str:
        """How the judge is to answer: the end of its prompt."""

    @abstractmethod
    def read_reply(self, text: str) -> dict[str, object]:
        """Return `columns` as a reply says them; raise UnreadableVerdict."""

    @property
    def needs_completion(self) -> bool:
        """Whether a prompt shows the completion; False for a judge of the samples themselves."""
        return any(reads_completion(getattr(self, name)) for name in self.template_fields)

    def compile_field(self, field: str) -> Template | None:
        """Return the template of one field, which sees the sample and its completion."""
        source = getattr(self, field)
        return None if source is None else Template.compile(source, names=NAMES)

    def check_rows(self, samples: Samples) -> tuple[list[RowProblem], list[Notice]]:
        """Return the rows on which a prompt fails, as far as that can be told without a completion.

        A prompt that reads the completion is only tried on the first row, for columns that do not exist.
        """
        templates, errors = compile_templates(self)
        if errors or not len(samples):
            return [], []
        faulty: list[tuple[int, RowFault]] = []
        for name, template in templates.items():
            if reads_completion(getattr(self, name)):
                one = _try_prompt(template, samples.row(0), Completion(""))
                known = {None, *samples.columns}
                is_missing = one is not None and one.is_undefined and one.column not in known
                values: list[object] = [one] if is_missing else []
            else:
                values = Template.compile(template.source).values(samples)
            problems = [(row, value) for row, value in enumerate(values) if isinstance(value, RowError)]
            faulty += [(row, RowFault.from_error(name, one)) for row, one in problems]
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The prompts that read the completion."""
        given = [name for name in self.template_fields if getattr(self, name) is not None]
        return tuple(name for name in given if reads_completion(getattr(self, name)))

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowError | None:
        """Return what goes wrong with a prompt on these rows; None when nothing does."""
        template = self.templates()[field]
        rows = zip(samples.rows(), completions.rows(), strict=True)
        return next((one for row in rows if (one := _try_prompt(template, *row)) is not None), None)

    def bind(self, model: Model, *, key: str) -> Self:
        """Return the scorer with its model; `key` is the scorer's own, under which its calls are kept."""
        if getattr(model, "needs", None):
            message = f"model `{model.name}` answers multiple-choice questions and cannot judge"
            raise SpecError("E301", message, hint="name a live model without `answer_format` in `model_key`")
        return replace(self, _model=model, _key=key)

    @property
    def model(self) -> Model:
        """The model that it was bound to."""
        if self._model is None:
            raise InternalError("E901", f"the judge `{self.model_key}` was not bound to a model")
        return self._model

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a reply that cannot be read is asked for once more, then the row is FAILED."""
        judged: dict[int, Judged] = {}
        prompts: dict[int, Prompt] = {}
        templates, needs_completion = self.templates(), self.needs_completion
        rows = zip(samples.rows(), completions.rows(), strict=True)
        for position, (sample, completion) in enumerate(rows):
            if needs_completion and completion.status is CompletionStatus.ERROR:
                judged[position] = Judged(ScoreStatus.ERROR, CALL_FAILED)
                continue
            try:
                context = build_context(sample, completion)
                prompts[position] = [
                    {"role": role, "content": templates[name].render(**context)}
                    for role, name in (("system", "system_prompt"), ("user", "user_prompt"))
                    if name in templates
                ]
            except RowError as problem:
                judged[position] = Judged(ScoreStatus.FAILED, "TEMPLATE_FAILED", error=problem.message)
            else:
                asked = prompts[position][-1]
                asked["content"] = f"{str(asked['content']).rstrip()}\n\n{self.form}"
        trials, ids = completions.frame["trial"].to_list(), samples.ids.to_list()
        judged |= self._judge(prompts, ids, trials)
        repairs = {
            position: build_repair(prompts[position], one.text, str(one.error), self.form)
            for position, one in judged.items()
            if one.reason == JUDGE_UNREADABLE
        }
        for position, second in self._judge(repairs, ids, trials).items():
            judged[position] = replace(second, text=second.text or judged[position].text)
        found = [judged[position] for position in range(len(samples))]
        said = {
            name: pl.Series([one.said.get(name) for one in found], dtype=dtype)
            for name, dtype in self.columns.items()
            if name in {*(self.value_names or ()), *(self.metadata_names or ())}
        }
        values = {name: said.pop(name) for name in self.value_names or ()}
        return build_scores(
            pl.Series([one.status.value for one in found], dtype=pl.String),
            pl.Series([one.reason for one in found], dtype=pl.String),
            values,
            metadata=said,
            kept={
                "judge_text": pl.Series([one.text for one in found], dtype=pl.String),
                "judge_error": pl.Series([one.error for one in found], dtype=pl.String),
            },
        )

    def close(self) -> None:
        """Close the connections of the judge's own; the model it was given is its opener's to close."""
        if "_shaped" in self.__dict__ and self._shaped is not None:
            self._shaped.close()

    def _judge(
        self, prompts: Mapping[int, Prompt], ids: Sequence[str], trials: Sequence[int]
    ) -> dict[int, Judged]:
        """Return what the judge says to each prompt; each trial is asked for itself."""
        judged: dict[int, Judged] = {}
        for trial in sorted({trials[position] for position in prompts}):
            asked = [position for position in prompts if trials[position] == trial]
            questions = [Question(ids[position], prompts[position]) for position in asked]
            for position, said in zip(asked, self._ask(questions, trial), strict=True):
                judged[position] = self._read(said)
        return judged

    def _ask(self, questions: Sequence[Question], trial: int) -> list[Completion]:
        """Return the replies; the first one shows whether the endpoint can be asked for a shape."""
        shaped, takes_shapes = self._shaped, self._learned.get("takes shapes")
        if shaped is None or takes_shapes is False:
            return self._answer(self.model, questions, trial)
        if takes_shapes:
            return self._answer(shaped, questions, trial)
        first = self._answer(shaped, questions[:1], trial)
        is_refused = (first[0].error or "").startswith(_REFUSALS)
        self._learned["takes shapes"] = not is_refused
        if is_refused:
            return self._answer(self.model, questions, trial)
        return first + self._answer(shaped, questions[1:], trial)

    def _answer(self, model: Model, questions: Sequence[Question], trial: int) -> list[Completion]:
        return [*call_model(model, questions, trial=trial, purpose=f"judge:{self._key}")]

    @cached_property
    def _shaped(self) -> LiveModel | None:
        """The same model, asked for JSON of our shape; None where that is not wanted or not possible."""
        from answerkey.models.model import LiveModel

        if not self.use_structured_outputs or not isinstance(self.model, LiveModel):
            return None
        connection = self.model.connection.ask_for(self.schema)
        return None if connection is self.model.connection else replace(self.model, connection=connection)

    def _read(self, said: Completion) -> Judged:
        if said.status is CompletionStatus.ERROR:
            return Judged(ScoreStatus.ERROR, JUDGE_CALL_FAILED, error=said.error)
        if said.text is None:
            why = "the judge refused" if said.status is CompletionStatus.REFUSED else "the reply has no text"
            return Judged(ScoreStatus.FAILED, JUDGE_UNREADABLE, error=why)
        # A live model's thoughts are apart already, unless `thinking: keep` is set.
        _, text = split_thoughts(said.text) or ("", said.text)
        try:
            found = self.read_reply(text)
        except UnreadableVerdict as problem:
            cut = " (the reply was cut off by the token limit)" if said.finish_reason == "length" else ""
            return Judged(ScoreStatus.FAILED, JUDGE_UNREADABLE, text=said.text, error=f"{problem}{cut}")
        return Judged(ScoreStatus.SCORED, said=found, text=said.text)


@dataclass(frozen=True)
class ModelAsAJudge(ModelJudge):
    """Asks for a number: value `score`, from 0 to 1; `raw_score` is what the judge said."""

    use_structured_outputs: bool = True
    score_min: float = 0.0
    score_max: float = 1.0

    type = "model_as_a_judge_scorer"
    title = "Model Scorer"
    columns: ClassVar[Mapping[str, pl.DataType]] = {
        "score": pl.Float64(),
        "reasoning": pl.String(),
        "confidence": pl.Float64(),
        "raw_score": pl.Float64(),
    }
    value_names = ("score",)
    metadata_names = ("reasoning", "confidence", "raw_score", "judge_text", "judge_error")
    main_value = "score"
    default_metric_name = "Mean Score"
    schema = SCHEMA

    @property
    def form(self) -> str:
        """JSON with the score, and the scale."""
        return _FORM.format(scale=_name_scale(self.scale))

    def read_reply(self, text: str) -> dict[str, object]:
        """Return the score, brought to a scale from 0 to 1, and what else the judge said."""
        raw, reasoning, confidence = read_verdict(text, self.scale)
        score = (raw - self.score_min) / (self.score_max - self.score_min)
        return {"score": score, "reasoning": reasoning, "confidence": confidence, "raw_score": raw}

    @property
    def scale(self) -> Scale:
        """The scores that the judge may give."""
        return self.score_min, self.score_max

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """Scores are brought to a scale from 0 to 1."""
        return {"score": (0.0, 1.0), "confidence": (0.0, 1.0), "raw_score": self.scale}

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return what is wrong with the scale."""
        if all(map(math.isfinite, self.scale)) and self.score_min < self.score_max:
            return []
        message = f"`score_max` is {self.score_max:g}, which is not above `score_min`, {self.score_min:g}"
        return [("score_max", SpecError("E108", message, hint="give the ends of the judge's scale"))]


@dataclass(frozen=True)
class _LabelJudge(ModelJudge):
    """Asks for one of the labels of `label_fields`; for any where these are empty."""

    label_fields: ClassVar[tuple[str, ...]]
    columns: ClassVar[Mapping[str, pl.DataType]] = {"is_correct": pl.Float64(), "label": pl.String()}

    @property
    def labels(self) -> list[str]:
        """The labels that there are."""
        return [label for name in self.label_fields for label in getattr(self, name)]

    @property
    def schema(self) -> Mapping[str, object]:
        """One label of those that there are."""
        label = {"type": "string"} | ({"enum": self.labels} if self.labels else {})
        return dict(SCHEMA) | {"properties": {"label": label}, "required": ["label"]}

    @property
    def form(self) -> str:
        """The labels that there are."""
        listed = ", ".join(json.dumps(one, ensure_ascii=False) for one in self.labels)
        return f"{_LABELS}{listed}" if listed else _ANY_LABEL

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return labels that are given twice, and what tells right from wrong and has none."""
        names = [name for name in self.label_fields for _ in getattr(self, name)]
        missing = {*self.label_fields} - {*names} if self.main_value else ()
        wrong = {name: f"`{name}` is empty" for name in missing}
        for place, label in enumerate(self.labels):
            if label in self.labels[:place]:
                wrong[names[place]] = f"the label {label!r} is given twice"
        hint = "list what the judge may answer, each label once: `[correct]`, `[incorrect]`"
        return [(name, SpecError("E108", message, hint=hint)) for name, message in wrong.items()]

    def read_reply(self, text: str) -> dict[str, object]:
        """Return the label, and whether it is one for right; JSON that was asked for is taken off."""
        if self.use_structured_outputs:
            with suppress(ValueError, RecursionError):
                match json.loads(text):
                    case {"label": str(text)}:
                        pass
        label = read_label(text, self.labels)
        return {"label": label, "is_correct": float(label in getattr(self, "correct_labels", ()))}


@dataclass(frozen=True)
class ModelClassifier(_LabelJudge):
    """Asks for a label of one of two kinds: value `is_correct`; `label` is the metadata."""

    system_prompt: str | None = "You judge the output of another model."
    correct_labels: tuple[str, ...] = field(kw_only=True)
    incorrect_labels: tuple[str, ...] = field(kw_only=True)

    type = "model_as_a_judge_classifier"
    title = "Model Classifier"
    label_fields = ("correct_labels", "incorrect_labels")
    value_names = ("is_correct",)
    metadata_names = ("label", "judge_text", "judge_error")
    text_names = metadata_names
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
    value_names = ("label",)
    metadata_names = ("judge_text", "judge_error")
    text_names = ("label", "judge_text", "judge_error")
    main_value = None
    default_metric_name = None
    default_metrics = ({"type": "frequency", "field": "label"},)


def _try_prompt(template: Template, sample: Sample, completion: Completion) -> RowError | None:
    try:
        template.render(**build_context(sample, completion))
    except RowError as problem:
        return problem
    return None


@dataclass(frozen=True)
class Judged:
    """What became of one sample: what the judge said, or why that is nothing; and its own words."""

    status: ScoreStatus
    reason: str | None = None
    said: Mapping[str, object] = field(default_factory=dict)
    text: str | None = None
    error: str | None = None


# What a judge is asked: the user's prompts on a sample and its completion, and the form of the answer.


class ModelOutput(str):
    """The text that is judged; `choices` and `usage` of the whole reply can be reached through it.

    Files of both eras write `{{ model_output }}` and `{{ model_output.choices[0].message.content }}`.
    """

    __slots__ = ("choices", "usage")
    choices: object
    usage: object


def build_context(sample: Sample, completion: Completion) -> dict[str, object]:
    """Return what the prompts see; `input_prompt` is the text that is judged, as the format calls it.

    That is the answer, the words of a refusal, or nothing.
    """
    solver_output = completion.solver_output()
    text = completion.text
    if text is None:
        refusal = (completion.reply or {}).get("refusal")
        text = refusal if isinstance(refusal, str) else ""
    said, whole = ModelOutput(text), solver_output["output"]
    for name in ModelOutput.__slots__:
        setattr(said, name, whole.get(name) if isinstance(whole, Mapping) else None)
    return {
        "sample": sample,
        "solver_output": solver_output,
        "model_output": said,
        "input_prompt": text,
        **{name: solver_output[name] for name in ("messages", "trace", "model_outputs")},
    }


def _name_scale(scale: Scale) -> str:
    return "from {:.15g} to {:.15g}".format(*scale)


def build_repair(prompt: Prompt, said: str | None, why: str, form: str) -> Prompt:
    """Return the messages that ask once more, with what was said and what is wrong with it."""
    again = f"Your reply could not be used: {why}. {form}"
    if said and said.strip():
        return [*prompt, {"role": "assistant", "content": said}, {"role": "user", "content": again}]
    # Some endpoints refuse an empty message, so an empty reply is not repeated to the judge.
    *earlier, last = prompt
    return [*earlier, {**last, "content": f"{last['content']}\n\n{again}"}]


# Reading what a judge says: the one score it names, or why there is none; never a guess.

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
#: A judge that goes on for longer than this is not read to the end in every way.
_LONGEST_LITERAL, _MOST_OBJECTS = 20_000, 1_000


class UnreadableVerdict(Exception):  # noqa: N818 - it becomes a FAILED score, never an error of a run
    """A judge's text that names no score, or more than one; the message says which."""


def read_verdict(text: str, scale: Scale) -> Verdict:
    """Return the verdict that a judge's text holds; raise UnreadableVerdict.

    It is a JSON object with a `score`, bare, in a code fence or with prose around it; a Python literal will
    do. A text that is nothing but a number is a score too. Several objects must agree on the score. A score
    outside the scale is not moved into it.
    """
    text = text.strip()
    if not text:
        raise UnreadableVerdict("the reply is empty")
    objects: list[_Object] = []
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        end = start + 1
        with suppress(ValueError, RecursionError):
            value, after = _DECODER.raw_decode(text, start)
            # An object without a score may hold one that has it.
            if value.list_scores():
                end = after
                objects.append(value)
        start = text.find("{", end)
    if not objects:
        whole = text[text.find("{") : text.rfind("}") + 1]
        pieces = [*(match.group(1) for match in _FENCE.finditer(text)), whole]
        objects = [pairs for piece in dict.fromkeys(pieces) if (pairs := _read_literal(piece.strip()))]
    if not objects and _to_number(text) is None:
        raise UnreadableVerdict(f"the reply has no JSON object with a `score`: {shorten(text)}")
    if not objects:
        return _read_score(text, scale), None, None
    found: list[Verdict] = []
    for pairs in objects:
        scores = {_read_score(value, scale) for value in pairs.list_scores()}
        if len(scores) > 1:
            raise UnreadableVerdict("the reply names several scores in one object")
        said = {name.strip().lower(): value for name, value in pairs}
        reasoning, confidence = said.get("reasoning"), _to_number(said.get("confidence"))
        if not isinstance(reasoning, str | None):
            reasoning = json.dumps(reasoning, ensure_ascii=False, default=str)
        # A confidence that does not lie between 0 and 1 is not kept.
        is_share = confidence is not None and 0 <= confidence <= 1
        found.append((scores.pop(), reasoning, confidence if is_share else None))
    several = dict.fromkeys(score for score, _, _ in found)
    if len(several) > 1:
        listed = ", ".join(f"{score:.15g}" for score in several)
        raise UnreadableVerdict(f"the reply names several scores: {listed}")
    return max(found, key=lambda one: (one[1] is not None, one[2] is not None))


def read_label(text: str, labels: Sequence[str]) -> str:
    """Return the label that a judge's text is; raise UnreadableVerdict. Without labels, any text is one.

    White space, quotes and a final full stop are taken away, unless they belong to a label. Case matters.
    """
    said = text.strip()
    bare = said.strip(_BLANKS_AND_QUOTES)
    shortest = bare.removesuffix(".").rstrip(_BLANKS_AND_QUOTES)
    found = next((one for one in (said, bare, shortest) if one in labels), None if labels else shortest)
    if not found:
        why = f"none of the labels: {shorten(said)}" if shortest else "empty"
        raise UnreadableVerdict(f"the reply is {why}")
    return found


class _Object(list[tuple[str, object]]):
    """The pairs of a JSON object, also those with the same name."""

    def list_scores(self) -> list[object]:
        return [value for name, value in self if name.strip().lower() == "score"]


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, strict=False)


def _read_literal(piece: str) -> _Object | None:
    """Return the pairs of a dict written in Python: single quotes, a comma too many."""
    if len(piece) > _LONGEST_LITERAL or not piece.startswith("{"):
        return None
    try:
        tree = parse_syntax(piece, "eval").body
        if not isinstance(tree, ast.Dict) or None in tree.keys:
            return None
        names = [ast.literal_eval(key) for key in tree.keys if key is not None]
        values = [ast.literal_eval(value) for value in tree.values]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    pairs = _Object((str(name), value) for name, value in zip(names, values, strict=True))
    return pairs if pairs.list_scores() else None


def _read_score(value: object, scale: Scale) -> float:
    number = _to_number(value)
    if number is None:
        raise UnreadableVerdict(f"the score is {shorten(value)}, not a number")
    if not scale[0] <= number <= scale[1]:
        raise UnreadableVerdict(f"the score is {number:.15g}, and the scale goes {_name_scale(scale)}")
    return number


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        number = float(value)
        return number if math.isfinite(number) else None
    return None
