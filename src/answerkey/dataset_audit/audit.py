"""Audit a dataset without calling a model: faulty rows, positions of the ground truth,
baselines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from answerkey.dataset_audit.duplicates import (
    MAX_EXAMPLES,
    DuplicateRow,
    QuestionHashes,
    Repeats,
    make_example,
)
from answerkey.dataset_audit.questions import (
    AuditedQuestion,
    QuestionFields,
    find_fields,
    find_oddities,
    read_questions,
    recognise_fields,
)
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.rows import Rows
from answerkey.datasets.tables import DataFile, FileFields, Tabular, load_rows, read_files
from answerkey.errors import SpecError, raise_all
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.run import refuse_unknown
from answerkey.metrics import wilson
from answerkey.metrics.intervals import ChiSquare, compare_counts, student
from answerkey.metrics.task_counts import measure_chance
from answerkey.scorers import reads_choices
from answerkey.solvers.choice_order import find_reference
from answerkey.spec import Options, find_ready_made, load_dataset, load_plan
from answerkey.spec.job import fit_rows
from answerkey.spec.sources import find_header
from answerkey.text import format_part, format_short_percent
from answerkey.types import Notice

PLAN_ENDINGS = (".yaml", ".yml")
#: The number of rows loaded at a time.
BLOCK = 65_536
#: With fewer rows there are no findings.
MIN_ROWS = 20
#: The chi-square test needs this expected count in each cell.
MIN_EXPECTED = 5
#: The significance level of position skew.
ALPHA = 0.01


@dataclass(frozen=True)
class DatasetFinding:
    """One finding about a dataset: a sentence with its numbers, a next step, and example rows.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    count: int
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[DuplicateRow, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """The accuracy of a strategy that knows nothing, with its 95 % interval."""

    value: float
    interval: tuple[float, float] | None
    n: int
    label: str = ""


@dataclass(frozen=True)
class TruthStatistics:
    """The positions of the ground truth in `n` rows, and the baselines that follow from them.

    `choice_counts` counts rows by their number of choices; `chance` is the mean of one over that
    number. `places` counts truths by number of choices and position; `position_skew` tests whether
    all positions are equally likely.
    """

    n: int
    choice_counts: Mapping[int, int]
    chance: float | None
    labels: Mapping[str, int]
    places: Mapping[int, tuple[int, ...]]
    majority_letter: Baseline | None = None
    longest_option: Baseline | None = None
    position_skew: ChiSquare | None = None


@dataclass(frozen=True)
class DatasetAudit:
    """The audit of one dataset; `fields` says which columns or templates its parts are read
    from.
    """

    name: str
    files: tuple[str, ...]
    rows: int
    fields: Mapping[str, str]
    truths: TruthStatistics
    findings: tuple[DatasetFinding, ...] = ()
    notices: tuple[Notice, ...] = ()


class DatasetOptions(TypedDict, total=False):
    """How to read a dataset.

    `columns` assigns columns of data files to their roles; the others are recognised. `header` has
    the column names of a CSV file without a header line. `dataset`, `config` and `env` are for task
    and run files.
    """

    columns: Mapping[str, str]
    header: Sequence[str] | None
    dataset: str | None
    config: Mapping[str, object]
    env: str | None


def audit_dataset(
    *paths: str | Path | Tabular,
    progress: Progress = ignore_progress,
    **options: Unpack[DatasetOptions],
) -> tuple[DatasetAudit, ...]:
    """Audit the questions of datasets; no model is called.

    The paths are data files, which together are one dataset. Or a single path is a table, or a task
    file, a run file, its folder or a ready-made task, whose datasets are audited one by one.
    """
    if not paths:
        hint = "name a task file, a run file or a data file"
        raise SpecError("E119", "no file is given", hint=hint)
    refuse_unknown("audit_dataset", options, list(DatasetOptions.__optional_keys__))
    files = []
    tables: list[Tabular] = []
    for path in paths:
        if isinstance(path, str | Path):
            files.append(Path(path))
        else:
            tables.append(path)
    plan = next(filter(_is_plan, files), None)
    if plan is not None:
        if len(paths) > 1:
            message = f"`{plan}` is not a data file, and only data files can be audited together"
            raise SpecError("E119", message, hint="name it alone")
        return tuple(_audit_plan(plan, options, progress))
    if not tables:
        name = files[0].name if len(files) == 1 else f"{len(files)} files"
        rows = _read_files(files, options)
    elif len(paths) == 1:
        name = "samples"
        rows = load_rows(tables[0], name=name).rows
    else:
        hint = "combine the tables into one, or give only files"
        raise SpecError("E119", "a table must be audited on its own", hint=hint)
    fields = recognise_fields(rows, options.get("columns") or {})
    audit = _audit(name, tuple(map(str, files)), rows, fields, progress)
    return (audit,)


def _is_plan(path: Path) -> bool:
    if path.suffix.lower() in PLAN_ENDINGS or path.is_dir():
        return True
    return find_ready_made(path) is not None


def _audit_plan(
    path: Path,
    options: DatasetOptions,
    progress: Progress,
) -> Iterator[DatasetAudit]:
    """Yield the audit of each dataset of a task file, a run file or a dataset file."""
    overrides = Options(
        config=options.get("config") or {},
        dataset=options.get("dataset"),
        completions="-",  # no model is called, so none is needed
        env=options.get("env"),
    )
    dataset_file = load_dataset(path, overrides)
    datasets: dict[tuple[str, str], Any] = {}
    if dataset_file is not None:
        datasets["", ""] = (dataset_file, None)
    else:
        plan = load_plan(path, overrides)
        if not plan.jobs:
            raise_all(plan.errors)
        for job in plan.jobs:
            scorer = None
            for step in job.task.scoring:
                if scorer is None and reads_choices(step.scorer):
                    scorer = step.scorer
            key = (job.dataset_spec.key, repr(scorer))
            datasets.setdefault(key, (job.dataset_spec, scorer))
    for spec, scorer in datasets.values():
        dataset = open_dataset(spec.source, name=spec.key)
        fields = find_fields(dataset.rows, scorer)
        files = (str(dataset.rows.file),) if dataset.rows.file else ()
        yield _audit(
            dataset.name,
            files,
            dataset.rows,
            fields,
            progress,
            dataset.notices,
        )


def _read_files(paths: Sequence[Path], options: DatasetOptions) -> Rows:
    """Return the rows of data files as one dataset; a CSV file may lack its header line."""
    header = options.get("header") or find_header(paths[0])
    form = FileFields()
    if header is not None:
        is_tsv = any(".tsv" in path.suffixes for path in paths)
        form = FileFields(format="tsv" if is_tsv else "csv", header=tuple(header))
    files = [DataFile(path, str(path), path.name) for path in paths]
    table = read_files(files, form, shown=str(paths[0]))
    return table.rows


def _audit(
    name: str,
    files: tuple[str, ...],
    rows: Rows,
    fields: QuestionFields,
    progress: Progress,
    notices: Sequence[Notice] = (),
) -> DatasetAudit:
    tally = QuestionTally()
    hashes = QuestionHashes()
    for questions in _count_rows(rows, fields, tally):
        hashes.add(questions)
        progress("audit", tally.rows, len(rows))
    truths = measure_truths(tally.truths)
    repeats = hashes.find_repeats(rows, fields)
    findings = find_dataset_findings(tally, truths, repeats)
    return DatasetAudit(
        name=name,
        files=files,
        rows=tally.rows,
        fields=fields.shown,
        truths=truths,
        findings=tuple(findings),
        notices=tuple(notices),
    )


# Counting


@dataclass
class Truths:
    """Counts of the rows whose ground truth is known.

    `sizes` counts by number of choices, `places` also by position of the truth. `measured` counts
    rows with options; `longest` counts those of them whose truth is one of the longest options, by
    how many options are equally long.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    places: Counter[tuple[int, int]] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    measured: int = 0
    longest: Counter[int] = field(default_factory=Counter)

    def add(self, question: AuditedQuestion) -> None:
        """Count a question, if its truth is known."""
        place = question.truth
        size = question.size
        if place is None or not size:
            return
        self.sizes[size] += 1
        self.places[size, place] += 1
        if place < len(question.labels):
            self.labels[question.labels[place]] += 1
        if question.options:
            lengths = [len(text.strip()) for text in question.texts]
            longest = max(lengths)
            self.measured += 1
            if place < len(lengths) and lengths[place] == longest:
                ties = lengths.count(longest)
                self.longest[ties] += 1


@dataclass
class QuestionTally:
    """Counts of a dataset's rows and questions.

    `kinds` counts rows by kind of oddity, with the first `examples`; `right_references` counts rows
    whose right option refers to the other options.
    """

    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[DuplicateRow]] = field(default_factory=dict)
    truths: Truths = field(default_factory=Truths)
    right_references: int = 0


def _count_rows(
    rows: Rows,
    fields: QuestionFields,
    tally: QuestionTally,
) -> Iterator[list[AuditedQuestion]]:
    """Count rows; yield their questions, a chunk at a time."""
    length = min(BLOCK, fit_rows(rows, None))
    for offset in range(0, len(rows), length):
        samples = rows.slice(offset, length).load()
        questions = read_questions(samples, fields)
        for row, question in enumerate(questions):
            tally.truths.add(question)
            for kind, note in find_oddities(question).items():
                tally.kinds[kind] += 1
                examples = tally.examples.setdefault(kind, [])
                if len(examples) < MAX_EXAMPLES:
                    examples.append(make_example(samples, row, note))
                if kind == "REFERS_TO_OTHERS" and question.truth is not None:
                    right = question.texts[question.truth : question.truth + 1]
                    is_reference = find_reference(right, question.labels) is not None
                    tally.right_references += is_reference
        tally.rows += len(questions)
        yield questions


def measure_truths(truths: Truths) -> TruthStatistics:
    """Return the statistics that follow from the positions of the truths."""
    n = truths.sizes.total()
    sizes = dict(sorted(truths.sizes.items()))
    places = {}
    groups = []
    for size in sizes:
        counts = []
        for place in range(size):
            counts.append(truths.places[size, place])
        places[size] = tuple(counts)
        # Positions are tested separately for each number of choices.
        expected = sum(counts) / size
        if size > 1 and expected >= MIN_EXPECTED:
            groups.append((counts, [expected] * size))
    majority = None
    if truths.labels:
        labels = sorted(truths.labels, reverse=True)
        label = max(labels, key=truths.labels.__getitem__)
        count = truths.labels[label]
        majority = Baseline(
            count / n,
            wilson(count, n),
            n,
            label,
        )
    return TruthStatistics(
        n,
        sizes,
        measure_chance(sizes),
        dict(sorted(truths.labels.items())),
        places,
        majority,
        _measure_longest(truths),
        compare_counts(groups),
    )


def _measure_longest(truths: Truths) -> Baseline | None:
    """Return the accuracy of always answering the longest option; ties are broken at random."""
    rows = truths.measured
    if not rows:
        return None
    shares = []
    squared_shares = []
    for ties, count in truths.longest.items():
        shares.append(count / ties)
        squared_shares.append(count / ties**2)
    value = math.fsum(shares) / rows
    squares = math.fsum(squared_shares)
    deviation = max(0.0, squares - rows * value * value)
    variance = deviation / max(1, rows - 1)
    interval = None
    if rows > 1 and variance:
        error = math.sqrt(variance / rows)
        interval = student(
            value,
            error,
            rows - 1,
            is_share=True,
        )
    return Baseline(value, interval, rows)


# Findings

#: By kind of oddity: what a finding says about the rows, and the advice.
KindTexts = Mapping[str, tuple[str, str]]
#: The kinds that are reported before all other findings, in this order …
SERIOUS_KINDS: KindTexts = {
    "MISSING_QUESTION": ("have no question", "fill or drop the rows"),
    "MISSING_TRUTH": ("have no truth", "fill or drop the rows; they cannot be scored"),
    "TRUTH_NOT_A_CHOICE": (
        "have a truth that is not among their choices",
        "correct them, or score the rest with `--allow-failed`",
    ),
    "MISSING_OPTION": ("have an option without text", "fill or drop the rows"),
    "CHOICES_DO_NOT_FIT": (
        "have more or fewer options than labels",
        "make both lists equally long",
    ),
    "ONE_CHOICE": (
        "have a single choice, which cannot be wrong",
        "drop them: they raise every accuracy",
    ),
    "RIGHT_OPTION_TWICE": (
        "have the right option twice, under two labels",
        "one of the two labels is counted as wrong; correct the options",
    ),
}
#: … and these after them.
OTHER_KINDS: KindTexts = {
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
    "REPLACEMENT_CHARACTER": (
        "contain U+FFFD, where a character was lost",
        "read the source again with its own encoding",
    ),
    "MOJIBAKE": (
        "contain UTF-8 that was read as Latin-1 or Windows-1252",
        "read the source again as UTF-8, or repair the texts",
    ),
    "CONTROL_CHARACTER": (
        "contain control or invisible characters",
        "strip them; models see them, readers do not",
    ),
    "HTML_ENTITY": ("contain HTML entities", "unescape the texts (`html.unescape`)"),
}


def find_dataset_findings(
    tally: QuestionTally,
    truths: TruthStatistics,
    repeats: Repeats,
) -> Iterator[DatasetFinding]:
    """Yield the findings, the most serious first."""
    yield from _find_rows(tally, SERIOUS_KINDS)
    if repeats.contradicting:
        subject = f"{repeats.contradicting:,} questions appear"
        if repeats.contradicting == 1:
            subject = "1 question appears"
        yield DatasetFinding(
            "CONTRADICTING_TRUTHS",
            f"{subject} in the dataset several times, with the same options but different truths: "
            "no model can get all of them right.",
            "find out which truth is right; drop the other rows",
            repeats.contradicting,
            {},
            repeats.contradictions,
        )
    if repeats.rows:
        yield DatasetFinding(
            "DUPLICATE_QUESTIONS",
            f"{format_part(repeats.rows, tally.rows)} rows repeat a question with its options, "
            "word for word.",
            "drop all but one, or cluster by them: the same question twice is not a second "
            "observation",
            repeats.rows,
            {"groups": repeats.groups, "contradicting": repeats.contradicting},
            repeats.examples,
        )
    yield from _find_baselines(truths)
    yield from _find_skew(truths)
    yield from _find_rows(tally, OTHER_KINDS)


def _find_rows(tally: QuestionTally, kinds: KindTexts) -> Iterator[DatasetFinding]:
    for kind, (what, step) in kinds.items():
        count = tally.kinds[kind]
        if not count:
            continue
        sentence = f"{format_part(count, tally.rows)} rows {what}"
        if kind == "REFERS_TO_OTHERS":
            share = format_part(tally.right_references, count)
            sentence += f"; such an option is right in {share}"
        yield DatasetFinding(
            kind,
            f"{sentence}.",
            step,
            count,
            numbers={"of": tally.rows},
            examples=tuple(tally.examples[kind]),
        )


def _is_skewed(truths: TruthStatistics) -> bool:
    return truths.position_skew is not None and truths.position_skew.p < ALPHA


def _find_baselines(truths: TruthStatistics) -> Iterator[DatasetFinding]:
    # Some letter is always the most frequent: unless positions are skewed, that is chance.
    if truths.majority_letter is not None and _is_skewed(truths):
        strategy = f"Always answering {truths.majority_letter.label!r}"
        step = "shuffle the options of each row"
        yield from _find_baseline(
            "MAJORITY_LETTER",
            strategy,
            step,
            truths.majority_letter,
            truths,
        )
    if truths.longest_option is not None:
        strategy = "Always answering the longest option"
        step = "report this baseline with every accuracy; rewrite wrong options that are too short"
        yield from _find_baseline(
            "LONGEST_OPTION",
            strategy,
            step,
            truths.longest_option,
            truths,
        )


def _find_baseline(
    kind: str,
    strategy: str,
    step: str,
    baseline: Baseline,
    truths: TruthStatistics,
) -> Iterator[DatasetFinding]:
    if baseline.interval is None or truths.chance is None or truths.n < MIN_ROWS:
        return
    low, high = baseline.interval
    if low <= truths.chance:
        return
    share = f"{format_short_percent(baseline.value)} [{100 * low:.1f}, {100 * high:.1f}]"
    chance = format_short_percent(truths.chance)
    sentence = f"{strategy} is right in {share} of the rows; guessing gets {chance}."
    numbers = {"value": baseline.value, "chance": truths.chance}
    yield DatasetFinding(
        kind,
        sentence,
        step,
        baseline.n,
        numbers,
    )


def _find_skew(truths: TruthStatistics) -> Iterator[DatasetFinding]:
    skew = truths.position_skew
    if skew is None or not _is_skewed(truths):
        return
    size = max(truths.choice_counts, key=truths.choice_counts.__getitem__)
    counts = truths.places[size]
    shares = []
    for count in counts:
        shares.append(f"{100 * count / sum(counts):.1f} %")
    p = f"{skew.p:.2g}" if skew.p >= 1e-300 else "less than 1e-300"  # noqa: PLR2004 - where floats end
    yield DatasetFinding(
        "POSITION_SKEW",
        f"The truth is not in all positions equally often: {', '.join(shares)} of the rows "
        f"with {size} choices (chi-square {skew.statistic:.1f} with {skew.df} degrees, p = {p}).",
        "a model that favours a position gains or loses by it: shuffle the options, or report "
        "recall by letter",
        truths.n,
        {"statistic": skew.statistic, "df": skew.df, "p": skew.p},
    )
