"""A task; and a job: a task with its dataset, model and judges, first as named, then opened.

How many rows make one chunk, and whether chunks go to worker processes, is decided here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from answerkey import features
from answerkey.datasets.dataset import Chunk, Dataset, Recorded, Selection, split_into_chunks
from answerkey.datasets.formats import measure_fields
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import InlineSource
from answerkey.datasets.tables import DataTable
from answerkey.errors import AnswerkeyError, InternalError, Place
from answerkey.metrics import KeyedMetric, Mean, Trials, ValueNames, expected_names
from answerkey.models.config import CachePolicy, Model, ModelConfig
from answerkey.sandbox import Snippet
from answerkey.scorers import Action, Scorer, choose_audited, find_role, reads_by_templates
from answerkey.solvers import Solver
from answerkey.spec.nodes import Location, Node, ProblemList, Steps, sort_errors
from answerkey.spec.sources import DatasetSpec
from answerkey.types import Notice, Purpose, SampleFacts, Samples

if TYPE_CHECKING:
    from answerkey.solvers.choice_order import ChoiceOrder
    from answerkey.spec.variants import Variant

#: A model for `open_model`: a name, or a full description.
ModelChoice = str | ModelConfig
#: Where chunks are processed, in the words of the engines.
Spread = Literal["alone", "apart", "processes"]
#: The purpose of the calls of a solver.
SOLVE = "solve"
#: The maximum number of rows in a chunk, and its approximate size in bytes of cells.
CHUNK_ROWS = 32_768
CHUNK_BYTES = 20 * 2**20
FEWEST_ROWS = 1_000
#: The number of rows, at each of two places, from which the size of a row is estimated.
SIZED_ROWS = 200
#: Rows that are slow go to workers in smaller chunks, so that no core waits long for another.
WORKER_CHUNK_ROWS = 16_384
WORKER_CHUNKS = 24
#: Starting worker processes takes about as long as scoring this number of rows.
WORKER_ROWS = 20_000


@dataclass(frozen=True)
class ScoringStep:
    """A scorer with its key (unique in the task), its purpose, and the metrics over its scores.

    `index` is its place in the file's list of scorers; `source` has its fields as plain values.
    """

    key: str
    scorer: Scorer
    metrics: tuple[KeyedMetric, ...]
    purpose: Purpose = "score"
    display_name: str | None = None
    index: int = 0
    source: Mapping[str, object] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )
    snippets: tuple[Snippet, ...] = field(
        default=(),
        repr=False,
        compare=False,
    )

    @cached_property
    def model_key(self) -> str | None:
        """The name of the model that the scorer asks; None for most."""
        return getattr(self.scorer, "model_key", None)

    @property
    def model_path(self) -> Steps:
        """Where in a task the scorer names the model that it asks."""
        path = ("definition", "scorers", self.index)
        if find_role(self.scorer) == "fallback":
            return (*path, "extraction", "fallback")
        return (*path, "model_key")

    def list_names(self, trials: Trials | None = None) -> list[str] | None:
        """Return the names of the values and metadata; None if only the scores have them."""
        scorer = self.scorer
        if scorer.value_types is None or scorer.metadata_types is None:
            return None
        names = []
        for value in scorer.value_types:
            if trials is None:
                names.append(value)
            else:
                names += trials.names_of(value)
        return [*names, *scorer.metadata_types]


Scoring = Sequence[ScoringStep]


@dataclass(frozen=True)
class Task:
    """The questions' prompt, and how replies are scored.

    `config` holds the values of its parameters and `dataset_columns` those that name columns, both
    by parameter key; `source` is the resolved task as plain JSON, from which `task_from_source`
    builds it again.
    """

    key: str
    display_name: str
    description: str
    scoring: tuple[ScoringStep, ...]
    fingerprint: str
    source: Mapping[str, object] = field(repr=False)
    long_description: str | None = None
    tags: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    dataset_columns: Mapping[str, str] = field(default_factory=dict)
    dataset_key: str | None = None
    solver: Solver | None = None
    actions: tuple[Action, ...] = ()
    trials: Trials | None = None
    choice_order: ChoiceOrder | None = None
    snippets: tuple[Snippet, ...] = ()
    file: str | None = None
    places: Node = field(
        default=Node(None),
        repr=False,
        compare=False,
    )
    config_places: Mapping[str, Place] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )

    @cached_property
    def main_step(self) -> ScoringStep:
        """The first scorer with purpose `score`, else the first; its counts are the task's."""
        for step in self.scoring:
            if step.purpose == "score":
                return step
        return self.scoring[0]

    @property
    def needs_model(self) -> bool:
        """Whether its solver asks a model."""
        return self.solver is not None and self.solver.needs_model

    @cached_property
    def num_trials(self) -> int:
        """How many completions each sample gets."""
        return self.trials.num_trials if self.trials else 1

    @cached_property
    def design_columns(self) -> tuple[str, ...]:
        """The dataset columns by which metrics group or cluster samples, each once."""
        columns: dict[str, None] = {}
        for step in self.scoring:
            for metric in step.metrics:
                columns |= dict.fromkeys(metric.design.columns)
        return tuple(columns)

    def sample_facts(self, samples: Samples) -> SampleFacts | None:
        """Return the choices, truths and option texts that a scorer knows; the first that does."""
        for step in self.scoring:
            facts = step.scorer.sample_facts(samples)
            if facts:
                if self.choice_order is None or any(facts.options):
                    return facts
                from answerkey.solvers.choice_order import option_texts

                options = option_texts(self.choice_order, samples, facts.choices)
                return facts._replace(options=options)
        return None

    def place(self, *path: str | int) -> Place:
        """Return the place of a part of the task.

        `("config_spec", name)` is where that value was given.
        """
        if path[:1] == ("config_spec",):
            place = self.config_places.get(str(path[-1]))
            if place is not None:
                return place
        return self.places.at(*path).place


