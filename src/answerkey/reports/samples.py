"""The rows of one task of a run, for the page and the viewer: read, filtered, sorted.

    SampleTable ──► SampleSource.read ──► Excerpt: some rows of dataset, completions and scores
                                            ├──► index      what a Query filters and sorts by
                                            └──► sample_view: the lines of the table, and samples

A row is a sample, or one trial or order of it, and is known by its position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Literal, get_args

import polars as pl

from answerkey.dataset_audit.questions import QuestionFields, find_fields
from answerkey.datasets.dataset import Recorded, open_dataset
from answerkey.datasets.rows import Positions, repeat_positions
from answerkey.errors import AnswerkeyError, RunError, SpecError, listing
from answerkey.evaluate.pairs import read_numbers
from answerkey.evaluate.reopen import Reopened, reopen
from answerkey.metrics.task_counts import NO_CATEGORY, find_invalid_reasons
from answerkey.metrics.trials import label_rows
from answerkey.models import images
from answerkey.reports.view import count_trials, read_ids
from answerkey.run_audit.audit import audit, find_reading_step
from answerkey.run_audit.text import Audit
from answerkey.runs import KeptCompletions, Run, TaskRun
from answerkey.scorers import reads_choices
from answerkey.spec import ScoringStep, source_from, task_from_source
from answerkey.spec.job import CHUNK_ROWS, fit_rows
from answerkey.templates import RowError
from answerkey.types import Completions, Samples, Scores, ScoreStatus, Validity

#: Of more completions than this, so many are read by every rule to see which of them flip.
MAX_REREAD = 20_000
#: How many ids are read together.
READ_IDS = 500_000
#: How many queries are remembered.
MAX_QUERIES = 8

TRUTHS = ("ground_truth_choice", "answer_gt")
PREDICTIONS = ("predicted_choice", "answer_pred")
#: The fields of the main scorer's verdicts by which rows are filtered and sorted.
INDEXED = ("status", "validity", "reason", "truth", "predicted")
#: What a status without a reason, and a completion that cannot be read any more, is called.
UNKNOWN = "UNKNOWN"

Shown = Literal["all", "right", "wrong", "invalid", "failed", "flipped"]
Sort = Literal["position", "id", "value", "category", "reason"]


# ── where rows lie


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a task; all tables have the same.

    `scores` has `sample_id`, `trial` and a struct per scorer. `samples` is None where the dataset
    is gone, `completions` where they are gone or not needed.
    """

    positions: Sequence[int]
    scores: pl.DataFrame
    samples: Samples | None
    completions: Completions | None

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, rows: pl.Series) -> Excerpt:
        """Return these rows of the tables; `positions` are theirs already."""
        return replace(
            self,
            scores=self.scores[rows],
            samples=self.samples and self.samples.take(rows),
            completions=self.completions and self.completions.take(rows),
        )


