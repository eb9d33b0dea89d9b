"""The samples of one task of a run, for the page and the viewer: found, listed as rows, described
one by one.

    SampleTable ──► SampleSource.read ──► Excerpt: some rows of dataset, completions and scores
                                            ├──► RowIndex           what a Query filters and sorts
                                            by
                                            ├──► list_rows          a line of the table for each
                                            └──► describe_samples   all there is to say of each

A row is a sample, or one trial or order of it, and is known by its position. Keys of rows and
samples are a contract with the front end in `web`.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from answerkey.dataset_audit.questions import (
    Question,
    QuestionFields,
    find_fields,
    read_questions,
    strip_labels,
)
from answerkey.datasets.dataset import Recorded, open_dataset
from answerkey.datasets.rows import Rows
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, listing
from answerkey.evaluate.job import CHUNK_ROWS, fit_rows
from answerkey.evaluate.pairs import read_numbers
from answerkey.evaluate.reopen import reopen
from answerkey.exporters import COMPACT, describe_verdict, to_json
from answerkey.metrics import Mean
from answerkey.metrics.base import read_number
from answerkey.metrics.rows import label_rows
from answerkey.metrics.task_counts import NO_CATEGORY, find_invalid_reasons
from answerkey.models import images
from answerkey.reader import EXTRACTORS, Reading
from answerkey.reader.characters import LONGEST_CHARACTER, WHITE_SPACE, measure_character
from answerkey.reader.markup import find_thoughts
from answerkey.reader.stated_answer import list_statements
from answerkey.reports.explain import count_trials, iterate_ids
from answerkey.run_audit.audit import find_reading_step
from answerkey.run_audit.findings import TaskAudit
from answerkey.runs import Run, Table, TaskRun
from answerkey.scorers import Scorer, explain_verdict, reads_choices
from answerkey.scorers.choice_probabilities import ChoiceProbabilities
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.question import Labels
from answerkey.scorers.rereading import (
    FIRST,
    LITERAL,
    OWN,
    Passage,
    list_labels,
    list_passages,
    list_texts,
    reread,
)
from answerkey.spec import source_from, task_from_source
from answerkey.templates import RowError
from answerkey.text import clean_numbers
from answerkey.types import (
    RULE_NAMES,
    Completion,
    Completions,
    Samples,
    Score,
    Scores,
    ScoreStatus,
    Validity,
)

#: Rows between which lie no more samples than this part of those that are read together are read
#: together, too: to find one row in a file takes as long as to read the thousands around it.
NEAR_PART = 4
#: So many completions are read by every rule to see which of them flip; of more, so many drawn at
#: random.
MOST_REREAD = 20_000
SEED = 0
#: So many queries are remembered.
KEPT_QUERIES = 8
#: The index does not keep a column with more different texts.
MOST_NAMES = 65_535
#: How much of a question stands in the table, of a completion, and of a truth or an answer.
SHOWN_QUESTION, SHOWN_COMPLETION, SHOWN_LABEL = 160, 160, 80
#: So much of a completion stands in the table before what decided, so that this is in sight; and so
#: much of its end where nothing did.
SHOWN_BEFORE, SHOWN_END = 28, 48
#: Shorter thoughts are not folded.
LEAST_FOLDED = 200
#: Longer texts are cut; of a completion the end stays, too, for that is where answers stand.
MOST_CHARACTERS = 20_000
COMPLETION_BEGIN, COMPLETION_END = 40_000, 20_000

#: So many bytes of images are shown together, and no image that has more than this part of them.
ROOM, IMAGE_PART = 200_000_000, 100

TRUTHS = ("ground_truth_choice", "answer_gt")
PREDICTIONS = ("predicted_choice", "answer_pred")
INDEXED = ("status", "validity", "reason", "category", "truth", "predicted")
SHOWN = ("all", "right", "wrong", "invalid", "failed", "flipped")
SORTS = ("position", "id", "value", "category", "reason")
#: The columns that a query may ask to be equal to something.
EQUAL = ("reason", "category", "truth", "predicted")
#: What a status without a reason, and a completion that cannot be read any more, is called.
UNKNOWN = "UNKNOWN"

Plain = dict[str, Any]
Span = tuple[int, int]
Made = TypeVar("Made")


# ── where rows lie


@dataclass(frozen=True)
class Excerpt:
    """Some rows of a task; all tables have the same.

    `scores` has `sample_id`, `trial` and a struct per scorer. `samples` is None where the dataset
    is gone, `completions` where they are not there or were not asked for.
    """

    positions: pl.Series
    scores: pl.DataFrame
    samples: Samples | None
    completions: Completions | None

    def __len__(self) -> int:
        return len(self.positions)

    def slice(self, offset: int, length: int) -> Excerpt:
        """Return the rows from `offset` on, at most `length` of them."""
        return Excerpt(
            self.positions.slice(offset, length),
            self.scores.slice(offset, length),
            self.samples and self.samples.slice(offset, length),
            self.completions and self.completions.slice(offset, length),
        )


class SampleSource:
    """Where the rows of a task lie, and how they are read; small enough to be sent to a worker.

    `rows` is None when the dataset is gone or has changed; `missing` then says so, and `kept` are
    the completions that the run has by itself. `values` names the value that stands for each
    scorer, `encoded` those fields of each that are JSON text. `reader` is the scorer whose rule is
    compared with others, the main one if it reads choices, else the first that does; `reading` is
    its key. `fields` is None where no column holds the question.
    """

    def __init__(self, run: Run, task_run: TaskRun) -> None:
        task = task_from_source(task_run.source["task"])
        self.solver, self.shown_examples = task.solver, task_run.source.get("examples")
        self.scores, self.num_trials = task_run.stored_scores, count_trials(task_run)
        self.steps, self.main = task.scoring, task.main_step
        reading = find_reading_step(task)
        self.reading = reading.key
        self.reader = reading.scorer if reads_choices(reading.scorer) else None
        first, encoded = self.scores.read(0, 1), task_run.manifest.get("encoded") or {}
        self.encoded = {step.key: frozenset(encoded.get(step.key, ())) for step in self.steps}
        self.values: dict[str, str | None] = {}
        for step in self.steps:  # its main value, what its first mean is of, or its first
            names = (
                Scores(first[step.key].struct.unnest()).value_names
                if step.key in first.columns
                else []
            )
            metrics = (one.metric for one in step.metrics)
            means = [one.field.partition(".")[0] for one in metrics if isinstance(one, Mean)]
            stated = next((name for name in means if name in names), next(iter(names), None))
            self.values[step.key] = step.scorer.main_value or stated
        main = Scores(first[self.main.key].struct.unnest())
        self.says_validity = "completion_validity" in main.metadata_names
        self.rows: Rows | None = None
        self.recorded: Recorded | None = None
        self.kept: Table | None = None
        self.missing: str | None = None
        self.category: str | None = None
        self.fields: QuestionFields | None = None
        self.most = CHUNK_ROWS  # as many as a row group mostly has
        try:
            opened = reopen(run, task_run.key)
        except RunError as error:
            if error.code != "E505":
                raise
            self.kept = task_run.stored_completions if len(task_run.stored_completions) else None
            # No path, for the sentence may travel further than the files.
            what = "its texts" if self.kept is not None else "its texts and completions"
            self.missing = (
                f"The dataset of this run is gone or has changed since, so that {what} are "
                "not shown."
            )
            return
        self.rows, self.recorded = rows, recorded = opened.dataset.rows, opened.recorded
        # A row group as a whole, or in equal parts: what goes beyond its end takes longer, and more
        # memory.
        self.most = max(
            1, CHUNK_ROWS // (CHUNK_ROWS // fit_rows(rows, None, recorded)) // self.num_trials
        )
        category = task_run.totals.get("category_column")
        self.category = category if category in rows.columns else None
        with suppress(AnswerkeyError):
            self.fields = find_fields(rows, self.reader)

    @property
    def question_columns(self) -> frozenset[str] | None:
        """The columns that the question is read from; None for all."""
        return (
            join_columns(one.columns for one in self.fields.questions)
            if self.fields
            else frozenset()
        )

    def read(
        self,
        positions: pl.Series | None = None,
        columns: frozenset[str] | None = None,
        scorers: Sequence[str] | None = None,
        *,
        completions: bool = True,
    ) -> Iterator[Excerpt]:
        """Yield the rows at these positions, which ascend, or all rows, some at a time.

        Only these columns of the dataset and these scorers are read; None stands for all.
        """
        size = self.num_trials
        if positions is None:
            positions = pl.int_range(len(self.scores), dtype=pl.UInt32, eager=True)
        names = None if scorers is None else ["sample_id", "trial", *scorers]
        for first, last, places in cut_stretches(positions, size, self.most):
            offset, length = first * size, (last - first) * size
            scores = self.scores.read(offset, length, names)
            samples, said = None, None
            is_asked = completions or columns != frozenset()
            if is_asked and self.rows is not None and self.recorded is not None:
                wanted = (
                    columns | self.recorded.columns
                    if columns is not None and completions
                    else columns
                )
                asked = self.rows.slice(first, last - first).load(wanted)
                said = self.recorded.slice(first, last - first).read(asked) if completions else None
                samples = asked.repeat(size)
            elif self.kept is not None and completions:
                said = Completions.from_frame(self.kept.read(offset, length))
            if len(places) < length:
                scores = scores[places]
                samples = None if samples is None else samples.take(places)
                said = None if said is None else said.take(places)
            yield Excerpt(places + offset, scores, samples, said)

    def read_lines(self, positions: pl.Series) -> Iterator[Excerpt]:
        """Yield rows with what their lines of the table need: questions, categories, and what rules
        read.
        """
        columns = [frozenset({self.category} if self.category else ()), self.question_columns]
        scorers = [self.main.key]
        if self.reader is not None:
            columns += [one.columns for one in self.reader.templates().values()]
            columns.append(frozenset({"options"}))
            scorers.append(self.reading)
        return self.read(positions, join_columns(columns), tuple(dict.fromkeys(scorers)))

    def tabulate(self, part: Excerpt, names: Sequence[str] = INDEXED) -> pl.DataFrame:
        """Return these columns of `INDEXED`, and `value`, of some rows, as the main scorer has
        them.

        The completions tell which of them are no text, where the scorer itself does not say what is
        VALID.
        """
        key = self.main.key
        scores = Scores(part.scores[key].struct.unnest(), self.encoded[key])
        nothing = pl.repeat(None, len(part), dtype=pl.String, eager=True)
        said = None if self.says_validity else part.completions
        invalid = find_invalid_reasons(scores, nothing if said is None else said.frame["status"])
        is_scored = scores.frame["status"] == ScoreStatus.SCORED.value
        is_known = self.says_validity or said is not None
        words = pl.when(invalid.is_null()).then(pl.lit(Validity.VALID.value))
        category = nothing
        if part.samples is not None and self.category is not None and "category" in names:
            category = label_rows(part.samples, self.category).fill_null(NO_CATEGORY)

        def find_text(names: Sequence[str]) -> pl.Expr:
            found = ((name, scores.column(name)) for name in names)
            fit = (
                column.cast(pl.String)
                for name, column in found
                if column is not None
                and name not in scores.encoded
                and not column.dtype.is_nested()
            )
            return pl.lit(next(fit, nothing))

        texts = {
            "status": pl.lit(scores.frame["status"]),
            "validity": pl.when(is_scored & is_known).then(
                words.otherwise(pl.lit(Validity.INVALID.value))
            ),
            "reason": pl.when(is_scored)
            .then(invalid)
            .otherwise(scores.frame["reason"].fill_null(UNKNOWN)),
            "category": pl.lit(category),
            "truth": find_text(TRUTHS),
            "predicted": find_text(PREDICTIONS),
        }
        field, value = self.values[key] or "", pl.lit(None, pl.Float64)
        if (column := scores.column(field)) is not None:
            numbers = read_numbers(column, is_encoded=field in scores.encoded)
            value = pl.when(is_scored).then(numbers)
        return pl.select(*(texts[name].cast(pl.String).alias(name) for name in names), value=value)

    def find_images(self, samples: Samples) -> dict[str, images.Image]:
        """Return the images of the prompts of samples by their hash.

        None where their files are gone.
        """
        stated, built = self.shown_examples, []
        with suppress(AnswerkeyError):
            examples = (
                open_dataset(source_from(stated), name="examples").samples() if stated else None
            )
            built = self.solver.build_prompts(samples, examples) if self.solver else []
        found = [
            one
            for prompt in built
            if isinstance(prompt, list)
            for one in images.list_images(prompt)
        ]
        return {str(one["sha256"]): one for one in found if "sha256" in one}

    def iterate_columns(self, names: Sequence[str] = INDEXED) -> Iterator[pl.DataFrame]:
        """Yield these columns of `INDEXED`, and `value`, of all rows in order."""
        columns = frozenset({self.category} if self.category and "category" in names else ())
        for part in self.read(None, columns, (self.main.key,), completions=not self.says_validity):
            yield self.tabulate(part, names)

    def find_kinds(self) -> pl.DataFrame:
        """Return which rows are `right`, `wrong`, `invalid` or `failed`: some bits for each."""
        is_scored = (pl.col("status") == ScoreStatus.SCORED.value).fill_null(value=False)
        is_invalid = (pl.col("validity") == Validity.INVALID.value).fill_null(value=False)
        is_right = (pl.col("value") == 1).fill_null(value=False)
        is_valid = is_scored & ~is_invalid
        kinds = {"right": is_valid & is_right, "wrong": is_valid & ~is_right}
        kinds |= {"invalid": is_invalid, "failed": ~is_scored}
        parts = [part.select(**kinds) for part in self.iterate_columns(("status", "validity"))]
        return pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(kinds, pl.Boolean))


def join_columns(groups: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """Return the columns of all groups; None, which means all, where one of them is None."""
    found: frozenset[str] = frozenset()
    for group in groups:
        if group is None:
            return None
        found |= group
    return found


def cut_stretches(
    positions: pl.Series, size: int, most: int
) -> Iterator[tuple[int, int, pl.Series]]:
    """Yield stretches of samples to be read together, and which of their rows are meant.

    A stretch is its first sample and the one after its last; `size` rows belong to each sample.
    None goes beyond a multiple of `most`, where a row group mostly ends.
    """
    left = positions.cast(pl.UInt32)
    while len(left):
        first = int(left[0]) // size
        near = left.head(left.search_sorted((first // most + 1) * most * size))
        samples = near // size
        gaps = (samples.diff() > max(1, most // NEAR_PART)).arg_true()
        near = near.head(int(gaps[0])) if len(gaps) else near
        left = left.slice(len(near))
        yield first, int(near[-1]) // size + 1, near - first * size


# ── which rows are asked for


@dataclass(frozen=True)
class Query:
    """What a reader asks for.

    `text` is a part of the id, the question or the completion, in any case. `wrong` is scored,
    VALID and not fully right; `invalid` is apart from it.
    """

    show: str = "all"
    reason: str | None = None
    category: str | None = None
    truth: str | None = None
    predicted: str | None = None
    text: str | None = None
    sort: str = "position"
    descending: bool = False

    def __post_init__(self) -> None:
        for name, known in (("show", SHOWN), ("sort", SORTS)):
            if getattr(self, name) not in known:
                message = f"`{name}` is {getattr(self, name)!r}"
                raise SpecError("E119", message, hint=f"it is one of {listing(known)}")

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> Query:
        """Return the query of an address; other words are passed over, empty ones are none."""
        names = {one.name for one in fields(cls)} - {"descending"}
        given = {name: text for name, text in words.items() if name in names and text}
        return cls(**given, descending=words.get("descending") in {"1", "true"})


class RowIndex:
    """What filters and sorting look at, made in one pass over the rows.

    It holds the value of each row, and numbers in place of the texts of `INDEXED`. A column with
    too many different texts is not kept, but read again whenever it is asked for.
    """

    def __init__(self, source: SampleSource) -> None:
        self.source = source
        self.names: dict[str, dict[str, int]] = {name: {} for name in INDEXED}
        values = [pl.Series([], dtype=pl.Float64)]
        codes = {name: [pl.Series([], dtype=pl.UInt16)] for name in INDEXED}
        for table in source.iterate_columns():
            values.append(table["value"])
            for name, known in list(self.names.items()):
                distinct = table[name].unique(maintain_order=True).drop_nulls()
                for text in distinct:
                    known.setdefault(text, len(known))
                if len(known) > MOST_NAMES:
                    del self.names[name], codes[name]
                    continue
                numbers = pl.Series([known[text] for text in distinct], dtype=pl.UInt16)
                coded = table[name].replace_strict(
                    distinct, numbers, default=None, return_dtype=pl.UInt16
                )
                codes[name].append(coded)
        self.values = pl.concat(values)
        self._codes = {name: pl.concat(parts) for name, parts in codes.items()}

    def _read(self, name: str) -> pl.Series:
        return pl.concat(table[name] for table in self.source.iterate_columns())

    def match(self, name: str, text: str) -> pl.Series:
        """Return which rows have this text in a column."""
        if name in self.names:
            found = self._codes[name] == self.names[name].get(text, MOST_NAMES)  # which no text has
        else:
            found = self._read(name) == text
        return found.fill_null(value=False)

    def rank(self, name: str) -> pl.Series:
        """Return a value for each row by which it sorts as its text, or its value, does.

        Null for none.
        """
        if name == "value":
            return self.values
        if name == "id":
            ids = self.source.scores.read(0, len(self.source.scores), ["sample_id"])["sample_id"]
            return ids.cast(pl.String)
        if name not in self.names:
            return self._read(name)
        places = {text: rank for rank, text in enumerate(sorted(self.names[name]))}
        ranks = pl.Series([places[text] for text in self.names[name]], dtype=pl.UInt16)
        return ranks.gather(self._codes[name])


def search_text(source: SampleSource, text: str) -> pl.Series:
    """Return which rows have a text in their id, question or completion, in one pass over all
    rows.
    """
    term = text.lower()
    found = [pl.Series([], dtype=pl.Boolean)]
    for part in source.read(None, source.question_columns, ()):
        texts = [part.scores["sample_id"].cast(pl.String)]
        if part.completions is not None:
            texts.append(part.completions.frame["completion"])
        if source.fields is not None and part.samples is not None:
            for template in source.fields.questions:
                shown = [_write_known(value) for value in template.values(part.samples)]
                texts.append(pl.Series(shown, dtype=pl.String))
        hits = (one.str.to_lowercase().str.contains(term, literal=True) for one in texts)
        found.append(reduce(or_, (one.fill_null(value=False) for one in hits)))
    return pl.concat(found)


def _write_known(value: object) -> str | None:
    return None if value is None or isinstance(value, RowError) else str(value)


class SampleTable:
    """The rows of one task.

    Nothing is read before it is asked for. Rows in their own order are read where they lie; the
    first filter or sorting makes an index of all of them. Safe for threads.
    """

    def __init__(self, run: Run, task_run: TaskRun) -> None:
        self.run, self.task_run = run, task_run
        self._made: Plain = {}
        self._lock = threading.RLock()
        self._search = lru_cache(maxsize=KEPT_QUERIES)(self._find)

    def __len__(self) -> int:
        return len(self.task_run.stored_scores)

    def _make_once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what is made when it is first asked for; others who ask meanwhile wait for it."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            found: Made = self._made[name]
            return found

    @property
    def source(self) -> SampleSource:
        """Where the rows lie, and who reads them."""
        return self._make_once("source", lambda: SampleSource(self.run, self.task_run))

    @property
    def index(self) -> RowIndex:
        """What filters look at."""
        return self._make_once("index", lambda: RowIndex(self.source))

    def select(self, kind: str) -> pl.Series:
        """Return which rows are `right`, `wrong`, `invalid` or `failed`."""
        return self._make_once("kinds", self.source.find_kinds)[kind]

    def find(self, query: Query) -> pl.Series:
        """Return the positions of the rows that a query asks for, in the order asked for.

        Rows without the value that they are sorted by come last, equals as they stand.
        """
        if query == Query():  # all rows as they stand
            return pl.int_range(len(self), dtype=pl.UInt32, eager=True)
        with self._lock:
            return self._search(query)

    def _find(self, query: Query) -> pl.Series:
        index = self.index
        mask = pl.repeat(True, len(self), dtype=pl.Boolean, eager=True)  # noqa: FBT003 - the value
        if query.show == "flipped":
            mask = pl.int_range(len(self), dtype=pl.UInt32, eager=True).is_in(self.flips.implode())
        elif query.show != "all":
            mask = self.select(query.show)
        for name in EQUAL:
            if (wanted := getattr(query, name)) is not None:
                mask &= index.match(name, wanted)
        if query.text:
            mask &= search_text(self.source, query.text)
        positions = mask.arg_true().cast(pl.UInt32)
        if query.sort == "position":
            return positions.reverse() if query.descending else positions
        keys = pl.DataFrame({"p": positions, "key": index.rank(query.sort).gather(positions)})
        return keys.sort("key", "p", descending=[query.descending, False], nulls_last=True)["p"]

    @property
    def reread(self) -> pl.Series:
        """The positions whose completions are looked at to see which flip: all, or some drawn at
        random.

        Which of them depends on nothing but how many rows there are.
        """
        if len(self) <= MOST_REREAD:
            return pl.int_range(len(self), dtype=pl.UInt32, eager=True)
        draw = random.Random(SEED)  # noqa: S311 - for repeatability, not for secrets
        return pl.Series(sorted(draw.sample(range(len(self)), MOST_REREAD)), dtype=pl.UInt32)

    @property
    def flips(self) -> pl.Series:
        """The positions, among those that are reread, whose completions not all rules read
        alike.
        """
        return self._make_once("flips", self._find_flips)

    def know_flips(self, audit: TaskAudit) -> None:
        """Take over what an audit has found, if it has looked at the same rows."""
        is_drawn, found = audit.drawn_from is not None, audit.flipped_rows
        if (
            found is not None
            and is_drawn == (len(self) > MOST_REREAD)
            and self.source.num_trials == 1
        ):
            self._made["flips"] = found

    def _find_flips(self) -> pl.Series:
        source, found = self.source, [pl.Series([], dtype=pl.UInt32)]
        has_completions = source.recorded is not None or source.kept is not None
        own_name = source.reader.rule_name if source.reader else None
        for part in source.read_lines(self.reread) if own_name and has_completions else ():
            if (readable := _find_passages(source, part)) is None:
                continue
            rows, scores, passages = readable
            names = [name for name in RULE_NAMES if name != own_name]
            is_told = source.reader is not None and source.reader.options is not None
            read = reread(passages, names, is_told=is_told)
            if len(read) < len(RULE_NAMES):  # the run's own is one of them
                read[OWN] = scores.text("predicted_choice")
            first, *others = read.values()
            is_flipped = reduce(or_, (one.ne_missing(first) for one in others)) & scores.counted()
            found.append(part.positions.gather(rows).filter(is_flipped))
        return pl.concat(found)

    def list(self, positions: Iterable[int]) -> list[Plain]:
        """Return the lines of the table for some rows, in the order given."""
        wanted, source = list(positions), self.source
        found: dict[int, Plain] = {}
        for part in source.read_lines(pl.Series(sorted(set(wanted)), dtype=pl.UInt32)):
            readings = read_rows(source, part, only_rules=True)
            found |= {row["p"]: row for row in list_rows(source, part, readings)}
        return [found[position] for position in wanted]

    def describe(self, position: int) -> Plain:
        """Return all there is to say of one row."""
        part = next(self.source.read(pl.Series([position], dtype=pl.UInt32)))
        return describe_samples(self.source, part)[0][1]

    def locate(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the positions of the first rows of samples, in one pass.

        Those not found are left out.
        """
        wanted = pl.Series(ids, dtype=pl.String).unique()
        own: dict[str, int] = {}
        ordered: dict[str, int] = {}
        for offset, names in iterate_ids(self.task_run):
            table = pl.DataFrame({"id": names.cast(pl.String)}).with_row_index("p", offset)
            # A sample whose options are shown in several orders may have no row of its own id.
            table = table.with_columns(base=pl.col("id").str.replace(r"~\d+$", ""))
            for column, found in (("id", own), ("base", ordered)):
                rows = table.filter(pl.col(column).is_in(wanted.implode()))
                for position, name in rows.select("p", column).iter_rows():
                    found.setdefault(name, position)
        return ordered | own