class PlannedMetric(NamedTuple):
    """A metric of a task, and the names of its values."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames


def find_metrics(
    task: Task,
    name: str | None = None,
) -> list[PlannedMetric]:
    """Return the metrics of a task, or those that may have a value of this name.

    The name may have the key of the metric in front, and that of the scorer.
    """
    matching = []
    for step in task.scoring:
        for metric in step.metrics:
            names = expected_names(metric.metric)
            is_meant = name is None
            for prefix in ("", f"{metric.key}_", f"{step.key}_{metric.key}_"):
                if name is not None and name.startswith(prefix):
                    is_meant |= names.allow(name.removeprefix(prefix))
            if is_meant:
                matching.append(PlannedMetric(step, metric, names))
    return matching


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is, or None if it is no plain mean.

    With trials, the mean of their mean is one.
    """
    for step, metric, _ in find_metrics(task, name):
        if not isinstance(metric.metric, Mean):
            continue
        value, _, label = metric.metric.field.partition(".")
        if task.trials is not None:
            main_aggregator, *_ = task.trials.aggregators_of(value)
            label = label or main_aggregator.label
            if label == "mean":
                label = ""
        if not label:
            return step.key, value
    return None


@dataclass(frozen=True, eq=False)
class Job:
    """A task to run on a dataset, with its model and its judges.

    The fields down to `variant` are what files say. `model_choice` is None when no model is called,
    or none is named; `model_key` is the model's name in the files, also when recorded completions
    make calling it unnecessary. `completions_from` is the file that has them, the table of a log,
    or rows in the caller's memory; `model_name` names the model that wrote them. The job is run
    `num_runs` times.

    `opened` and the fields below it are set when the job is opened. Either `recorded` has the
    completions (`repeated` those of further repetitions), or the task's solver gets them, with
    `model` if it needs one; `completions` is what `run.json` says about where they come from.
    `judges` are the models of scorers that call one, by the scorer's key. When rows are checked
    before they are scored (`is_checked`), `failed` holds, in order, the positions of rows that are
    wrong in the dataset: they are not sent to a model, and are FAILED for every scorer.
    `image_files` has the SHA-256 of each image file in the prompts. The rows at `audited` are read
    by other extraction rules as well.
    """

    key: str
    task: Task
    dataset_spec: DatasetSpec
    display_name: str | None = None
    model_choice: ModelChoice | None = None
    model_key: str | None = None
    model_name: str | None = None
    selection: Selection = field(default_factory=Selection)
    examples_spec: DatasetSpec | None = None
    num_runs: int = 1
    judge_choices: Mapping[str, ModelChoice] = field(default_factory=dict)
    completions_from: Location | DataTable | Rows | None = None
    variant: Variant | None = None
    opened: Dataset | None = None
    model: Model | None = None
    judges: Mapping[str, Model] = field(default_factory=dict)
    recorded: Recorded | None = None
    repeated: tuple[Recorded, ...] = ()
    completions: Mapping[str, object] = field(default_factory=dict)
    examples: Samples | None = None
    keep_completions: bool = True
    is_rescored: bool = False
    is_checked: bool = False
    failed: Sequence[int] = ()
    image_files: Mapping[str, str] = field(default_factory=dict)
    repetition: int = 0
    spread: Spread = "alone"
    chunk_rows: int = CHUNK_ROWS
    audited: Sequence[int] = ()

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset of a job that has been opened."""
        if self.opened is None:
            raise InternalError("E901", f"the job `{self.key}` has not been opened")
        return self.opened

    @cached_property
    def num_rows(self) -> int:
        """How many rows the dataset has; a row may be one of several orders of a sample."""
        return len(self.dataset)

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that would run: of the task, and of models that are snippets."""
        snippets = list(self.task.snippets)
        for model in (self.model_choice, *self.judge_choices.values()):
            if isinstance(model, ModelConfig):
                snippets += model.snippets
        return tuple(snippets)

    @property
    def trials(self) -> range:
        """The numbers of the trials of each sample; every repetition has its own."""
        size = self.task.num_trials
        first = self.repetition * size
        return range(first, first + size)

    @property
    def models(self) -> dict[str, Model]:
        """Every model that the task calls, by the purpose of its calls."""
        models = {}
        if self.model is not None:
            models[SOLVE] = self.model
        for step in self.task.scoring:
            if step.key in self.judges:
                models[name_purpose(step)] = self.judges[step.key]
        return models

    @cached_property
    def calls_models(self) -> bool:
        """Whether a model would be called; then all rows are checked before the first call."""
        return self.model is not None or bool(self.judges)

    @cached_property
    def is_costly(self) -> bool:
        """Whether models are called, snippets of the user run, or scorers of another package."""
        if self.calls_models or self.task.snippets:
            return True
        return not all(reads_by_templates(step.scorer) for step in self.task.scoring)

    @property
    def num_calls(self) -> int:
        """How many prompts there are: one for each trial of each sample without errors."""
        num_valid_rows = self.num_rows - len(self.failed)
        return num_valid_rows * len(self.trials)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the dataset; nothing is loaded yet."""
        rows = min(self.chunk_rows, CHUNK_ROWS) // self.task.num_trials
        return split_into_chunks(
            self.dataset,
            max(1, rows),
            self.recorded,
            self.failed,
        )

    def stages(self, first: int) -> Iterator[Iterable[Chunk]]:
        """Yield the chunk of the `first` samples, then the chunks of the others.

        For 0 all chunks come together.
        """
        chunks = self.chunks()
        if not 0 < first < self.num_rows:
            yield chunks
            return
        size = len(next(self.dataset.cut(first)))
        whole = next(chunks)
        yield [whole.cut(0, size)]
        later: Iterable[Chunk] = chunks
        if size < len(whole.samples):
            remainder = whole.cut(size, len(whole.samples))
            later = chain([remainder], chunks)
        yield (replace(chunk, index=index) for index, chunk in enumerate(later, start=1))

    def repeat(self, number: int) -> Job:
        """Return the job of one repetition, which has trials, or recorded completions, of its
        own.
        """
        if not number:
            return self
        recorded = self.recorded
        if self.repeated:
            recorded = self.repeated[number - 1]
        return replace(self, repetition=number, recorded=recorded)

    def only_check(self) -> Job:
        """Return the job of checking the rows: no model is needed."""
        job = replace(
            self,
            model=None,
            judges={},
            failed=(),
            is_checked=False,
        )
        return plan_work(job)

    def without_rows(self) -> Job:
        """Return what a worker needs besides its chunk, small enough to be sent."""
        nothing = InlineSource(rows=())
        return replace(
            self,
            dataset_spec=DatasetSpec(self.dataset.name, nothing),
            model_choice=None,
            examples_spec=None,
            judge_choices={},
            completions_from=None,
            opened=self.dataset.without_rows(),
            recorded=None,
            repeated=(),
            failed=(),
            image_files={},
            audited=choose_audited(self.num_rows),
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """The jobs of a file, as far as they could be built, with all its problems.

    `policies` are plain values, as `run.json` keeps them; `rule_places` say where each rule's
    definition stands, by the keys of its policy and its own.
    """

    key: str = ""
    jobs: tuple[Job, ...] = ()
    display_name: str | None = None
    cache_policy: CachePolicy | None = None
    policies: tuple[Mapping[str, Any], ...] = ()
    rule_places: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList)

    @property
    def errors(self) -> list[AnswerkeyError]:
        """The errors, by position."""
        return sort_errors(self.problems.errors)

    @property
    def notices(self) -> list[Notice]:
        """The notices for the user."""
        return self.problems.notices

    def find_baseline_errors(self) -> list[AnswerkeyError]:
        """Return the errors of the runs that rules compare with; the runs are read here."""
        gates = features.load_gates()
        errors: list[AnswerkeyError] = gates.find_baseline_errors(
            self.policies,
            self.rule_places,
            self.key,
        )
        return errors


def name_purpose(step: ScoringStep) -> str:
    """Return the purpose of the calls of a scorer."""
    return f"{find_role(step.scorer)}:{step.key}"


# How many rows make a chunk, and whether chunks go to worker processes.


def plan_work(job: Job) -> Job:
    """Return the job with the size of its chunks, and where they go."""
    spread = choose_spread(job)
    chunk_rows = CHUNK_ROWS
    if job.num_rows > FEWEST_ROWS:
        chunk_rows = choose_chunk_rows(job, spread)
    return replace(job, spread=spread, chunk_rows=chunk_rows)


def choose_spread(job: Job) -> Spread:
    """Return where a job's chunks are processed; models are always called from this process."""
    if job.calls_models:
        return "alone"
    if job.is_costly or job.num_rows < WORKER_ROWS:
        return "apart"
    return "processes"


def choose_chunk_rows(job: Job, spread: Spread) -> int:
    """Return how many rows one chunk has: fewer where rows are long, or take long."""
    rows = fit_rows(job.dataset.rows, job.recorded)
    if spread != "processes":
        return rows
    share = max(FEWEST_ROWS, -(-job.num_rows // WORKER_CHUNKS))
    return min(rows, share, WORKER_CHUNK_ROWS)


def fit_rows(rows: Rows, recorded: Recorded | None) -> int:
    """Return how many rows fit into one chunk, judged by the first and the middle ones."""
    if len(rows) <= FEWEST_ROWS:
        return CHUNK_ROWS
    size = 0
    seen = 0
    for offset in (0, len(rows) // 2):
        samples = rows.slice(offset, SIZED_ROWS).load()
        size += sum(map(measure_fields, samples.rows()))
        seen += len(samples)
        if recorded is not None:
            part = recorded.take(range(offset, offset + len(samples)))
            completions = part.read(samples)
            size += int(completions.frame["completion"].estimated_size())
    rows_that_fit = CHUNK_BYTES * seen // max(size, 1)
    return min(CHUNK_ROWS, max(FEWEST_ROWS, rows_that_fit))