class SampleSource:
    """How the rows of a task are read; small enough to be sent to a worker.

    `opened` is None when the dataset is gone or has changed; `missing` then says so, and `recorded`
    are the completions that the run has by itself. `values` names the value that stands for each
    scorer, `encoded` those fields of each that are JSON text. `reader` is the scorer whose rule is
    compared with others, and `reading` its key. `fields` is None if no column holds the question.
    """

    def __init__(self, run: Run, task_run: TaskRun) -> None:
        self.task = task_from_source(task_run.source["task"])
        self.main = self.task.main_step
        self.examples = task_run.source.get("examples")
        self.scores = task_run.stored_scores
        self.recorded: Recorded | None = None
        self.num_trials = count_trials(task_run)
        step = find_reading_step(self.task)
        self.reading = step.key
        self.reader = step.scorer if reads_choices(step.scorer) else None
        first = self.scores.read(0, 1)
        encoded = task_run.manifest.get("encoded") or {}
        self.values: dict[str, str | None] = {}
        self.encoded: dict[str, frozenset[str]] = {}
        for step in self.task.scoring:
            names = encoded.get(step.key, ())
            self.encoded[step.key] = frozenset(names)
            self.values[step.key] = _find_value_name(step, first)
        scores = Scores(first[self.main.key].struct.unnest())
        self.says_validity = "completion_validity" in scores.metadata_names
        self.missing: str | None = None
        self.category: str | None = None
        self.fields: QuestionFields | None = None
        self.chunk = CHUNK_ROWS
        self.opened: Reopened | None = None
        try:
            self._open(reopen(run, task_run.key))
        except RunError as error:
            if error.code != "E505":
                raise
            # No path, for the sentence may travel further than the files.
            texts = "its texts and completions"
            if len(task_run.stored_completions):
                texts = "its texts"
                self.recorded = KeptCompletions(task_run.stored_completions, self.num_trials)
            gone = "The dataset of this run is gone or has changed since"
            self.missing = f"{gone}, so {texts} are not shown."

    def _open(self, opened: Reopened) -> None:
        self.opened = opened
        self.recorded = opened.recorded
        rows = opened.dataset.rows
        chunk = fit_rows(rows, opened.recorded)
        self.chunk = max(1, chunk // self.num_trials)
        category = opened.task_run.totals.get("category_column")
        if category in rows.columns:
            self.category = category
        with suppress(AnswerkeyError):
            self.fields = find_fields(rows, self.reader)

    def read(
        self,
        positions: Collection[int] | None = None,
        scorers: Sequence[str] | None = None,
        *,
        samples: bool = True,
        completions: bool = True,
    ) -> Iterator[Excerpt]:
        """Yield the rows at these positions, in their own order, some at a time.

        Only these scorers are read, and samples and completions only where they are wanted; None
        stands for all.
        """
        size = self.num_trials
        names = None if scorers is None else ["sample_id", "trial", *scorers]
        for stretch in self._cut(positions):
            first = stretch[0] // size
            last = stretch[-1] // size
            needed: Positions = range(first, last + 1)
            if len(stretch) < len(needed) * size:
                samples_of_rows = pl.Series(stretch, dtype=pl.Int64) // size
                needed = samples_of_rows.unique(maintain_order=True)
            rows = repeat_positions(needed, size)
            scores = self.scores.take(rows, names)
            excerpt = Excerpt(stretch, scores, None, None)
            loaded = Samples([], [])
            if self.opened is not None and (samples or completions):
                loaded = self.opened.dataset.rows.take(needed).load()
                excerpt = replace(excerpt, samples=loaded.repeat(size))
            if self.recorded is not None and completions:
                replies = self.recorded.take(needed).read(loaded)
                excerpt = replace(excerpt, completions=replies)
            if len(stretch) < len(rows):
                is_chosen = pl.Series(rows).is_in(stretch)
                excerpt = excerpt.take(is_chosen.arg_true())
            yield excerpt

    def _cut(self, positions: Collection[int] | None) -> Iterator[Sequence[int]]:
        """Yield the positions in each chunk, which are read together."""
        step = self.chunk * self.num_trials
        if positions is None:
            count = len(self.scores)
            for offset in range(0, count, step):
                yield range(offset, min(offset + step, count))
            return
        for _, group in groupby(sorted(positions), key=lambda position: position // step):
            yield list(group)

    def tabulate(self, part: Excerpt) -> pl.DataFrame:
        """Return the columns of `INDEXED`, and `value`, as the main scorer has them.

        Where the scorer itself does not say what is VALID, completions without text are INVALID.
        """
        key = self.main.key
        verdicts = part.scores[key].struct.unnest()
        scores = Scores(verdicts, self.encoded[key])
        statuses = _repeat_null(len(part))
        is_known = self.says_validity
        if not is_known and part.completions is not None:
            statuses = part.completions.frame["status"]
            is_known = True
        invalid = find_invalid_reasons(scores, statuses)
        is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
        valid = pl.lit(Validity.VALID.value)
        not_valid = pl.lit(Validity.INVALID.value)
        validity = pl.when(invalid.is_null()).then(valid).otherwise(not_valid)
        reason = pl.when(is_scored).then(invalid)
        value = pl.lit(None, pl.Float64)
        field = self.values[key] or ""
        column = scores.column(field)
        if column is not None:
            numbers = read_numbers(column, is_encoded=field in scores.encoded)
            value = pl.when(is_scored).then(numbers)
        return pl.select(
            status=pl.lit(scores.frame["status"]),
            validity=pl.when(is_scored & is_known).then(validity),
            reason=reason.otherwise(scores.frame["reason"].fill_null(UNKNOWN)),
            truth=_find_text(scores, TRUTHS),
            predicted=_find_text(scores, PREDICTIONS),
            value=value,
        )

    def build_index(self) -> pl.DataFrame:
        """Return the fields for filters, of all rows; repeated texts are stored once."""
        tables = []
        needs_completions = not self.says_validity
        for part in self.read(
            scorers=[self.main.key],
            samples=False,
            completions=needs_completions,
        ):
            categorical = pl.col(INDEXED).cast(pl.Categorical)
            tables.append(self.tabulate(part).with_columns(categorical))
        return pl.concat(tables).with_columns(**_list_kinds())

    def read_categories(self) -> pl.Series:
        """Return the category of each row."""
        columns = [pl.Series([], dtype=pl.String)]
        has_categories = self.category is not None
        for part in self.read(
            scorers=(),
            samples=has_categories,
            completions=False,
        ):
            columns.append(self.label_categories(part))
        return pl.concat(columns)

    def label_categories(self, part: Excerpt) -> pl.Series:
        """Return the category of some rows; null without the dataset."""
        if part.samples is None or self.category is None:
            return _repeat_null(len(part))
        return label_rows(part.samples, self.category).fill_null(NO_CATEGORY)

    def search(self, text: str) -> pl.Series:
        """Return which rows have a text in their id, question or completion."""
        term = text.lower()
        masks = [pl.Series([], dtype=pl.Boolean)]
        for part in self.read(scorers=()):
            texts = [part.scores["sample_id"].cast(pl.String)]
            if part.completions is not None:
                texts.append(part.completions.frame["completion"])
            if self.fields is not None and part.samples is not None:
                for template in self.fields.questions:
                    values = list(map(show_value, template.values(part.samples)))
                    texts.append(pl.Series(values, dtype=pl.String))
            hits = []
            for column in texts:
                folded = column.str.to_lowercase()
                hits.append(folded.str.contains(term, literal=True))
            masks.append(pl.select(pl.any_horizontal(hits)).to_series())
        return pl.concat(masks)

    def find_images(self, samples: Samples) -> dict[str, images.Image]:
        """Return the images of the prompts of samples by their hash, unless files are gone."""
        pictures: dict[str, images.Image] = {}
        solver = self.task.solver
        if solver is None:
            return pictures
        with suppress(AnswerkeyError):
            examples = None
            if self.examples:
                dataset = open_dataset(source_from(self.examples), name="examples")
                examples = dataset.samples()
            for prompt in solver.build_prompts(samples, examples):
                if not isinstance(prompt, list):
                    continue
                for image in images.list_images(prompt):
                    if "sha256" in image:
                        pictures[str(image["sha256"])] = image
        return pictures


def _find_value_name(step: ScoringStep, first: pl.DataFrame) -> str | None:
    """Return the value that stands for a scorer: its main one, or the first."""
    if step.scorer.main_value or step.key not in first.columns:
        return step.scorer.main_value
    scores = Scores(first[step.key].struct.unnest())
    return next(iter(scores.value_names), None)


def _repeat_null(rows: int) -> pl.Series:
    return pl.Series([None] * rows, dtype=pl.String)


def _find_text(scores: Scores, names: Sequence[str]) -> pl.Expr:
    """Return the first of these columns that holds texts."""
    for name in names:
        column = scores.column(name)
        if column is None or column.dtype.is_nested():
            continue
        if name not in scores.encoded:
            return pl.lit(column.cast(pl.String))
    return pl.lit(None, pl.String)


def _list_kinds() -> Mapping[str, pl.Expr]:
    """Return which rows are right, wrong, invalid or failed; each is one of these."""
    is_scored = pl.col("status").eq_missing(ScoreStatus.SCORED.value)
    is_invalid = pl.col("validity").eq_missing(Validity.INVALID.value)
    is_right = pl.col("value").eq_missing(1)
    is_valid = is_scored & ~is_invalid
    return {
        "right": is_valid & is_right,
        "wrong": is_valid & ~is_right,
        "invalid": is_invalid,
        "failed": ~is_scored,
    }


def show_value(value: object) -> str | None:
    """Return a value as text; None for one that is missing or could not be rendered."""
    if value is None or isinstance(value, RowError):
        return None
    return str(value)


# ── which rows are shown


@dataclass(frozen=True)
class Query:
    """What a reader asks for.

    `text` is a part of the id, the question or the completion, in any case. `wrong` is scored,
    VALID and not fully right; `invalid` is apart from it.
    """

    show: Shown = "all"
    reason: str | None = None
    category: str | None = None
    truth: str | None = None
    predicted: str | None = None
    text: str | None = None
    sort: Sort = "position"
    descending: bool = False

    def __post_init__(self) -> None:
        for name, literal in (("show", Shown), ("sort", Sort)):
            allowed = get_args(literal)
            value = getattr(self, name)
            if value not in allowed:
                hint = f"it is one of {listing(allowed)}"
                raise SpecError("E119", f"`{name}` is {value!r}", hint=hint)

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> Query:
        """Return the query of an address; empty and unknown parameters are ignored."""
        options: dict[str, Any] = {}
        for field in fields(cls):
            if words.get(field.name):
                options[field.name] = words[field.name]
        options["descending"] = words.get("descending") in {"1", "true"}
        return cls(**options)


class SampleTable:
    """The rows of one task; threads may share it.

    Nothing is read before it is needed. Rows in their own order are read where they lie; the first
    filter or sorting makes an index of all of them.
    """

    def __init__(self, run: Run, task_run: TaskRun) -> None:
        self.run = run
        self.task_run = task_run
        self.find = lru_cache(maxsize=MAX_QUERIES)(self._find)

    def __len__(self) -> int:
        return len(self.task_run.stored_scores)

    @cached_property
    def source(self) -> SampleSource:
        """Where the rows lie."""
        return SampleSource(self.run, self.task_run)

    @cached_property
    def index(self) -> pl.DataFrame:
        """The fields for filters."""
        return self.source.build_index()

    @cached_property
    def categories(self) -> pl.Series:
        """The category of each row."""
        return self.source.read_categories()

    @cached_property
    def audit(self) -> Audit:
        """All completions, or some drawn at random, read by every rule; E505 if they are gone."""
        return audit(
            self.run,
            task=self.task_run.key,
            most=MAX_REREAD,
            opened=self.source.opened,
        )

    @property
    def flips(self) -> Sequence[int]:
        """The positions of completions that not all rules read alike; none if they are gone."""
        with suppress(AnswerkeyError):
            return self.audit.tasks[0].flipped_rows
        return ()

    def _find(self, query: Query) -> pl.Series:
        """Return the positions of the rows of a query, in its order.

        Rows without the value that they are sorted by come last, equals as they stand.
        """
        rows = pl.int_range(len(self), dtype=pl.UInt32, eager=True)
        masks: list[pl.Series] = []
        if query.show == "flipped":
            masks.append(rows.is_in(self.flips))
        elif query.show != "all":
            masks.append(self.index[query.show])
        for name in ("reason", "truth", "predicted"):
            text = getattr(query, name)
            if text is not None:
                masks.append(self.index[name].cast(pl.String) == text)
        if query.category is not None:
            masks.append(self.categories == query.category)
        if query.text:
            masks.append(self.source.search(query.text))
        table = pl.DataFrame({"p": rows})
        if query.sort != "position":
            keys = self._get_keys(query.sort)
            table = table.with_columns(key=keys)
        table = table.filter(*masks)
        if query.sort != "position":
            table = table.sort(
                "key",
                "p",
                descending=[query.descending, False],
                nulls_last=True,
            )
        elif query.descending:
            table = table.reverse()
        return table["p"]

    def _get_keys(self, name: Sort) -> pl.Series:
        """Return the column by which rows are sorted."""
        if name == "id":
            return read_ids(self.task_run, 0, len(self))
        if name == "category":
            return self.categories
        if name == "value":
            return self.index["value"]
        return self.index[name].cast(pl.String)


def locate(task: TaskRun, ids: Iterable[str]) -> dict[str, int]:
    """Return the positions of the first rows of samples; those not found are left out."""
    samples = set(ids)
    exact: dict[str, int] = {}
    ordered: dict[str, int] = {}
    for offset in range(0, len(task.stored_scores), READ_IDS):
        names = read_ids(task, offset, READ_IDS)
        # A sample whose options are shown in several orders may have no row of its own id.
        bases = names.str.replace(r"~\d+$", "")
        for column, positions in ((names, exact), (bases, ordered)):
            for place in column.is_in(samples).arg_true():
                positions.setdefault(column[place], offset + place)
    return ordered | exact


def find_position(task: TaskRun, name: str) -> int | None:
    """Return the position of a sample in the run, by its id or by the number of its row."""
    number = name
    if name.isdecimal() and name.isascii():
        number = name.zfill(6)
    positions = locate(task, (name, number))
    return positions.get(name, positions.get(number))
