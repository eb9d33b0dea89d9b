"""Which columns of a table hold question, options, truth and so on, and how the truth is spelled.

Every reading of the table is tried on all of its rows. Readings that agree on every row are one. If
only one is left, it decides; if several are left, the caller does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice

import polars as pl

from answerkey.datasets.content import refuse_file
from answerkey.datasets.options import (
    OptionList,
    Texts,
    read_mark,
    read_option_cell,
    to_text,
)
from answerkey.datasets.questions import (
    DATASET_ROLES,
    FOLDED,
    FORMS,
    SAID_OPTIONS,
    TRUTH_ROLES,
    QuestionColumns,
    Row,
    find_numbered,
    fold_name,
    load_first_rows,
    locate_error,
    look_inside,
)
from answerkey.datasets.rows import Rows, get_inside, iterate_samples
from answerkey.errors import DataError, listing
from answerkey.text import shorten
from answerkey.types import Sample, Samples

#: A reading that misses a larger share of the rows is none; the rows that it misses are reported
#: when rows are checked.
_MISSED = 0.1
#: How many rows, and how much of a text, an error shows.
_SHOWN_ROWS = 3
_SHOWN_TEXT = 40
#: Wrong options in columns of their own, or in a list.
_WRONG = re.compile(
    r"(?:distractor|(?:incorrect|wrong|false)(?:answer|option|choice)?)s?(?P<place>[a-z]|\d*)"
)
#: A label that may stand beside others without counting on: `B1`, `iii`, `IV`.
_NUMERAL = re.compile(r"[A-Za-z]?\d{1,2}|[ivx]{1,4}|[IVX]{1,4}")
#: A label, and what all labels of a question may have around it.
_LABEL = re.compile(r"(?P<before>.*?)(?P<place>\d{1,4}|.)(?P<after>\W*)", re.DOTALL)
_FIRST_LABELS: frozenset[str | None] = frozenset("Aa10")
#: Names of ids of something larger than a question, such as an article: these may come again.
_SHARED_IDS = ("docid", "exampleid", "idx", "index")
_QUESTIONS = frozenset({"question", "questiontext", "questionstem", "query"})


def recognise(
    rows: Rows,
    chosen: Mapping[str, str] | None = None,
    roles: Texts = DATASET_ROLES,
    *,
    needs_all: bool = True,
) -> QuestionColumns:
    """Return which columns of a table are what, and how the truth is spelled, judged on all rows.

    What is `chosen` by role wins; an empty name says that there is none. E206 when nothing holds a
    part, if it `needs_all`; E215 when the table can be read in more than one way, or its truths
    name no options.
    """
    names = {}
    for role, name in (chosen or {}).items():
        said_role = "truth" if role in TRUTH_ROLES else role
        names[said_role] = name
    return _Table(
        rows,
        names,
        roles,
        needs_all=needs_all,
    ).recognise()


@dataclass(eq=False)
class TableReading:
    """One way to read a table, with counts of what it makes of the questions in it.

    `missed` truths name no option, and the first of these are `shown` in an error. Readings with
    the same `digest` agree on every row.
    """

    columns: QuestionColumns
    total: int = 0
    filled: int = 0
    labelled: int = 0
    missed: int = 0
    is_relabelled: bool = False
    digest: int = 0
    shown: list[str] = field(default_factory=list)

    @cached_property
    def truth(self) -> str | None:
        """The column of the truth."""
        return self.columns.columns.get("truth")

    @property
    def is_index(self) -> bool:
        """Whether truths are numbers of options."""
        return self.columns.form in {"0", "1"}

    def read(
        self,
        fields: Row,
        options: OptionList | None,
    ) -> tuple[object, int | None]:
        """Return the texts of a question's options, and the place of its truth among them."""
        place = self.columns.find_place(fields, options)
        # `Yes` and `True` are the same option.
        if options is None or self.columns.form in SAID_OPTIONS:
            return None, place
        return tuple(options.texts), place

    def count(
        self,
        sample: Sample,
        fields: Row,
        options: OptionList | None,
    ) -> None:
        """Read a question of a row, and count what comes of it."""
        texts, place = self.read(fields, options)
        self.digest = hash((self.digest, texts, place))
        self.total += 1
        if options is not None:
            self.filled += 1
            if options.names is not None:
                self.labelled += 1
                self.is_relabelled |= _strip_marks(tuple(options.names)) != options.choices
        if place is None and self.truth is not None:
            self.missed += 1
            if self.missed <= _SHOWN_ROWS:
                line = _show_line(sample)
                self.shown.append(line + self.show(fields))

    def show(self, fields: Row) -> str:
        """Return what the table says of a question's truth, and which option that is."""
        options = self.columns.read_options(fields)
        place = self.columns.find_place(fields, options)
        match = "matches no option"
        if options is not None and place is not None:
            match = f"is {shorten(options.texts[place], _SHOWN_TEXT)!r}"
        cell = self.columns.cell(fields, "truth")
        shown = shorten(repr(cell), _SHOWN_TEXT)
        return f"`{self.truth}` {shown} as {FORMS[str(self.columns.form)]} {match}"