# ── what every rule reads


class Readings(list[Plain]):
    """What every rule reads in a completion, the run's own first; many rows have the same ones."""

    @cached_property
    def text(self) -> str:
        """The same as JSON."""
        return to_json(self, COMPACT)


#: Whether not all rules read a completion alike, None for a row that no metric counts; what they
#: read, with spans of the whole text; and all answers that it states.
RowReadings = tuple[bool | None, Readings, list[tuple[Labels, Span]]]
#: The rule of a run, what it has read, by which rule or part of it, and where.
_Own = tuple[str, str | None, str | None, Span | None]
#: What extractors read that see options.
_Seen = tuple[str | None, ...]


def read_rows(
    source: SampleSource, part: Excerpt, *, only_rules: bool = False
) -> list[RowReadings | None]:
    """Return the readings of each row by every rule, and by the extractors of other harnesses.

    With `only_rules` neither extractors nor all stated answers are among them. None where there is
    no verdict on a choice, or no text to read.
    """
    found: list[RowReadings | None] = [None] * len(part)
    scorer, readable = source.reader, _find_passages(source, part)
    if scorer is None or readable is None:
        return found
    rows, known, passages = readable
    fields = ("predicted_choice", "ground_truth_choice", "extraction_rule", "answer_span")
    nothing = [None] * len(known)
    own = [nothing if (one := known.column(name)) is None else one.to_list() for name in fields]
    columns = (passages, known.counted().to_list(), *own)
    own_name, is_told = scorer.rule_name, scorer.options is not None
    seeing = [] if only_rules else [name for name, one in EXTRACTORS.items() if one.reads_options]
    for place, row in zip(rows.to_list(), zip(*columns, strict=True), strict=True):
        (text, labels, options), is_counted, predicted, truth, rule, span = row
        said = own_name, predicted, rule, None if span is None else (span[0], span[1])
        seen = tuple(
            None if text is None else EXTRACTORS[name].read(text, labels, options)
            for name in seeing
        )
        is_flipped, read = _describe_readings(
            text, labels, options if is_told else None, truth, said, seen
        )
        stated = [] if only_rules or text is None else _list_stated(text, labels, options)
        found[place] = is_flipped if is_counted else None, read, stated
    return found


