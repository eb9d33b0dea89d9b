"""A job: a task with its dataset, its model and its judges, first as files name them, then opened.

How many rows make one chunk, and whether chunks go to worker processes, is decided here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from answerkey import features
from answerkey.datasets.dataset import Chunk, Dataset, Recorded, Selection, split_into_chunks
from answerkey.datasets.formats import measure_fields
from answerkey.datasets.rows import Rows
from answerkey.datasets.sources import InlineSource
from answerkey.datasets.tables import DataTable
from answerkey.errors import AnswerkeyError, InternalError, Place
from answerkey.models.config import CachePolicy, Model, ModelConfig
from answerkey.sandbox import Snippet
from answerkey.scorers import choose_audited, find_role, reads_by_templates
from answerkey.spec.nodes import Location, ProblemList, sort_errors
from answerkey.spec.sources import DatasetSpec
from answerkey.spec.task import ScoringStep, Task
from answerkey.types import Notice, Samples

if TYPE_CHECKING:
    from answerkey.spec.variants import Variant

#: A model for `open_model`: a name, or all that is known of one.
ModelChoice = str | ModelConfig
#: Where chunks are worked on, as the engines call it.
Spread = Literal["alone", "apart", "processes"]
#: The purpose of the calls of a solver.
SOLVE = "solve"
#: A chunk has at most so many rows, and about so many bytes of cells.
CHUNK_ROWS = 32_768
CHUNK_BYTES = 20 * 2**20
FEWEST_ROWS = 1_000
#: The size of a row is judged by so many rows at each of two places.
SIZED_ROWS = 200
#: Rows that are slow go to workers in smaller chunks, so that no core waits long for another.
WORKER_CHUNK_ROWS = 16_384
WORKER_CHUNKS = 24
#: Starting worker processes takes about as long as scoring so many rows.
WORKER_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Job:
    """A task to run on a dataset, with its model and its judges.

    The fields down to `variant` are what files say. `model_choice` is None when no model is called,
    or none is named; `model_key` is the model's name in the files, also when recorded completions
    make calling it unnecessary. `completions_from` is the file that has them, the table of a log,
    or rows in the caller's memory; `model_name` names the model that wrote them. The job is run
    `num_runs` times.

    `opened` and all below is there once the job has been opened. Either `recorded` has the
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

    @property
    def calls_models(self) -> bool:
        """Whether a model would be called; then all rows are checked before the first call."""
        return self.model is not None or bool(self.judges)

    @property
    def is_costly(self) -> bool:
        """Whether models are called, snippets of the user run, or scorers of another package."""
        if self.calls_models or self.task.snippets:
            return True
        return not all(reads_by_templates(step.scorer) for step in self.task.scoring)

    @property
    def num_calls(self) -> int:
        """How many prompts there are: every sample that is in order, in every trial."""
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
        recorded = self.recorded
        if number and self.repeated:
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
        """Return what the work on a chunk needs beside it, small enough to be sent to a worker."""
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
    """What a file says to run, as much as could be built of it, with everything that is wrong.

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
        """What is wrong, by position."""
        return sort_errors(self.problems.errors)

    @property
    def notices(self) -> list[Notice]:
        """What the user should know."""
        return self.problems.notices

    def find_baseline_errors(self) -> list[AnswerkeyError]:
        """Return what is wrong with the runs that rules compare with; they are read here."""
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
    """Return where a job's chunks are worked on; whatever calls a model does so from here."""
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