#: Ways to read the same table.
Readings = Sequence[TableReading]


@lru_cache(maxsize=64)
def _strip_marks(names: Texts) -> list[str]:
    """Return the names of options without brackets and full stops: `A` for `(A)`."""
    return [re.sub(r"\W", "", name) for name in names]


def _show_line(sample: Sample) -> str:
    if sample.line is None:
        return ""
    return f"line {sample.line}: "


def _try_readings(rows: Rows, readings: Readings) -> None:
    """Try each reading on all rows; options are read once for those that have them in common."""
    groups: dict[object, list[TableReading]] = {}
    for reading in readings:
        columns = reading.columns
        source = (
            columns.columns.get("options"),
            columns.spread,
            columns.unfolded,
            columns.form in SAID_OPTIONS and columns.form,
        )
        groups.setdefault(source, []).append(reading)
    for sample in iterate_samples(rows):
        try:
            for group in groups.values():
                _count_row(sample, group)
        except DataError as error:
            raise locate_error(error, sample) from None


def _count_row(sample: Sample, group: Readings) -> None:
    columns = group[0].columns
    for fields in columns.split_row(sample.fields):
        options = columns.read_options(fields)
        for reading in group:
            reading.count(sample, fields, options)


def _choose_fitting(readings: Readings, most_missed: float) -> list[TableReading]:
    """Return the readings that fit the truths, the first of those that agree on every row.

    They miss no truth; if all do, at most this share of them.
    """
    readable = [reading for reading in readings if reading.truth is not None]
    fitting = [reading for reading in readable if not reading.missed]
    if not fitting:
        fitting = [reading for reading in readable if reading.missed <= most_missed * reading.total]
    different: dict[int, TableReading] = {}
    for reading in fitting:
        if reading.is_index and _is_refuted(reading, fitting):
            continue
        different.setdefault(reading.digest, reading)
    return list(different.values())


def _is_refuted(index: TableReading, fitting: Readings) -> bool:
    """Return whether truths are no such index.

    They are labels that the table states, or labels or texts of another column agree with the
    index that counts otherwise.
    """
    sure_digests = set()
    rival_digests = set()
    for reading in fitting:
        form = reading.columns.form
        if reading.truth != index.truth:
            if form in {"label", "text"}:
                sure_digests.add(reading.digest)
        elif reading.is_index:
            rival_digests.add(reading.digest)
        elif form == "label" and reading.labelled == reading.total:
            return True
    return index.digest not in sure_digests and not rival_digests.isdisjoint(sure_digests)


