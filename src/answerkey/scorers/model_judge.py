"""The scorer `model_as_a_judge_scorer`: another model says how good the completion is.

Values: `score`, from 0 to 1. Metadata: `reasoning`, `confidence` and `raw_score` as the judge gave them,
`judge_text` (its whole reply) and `judge_error` (why there is no score), both also when the sample is FAILED.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import polars as pl

from answerkey.errors import InternalError, SpecError
from answerkey.models import LiveModel, Model, SnippetModel
from answerkey.scorers.base import (
    CALL_FAILED,
    BaseScorer,
    RowProblem,
    Scorer,
    build_scores,
    compile_templates,
)
from answerkey.scorers.judge_prompts import NAMES, Prompt, build_context, build_prompt, build_repair
from answerkey.scorers.judge_reading import SCHEMA, Scale, UnreadableVerdict, Verdict, read_verdict
from answerkey.scorers.row_faults import FieldFault, report_faults
from answerkey.templates import RowTrouble, Template
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Notice,
    Question,
    Samples,
    Scores,
    ScoreStatus,
)

JUDGE_CALL_FAILED = "JUDGE_CALL_FAILED"
JUDGE_UNREADABLE = "JUDGE_UNREADABLE"
TEMPLATE_FAILED = "TEMPLATE_FAILED"
#: How an endpoint says no to a request that asks for JSON of a given shape.
_REFUSALS = ("HTTP 400", "HTTP 404", "HTTP 415", "HTTP 422", "HTTP 501")


@runtime_checkable
class AskingScorer(Protocol):
    """A scorer that asks a model of its own, the one that `model_key` names."""

    @property
    def model_key(self) -> str:
        """How the file calls the model; found like the model of a task."""

    def bind(self, model: Model, *, key: str) -> Scorer:
        """Return the scorer that asks this model; `key` is the scorer's own, for the purpose of its calls."""


@dataclass(frozen=True)
class ModelAsAJudge(BaseScorer):
    """Asks a model to score each completion; before it can, `bind` gives it the model of `model_key`."""

    model_key: str
    user_prompt: str
    system_prompt: str | None = None
    score_min: float = 0.0
    score_max: float = 1.0
    use_structured_outputs: bool = True

    type: ClassVar[str] = "model_as_a_judge_scorer"
    title: ClassVar[str] = "Model Scorer"
    template_fields: ClassVar[tuple[str, ...]] = ("system_prompt", "user_prompt")
    value_names: ClassVar[tuple[str, ...] | None] = ("score",)
    metadata_names: ClassVar[tuple[str, ...] | None] = (
        "reasoning",
        "confidence",
        "raw_score",
        "judge_text",
        "judge_error",
    )
    main_value: ClassVar[str | None] = "score"
    default_metric_name: ClassVar[str | None] = "Mean Score"

    @property
    def needs_completion(self) -> bool:
        """Whether a prompt shows the completion; False for a judge of the samples themselves."""
        return any(_reads_completion(getattr(self, name)) for name in self.template_fields)

    @property
    def scale(self) -> Scale:
        """The scores that the judge may give."""
        return Scale(self.score_min, self.score_max)

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """Scores are brought to a scale from 0 to 1."""
        return {"score": (0.0, 1.0), "confidence": (0.0, 1.0), "raw_score": (self.score_min, self.score_max)}

    def check_fields(self) -> list[tuple[str, SpecError]]:
        """Return what is wrong with the scale."""
        ends = (self.score_min, self.score_max)
        if all(map(math.isfinite, ends)) and self.score_min < self.score_max:
            return []
        message = f"`score_max` is {self.score_max:g}, which is not above `score_min`, {self.score_min:g}"
        return [("score_max", SpecError("E108", message, hint="give the ends of the judge's scale"))]

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
        faulty: list[tuple[int, FieldFault]] = []
        for name, template in templates.items():
            if _reads_completion(getattr(self, name)):
                faulty += _try_first_row(name, template, samples)
            else:
                values = Template.compile(template.source).values(samples)
                faulty += _find_troubles(name, values)
        return report_faults(sorted(faulty, key=lambda one: one[0]), templates, samples), []

    @property
    def completion_fields(self) -> tuple[str, ...]:
        """The prompts that read the completion."""
        given = [name for name in self.template_fields if getattr(self, name) is not None]
        return tuple(name for name in given if _reads_completion(getattr(self, name)))

    def try_field(self, field: str, samples: Samples, completions: Completions) -> RowTrouble | None:
        """Return what goes wrong with a prompt on these rows; None when nothing does."""
        template = self.templates()[field]
        for sample, completion in zip(samples.rows(), completions.rows(), strict=True):
            try:
                template.render(**build_context(sample, completion))
            except RowTrouble as trouble:
                return trouble
        return None

    def bind(self, model: Model, *, key: str) -> BoundJudge:
        """Return the scorer with its model; `key` is the scorer's own, under which its calls are kept."""
        needs: frozenset[str] = getattr(model, "needs", frozenset())
        if needs:
            message = f"model `{model.name}` answers multiple-choice questions and cannot judge"
            raise SpecError("E301", message, hint="name a live model in `model_key`")
        own = {one.name: getattr(self, one.name) for one in fields(ModelAsAJudge)}
        return BoundJudge(**own, model=model, key=key)

    def score(self, samples: Samples, completions: Completions) -> Scores:  # noqa: ARG002 - the protocol's signature
        """Raise InternalError: without a model there is no judge."""
        raise InternalError("E901", f"the judge `{self.model_key}` was not bound to a model")