@lru_cache(maxsize=1_024)
def _describe_readings(
    text: str | None, labels: Labels, told: Labels | None, truth: str | None, own: _Own, seen: _Seen
) -> tuple[bool, Readings]:
    """Return whether not all rules read a completion alike, and what each of them and the
    extractors read.

    Without any in `seen`, no extractor is asked.
    """
    found: dict[str, Plain] = {}

    def note(name: str, kind: str, choice: str | None, part: str | None, at: Span | None) -> None:
        is_right = None if choice is None else choice == truth
        about = {"name": name, "kind": kind, "choice": choice, "is_right": is_right}
        found[name] = {**about, "part": part, "span": at and list(at)}

    own_name, predicted, rule, span = own
    own_part = None if rule == own_name else (rule or "").partition("/")[2] or None
    note(
        own_name,
        "own",
        predicted,
        own_part,
        find_first(rule or own_name, text) if span is None else span,
    )
    # A pattern of the user's own is no rule that others could be held against.
    choices = {predicted} if own_name in RULE_NAMES else set()
    for name in (name for name in RULE_NAMES if name != own_name):
        read = Reading() if text is None else find_rule(name).read(text, labels, told)
        note(
            name,
            "rule",
            read.choice,
            read.part,
            find_first(name, text) if read.span is None else read.span,
        )
        choices.add(read.choice)
    others = iter(seen)
    for name, extractor in EXTRACTORS.items() if seen else ():
        is_known = text is None or extractor.reads_options
        choice = next(others, None) if is_known else extractor.read(str(text), labels, None)
        note(name, "lens", choice, None, None)
    return len(choices) > 1, Readings(found.values())