@dataclass(frozen=True)
class _Table:
    """A table whose columns are to be recognised; `names` are those that the caller chose."""

    rows: Rows
    names: Mapping[str, str]
    roles: Texts
    needs_all: bool

    @cached_property
    def preview(self) -> Samples:
        """The first rows."""
        return load_first_rows(self.rows)

    @cached_property
    def usual(self) -> dict[str, list[str]]:
        """The columns and fields with the usual names of each role, the likeliest first.

        A column comes before a field inside one, the first before others. Of lists, only fields of
        questions count.
        """
        columns: dict[str, str] = {}
        paths: dict[str, str] = {}
        for column in reversed(self.rows.columns):
            columns[fold_name(column)] = column
            depth, fields = look_inside(self.preview, column)
            inner = {fold_name(name): f"{column}.{name}" for name in reversed(fields)}
            if not depth or not _QUESTIONS.isdisjoint(inner):
                paths |= inner
        paths |= columns
        usual: dict[str, list[str]] = {}
        for role in self.roles:
            usual[role] = [paths[name] for name in FOLDED[role] if name in paths]
        return usual

    def recognise(self) -> QuestionColumns:
        """Return which columns are what; raises as the function of this name."""
        chosen = {role: name for role, name in self.names.items() if name}
        forced = QuestionColumns.of(chosen, self.rows)
        columns = self._choose_columns(forced)
        truths = self._list_truths(columns)
        result = None
        if "options" in self.roles:
            lists = self._list_lists(columns)
            base = replace(forced, columns=columns)
            for sources in self._list_sources(base, lists, truths):
                result = result or self._choose_reading(sources, truths)
        if result is None:
            result = self._read_without_options(columns, truths)
        if self.needs_all:
            self._require_parts(result)
        return result

    def _read_without_options(
        self,
        columns: Mapping[str, str],
        truths: Sequence[str],
    ) -> QuestionColumns:
        """Return the columns of a table without options: only its name tells what the truth is."""
        result = QuestionColumns(columns).unfold(self.preview)
        for name in truths:
            if self._holds("text", name):
                return result.with_column("truth", name)
        return result

    def _choose_columns(self, forced: QuestionColumns) -> dict[str, str]:
        """Return the caller's columns, and those of all roles but options and truth.

        E208 for ids that come again, E209 when several columns may hold the completions.
        """
        columns = dict(forced.columns)
        for role in self.roles:
            if role in self.names or role in {"options", *TRUTH_ROLES}:
                continue
            likely = list(self.usual[role])
            if role == "choices":
                likely += self.usual.get("options", [])
            taken = {*columns.values(), *forced.spread}
            free = [name for name in likely if name not in taken]
            suitable = (name for name in free if self._holds(role, name))
            name = next(suitable, None)
            if name is not None:
                columns[role] = name
            if not self.needs_all:
                continue
            if role == "completion" and name is not None:
                self._refuse_completions(name, next(suitable, None))
            elif role == "id" and name is None:
                self._refuse_repeated_ids(free)
        return columns

    def _refuse_completions(
        self,
        name: str,
        second: str | None,
    ) -> None:
        """Raise E209 where another column may hold the completions as well."""
        if second is None or fold_name(name) == "completion":
            return
        names = [name, second]
        flags = [f"`--column completion={column}`" for column in names]
        message = f"several columns may hold the completions: {listing(names)}"
        hint = f"say which: {' or '.join(flags)}"
        raise refuse_file("E209", message, self.rows.file, hint)

    def _holds(
        self,
        role: str,
        name: str,
    ) -> bool:
        """Return whether a column holds what a role needs: each row its own id, or labels.

        For other roles some row has a text. In a log an id comes again for each of its trials.
        """
        if role == "id" and "trial" not in self.roles:
            return self._find_repeated(name) == []
        cells = (cell for _, cell in self._iterate_cells(name, role))
        if role == "choices":
            return all(map(_holds_labels, cells)) or self._labels_another(name)
        for cell in cells:
            if cell and role == "completion":
                return True
            if (to_text(cell) or "").strip():
                return True
        return False

    def _labels_another(self, name: str) -> bool:
        """Return whether a column numbers the options of another one, each differently."""
        counts = []
        for _, cell in self._iterate_cells(name, "choices"):
            labels, _ = read_option_cell(cell)
            if not labels or len(set(labels)) < len(labels):
                return False
            if not all(_NUMERAL.fullmatch(label or "") for label in labels):
                return False
            counts.append(len(labels))
        for column in self.usual["options"]:
            if column != name and counts == self._count_options(column):
                return True
        return False

    def _count_options(self, name: str) -> list[int]:
        """Return how many options each cell of a column lists."""
        counts = []
        for _, cell in self._iterate_cells(name):
            texts, _ = read_option_cell(cell)
            counts.append(len(texts or ()))
        return counts

    def _find_repeated(self, name: str) -> list[str] | None:
        """Return the ids that come again; None if a row has no id."""
        texts = []
        for _, cell in self._iterate_cells(name):
            text = to_text(cell)
            if not text:
                return None
            texts.append(text)
        ids = pl.Series(texts, dtype=pl.String)
        repeated = ids.filter(ids.is_duplicated())
        return repeated.unique(maintain_order=True).to_list()

    def _refuse_repeated_ids(self, names: Sequence[str]) -> None:
        """Raise E208 for the first column whose ids come again, unless it is the id of a group."""
        for name in names:
            if name not in self.rows.columns or fold_name(name) in _SHARED_IDS:
                continue
            repeated = self._find_repeated(name)
            if not repeated:
                continue
            message = f"`{name}` has the same value in several rows, and is no id\n"
            text = repeated[0]
            lines = []
            for sample, cell in self._iterate_cells(name):
                if to_text(cell) == text:
                    lines.append(str(sample.line))
            message += f"{text!r} on lines {', '.join(lines[:_SHOWN_ROWS])}"
            hint = "give every row its own id, or number the rows instead: `--column id=`"
            raise refuse_file("E208", message, self.rows.file, hint, field=name)

    def _iterate_cells(
        self,
        name: str,
        role: str = "",
    ) -> Iterator[tuple[Sample, object]]:
        """Yield the cells of a column or field with their rows, a list of questions one by one."""
        reader = QuestionColumns({role: name}).unfold(self.preview)
        for sample in iterate_samples(self.rows):
            for fields in reader.split_row(sample.fields):
                yield sample, reader.cell(fields, role)

    # ── where options may be

    def _list_truths(self, columns: dict[str, str]) -> list[str]:
        """Return the columns that may hold the truth; one that the caller chose is taken out."""
        if "truth" in columns:
            return [columns.pop("truth")]
        truths: dict[str, None] = {}
        if self.names.get("truth") != "":
            for role in TRUTH_ROLES:
                truths |= dict.fromkeys(self.usual.get(role, ()))
        return [name for name in truths if name not in columns.values()]

    def _list_lists(self, columns: dict[str, str]) -> list[str]:
        """Return the columns that may list options.

        Labels are taken out and listed if there is no other list and they do not count from A on.
        """
        options = self.usual["options"]
        lists = [name for name in options if name not in columns.values()]
        labels = columns.get("choices", "")
        if lists or labels not in options or find_numbered(self.rows.columns):
            return lists
        texts, _ = read_option_cell(get_inside(self.preview.row(0), labels))
        if texts and texts[0] in _FIRST_LABELS and labels in self.usual["choices"]:
            return lists
        return [columns.pop("choices")]

    def _list_sources(
        self,
        base: QuestionColumns,
        lists: Sequence[str],
        truths: Sequence[str],
    ) -> Iterator[list[QuestionColumns]]:
        """Yield where options may be: in columns; else in the question; else they are yes and
        no.
        """
        if base.has("options"):
            yield [base]
            return
        sources = [base.with_column("options", name) for name in lists]
        numbered = find_numbered(self.rows.columns)
        if numbered:
            sources.append(replace(base, spread=numbered))
        wrong = self._list_wrong()
        if wrong and truths:
            spread = (truths[0], *wrong)
            sources.append(replace(base, spread=spread))
        yield sources
        if "question" in base.columns:
            yield [base.with_column("options", base.columns["question"])]
        yield [base]

    def _list_wrong(self) -> list[str]:
        """Return the columns of wrong options, in the order of their numbers or letters."""
        wrong = {}
        for name in self.rows.columns:
            match = _WRONG.fullmatch(fold_name(name))
            if match:
                place = match["place"]
                wrong[len(place), place] = name
        return [wrong[key] for key in sorted(wrong)]

    def _list_readings(
        self,
        source: QuestionColumns,
        truths: Sequence[str],
    ) -> Iterator[QuestionColumns]:
        """Yield the ways to read the truths beside some options."""
        unfolded = source.unfold(self.preview)
        candidates = dict.fromkeys(truths)
        if "options" in source.columns and not unfolded.unfolded:
            candidates[source.columns["options"]] = None
        for truth in candidates:
            columns = source.with_column("truth", truth).unfold(self.preview)
            for form in self._list_forms(columns, truths):
                yield replace(columns, form=form)
        if not truths and source.has("options"):
            yield unfolded

    def _list_forms(
        self,
        columns: QuestionColumns,
        truths: Sequence[str],
    ) -> list[str]:
        """Return the forms that a truth may have; a list of options may mark one of them."""
        truth = columns.columns["truth"]
        marks = set()
        for row in self.preview.rows():
            marks.add(read_mark(get_inside(row, truth)))
        flag = []
        if marks != {None}:
            flag = ["flag"]
        if truth not in truths:
            return flag
        if truth in columns.spread:
            return ["text"]
        if columns.form:
            if columns.has("options"):
                return [columns.form]
            return []
        if columns.has("options"):
            return ["label", "0", "1", "text", *flag]
        return ["true", "yes"]

    def _choose_reading(
        self,
        sources: Sequence[QuestionColumns],
        truths: Sequence[str],
    ) -> QuestionColumns | None:
        """Return the one way to read the table with its options in one of these places.

        None when there is none. E215 when there are several, or truths name no options.
        """
        readings: list[TableReading] = []
        for source in sources:
            readings += map(TableReading, self._list_readings(source, truths))
        if not readings:
            return None
        _try_readings(self.rows, readings)
        filled = []
        for reading in readings:
            empty = reading.total - reading.filled
            if empty <= _MISSED * reading.total:
                filled.append(reading)
        most_missed = _MISSED if sources[0].form is None else 1.0
        fitting = _choose_fitting(filled, most_missed)
        if len(fitting) > 1:
            raise self._refuse_several(fitting)
        if fitting:
            reading = fitting[0]
            return replace(reading.columns, is_relabelled=reading.is_relabelled)
        if not filled:
            return None
        reading = filled[0]
        if reading.columns.form in SAID_OPTIONS:
            return None
        if self.needs_all and reading.truth is not None:
            raise self._refuse_unfit(filled)
        return replace(reading.columns, form=None)

    # ── what is wrong

    def _require_parts(self, result: QuestionColumns) -> None:
        """Raise E206 for parts that no column holds."""
        missing = [part for part in ("question", "options", "truth") if not result.has(part)]
        if not missing:
            return
        message = f"no column holds the {' or the '.join(missing)}"
        flags = [f"--column {part}=NAME" for part in missing]
        hint = f"name the columns: `{' '.join(flags)}`; there are {listing(self.rows.columns)}"
        if "options" in missing:
            hint += '; the options of a row are a list of texts: `["red", "blue"]`'
        file = str(self.rows.file)
        if file.lower().endswith((".csv", ".tsv")):
            hint += "; `--header question,A,B,C,D,answer` if the first line is a question"
        raise refuse_file("E206", message, self.rows.file, hint)

    def _refuse_several(self, readings: Readings) -> DataError:
        """Return the error about a table that can be read in several ways, with rows that show
        it.
        """
        settings = [reading.columns.say().items() for reading in readings]
        hints = []
        for setting in settings:
            flags = []
            for item in setting:
                if not all(item in roles for roles in settings):
                    flags.append(_write_flag(*item))
            hints.append(f"`{' '.join(flags)}`")
        lines = [f"the truths can be read in {len(readings)} ways, which all fit"]
        lines += islice(_show_conflicts(self.rows, readings), _SHOWN_ROWS)
        message = "\n".join(lines)
        hint = f"say which is meant: {' or '.join(hints)}"
        return refuse_file("E215", message, self.rows.file, hint, field=readings[0].truth)

    def _refuse_unfit(self, readings: Readings) -> DataError:
        """Return the error about truths that name no options."""
        best = min(readings, key=lambda reading: reading.missed / reading.total)
        message = f"{best.missed:,} of {best.total:,} truths match no option"
        hint = "a row has one right option: rows with several (`A, C`) or none cannot be scored; "
        if best.missed < best.total:
            flag = _write_flag("truth", f"{best.truth}:{best.columns.form}")
            hint += f"score the others with `{flag} --allow-failed {best.missed}`, or "
        columns = listing(self.rows.columns)
        hint += f"name another column with `--column truth=NAME`; columns: {columns}"
        message = "\n".join([message, *best.shown])
        return refuse_file("E215", message, self.rows.file, hint, field=best.truth)


