"""What can be said of a dataset without asking a model: rows that are odd, places of the truth,
baselines.

Some rows at a time are looked at by themselves (`measure_questions`); the parts are merged,
questions that are asked twice are looked for, and what stands out becomes a finding with rows that
show it.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import polars as pl

from answerkey.dataset_audit.questions import (
    TRUTH_FORMS,
    FieldOptions,
    Question,
    QuestionFields,
    find_derived,
    find_fields,
    find_odd_texts,
    find_part_oddities,
    find_text_oddities,
    fold_text,
    read_questions,
    study_options,
)
from answerkey.datasets.dataset import CleanLabels, choose_clean, open_dataset, read_label_quality
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows
from answerkey.datasets.tables import DataFile, FileFields, Tabular, load_rows, read_files
from answerkey.engines import Spread, open_engine
from answerkey.errors import DataError, Place, SpecError, listing, raise_all, refuse_column
from answerkey.evaluate.job import Progress, fit_rows, ignore_progress
from answerkey.evaluate.options import refuse_unknown
from answerkey.metrics import wilson
from answerkey.metrics.intervals import ChiSquare, compare_counts, student
from answerkey.metrics.task_counts import measure_chance
from answerkey.scorers import Scorer, reads_choices
from answerkey.solvers import find_reference
from answerkey.spec import DatasetSpec, Overrides, find_ready_made, load_dataset, load_plan
from answerkey.spec.sources import find_header
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    clean_numbers,
    draw_facts,
    draw_finding,
    format_count,
    format_figure,
    format_interval,
    format_part,
    format_percent,
    format_short_percent,
    lay_out,
    line,
    list_counts,
    make_visible,
    shorten,
    shorten_path,
)
from answerkey.types import Notice, Samples

#: How many rows are shown for each thing that is found, and how much of a note.
SHOWN, SHOWN_NOTE = 5, 60


@dataclass(frozen=True)
class Example:
    """A row that shows something: its sample id, where it stands, and what is to be seen there."""

    sample: str
    file: str | None
    line: int | None
    note: str = ""


def make_example(samples: Samples, row: int, note: str = "") -> Example:
    """Return where a row stands, with a note."""
    place = samples.place(row)
    shown = note if len(note) <= SHOWN_NOTE else f"{note[:SHOWN_NOTE]}…"
    return Example(str(place.sample), place.file, place.line, shown)


# ------------------------------------------------------------------------------- candidates

#: Each band is the hash of so many minima; questions that agree in one band are held against each
#: other.
BANDS, BAND_ROWS = 12, 3
_SEEDS = [str(seed) for seed in range(BANDS * BAND_ROWS)]
#: How many rows of a table are in memory, how many are compared, and how many sketched together.
MOST_IN_MEMORY, PAIR_ROWS, SKETCH_ROWS = 2**19, 2**17, 2**14
#: Words apart, but signs that carry meaning and characters of scripts without spaces one by one.
_SINGLE = r"\u3040-\u30ff\u3400-\u9fff"
_TOKEN = rf"[{_SINGLE}]|[^\W_{_SINGLE}]+|[-+*/=<>^~%$\u00ac\u00b1\u00d7\u00f7\u2190-\u22ff]"
_TOKENS = re.compile(_TOKEN)
#: Words that turn a question into its opposite: two questions that differ in them are two
#: questions.
_TURNING = frozenset(
    {"not", "except", "never", "no", "least", "false", "incorrect", "most", "without"}
)


def sketch_questions(
    questions: pl.Series, options: Sequence[Sequence[str]], codes: pl.Series, first_row: int
) -> pl.DataFrame:
    """Return for each question its row, the hash of its text, and its bands; options in any order.

    `questions` are texts, `options` distinct lists of texts, of which `codes` says which a row has;
    the rows are numbered from `first_row` on. `decisive` is the same for questions whose
    `Words.decisive` are; null where that would take Python's view of Unicode.
    """
    joined = pl.Series(["\x1f".join(sorted(one)) for one in options], dtype=pl.String)
    told = _sketch_texts(joined, "options")
    bands = [
        pl.struct(_SEEDS[band * BAND_ROWS : (band + 1) * BAND_ROWS])
        .hash(band)
        .alias(f"band {band}")
        for band in range(BANDS)
    ]
    sketches = []
    for start in range(
        0, len(questions) or 1, SKETCH_ROWS
    ):  # few at a time: minima are larger than sketches
        own = _sketch_texts(questions.slice(start, SKETCH_ROWS), "question")
        its = told.select(pl.all().gather(codes.slice(start, SKETCH_ROWS)))
        minima = (pl.min_horizontal(own[seed], its[seed]).alias(seed) for seed in _SEEDS)
        both = pl.DataFrame([own["question"], its["options"]]).with_columns(
            *minima, decisive=own["decisive"] + its["decisive"]
        )
        first = first_row + start
        sketch = both.select(
            pl.int_range(first, first + pl.len(), dtype=pl.UInt32).alias("row"),
            pl.struct("question", "options").hash().alias("key"),
            "decisive",
            *(pl.when(pl.col(_SEEDS[0]).is_not_null()).then(band) for band in bands),
        )
        sketches.append(sketch)
    return pl.concat(sketches)


def _sketch_texts(texts: pl.Series, name: str) -> pl.DataFrame:
    """Return texts, folded, with the least hash of their words for each seed, and what is decisive
    in them.

    A word in the question is not the same as one in an option; `name` tells them apart.
    """
    texts = texts.fill_null("")
    is_ascii = texts.str.len_bytes() == texts.str.len_chars()
    # Differences of case, width and white space are none.
    folded = (texts if is_ascii.all() else texts.str.normalize("NFKC")).str.to_lowercase()
    if folded.str.contains(r"\s\s|[^\S ]").any():
        folded = folded.str.replace_all(r"\s+", " ")
    folded = folded.str.strip_chars().alias(name)
    word, hashed = pl.element(), (pl.lit(f"{name}\x1f") + pl.element()).hash()
    is_decisive = word.str.contains("[^a-z]") | word.is_in(sorted(_TURNING))
    words = folded.str.extract_all(_TOKEN).to_frame("words")
    decisive = (
        pl.col("words").list.eval(pl.when(is_decisive).then(hashed % 2**32).otherwise(0)).list.sum()
    )
    known = words.select(
        pl.when(is_ascii).then(decisive).alias("decisive"), pl.col("words").list.eval(hashed)
    )
    minima = (
        pl.col("words").list.eval(pl.element().hash(seed)).list.min().alias(_SEEDS[seed])
        for seed in range(BANDS * BAND_ROWS)
    )
    return known.select(folded, "decisive", *minima)


class Spill:
    """A table that grows: in memory while it is small, then in files of a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frames: list[pl.DataFrame] = []
        self._files: list[pl.LazyFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Put further rows below those that are there."""
        self._frames.append(frame)
        if sum(one.height for one in self._frames) > MOST_IN_MEMORY:
            handle, name = tempfile.mkstemp(suffix=".parquet", dir=self._folder)
            os.close(handle)
            pl.concat(self._frames).write_parquet(
                name, compression="uncompressed", row_group_size=PAIR_ROWS
            )
            self._files.append(pl.scan_parquet(name, cache=False))
            self._frames.clear()

    def scan(self) -> pl.LazyFrame:
        """Return all rows."""
        return pl.concat([*self._files, *(one.lazy() for one in self._frames)])


def pair_rows(sketches: pl.LazyFrame, rows: int, folder: Path) -> tuple[pl.DataFrame, int]:
    """Return candidates for questions that are nearly the same, the likeliest, and how many there
    are.

    They are `one` and `other` of at most `MOST_PAIRS` pairs. In a band that many share, each row is
    held against the first and against the one before it, so that there are at most twice as many
    pairs as rows. The more bands a pair shares, the likelier it is. Of questions that are the same,
    the first is looked at.
    """
    tables = []
    for name in (f"band {band}" for band in range(BANDS)):
        table = Spill(folder)
        for part in _split(sketches.select("row", pl.col(name).alias("band")), "band", rows):
            ordered = part.sort("band", maintain_order=True)
            is_same = (pl.col("band") == pl.col("band").shift()).fill_null(value=False)
            before = pl.when(is_same).then(pl.col("row").shift())
            first = pl.when(~is_same).then(pl.col("row")).forward_fill()
            near = ordered.select("row", before.alias("before"), first.alias("first"))
            # A row stands for no other one.
            near = near.select(
                "row",
                pl.col("before").fill_null(pl.col("row")),
                pl.when((pl.col("first") != pl.col("before")).fill_null(value=False))
                .then("first")
                .otherwise("row")
                .alias("first"),
            )
            table.add(near.sort("row"))
        tables.append(table.scan())
    best = pl.DataFrame(schema={"one": pl.UInt32, "other": pl.UInt32, "bands": pl.UInt8})
    total, least = 0, 0
    for start in range(0, rows, PAIR_ROWS):
        is_here = pl.col("row").is_between(start, start + PAIR_ROWS - 1)
        found = [one.filter(is_here).collect().sort("row") for one in tables]
        names = [f"{side} {band}" for band in range(BANDS) for side in ("before", "first")]
        sides = (one[side] for one in found for side in ("before", "first"))
        near = pl.DataFrame([found[0]["row"], *map(pl.Series.rename, sides, names)])
        near = near.filter(pl.any_horizontal(pl.col(names) != pl.col("row")))
        parts = [best]
        for place, name in enumerate(names):
            new = near.filter(pl.all_horizontal(pl.col("row", *names[:place]) != pl.col(name)))
            bands = pl.sum_horizontal((pl.col(names) == pl.col(name)).cast(pl.UInt8)).cast(pl.UInt8)
            shared = new.select(one=name, other="row", bands=bands)
            parts.append(shared.filter(pl.col("bands") >= least))
            total += new.height
        every = pl.concat(parts)
        if every.height > MOST_PAIRS:
            least = int(every["bands"].sort(descending=True)[MOST_PAIRS - 1])
        likeliest = every.filter(pl.col("bands") >= least)
        best = likeliest.sort("bands", "one", "other", descending=[True, False, False]).head(
            MOST_PAIRS
        )
    return best.drop("bands"), total


def _split(table: pl.LazyFrame, column: str, rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table in parts that fit into memory, those with the same hash in the same
    part.
    """
    count = -(-rows // MOST_IN_MEMORY)
    for part in range(count):
        yield table.filter(pl.col(column).fill_null(0) % count == part).collect()


def group_pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the rows that pairs connect, in groups, in the order of the first ones."""
    parents: dict[int, int] = {}

    def find(row: int) -> int:
        while (parent := parents.setdefault(row, row)) != row:
            parents[row] = parents[parent]
            row = parent
        return row

    for one, other in pairs:
        first, second = sorted((find(one), find(other)))
        parents[second] = first
    groups: dict[int, list[int]] = {}
    for row in sorted(parents):
        groups.setdefault(find(row), []).append(row)
    return [groups[first] for first in sorted(groups)]


# ------------------------------------------------------------------------------- likeness


class Words(NamedTuple):
    """The words of a question and those of its options.

    `decisive` are those that must be the same.
    """

    question: Counter[str]
    options: Counter[str]
    decisive: frozenset[tuple[int, str, int]]


def read_words(question: Question) -> Words:
    """Return the words of a question."""
    texts = (question.text or "", "\x1f".join(question.texts))
    plain = [one if one.isascii() else unicodedata.normalize("NFKC", one) for one in texts]
    first, second = (Counter(_TOKENS.findall(text.lower())) for text in plain)
    decisive = frozenset(
        (place, word, count)
        for place, words in enumerate((first, second))
        for word, count in words.items()
        if word in _TURNING or not word.isalpha()
    )
    return Words(first, second, decisive)


class WordWeights(dict[str, float]):
    """How much each word counts, from how many questions it is in: rare ones more than those of
    every one.
    """

    def __init__(self, questions: Iterable[Words]) -> None:
        self._questions = 0
        self._known: Counter[str] = Counter()
        for words in questions:
            self._questions += 1
            self._known.update({*words.question, *words.options})

    def __missing__(self, word: str) -> float:
        self[word] = weight = math.log1p(self._questions / max(1, self._known[word]))
        return weight


def measure_likeness(one: Words, other: Words, weights: WordWeights) -> float:
    """Return how alike two questions are, 0 to 1: the less alike of question and options.

    0 where their numbers or signs differ, or a word that turns a question into its opposite.
    """
    if one.decisive != other.decisive:
        return 0.0

    def weigh(words: Mapping[str, int]) -> float:
        total = 0.0  # not `sum`, which rounds otherwise from Python 3.12 on
        for word, count in words.items():
            total += count * weights[word]
        return total

    shares = []
    for first, second in ((one.question, other.question), (one.options, other.options)):
        common = weigh(
            {word: min(count, second[word]) for word, count in first.items() if word in second}
        )
        every = weigh(first) + weigh(second) - common
        shares.append(common / every if every else 1.0)
    return min(shares)


# ------------------------------------------------------------------------------- what is found

#: Of the words of so many questions the frequencies are known; that is enough to tell rare from
#: common.
MOST_WEIGHED = 20_000
#: How many questions are loaded together, and how many candidates are held against each other at
#: most.
BATCH, MOST_PAIRS, PAIR_BATCH = 16_384, 200_000, 20_000


@dataclass(frozen=True)
class QuestionRows:
    """Where questions lie, and how they are read; small enough to be sent around."""

    rows: Rows
    fields: QuestionFields
    first_row: int


@dataclass(frozen=True)
class Repeats:
    """Rows beyond the first of each group, in how many groups, and examples.

    `contradicting` are groups whose truths differ, by the text of the right option.
    """

    rows: int = 0
    groups: int = 0
    contradicting: int = 0
    examples: tuple[Example, ...] = ()
    contradictions: tuple[Example, ...] = ()


def find_repeats(
    sources: Sequence[QuestionRows], sketches: pl.LazyFrame, similarity: float, folder: Path
) -> tuple[Repeats, Repeats, int]:
    """Return questions that are the same, those that are nearly so, and how many candidates were
    passed over.

    They are nearly the same from a likeness of `similarity` on. Tables may be put into the folder.
    """
    total = sum(len(source.rows) for source in sources)
    same, later = _find_same(sketches, total)
    if len(later):
        sketches = sketches.filter(pl.col("row").is_in(later.implode()).not_())
    pairs, candidates = pair_rows(sketches, total, folder)
    checked = (
        _drop_decided(pairs.sort("one", "other"), sketches) if similarity > 0 else pairs.rows()
    )
    weighed = _iterate(sources, range(min(MOST_WEIGHED, total)) if checked else ())
    weights = WordWeights(read_words(question) for _, question, _, _ in weighed)
    alike: dict[tuple[int, int], float] = {}
    for start in range(0, len(checked), PAIR_BATCH):
        batch = checked[start : start + PAIR_BATCH]
        words = {
            row: read_words(question)
            for row, question, _, _ in _iterate(
                sources, sorted({row for pair in batch for row in pair})
            )
        }
        for one, other in batch:
            value = measure_likeness(words[one], words[other], weights)
            if value >= similarity:
                alike[one, other] = value
    return (
        _sum_up(sources, same),
        _sum_up(sources, _group_alike(alike, sketches)),
        candidates - pairs.height,
    )


#: Rows that belong together: the first two of them, how many, whether their truths differ, how
#: alike.
_GROUPS = pl.Schema(
    {
        "one": pl.UInt32,
        "other": pl.UInt32,
        "count": pl.UInt32,
        "differ": pl.Boolean,
        "value": pl.Float64,
    }
)


def _find_same(sketches: pl.LazyFrame, rows: int) -> tuple[pl.DataFrame, pl.Series]:
    """Return groups of questions that are the same, and all of their rows but the first of each."""
    groups, later = [pl.DataFrame(schema=_GROUPS)], [pl.Series(dtype=pl.UInt32)]
    for part in _split(sketches.select("row", "key", "truth"), "key", rows):
        again = part.filter(pl.col("key").is_duplicated())
        later.append(again.filter(pl.col("key").is_first_distinct().not_())["row"])
        found = again.group_by("key").agg(
            pl.col("row").first().alias("one"),
            pl.col("row").get(1).alias("other"),
            pl.len().alias("count"),
            (pl.col("truth").drop_nulls().n_unique() > 1).alias("differ"),
        )
        groups.append(found.select(pl.exclude("key"), value=None).cast(_GROUPS))
    return pl.concat(groups).sort("one"), pl.concat(later)


def _drop_decided(pairs: pl.DataFrame, sketches: pl.LazyFrame) -> list[tuple[int, int]]:
    """Return pairs without those that differ in what is decisive: their likeness is 0."""
    known = _pick_rows(sketches, "decisive", pl.concat(pairs.iter_columns()))
    both = pairs.join(known, left_on="one", right_on="row", maintain_order="left")
    both = both.join(known, left_on="other", right_on="row", maintain_order="left", suffix=" too")
    is_open = (pl.col("decisive") == pl.col("decisive too")).fill_null(value=True)
    return both.filter(is_open).select("one", "other").rows()


def _pick_rows(sketches: pl.LazyFrame, name: str, rows: pl.Series) -> pl.DataFrame:
    """Return a column of the sketches at some rows."""
    return (
        sketches.filter(pl.col("row").is_in(rows.unique().implode())).select("row", name).collect()
    )


def _group_alike(alike: Mapping[tuple[int, int], float], sketches: pl.LazyFrame) -> pl.DataFrame:
    """Return groups of questions that are nearly the same.

    A group is as alike as its likest pair.
    """
    likeness: dict[int, float] = {}
    for pair, value in alike.items():
        for row in pair:
            likeness[row] = max(value, likeness.get(row, 0.0))
    truths = dict(
        _pick_rows(sketches, "truth", pl.Series(list(likeness), dtype=pl.UInt32)).iter_rows()
    )
    found = [
        (
            *group[:2],
            len(group),
            len({truths[row] for row in group} - {None}) > 1,
            max(likeness[row] for row in group),
        )
        for group in group_pairs(alike)
    ]
    return pl.DataFrame(found, schema=_GROUPS, orient="row")


def _iterate(
    sources: Sequence[QuestionRows], rows: Sequence[int]
) -> Iterator[tuple[int, Question, Samples, int]]:
    """Yield the questions at these rows, which ascend, each with its samples and its place among
    them.
    """
    for source in sources:
        first, last = source.first_row, source.first_row + len(source.rows)
        own = pl.Series([row - first for row in rows if first <= row < last], dtype=pl.Int64)
        for start in range(0, len(own), BATCH):
            places = own.slice(start, BATCH)
            samples = source.rows.take(places).load(source.fields.columns)
            found = read_questions(samples, source.fields)
            for number, (place, question) in enumerate(zip(places.to_list(), found, strict=True)):
                yield first + place, question, samples, number


def _fold_truth(question: Question) -> str | None:
    """Return the text of the right option; the label stands for an option without any."""
    if (place := question.truth) is None:
        return None
    options = question.options
    return fold_text(options[place] or "") if place < len(options) else question.labels[place]


def _sum_up(sources: Sequence[QuestionRows], groups: pl.DataFrame) -> Repeats:
    contradicting = groups.filter("differ")
    likest = groups.sort("value", "one", descending=[True, False]).head(SHOWN)
    shown = (likest, contradicting.head(SHOWN))
    rows = sorted({row for table in shown for name in ("one", "other") for row in table[name]})
    examples: dict[int, Example] = {}
    truths: dict[int, str | None] = {}
    for row, question, samples, number in _iterate(sources, rows):
        examples[row], truths[row] = make_example(samples, number), _fold_truth(question)

    def show(one: int, other: int, count: int, _: bool, value: float | None) -> Example:  # noqa: FBT001 - a row
        first, second = examples[one], examples[other]
        likely = "" if value is None else f" {value:.2f}"
        more = f" and {count - 2} more" if count > 2 else ""  # noqa: PLR2004 - the pair itself
        is_here = second.file in {first.file, None}
        place = f"line {second.line}" if is_here else f"{Path(str(second.file)).name}:{second.line}"
        said = [truth for row in (one, other) if (truth := truths[row]) is not None]
        differ = len({truth.casefold() for truth in said}) > 1
        note = f"; truths {said[0]!r} and {said[1]!r}" if differ else ""
        return replace(first, note=f"like{likely} {second.sample} ({place}){more}{note}")

    return Repeats(
        rows=int((groups["count"] - 1).sum()),
        groups=groups.height,
        contradicting=contradicting.height,
        examples=tuple(show(*row) for row in shown[0].iter_rows()),
        contradictions=tuple(show(*row) for row in shown[1].iter_rows()),
    )


#: How many rows are looked at together, and how many make worker processes worth their start.
BLOCK, WORKER_ROWS = 65_536, 20_000
#: From here on two questions are nearly the same.
SIMILARITY = 0.75
PLAN_ENDINGS = (".yaml", ".yml")

# ------------------------------------------------------------------------------- what an audit says


@dataclass(frozen=True)
class DatasetFinding:
    """One thing to know of a dataset: a sentence with its numbers, a next step, and rows that show
    it.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    count: int
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """What a strategy without any knowledge gets: the share, and its 95 % interval."""

    value: float
    interval: tuple[float, float] | None
    n: int
    label: str = ""


@dataclass(frozen=True)
class TruthStatistics:
    """Where the truths of `n` rows stand, and what follows for those who know nothing.

    `sizes` is how many rows have so many choices, `chance` the mean of one over that. `places`
    counts truths by the number of choices and the place; `skew` tests whether all places are
    equally likely.
    """

    n: int
    sizes: Mapping[int, int]
    chance: float | None
    labels: Mapping[str, int]
    places: Mapping[int, tuple[int, ...]]
    majority: Baseline | None = None
    longest: Baseline | None = None
    skew: ChiSquare | None = None


@dataclass(frozen=True)
class LabelQuality:
    """The column that says whether labels can be relied on: its values, and which of them count as
    clean.
    """

    column: str
    values: Mapping[str, int]
    clean: tuple[str, ...]


@dataclass(frozen=True)
class DatasetAudit:
    """The audit of one dataset; `fields` says where its parts are read."""

    name: str
    files: tuple[str, ...]
    rows: int
    fields: Mapping[str, str]
    every: TruthStatistics
    clean: TruthStatistics | None = None
    quality: LabelQuality | None = None
    findings: tuple[DatasetFinding, ...] = ()
    notices: tuple[Notice, ...] = ()


# ------------------------------------------------------------------------------- the way of an
# audit


class DatasetOptions(FieldOptions, total=False):
    """Where the parts of a question are, and what is looked for.

    Parts not given are found by usual names. `header` has the column names of a CSV file without a
    header line. `label_quality` is a column that says whether a label can be relied on, `clean` its
    values that say so. `similarity` None: repeated questions are not looked for. `columns` says
    which columns of data files are what. `dataset`, `config` and `env` are for task and run files.
    """

    columns: Mapping[str, str]

    header: Sequence[str] | None
    label_quality: str | None
    clean: Sequence[str]
    similarity: float | None
    dataset: str | None
    config: Mapping[str, object]
    env: str | None


def audit_dataset(
    *paths: str | Path | Tabular,
    progress: Progress | None = None,
    **options: Unpack[DatasetOptions],
) -> tuple[DatasetAudit, ...]:
    """Look at the questions of datasets; no model is called.

    Each path is a data file, or a table, and all of them are one dataset; or one path is a task
    file, a run file, its folder or a ready-made task, whose datasets are looked at one by one.
    """
    if not paths:
        raise SpecError(
            "E119", "no file is named", hint="name a task file, a run file or a data file"
        )
    refuse_unknown("audit_dataset", options, list(DatasetOptions.__optional_keys__))
    report = progress or ignore_progress
    files = [Path(one) for one in paths if isinstance(one, str | Path)]
    plans = [
        path
        for path in files
        if find_ready_made(path) is not None or path.is_dir() or path.suffix.lower() in PLAN_ENDINGS
    ]
    if not plans:
        first = Path(paths[0]).name if isinstance(paths[0], str | Path) else "samples"
        read = _read_files(files, options) if files else []
        for table in (one for one in paths if not isinstance(one, str | Path)):
            rows = load_rows(table, name="samples").rows
            read.append((rows, find_fields(rows, **_pick_fields(options))))
        return (_audit(first if len(paths) == 1 else f"{len(paths)} files", read, options, report),)
    if len(paths) > 1:
        message = f"`{plans[0]}` is no data file, and only data files can be looked at together"
        raise SpecError("E119", message, hint="name it alone")
    overrides = Overrides(
        config=options.get("config") or {},
        dataset=options.get("dataset"),
        completions="-",  # no model is asked, so none has to be named
        env=options.get("env"),
    )
    alone = load_dataset(plans[0], overrides)
    datasets: list[tuple[DatasetSpec, Sequence[Scorer]]] = [] if alone is None else [(alone, ())]
    if alone is None:
        loaded = load_plan(plans[0], overrides)
        planned = loaded.value.specifications if loaded.value else ()
        datasets = [(one.dataset, [step.scorer for step in one.task.scoring]) for one in planned]
        if not datasets:
            raise_all(loaded.errors)
    found: dict[tuple[str, str], DatasetAudit] = {}
    for one, scorers in datasets:
        scorer = next((each for each in scorers if reads_choices(each)), None)
        key = (one.key, repr(scorer))
        if key not in found:
            dataset = open_dataset(one.source, name=one.key)
            parts = find_fields(dataset.rows, scorer, **_pick_fields(options))
            audit = _audit(dataset.name, [(dataset.rows, parts)], options, report)
            found[key] = replace(audit, notices=(*dataset.notices, *audit.notices))
    return tuple(found.values())


def _pick_fields(options: DatasetOptions) -> Any:  # noqa: ANN401 - options where the parts of a question are
    return {name: one for name, one in options.items() if name in FieldOptions.__annotations__}


def _read_files(
    paths: Sequence[str | Path], options: DatasetOptions
) -> list[tuple[Rows, QuestionFields]]:
    """Return the rows of data files, which are one dataset, with their questions as they are
    recognised.

    Parts that the caller gives as templates are read as they say, and the others by usual names.
    """
    header, how = options.get("header") or find_header(Path(paths[0])), FileFields()
    if header is not None:
        is_tsv = any(".tsv" in Path(path).suffixes for path in paths)
        how = FileFields(format="tsv" if is_tsv else "csv", header=tuple(header))
    files = [DataFile(Path(path), str(path), Path(path).name) for path in paths]
    said, form = _pick_fields(options), options.get("truth_form")
    asked = list(said.get("question") or ())
    named: dict[str, Any] = dict(zip(("question", "passage"), reversed(asked), strict=False))
    named |= {one: said[one] for one in ("options", "choices", "truth") if said.get(one)}
    if any("{" in str(one) for one in (*asked, *named.values())) or len(asked) > 2:  # noqa: PLR2004 - with a passage
        tables = [read_files([one], how, shown=one.shown).rows for one in files]
        return [(rows, find_fields(rows, **said)) for rows in tables]
    if form is not None:
        named["truth"] = f"{named.get('truth', '')}:{TRUTH_FORMS[form]}"
    every = read_files(files, how, shown=str(paths[0])).rows
    found = recognise(every, {**named, **(options.get("columns") or {})}, needs_all=False)
    if "question" not in found.columns:
        hint = f"name it with `--column question=NAME`; columns: {listing(every.columns)}"
        raise DataError(
            "E206", "no column holds the question", where=Place(file=every.file), hint=hint
        )
    how = replace(how, questions=found.say())
    return [(read_files([one], how, shown=one.shown).rows, find_derived(found)) for one in files]


def _audit(
    name: str,
    tables: Sequence[tuple[Rows, QuestionFields]],
    options: DatasetOptions,
    progress: Progress,
) -> DatasetAudit:
    quality = choose_clean(options.get("label_quality"), options.get("clean") or ())
    similarity = options.get("similarity", SIMILARITY)
    sources, first_row = [], 0
    for rows, parts in tables:
        if quality is not None and quality[0] not in rows.columns:
            message = f"there is no column `{quality[0]}`"
            raise refuse_column(message, quality[0], rows.columns, Place(file=rows.file))
        sources.append(QuestionRows(rows, parts, first_row))
        first_row += len(rows)
    whole = QuestionPart()
    same, near, skipped = Repeats(), Repeats(), 0
    with tempfile.TemporaryDirectory(
        prefix="answerkey-audit-", ignore_cleanup_errors=True
    ) as folder:
        sketches = Spill(Path(folder))
        for source in sources:
            measure = partial(measure_questions, source, quality, sketches=similarity is not None)
            together = min(BLOCK, fit_rows(source.rows, source.fields.columns, None))
            stretches = [(offset, together) for offset in range(0, len(source.rows), together)]
            spread: Spread = "processes" if len(source.rows) > WORKER_ROWS else "alone"
            for one in open_engine().map(measure, stretches, spread=spread):
                if one.sketches is not None:
                    sketches.add(one.sketches)
                whole.merge(one)
                progress("audit", whole.rows, first_row)
        if similarity is not None and whole.rows:
            same, near, skipped = find_repeats(sources, sketches.scan(), similarity, Path(folder))
    notices = []
    if skipped:
        notices.append(
            Notice(f"{skipped} pairs of questions that may be nearly the same were not looked at")
        )
    clean, described = None, None
    if quality is not None:
        column, values = quality
        found = dict(sorted(whole.qualities.items(), key=lambda one: (-one[1], one[0])))
        clean = measure_truths(whole.clean)
        described = LabelQuality(column, found, tuple(sorted(values.intersection(found))))
        if not described.clean:
            known = listing(value for value, _ in whole.qualities.most_common(10))
            hint = f"say which with `--clean`: {known}"
            notices.append(Notice(f"no row of column `{column}` is clean", hint=hint))
    every = measure_truths(whole.every)
    return DatasetAudit(
        name=name,
        files=tuple(str(one.rows.file) for one in sources if one.rows.file),
        rows=whole.rows,
        fields=sources[0].fields.shown,
        every=every,
        clean=clean,
        quality=described,
        findings=tuple(find_dataset_findings(whole, every, same, near)),
        notices=tuple(notices),
    )


# ------------------------------------------------------------------------------- counting some rows


@dataclass
class Truths:
    """What is counted of rows whose truth is known.

    `sizes` is by number of choices, `places` by that and the place of the truth, `longest` by how
    many options are equally long, of rows whose truth is one of them; `measured` rows have options.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    places: Counter[tuple[int, int]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    measured: int = 0
    longest: Counter[int] = field(default_factory=Counter)

    def add(self, question: Question, rows: int) -> None:
        """Take so many rows like this one, if their truth is known."""
        place, size = question.truth, question.size
        if place is None or not size:
            return
        self.sizes[size] += rows
        self.places[size, place] += rows
        if place < len(question.labels):
            self.labels[question.labels[place]] += rows
        if question.options:
            lengths = study_options(question.options, question.labels).lengths
            most = max(lengths)
            self.measured += rows
            self.longest[lengths.count(most)] += rows * (most in lengths[place : place + 1])


@dataclass
class QuestionPart:
    """What some rows contribute.

    `kinds` counts rows by what is odd about them, with the first `examples`; `right_others` are
    rows whose right option speaks of the others. `sketches` are for finding duplicates.
    """

    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    every: Truths = field(default_factory=Truths)
    clean: Truths = field(default_factory=Truths)
    qualities: Counter[str] = field(default_factory=Counter)
    right_others: int = 0
    sketches: pl.DataFrame | None = None

    def merge(self, later: QuestionPart) -> None:
        """Take a later part."""
        for kind, examples in later.examples.items():
            self.examples[kind] = [*self.examples.get(kind, ()), *examples][:SHOWN]
        pairs = ((self, later), (self.every, later.every), (self.clean, later.clean))
        for owner, other in pairs:
            for one in fields(owner):
                mine, its = getattr(owner, one.name), getattr(other, one.name)
                if isinstance(mine, Counter):
                    mine.update(its)
                elif isinstance(mine, int):
                    setattr(owner, one.name, mine + its)


def measure_questions(
    source: QuestionRows, quality: CleanLabels | None, stretch: tuple[int, int], *, sketches: bool
) -> QuestionPart:
    """Return what is found in some rows, given by the first of them and how many."""
    offset, length = stretch
    columns = source.fields.columns
    if columns is not None and quality is not None:
        columns |= {quality[0]}
    samples = source.rows.slice(offset, length).load(columns)
    questions = read_questions(samples, source.fields)
    part = QuestionPart(rows=len(samples))
    # Kind → part of a question → note, and the same for rows whose text is odd.
    kinds: dict[str, dict[int, str]] = {}
    texts: dict[str, dict[int, str]] = {}
    for code, rows in questions.codes.value_counts().iter_rows():
        one = questions.parts[code]
        part.every.add(one, rows)
        for kind, note in find_part_oddities(one):
            part.kinds[kind] += rows
            kinds.setdefault(kind, {})[code] = note
            if kind == "REFERS_TO_OTHERS" and one.truth is not None:
                right = one.texts[one.truth : one.truth + 1]
                part.right_others += rows * (find_reference(right, one.labels) is not None)
    for row in find_odd_texts(questions.texts):
        for kind, note in find_text_oddities(questions.texts[row]):
            texts.setdefault(kind, {})[row] = note
            part.kinds[kind] += questions.codes[row] not in kinds.get(kind, ())
    for kind in part.kinds:
        notes, own = kinds.get(kind, {}), texts.get(kind, {})
        found = questions.codes.is_in(list(notes)).arg_true().head(SHOWN).to_list() if notes else []
        for row in sorted({*found, *own})[:SHOWN]:
            note = own[row] if row in own else notes[questions.codes[row]]
            part.examples.setdefault(kind, []).append(make_example(samples, row, note))
    if quality is not None:
        labels = read_label_quality(samples, quality[0])
        part.qualities.update(labels.to_list())
        clean = questions.codes.filter(labels.is_in(sorted(quality[1])))
        for code, rows in clean.value_counts().iter_rows():
            part.clean.add(questions.parts[code], rows)
    if sketches:
        options = [one.texts for one in questions.parts]
        truths = [_fold_truth(one) for one in questions.parts]
        folded = pl.Series([one and one.casefold() for one in truths], dtype=pl.String)
        hashes = folded.hash().set(folded.is_null(), None).gather(questions.codes)
        part.sketches = sketch_questions(
            questions.texts, options, questions.codes, source.first_row + offset
        ).with_columns(hashes.alias("truth"))
    return part


# ------------------------------------------------------------------------------- what stands out

#: Fewer rows show nothing.
LEAST = 20
#: A test of counts needs as many expected in each cell.
LEAST_EXPECTED = 5
#: Places that are this unlikely to be an accident are called skewed.
ALPHA = 0.01

#: Kind → what is said of the rows, and what to do, in the order of the report: these before all
#: others …
GRAVE_KINDS = {
    "MISSING_QUESTION": ("have no question", "fill or drop the rows"),
    "MISSING_TRUTH": ("have no truth", "fill or drop the rows; they cannot be scored"),
    "TRUTH_NOT_A_CHOICE": (
        "have a truth that is none of their choices",
        "correct them, or score the rest with `--allow-failed`",
    ),
    "MISSING_OPTION": ("have an option without text", "fill or drop the rows"),
    "CHOICES_DO_NOT_FIT": (
        "have more or fewer options than labels",
        "make both lists equally long",
    ),
    "ONE_CHOICE": (
        "have a single choice, which cannot be wrong",
        "drop them, or keep them in mind: they raise every accuracy",
    ),
    "RIGHT_OPTION_TWICE": (
        "have the right option twice, under two labels",
        "one of the two labels is counted as wrong; correct the options",
    ),
}
#: … and these after them.
OTHER_KINDS = {
    "DUPLICATE_OPTIONS": ("have two options with the same text", "correct the options"),
    "REFERS_TO_LABELS": (
        "have options that refer to labels, such as “both A and B”",
        "leave these rows in place when options are shuffled",
    ),
    "REFERS_TO_OTHERS": (
        "have options such as “all of the above” or “none of these”",
        (
            "leave these rows in place when options are shuffled; see how often such an "
            "option is right"
        ),
    ),
    "NESTED_OPTIONS": (
        "have an option whose text stands in another one",
        (
            "nothing, unless answers are read by their text: there the shorter one is "
            "found in the longer"
        ),
    ),
    "REPLACEMENT_CHARACTER": (
        "hold U+FFFD, where a character was lost",
        "read the source again with its own encoding",
    ),
    "MOJIBAKE": (
        "hold UTF-8 that was read as Latin-1 or Windows-1252",
        "read the source again as UTF-8, or repair the texts",
    ),
    "CONTROL_CHARACTER": (
        "hold control or invisible characters",
        "strip them; models see them, readers do not",
    ),
    "HTML_ENTITY": ("hold HTML entities", "unescape the texts (`html.unescape`)"),
}


def measure_truths(truths: Truths) -> TruthStatistics:
    """Return what follows from the places of the truths."""
    n, sizes = truths.sizes.total(), dict(sorted(truths.sizes.items()))
    places = {size: tuple(truths.places[size, place] for place in range(size)) for size in sizes}
    majority = longest = None
    if truths.labels:
        label, count = max(truths.labels.items(), key=lambda one: (one[1], one[0]))
        majority = Baseline(count / n, wilson(count, n), n, label)
    if rows := truths.measured:
        # Where several options are equally long, one of them is drawn.
        value = math.fsum(count / ties for ties, count in truths.longest.items()) / rows
        squares = math.fsum(count / ties**2 for ties, count in truths.longest.items())
        variance = max(0.0, squares - rows * value * value) / (rows - 1) if rows > 1 else 0.0
        error = math.sqrt(variance / rows)
        longest = Baseline(
            value, student(value, error, rows - 1, is_share=True) if variance else None, rows
        )
    # Whether all places are equally likely is tested among rows with equally many choices.
    groups = [
        (counts, [sum(counts) / size] * size)
        for size, counts in places.items()
        if size > 1 and sum(counts) / size >= LEAST_EXPECTED
    ]
    labels = dict(sorted(truths.labels.items()))
    skew = compare_counts(groups)
    return TruthStatistics(n, sizes, measure_chance(sizes), labels, places, majority, longest, skew)


def find_dataset_findings(
    part: QuestionPart, every: TruthStatistics, same: Repeats, near: Repeats
) -> Iterator[DatasetFinding]:
    """Yield what stands out, the gravest first."""
    yield from _find_rows(part, GRAVE_KINDS)
    if same.contradicting:
        who = (
            "1 question stands"
            if same.contradicting == 1
            else f"{same.contradicting:,} questions stand"
        )
        yield DatasetFinding(
            "CONTRADICTING_TRUTHS",
            f"{who} in the dataset several times, with the same options and different "
            "truths: no model can"
            " get all of them right.",
            "find out which truth is right; drop the other rows",
            same.contradicting,
            {},
            same.contradictions,
        )
    if same.rows:
        yield DatasetFinding(
            "DUPLICATE_QUESTIONS",
            f"{format_part(same.rows, part.rows)} rows repeat a question with its "
            "options, word for word.",
            "drop all but one, or cluster by them: the same question twice is no "
            "second observation",
            same.rows,
            {"groups": same.groups, "contradicting": same.contradicting},
            same.examples,
        )
    if near.rows:
        where = (
            "" if near.groups == 1 else f"in {near.contradicting:,} of the {near.groups:,} groups "
        )
        more = f"; {where}the right options differ" if near.contradicting else ""
        yield DatasetFinding(
            "NEAR_DUPLICATES",
            f"{format_part(near.rows, part.rows)} rows are nearly the same as an "
            "earlier question and its"
            f" options{more}.",
            "look at the pairs; where they ask the same, keep one",
            near.rows,
            {"groups": near.groups, "contradicting": near.contradicting},
            near.examples,
        )
    yield from _find_baselines(every)
    yield from _find_rows(part, OTHER_KINDS)


def _find_rows(
    part: QuestionPart, kinds: Mapping[str, tuple[str, str]]
) -> Iterator[DatasetFinding]:
    for kind, (what, step) in kinds.items():
        if count := part.kinds[kind]:
            sentence = f"{format_part(count, part.rows)} rows {what}"
            if kind == "REFERS_TO_OTHERS":
                sentence += f"; such an option is right in {format_part(part.right_others, count)}"
            examples = tuple(part.examples[kind])
            yield DatasetFinding(kind, f"{sentence}.", step, count, {"of": part.rows}, examples)


def _find_baselines(every: TruthStatistics) -> Iterator[DatasetFinding]:
    skew, is_skewed = every.skew, every.skew is not None and every.skew.p < ALPHA
    label = every.majority.label if every.majority else ""
    found = (
        # The most frequent letter is the best of several: it leads by accident unless the places
        # are skewed.
        (
            "MAJORITY_LETTER",
            every.majority if is_skewed else None,
            f"Always answering {label!r}",
            "shuffle the options of each row",
        ),
        (
            "LONGEST_OPTION",
            every.longest,
            "Always answering the longest option",
            "report this baseline beside every accuracy; rewrite wrong options that are too short",
        ),
    )
    for kind, baseline, what, step in found:
        if baseline is None or baseline.interval is None or every.chance is None or every.n < LEAST:
            continue
        low, high = baseline.interval
        if low > every.chance:
            share, chance = format_short_percent(baseline.value), format_short_percent(every.chance)
            yield DatasetFinding(
                kind,
                f"{what} is right in {share} [{100 * low:.1f}, {100 * high:.1f}] of the "
                "rows, where guessing"
                f" gets {chance}.",
                step,
                baseline.n,
                {"value": baseline.value, "chance": every.chance},
            )
    if skew is not None and is_skewed:
        size = max(every.sizes, key=lambda one: every.sizes[one])
        counts = every.places[size]
        shares = ", ".join(f"{100 * count / sum(counts):.1f} %" for count in counts)
        p = f"{skew.p:.2g}" if skew.p >= 1e-300 else "less than 1e-300"  # noqa: PLR2004 - where floats end
        yield DatasetFinding(
            "POSITION_SKEW",
            f"The truth does not stand in all places equally often: {shares} of the "
            f"rows with {size} choices"
            f" (chi-square {skew.statistic:.1f} with {skew.df} degrees, p = {p}).",
            "a model that favours a place gains or loses by it: shuffle the options, "
            "or report recall by"
            " letter",
            every.n,
            {"statistic": skew.statistic, "df": skew.df, "p": skew.p},
        )


# ------------------------------------------------------------------------------- as JSON and as
# text

SHOWN_LABELS, SHOWN_PLACES = 8, 12


def describe_dataset_audits(audits: Sequence[DatasetAudit]) -> dict[str, Any]:
    """Return every dataset with its numbers and every finding with its examples: what `--json`
    prints.
    """
    datasets = [
        {
            "name": audit.name,
            "files": list(audit.files),
            "rows": audit.rows,
            "fields": dict(audit.fields),
            "all": _describe_truths(audit.every),
            "clean": None if audit.clean is None else _describe_truths(audit.clean),
            "label_quality": None if audit.quality is None else asdict(audit.quality),
            "findings": [asdict(one) for one in audit.findings],
        }
        for audit in audits
    ]
    notices = [str(notice) for audit in audits for notice in audit.notices]
    described: dict[str, Any] = clean_numbers({"datasets": datasets, "notices": notices})
    return described


def _describe_truths(one: TruthStatistics) -> dict[str, Any]:
    names = {"sizes": "choice_counts", "majority": "majority_letter", "longest": "longest_option"}
    names |= {"skew": "position_skew"}
    return {names.get(name, name): value for name, value in asdict(one).items()}


def draw_dataset_audit(audit: DatasetAudit, width: int, *, digits: int | None = None) -> list[Line]:
    """Return the whole audit of one dataset."""
    files, folder = audit.files, None
    if len(files) > 1:
        folder = os.path.commonpath([Path(one).parent for one in files])
    facts = {} if folder is None else {"folder": shorten_path(folder) or "."}
    facts |= audit.fields
    if audit.quality is not None:
        labels = list_counts(audit.quality.values, SHOWN_LABELS)
        facts[audit.quality.column] = f"{labels}; clean: {', '.join(audit.quality.clean) or 'none'}"
    lines = [line(Span(make_visible(audit.name), "title"), f"  {format_count(audit.rows, 'row')}")]
    lines += draw_facts(
        [(make_visible(name), make_visible(value)) for name, value in facts.items()], width
    )
    columns = [_say_truths(one, digits) for one in (audit.every, audit.clean) if one is not None]
    names = ("rows with a truth", "choices", "chance level", "majority letter", "longest option")
    columns += [[""] * len(columns[0])] * (2 - len(columns))
    rows: list[Sequence[Cell]] = list(zip((*names, "places equally likely"), *columns, strict=True))
    lines += [BLANK, *lay_out(Table(("", "all", "clean"), rows, "<<<"), width)]
    lines += [*_draw_places(audit.every, width), BLANK, line(Span("Findings", "title"))]
    for number, finding in enumerate(audit.findings, 1):
        lines += draw_finding(number, finding.sentence, {"Next: ": finding.step}, width)
        for one in finding.examples:
            file = (
                ""
                if folder is None or one.file is None
                else os.path.relpath(one.file, folder or ".")
            )
            place = f"{file}:{one.line}" if file else f"line {one.line}"
            text = f"{one.sample}  {place}" + (f"  {one.note}" if one.note else "")
            lines.append(line(" " * 7, Span(shorten(text, width - 7), "dim")))
    return lines if audit.findings else [*lines, line("  nothing stands out")]


def _say_truths(one: TruthStatistics, digits: int | None) -> list[str]:
    """Return what is said of some rows: their number, choices, chance, baselines and places."""
    several = f"{min(one.sizes, default=0)} to {max(one.sizes, default=0)}"
    sizes = several if len(one.sizes) > 1 else f"{next(iter(one.sizes), 0)} each"
    said = [str(one.n), sizes, format_figure(one.chance, as_share=True, digits=digits)]
    for baseline in (one.majority, one.longest):
        if baseline is None:
            said.append("no value")
            continue
        label = f"{make_visible(baseline.label)}: " if baseline.label else ""
        interval = format_interval(baseline.interval, digits=digits)
        said.append(f"{label}{format_percent(baseline.value, digits)} {interval}".rstrip())
    skew = one.skew
    test = (
        "" if skew is None else f"chi-square {skew.statistic:.2f}, df {skew.df}, p = {skew.p:.4g}"
    )
    return [*said, test or "too few rows to test"]


def _draw_places(every: TruthStatistics, width: int) -> list[Line]:
    """Return how often the truth stands in each place, a row for each number of choices."""
    sizes = [size for size in every.sizes if size <= SHOWN_PLACES]
    if not sizes:
        return []
    most = max(sizes)
    rows: list[Sequence[Cell]] = [
        (str(size), *map(str, every.places[size]), *[""] * (most - size), str(every.sizes[size]))
        for size in sizes
    ]
    header = ("Choices", *(f"place {place}" for place in range(1, most + 1)), "n")
    return [BLANK, *lay_out(Table(header, rows, ">" * (most + 2)), width)]