def _find_passages(
    source: SampleSource, part: Excerpt
) -> tuple[pl.Series, Scores, list[Passage]] | None:
    """Return which rows have a verdict on a choice, their scores, and what there is to read.

    Else None. Nothing is read without the dataset if the scorer is given the texts of the options.
    """
    scorer, said = source.reader, part.completions
    if scorer is None or said is None:
        return None
    scores = Scores(part.scores[source.reading].struct.unnest(), source.encoded[source.reading])
    choices = scores.column("choices")
    if choices is None or (part.samples is None and scorer.options is not None):
        return None
    rows = choices.is_not_null().arg_true()
    known, said = scores.take(rows), said.take(rows)
    if part.samples is not None:
        return rows, known, list_passages(scorer, part.samples.take(rows), said, known)
    nothing = [None] * len(rows)
    return rows, known, list(zip(list_texts(said), list_labels(known), nothing, strict=True))


_list_stated = lru_cache(maxsize=1_024)(list_statements)


def find_first(rule: str, text: str | None) -> Span | None:
    """Return where the character stands that a rule of the first character looks at."""
    if not text or rule not in {FIRST, LITERAL}:
        return None
    if rule == LITERAL:
        return 0, 1
    begin = len(text) - len(text.lstrip(WHITE_SPACE))
    size = min(measure_character(text, begin), LONGEST_CHARACTER)
    return (begin, begin + size) if size else None