def _show_conflicts(rows: Rows, readings: Readings) -> Iterator[str]:
    """Yield what the readings make of each question on which they differ."""
    for sample in iterate_samples(rows):
        questions = [reading.columns.split_row(sample.fields) for reading in readings]
        for fields in zip(*questions, strict=False):
            results = set()
            for reading, cells in zip(readings, fields, strict=True):
                options = reading.columns.read_options(cells)
                results.add(reading.read(cells, options))
            if len(results) > 1:
                views = map(TableReading.show, readings, fields)
                yield _show_line(sample) + "; ".join(views)


def _write_flag(role: str, name: str | Sequence[str]) -> str:
    if not isinstance(name, str):
        name = ",".join(name)
    return f"--column {shlex.quote(f'{role}={name}')}"


def _holds_labels(cell: object) -> bool:
    texts, labels = read_option_cell(cell)
    if not texts or labels:
        return False
    return _are_labels(tuple(texts))


@lru_cache(1_024)
def _are_labels(texts: tuple[str | None, ...]) -> bool:
    """Return whether texts count, with the same characters around: A, B; 1, 2; A1, A2; (a), (b)."""
    places = []
    around = set()
    for text in texts:
        bare = (text or "").strip()
        match = _LABEL.fullmatch(bare)
        if match is None:
            return False
        before, place, after = match.groups()
        number = int(place) if place.isdecimal() else ord(place)
        places.append(number)
        around.add((before, after))
    # A lone text is an option.
    if len(places) == 1 and around != {("", "")}:
        return False
    first = places[0]
    is_counting = places == list(range(first, first + len(places)))
    return is_counting and len(around) == 1