def _reads_completion(source: object) -> bool:
    """Return whether a prompt uses more than the sample; one that does not compile may."""
    try:
        Template.compile(source)
    except SpecError:
        return True
    return False


def _try_first_row(name: str, template: Template, samples: Samples) -> list[tuple[int, FieldFault]]:
    """Return the fault of a prompt that reads a column that does not exist."""
    try:
        template.render(**build_context(samples.row(0), Completion("")))
    except RowTrouble as trouble:
        if trouble.is_undefined and trouble.column is not None and trouble.column not in samples.columns:
            return [(0, FieldFault.from_trouble(name, trouble))]
    return []


def _find_troubles(name: str, values: Sequence[object]) -> list[tuple[int, FieldFault]]:
    return [
        (position, FieldFault.from_trouble(name, value))
        for position, value in enumerate(values)
        if isinstance(value, RowTrouble)
    ]


@dataclass(frozen=True)
class Judged:
    """What became of one sample: a verdict, or why there is none; and the judge's own words."""

    status: ScoreStatus
    reason: str | None = None
    verdict: Verdict | None = None
    text: str | None = None
    error: str | None = None


NO_CALL = Judged(ScoreStatus.ERROR, CALL_FAILED)


@dataclass(frozen=True)
class BoundJudge(ModelAsAJudge):
    """A judge with its model, ready to score."""

    model: Model = field(kw_only=True)
    key: str = ModelAsAJudge.type
    _learned: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def score(self, samples: Samples, completions: Completions) -> Scores:
        """Return the verdicts; a reply that cannot be read is asked for once more, then the row is FAILED."""
        judged: dict[int, Judged] = {}
        prompts: dict[int, Prompt] = {}
        for position, outcome in enumerate(self._build_prompts(samples, completions)):
            if isinstance(outcome, Judged):
                judged[position] = outcome
            else:
                prompts[position] = outcome
        trials = completions.frame["trial"].to_list()
        ids = samples.ids.to_list()
        judged |= self._judge(prompts, ids, trials)
        repairs: dict[int, Prompt] = {
            position: build_repair(prompts[position], one.text, str(one.error), self.scale)
            for position, one in judged.items()
            if one.reason == JUDGE_UNREADABLE
        }
        for position, second in self._judge(repairs, ids, trials).items():
            judged[position] = replace(second, text=second.text or judged[position].text)
        return self._build_table([judged[position] for position in range(len(samples))])

    def close(self) -> None:
        """Close the connections of the judge's own; the model it was given is its opener's to close."""
        if "_shaped" in self.__dict__ and self._shaped is not None:
            self._shaped.close()

    def _build_prompts(self, samples: Samples, completions: Completions) -> Iterator[Prompt | Judged]:
        templates = self.templates()
        system, user = templates.get("system_prompt"), templates["user_prompt"]
        needs_completion = self.needs_completion
        for sample, completion in zip(samples.rows(), completions.rows(), strict=True):
            if needs_completion and completion.status is CompletionStatus.ERROR:
                yield NO_CALL
                continue
            try:
                yield build_prompt(system, user, build_context(sample, completion), self.scale)
            except RowTrouble as trouble:
                yield Judged(ScoreStatus.FAILED, TEMPLATE_FAILED, error=trouble.message)

    def _judge(
        self, prompts: dict[int, Prompt], ids: Sequence[str], trials: Sequence[int]
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
        takes_shapes = self._learned.get("takes shapes")
        if self._shaped is None or takes_shapes is False:
            return self._answer(self.model, questions, trial)
        if takes_shapes:
            return self._answer(self._shaped, questions, trial)
        first = self._answer(self._shaped, questions[:1], trial)
        is_refused = (first[0].error or "").startswith(_REFUSALS)
        self._learned["takes shapes"] = not is_refused
        if is_refused:
            return self._answer(self.model, questions, trial)
        return first + self._answer(self._shaped, questions[1:], trial)

    def _answer(self, model: Model, questions: Sequence[Question], trial: int) -> list[Completion]:
        if not questions:
            return []
        if isinstance(model, LiveModel | SnippetModel):
            return model.answer(questions, trial=trial, purpose=f"judge:{self.key}")
        return model.answer(questions)

    @cached_property
    def _shaped(self) -> LiveModel | None:
        """The same model, asked for JSON of our shape; None where that is not wanted or not possible."""
        if not self.use_structured_outputs or not isinstance(self.model, LiveModel):
            return None
        connection = self.model.connection.ask_for(SCHEMA)
        return None if connection is self.model.connection else replace(self.model, connection=connection)

    def _read(self, said: Completion) -> Judged:
        if said.status is CompletionStatus.ERROR:
            return Judged(ScoreStatus.ERROR, JUDGE_CALL_FAILED, error=said.error)
        if said.text is None:
            why = "the judge refused" if said.status is CompletionStatus.REFUSED else "the reply has no text"
            return Judged(ScoreStatus.FAILED, JUDGE_UNREADABLE, error=why)
        try:
            verdict = read_verdict(said.text, self.scale)
        except UnreadableVerdict as trouble:
            cut = " (the reply was cut off by the token limit)" if said.finish_reason == "length" else ""
            return Judged(ScoreStatus.FAILED, JUDGE_UNREADABLE, text=said.text, error=f"{trouble}{cut}")
        return Judged(ScoreStatus.SCORED, verdict=verdict, text=said.text)

    def _build_table(self, judged: Sequence[Judged]) -> Scores:
        verdicts = [one.verdict for one in judged]
        raw = pl.Series([one and one.score for one in verdicts], dtype=pl.Float64)
        scale = self.scale
        return build_scores(
            pl.Series([one.status.value for one in judged], dtype=pl.String),
            pl.Series([one.reason for one in judged], dtype=pl.String),
            {"score": pl.Series([one and scale.normalise(one.score) for one in verdicts], dtype=pl.Float64)},
            metadata={
                "reasoning": pl.Series([one and one.reasoning for one in verdicts], dtype=pl.String),
                "confidence": pl.Series([one and one.confidence for one in verdicts], dtype=pl.Float64),
                "raw_score": raw,
            },
            kept={
                "judge_text": pl.Series([one.text for one in judged], dtype=pl.String),
                "judge_error": pl.Series([one.error for one in judged], dtype=pl.String),
            },
        )