# ── rows and samples as plain values


def list_rows(
    source: SampleSource, part: Excerpt, readings: Sequence[RowReadings | None]
) -> list[Plain]:
    """Return the lines of the table for some rows."""
    ids, trials = part.scores["sample_id"].to_list(), part.scores["trial"].to_list()
    questions: list[str | None] = [None] * len(part)
    if source.fields is not None and part.samples is not None:
        questions = list(map(_write_known, source.fields.questions[-1].values(part.samples)))
    said: Sequence[str | None] = [None] * len(part)
    if part.completions is not None:
        said = part.completions.frame["completion"].to_list()

    return [
        {
            "p": position,
            "id": str(ids[at]),
            "trial": trials[at] if source.num_trials > 1 else None,
            "category": verdict["category"],
            **{name: verdict[name] and _shorten(verdict[name]) for name in ("truth", "predicted")},
            **{name: verdict[name] for name in ("status", "value", "validity", "reason")},
            "flipped": None if (reading := readings[at]) is None else reading[0],
            "said": show_decision(said[at], reading[1][0]["span"] if reading else None),
            "head": (questions[at] or "")[:SHOWN_QUESTION],
        }
        for at, (position, verdict) in enumerate(
            zip(part.positions.to_list(), source.tabulate(part).iter_rows(named=True), strict=True)
        )
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_LABEL else f"{text[:SHOWN_LABEL]}…"


def show_decision(text: str | None, span: Span | None) -> list[str] | None:
    """Return a completion in one line, as what stands before the passage that decided, it, and what
    follows.

    Where nothing decided the first is all of it. What is too long is cut so that the passage stays
    in sight; without one, beginning and end stay, for answers stand there.
    """
    if text is None:
        return None
    begin, end = span or (len(text), len(text))
    # No more of a long text is looked at than can be shown, and no thought before what decided.
    near = 4 * SHOWN_COMPLETION
    thoughts = (
        [last for _, last in find_thoughts(text) if last <= begin] if span and "<" in text else []
    )
    first = max([0, begin - near, *thoughts])
    before, after = (re.sub(r"\s+", " ", one) for one in (text[first:begin], text[end:][:near]))
    before, after = before.lstrip(), after.rstrip()
    if span is None:
        before = before.rstrip()
        if first or len(before) > SHOWN_BEFORE + SHOWN_END:
            opening = re.sub(r"\s+", " ", text[:near].lstrip())[:SHOWN_BEFORE].rpartition(" ")[0]
            before = f"{opening} … {before[-SHOWN_END:].partition(' ')[2]}"
        return [before, "", ""]
    if first and len(before) <= SHOWN_BEFORE:
        before = f"… {before}"
    elif len(before) > SHOWN_BEFORE:
        tail = before[-SHOWN_BEFORE:]
        before = f"… {tail.partition(' ')[2] if ' ' in tail[:-1] else tail}"
    decided = _shorten(re.sub(r"\s+", " ", text[begin:end]))
    most = SHOWN_COMPLETION - len(before) - len(decided)
    return [before, decided, after if len(after) <= most else f"{after[:most]}…"]


def describe_samples(
    source: SampleSource, part: Excerpt, room: int = ROOM
) -> list[tuple[Plain, Plain]]:
    """Return for each row its line of the table, and all there is to say of it.

    Its images have at most `room` bytes together, and each of them a hundredth of that.
    """
    readings = read_rows(source, part)
    rows = list_rows(source, part, readings)
    samples, nothing = part.samples, [None] * len(part)
    completions = nothing if part.completions is None else list(part.completions.rows())
    questions: Sequence[Question | None] = nothing
    if samples is not None and source.fields is not None:
        questions = list(read_questions(samples, source.fields))
    columns = (
        {}
        if samples is None
        else {name: _write_all(samples.values(name)) for name in samples.columns}
    )
    places = nothing if samples is None else _list_places(samples)
    scores = {
        step.key: [
            describe_verdict(one, source.encoded[step.key])
            for one in part.scores[step.key].to_list()
        ]
        for step in source.steps
        if step.key in part.scores.columns
    }
    verdicts = _describe_verdicts(source, part, scores, completions=completions, rows=rows)
    stored, most = (
        [images.find_stored((one and one.prompt) or ()) for one in completions],
        room // IMAGE_PART,
    )
    pictures = source.find_images(samples) if samples is not None and any(stored) else {}
    # The scorer that says what the choices are: the main one, else the first that does.
    ordered = sorted(scores.values(), key=lambda one: one is not scores[source.main.key])
    found = []
    for at, row in enumerate(rows):
        question, completion = questions[at], completions[at]
        known = [one[at]["metadata"] for one in ordered]
        whole = None if completion is None else completion.text
        text, move = cut_middle(whole)
        names = ("text", "status", "finish_reason", "reasoning", "error", "latency", "tokens")
        said, prompt = dict.fromkeys(names) | {"status": UNKNOWN}, None
        if completion is not None:
            usage = {"prompt": completion.prompt_tokens, "completion": completion.completion_tokens}
            usage |= {"reasoning": count} if (count := completion.reasoning_tokens) else {}
            usage |= {"cached": count} if (count := completion.cached_tokens) else {}
            tokens = None if set(usage.values()) == {None} else usage
            seconds = clean_numbers(completion.latency)
            told = (cut(completion.reasoning), cut(completion.error), seconds, tokens)
            values = (text, completion.status.value, completion.finish_reason, *told)
            said = dict(zip(names, values, strict=True))
            prompt = completion.prompt and [
                {"role": str(one.get("role", "?")), "text": cut(_write(one.get("content")))}
                for one in completion.prompt
            ]
        shown = []
        for one in stored[at]:
            image = pictures.get(str(one.get("sha256")))
            size = int(str(image["size"])) if image else 0
            data = image.address if image and size <= min(most, room) else None
            room -= size if data else 0
            shown.append({"name": images.describe_image(one), "data": data})
        read = Readings() if (reading := readings[at]) is None else reading[1]
        shifted = (
            read if text is whole else Readings({**one, "span": move(one["span"])} for one in read)
        )
        stated = [] if reading is None else reading[2]
        sample = {
            **{name: row[name] for name in ("p", "id", "trial")},
            "where": places[at],
            "fields": [{"name": name, "text": texts[at]} for name, texts in columns.items()],
            "question": None if question is None else cut(question.text),
            "choices": _list_choices(next(filter(_list_labels, known), known[0]), question),
            "prompt": prompt,
            "completion": said,
            "span": move(read[0]["span"]) if read and completion is not None else None,
            "stated": [
                {"choices": list(names), "span": moved}
                for names, at in stated
                if (moved := move(at))
            ],
            "folded": [
                list(one) for one in find_thoughts(text or "") if one[1] - one[0] >= LEAST_FOLDED
            ],
            "readings": shifted,
            "verdicts": verdicts[at],
            "missing": source.missing,
            **({"images": shown} if shown else {}),
        }
        found.append((row, sample))
    return found


def _list_places(samples: Samples) -> list[str | None]:
    """Return where rows stand; the file without its folder, for a page travels."""
    places: list[str | None] = []
    for sample in samples:
        file = sample.file and Path(sample.file).name
        places.append(str(Place(file=file, line=sample.line)) or None)
    return places


def _write_all(values: Sequence[object]) -> list[str | None]:
    """Return the values of a column as texts, cut where they are too long.

    Each value is written once.
    """
    texts = [one for one in values if isinstance(one, str)]
    whole = "\n".join(texts)
    if len(texts) == len(values) and images.hide_images(whole) is whole:
        return list(map(cut, texts))
    keys = list(map(repr, values))
    known = {key: cut(_write(value)) for key, value in dict(zip(keys, values, strict=True)).items()}
    return [known[key] for key in keys]


def _write(value: object) -> str:
    told = images.write_content(value)
    return told or images.hide_images(value if isinstance(value, str) else to_json(value))


def _list_choices(metadata: Mapping[str, Any], question: Question | None) -> list[Plain]:
    """Return the choices with their texts, which of them is the truth, and which was predicted."""
    options = () if question is None else question.options
    labels = _list_labels(metadata) or ([] if question is None else list(question.labels))
    texts: Sequence[str | None] = [None] * len(labels)
    # Options that fit no label are not guessed at; those that are no more than their labels are not
    # said.
    if len(options) == len(labels) and list(options) != labels:
        texts = strip_labels(options, labels)
    truth, predicted = (
        next((str(metadata[name]) for name in names if metadata.get(name) is not None), None)
        for names in (TRUTHS, PREDICTIONS)
    )
    if truth is None and question is not None and question.truth is not None:
        truth = labels[question.truth] if question.truth < len(labels) else None
    return [
        {
            "label": label,
            "text": cut(text),
            "is_truth": truth is not None and truth in {label, text},
            "is_predicted": predicted is not None and predicted in {label, text},
        }
        for label, text in zip(labels, texts, strict=True)
    ]


def _list_labels(metadata: Mapping[str, Any]) -> list[str]:
    found = metadata.get("choices")
    return list(map(str, found)) if isinstance(found, list) else []


def _describe_verdicts(
    source: SampleSource,
    part: Excerpt,
    scores: Mapping[str, Sequence[Plain]],
    *,
    completions: Sequence[Completion | None],
    rows: Sequence[Plain],
) -> list[list[Plain]]:
    """Return for each row the verdicts of all scorers.

    What the main one leaves open is as in the table.
    """
    verdicts: list[list[Plain]] = [[] for _ in rows]
    for step in source.steps:
        found = scores.get(step.key, ())
        failed = [at for at, one in enumerate(found) if one["status"] == ScoreStatus.FAILED.value]
        problems: dict[int, str] = {}
        if part.samples is not None and failed:  # why they could not be scored, as their check says
            checked, _ = step.scorer.check_rows(part.samples.take(failed))
            problems = {failed[one.position]: one.error.message for one in reversed(checked)}
        for at, score in enumerate(found):
            metadata: Mapping[str, Any] = score["metadata"]
            why = [problems.get(at) or _explain(step.scorer, score, completions[at])]
            if score.get("excluded_by"):
                why.append(f"kept out of the metrics by action `{score['excluded_by']}`")
            verdict = {
                "scorer": step.display_name or step.key,
                "rule": metadata.get("extraction_rule"),
                "status": score["status"],
                "validity": metadata.get("completion_validity"),
                "reason": score["reason"] or metadata.get("validity_reason"),
                "value": read_number(score["values"].get(source.values[step.key])),
                "why": "; ".join(one for one in why if one) or None,
            }
            if step.key == source.main.key and verdict["validity"] is None:
                verdict |= {name: rows[at][name] for name in ("validity", "reason")}
            verdicts[at].append(verdict)
    return verdicts


def _explain(scorer: Scorer, score: Plain, completion: Completion | None) -> str | None:
    """Return why a score is what it is, in a sentence."""
    metadata: Mapping[str, Any] = score["metadata"]
    is_scored = score["status"] == ScoreStatus.SCORED.value
    if reads_choices(scorer) and is_scored:
        if completion is None and metadata["completion_validity"] != Validity.VALID.value:
            return None
        whole = Score(ScoreStatus.SCORED, score["reason"], score["values"], metadata)
        return explain_verdict(completion, metadata["choices"], whole)
    if {"answer_gt", "answer_pred"} <= set(metadata) and is_scored:
        if metadata["answer_pred"] is None:
            return "there is no text to compare with the ground truth"
        relation = "is" if metadata["answer_pred"] == metadata["answer_gt"] else "is not"
        return f"the text {relation} the ground truth"
    if isinstance(scorer, ChoiceProbabilities) and is_scored:
        predicted, truth = metadata["predicted_choice"], metadata["ground_truth_choice"]
        if predicted is None:
            return f"several choices are equally likely; the ground truth is {truth!r}"
        confidence = score["values"].get("confidence")
        share = "" if confidence is None else f" (probability {confidence:.3f})"
        relation = "is" if predicted == truth else "is not"
        return (
            f"the likeliest choice is {predicted!r}{share}, which {relation} the ground "
            f"truth {truth!r}"
        )
    label = (score["values"] | metadata).get("label")
    if is_scored and "judge_text" in metadata and label is not None:
        return f"the judge's label is {label!r}"
    said = (metadata.get(name) for name in ("judge_error", "fallback_error", "reasoning"))
    return next((str(one) for one in said if one), None)


def cut(text: str | None) -> str | None:
    """Return the text, or its beginning and how long the whole is."""
    if text is None or len(text) <= MOST_CHARACTERS:
        return text
    return (
        f"{text[:MOST_CHARACTERS]}\n[cut: the first {MOST_CHARACTERS:,} of {len(text):,} "
        "characters]"
    )


def cut_middle(text: str | None) -> tuple[str | None, Callable[[Span | None], list[int] | None]]:
    """Return the text without its middle, where it is too long to be shown whole, and what moves a
    passage.

    That returns where a passage of the whole text stands in the one shown; None if it was left out.
    """
    if text is None or len(text) <= COMPLETION_BEGIN + COMPLETION_END:
        return text, lambda span: None if span is None else list(span)
    end = len(text) - COMPLETION_END
    mark = f"\n[cut: {end - COMPLETION_BEGIN:,} of {len(text):,} characters are left out here]\n"

    def move(span: Span | None) -> list[int] | None:
        if span is None or span[1] <= COMPLETION_BEGIN:
            return None if span is None else list(span)
        shift = COMPLETION_BEGIN + len(mark) - end
        return None if span[0] < end else [span[0] + shift, span[1] + shift]

    return f"{text[:COMPLETION_BEGIN]}{mark}{text[end:]}", move
