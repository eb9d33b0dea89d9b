"""The questions themselves: whether they can be answered, and what could be got without knowing anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import polars as pl

from answerkey.datasets import Rows, UrlSource, is_stored, load_rows, load_table, open_dataset
from answerkey.datasets.content import require_plain
from answerkey.engines import Spread, open_engine
from answerkey.errors import DataError, Place, SpecError, listing, raise_all, suggest
from answerkey.evaluate import Progress, stay_silent
from answerkey.scorers import StringEqualsMcqa
from answerkey.spec import Overrides, Specification, find_ready_made, load_plan
from answerkey.types import Notice
from answerkey.verbs.audit_parts import write_quality
from answerkey.verbs.clean_rows import CLEAN_VALUES
from answerkey.verbs.dataset_audits import DatasetAudit, LabelQuality
from answerkey.verbs.dataset_findings import find_dataset_findings, measure_truths
from answerkey.verbs.duplicate_questions import FoundRepeats, find_repeats, join_sketches
from answerkey.verbs.question_checks import QuestionPart, QuestionRows, measure_questions
from answerkey.verbs.question_fields import LOOKED_AT, FieldNames, TruthForm, find_fields
from answerkey.verbs.question_reading import guess_form, read_questions

#: How many rows are looked at together, and how many make worker processes worth their start.
BLOCK, WORKER_ROWS = 16_384, 20_000
#: From here on two questions are nearly the same.
SIMILARITY = 0.75
PLAN_ENDINGS = (".yaml", ".yml")


class DatasetOptions(TypedDict, total=False):
    """Where the parts of a question are, and what is looked for.

    `question`, `options`, `choices` and `truth` are columns, paths such as `question.stem`, or templates;
    what is not given is found by usual names. `truth_form` says how a truth names its option. `header` has
    the column names of a CSV file without a header line. `label_quality` is a column that says whether a
    label can be relied on, `clean` its values that say so. `similarity` None: repeated questions are not
    looked for. `dataset`, `config` and `env` are for task and run files.
    """

    question: Sequence[str]
    options: Sequence[str]
    choices: str | None
    truth: str | None
    truth_form: TruthForm | None
    header: Sequence[str] | None
    label_quality: str | None
    clean: Sequence[str]
    similarity: float | None
    dataset: str | None
    config: Mapping[str, object]
    env: str | None


def _read_fields(options: DatasetOptions) -> FieldNames:
    return FieldNames(
        question=tuple(options.get("question") or ()),
        options=tuple(options.get("options") or ()),
        choices=options.get("choices"),
        truth=options.get("truth"),
        truth_form=options.get("truth_form"),
    )


def _read_quality(options: DatasetOptions) -> tuple[str, frozenset[str]] | None:
    """Return the column of label qualities, with the values that are clean."""
    column = options.get("label_quality")
    if column is None:
        return None
    return column, frozenset(map(write_quality, options.get("clean") or ())) or CLEAN_VALUES


@dataclass(frozen=True)
class _Opened:
    """A dataset to be audited: its rows, one table per file, and the scorer that says where things are."""

    name: str
    tables: tuple[Rows, ...]
    scorer: StringEqualsMcqa | None = None
    notices: tuple[Notice, ...] = ()


def audit_dataset(
    *paths: str | Path, progress: Progress | None = None, **options: Unpack[DatasetOptions]
) -> tuple[DatasetAudit, ...]:
    """Look at the questions of datasets; no model is asked.

    Each path is a data file, and all of them are one dataset; or one path is a task file, a run file, its
    folder or a ready-made task, whose datasets are looked at one by one.
    """
    if not paths:
        raise SpecError("E119", "no file is named", hint="name a task file, a run file or a data file")
    plans = [path for path in paths if _is_plan(Path(path))]
    if plans and len(paths) > 1:
        message = f"`{plans[0]}` is no data file, and only data files can be looked at together"
        raise SpecError("E119", message, hint="name it alone")
    opened = _open_plan(Path(plans[0]), options) if plans else [_open_files(paths, options)]
    return tuple(_audit(one, options, progress or stay_silent) for one in opened)


def _is_plan(path: Path) -> bool:
    is_named = find_ready_made(path) is not None
    return is_named or path.is_dir() or path.suffix.lower() in PLAN_ENDINGS


def _open_files(paths: Sequence[str | Path], options: DatasetOptions) -> _Opened:
    name = Path(paths[0]).name if len(paths) == 1 else f"{len(paths)} files"
    tables = [_open_file(path, options.get("header")) for path in paths]
    return _Opened(name, tuple(tables))


def _open_file(given: str | Path, header: Sequence[str] | None) -> Rows:
    if header is None:
        return load_table(given).rows
    if is_stored(given):
        return UrlSource(str(given), header=tuple(header)).read(name=str(given)).rows
    path = Path(given)
    require_plain(path)
    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        frame = pl.read_csv(path, has_header=False, infer_schema=False, separator=separator)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            "E202", f"the file cannot be read as a table: {error}", where=Place(file=str(path))
        ) from None
    if frame.width != len(header):
        message = f"`--header` has {len(header)} names, and the file has {frame.width} columns"
        raise DataError("E202", message, where=Place(file=str(path)), hint="name every column, in its order")
    frame.columns = list(header)
    return load_rows(frame, name=str(path)).rows


def _open_plan(path: Path, options: DatasetOptions) -> list[_Opened]:
    overrides = Overrides(
        config=options.get("config") or {},
        dataset=options.get("dataset"),
        completions="-",  # no model is asked, so none has to be named
        env_file=options.get("env"),
    )
    loaded = load_plan(path, overrides)
    if loaded.value is None:
        raise_all(loaded.errors)
    specifications = loaded.value.specifications if loaded.value else ()
    if not specifications:
        raise_all(loaded.errors)
    found: dict[tuple[str, str], _Opened] = {}
    for one in specifications:
        scorer = _find_scorer(one)
        key = (one.dataset.key, repr(scorer))
        if key not in found:
            dataset = open_dataset(one.dataset.source, name=one.dataset.key)
            found[key] = _Opened(dataset.name, (dataset.rows,), scorer, dataset.notices)
    return list(found.values())


def _find_scorer(specification: Specification) -> StringEqualsMcqa | None:
    scorers: Iterable[object] = (step.scorer for step in specification.task.scoring)
    return next((one for one in scorers if isinstance(one, StringEqualsMcqa)), None)


def _audit(opened: _Opened, options: DatasetOptions, progress: Progress) -> DatasetAudit:
    sources = _lay_out(opened, options)
    part = _measure(sources, progress)
    repeats = _find_repeats(sources, part, options)
    every = measure_truths(part.every)
    quality = _read_quality(options)
    notices = [*opened.notices, *_tell_skipped(repeats), *_tell_no_clean(part, quality)]
    return DatasetAudit(
        name=opened.name,
        files=tuple(str(one.rows.file) for one in sources if one.rows.file),
        rows=part.rows,
        fields={**sources[0].fields.shown, "truth form": sources[0].fields.truth_form},
        every=every,
        clean=None if quality is None else measure_truths(part.clean),
        quality=None if quality is None else _describe_quality(part, quality),
        findings=tuple(find_dataset_findings(part, every, repeats)),
        notices=tuple(notices),
    )


def _describe_quality(part: QuestionPart, quality: tuple[str, frozenset[str]]) -> LabelQuality:
    values = dict(sorted(part.qualities.items(), key=lambda one: (-one[1], one[0])))
    return LabelQuality(quality[0], values, tuple(sorted(quality[1].intersection(values))))


def _tell_skipped(repeats: FoundRepeats | None) -> list[Notice]:
    if repeats is None or not repeats.skipped:
        return []
    return [Notice(f"{repeats.skipped} pairs of questions that may be nearly the same were not looked at")]


def _tell_no_clean(part: QuestionPart, quality: tuple[str, frozenset[str]] | None) -> list[Notice]:
    if quality is None or quality[1].intersection(part.qualities):
        return []
    known = listing(value for value, _ in part.qualities.most_common(10))
    return [Notice(f"no row of column `{quality[0]}` is clean", hint=f"say which with `--clean`: {known}")]


def _lay_out(opened: _Opened, options: DatasetOptions) -> list[QuestionRows]:
    said, quality, first_row = _read_fields(options), _read_quality(options), 0
    looks_twice = options.get("similarity", SIMILARITY) is not None
    sources: list[QuestionRows] = []
    for rows in opened.tables:
        if quality is not None and quality[0] not in rows.columns:
            hint = suggest(quality[0], rows.columns) or f"columns: {listing(rows.columns)}"
            message = f"there is no column `{quality[0]}`"
            raise DataError("E206", message, where=Place(file=rows.file), hint=hint)
        fields = find_fields(rows, said, opened.scorer)
        has_form = said.truth_form is not None or opened.scorer is not None
        source = QuestionRows(rows, fields, first_row, quality, find_duplicates=looks_twice)
        sources.append(source if has_form else _settle_form(source))
        first_row += len(rows)
    return sources


def _settle_form(source: QuestionRows) -> QuestionRows:
    """Return the source with the form of its truths, as the first rows have them."""
    samples = source.rows.slice(0, LOOKED_AT).load(source.fields.columns)
    form = guess_form(read_questions(samples, source.fields))
    return replace(source, fields=replace(source.fields, truth_form=form))


def _measure(sources: Sequence[QuestionRows], progress: Progress) -> QuestionPart:
    total = sum(len(source.rows) for source in sources)
    part = QuestionPart()
    for source in sources:
        stretches = [(offset, BLOCK) for offset in range(0, len(source.rows), BLOCK)]
        spread: Spread = "processes" if len(source.rows) > WORKER_ROWS else "alone"
        for one in open_engine().map(partial(measure_questions, source), stretches, spread=spread):
            part.merge(one)
            progress("audit", part.rows, total)
    return part


def _find_repeats(
    sources: Sequence[QuestionRows], part: QuestionPart, options: DatasetOptions
) -> FoundRepeats | None:
    similarity = options.get("similarity", SIMILARITY)
    if similarity is None or not part.sketches:
        return None
    return find_repeats(sources, join_sketches(part.sketches), similarity)
