"""Which columns of a table hold question, options, truth and so on, and how the truth is spelled.

Every way to read the table is tried on all of its rows. Ways that agree on every row are one way.
If only one way is left, it decides; if several are left, the caller does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, pairwise

import polars as pl

from answerkey.datasets.content import refuse_file
from answerkey.datasets.options import (
    Texts,
    read_mark,
    read_option_cell,
    to_text,
)
from answerkey.datasets.questions import (
    DATASET_ROLES,
    FOLDED,
    SAID_OPTIONS,
    TRUTH_ROLES,
    Preview,
    QuestionColumns,
    find_numbered,
    fold_name,
)
from answerkey.datasets.rows import BLOCK_ROWS, Rows, get_inside, iterate_samples
from answerkey.datasets.ways import (
    SHOWN_ROWS,
    SHOWN_TEXT,
    Way,
    choose_fitting,
    show_conflicts,
    show_line,
    try_ways,
)
from answerkey.errors import DataError, listing
from answerkey.text import shorten
from answerkey.types import Sample

#: Wrong options in columns of their own, or in a list.
_WRONG = re.compile(
    r"(?:distractor|(?:incorrect|wrong|false)(?:answer|option|choice)?)s?(?P<place>[a-z]|\d*)"
)
#: A label, and what all labels of a question may have around it.
_LABEL = re.compile(r"(?P<before>.*?)(?P<place>\d{1,4}|.)(?P<after>\W*)", re.DOTALL)
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
    names: dict[str, str] = {}
    for role, name in (chosen or {}).items():
        if role in TRUTH_ROLES:
            role = "truth"  # noqa: PLW2901 - what the caller calls it
        names[role] = name
    return _Table(rows, names, roles, needs_all=needs_all).recognise()


@dataclass(frozen=True)
class _Table:
    """A table whose columns are to be recognised; `names` are those that the caller chose."""

    rows: Rows
    names: Mapping[str, str]
    roles: Texts
    needs_all: bool

    @cached_property
    def preview(self) -> Preview:
        """The first rows."""
        return Preview.of(self.rows)

    @cached_property
    def usual(self) -> dict[str, list[str]]:
        """The columns and fields with the usual names of each role, the likeliest first."""
        paths = self._list_paths()
        usual: dict[str, list[str]] = {}
        for role in self.roles:
            usual[role] = [paths[name] for name in FOLDED[role] if name in paths]
        return usual

    def _list_paths(self) -> dict[str, str]:
        """Return columns, and fields inside their cells as dotted names, by their folded names.

        A column comes before a field, the first before others. Of lists, only fields of questions
        count.
        """
        columns: dict[str, str] = {}
        paths: dict[str, str] = {}
        for column in reversed(self.rows.columns):
            columns[fold_name(column)] = column
            depth, fields = self.preview.look_inside(column)
            inner: dict[str, str] = {}
            for name in reversed(fields):
                inner[fold_name(name)] = f"{column}.{name}"
            if not depth or not _QUESTIONS.isdisjoint(inner):
                paths |= inner
        return paths | columns

    def recognise(self) -> QuestionColumns:
        """Return which columns are what; raises as the function of this name."""
        chosen = {role: name for role, name in self.names.items() if name}
        forced = QuestionColumns.of(chosen, self.rows)
        columns = self._choose_columns(forced)
        truths = self._list_truths(columns)
        lists = self._choose_lists(columns)
        base = replace(
            forced,
            columns=columns,
        )
        result = None
        if "options" in self.roles:
            for sources in self._list_sources(base, lists, truths):
                result = result or self._choose_way(sources, truths)
        if result is None:
            # Without options, only its name tells what the truth is.
            filled = [name for name in truths if self._holds("text", name)]
            result = QuestionColumns(columns, unfolded=self.preview.find_unfolded(columns))
            if filled:
                result = result.with_column("truth", filled[0])
        if self.needs_all:
            self._require_parts(result)
        return result

    def _choose_columns(self, forced: QuestionColumns) -> dict[str, str]:
        """Return the caller's columns, and those of all roles but options and truth."""
        columns = dict(forced.columns)
        for role in self.roles:
            if role in self.names or role in {"options", *TRUTH_ROLES}:
                continue
            likely = list(self.usual[role])
            if role == "choices":
                likely += self.usual.get("options", [])
            taken = {*columns.values(), *forced.spread}
            column = self._choose_column(role, [name for name in likely if name not in taken])
            if column is not None:
                columns[role] = column
        return columns

    def _choose_column(
        self,
        role: str,
        names: Sequence[str],
    ) -> str | None:
        """Return the first column that holds what a role needs.

        E208 for ids that come again, E209 when several columns may hold the completions.
        """
        filled: list[str] = []
        for name in names:
            if not self._holds(role, name):
                continue
            filled.append(name)
            if role != "completion" or not self.needs_all or fold_name(filled[0]) == role:
                return name
            if len(filled) > 1:
                raise self._refuse_completions(filled)
        if role == "id" and self.needs_all:
            self._refuse_repeated_ids(names)
        return filled[0] if filled else None

    def _holds(
        self,
        role: str,
        name: str,
    ) -> bool:
        """Return whether a column holds what a role needs: all rows have an id, and labels.

        For other roles some row has a text. In a log an id comes again for each of its trials.
        """
        if role == "id" and "trial" not in self.roles:
            return self._find_repeated(name) == []
        for _, cell in self._iterate_cells(name, role):
            if role == "choices":
                if not _holds_labels(cell):
                    return False
            elif (to_text(cell) or "").strip() or (role == "completion" and cell):
                return True
        return role == "choices"

    def _iterate_cells(self, name: str, role: str = "") -> Iterator[tuple[Sample, object]]:
        """Yield the cells of a column or field with their rows, a list of questions one by one."""
        columns = {role: name}
        reader = QuestionColumns(columns, unfolded=self.preview.find_unfolded(columns))
        for sample in iterate_samples(self.rows):
            for fields in reader.split_row(sample.fields):
                yield sample, reader.cell(fields, role)

    def _find_repeated(self, name: str) -> list[str] | None:
        """Return the first ids that come again; None if a row has no id."""
        parts: list[pl.Series] = []
        cells = self._iterate_cells(name)
        while block := list(islice(cells, BLOCK_ROWS)):
            texts = [to_text(cell) or None for _, cell in block]
            parts.append(pl.Series(texts, dtype=pl.String))
        ids = pl.concat(parts)
        if ids.null_count():
            return None
        repeated = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        return repeated.head(SHOWN_ROWS).to_list()

    def _refuse_repeated_ids(self, names: Sequence[str]) -> None:
        """Raise E208 if the first of these columns that is full has an id that comes again."""
        for name in names:
            if fold_name(name) in _SHARED_IDS or name not in self.rows.columns:
                continue
            repeated = self._find_repeated(name)
            if repeated is None:
                continue
            shown = [f"`{name}` has the same value in several rows, and is no id"]
            for text, lines in self._find_lines(name, repeated).items():
                shown.append(f"{text!r} on lines {', '.join(lines)}")
            hint = "give every row its own id, or number the rows instead: `--column id=`"
            raise self._refuse("E208", shown, hint, name)

    def _find_lines(self, name: str, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the first lines that have these ids."""
        lines: dict[str, list[str]] = {text: [] for text in ids}
        for sample, cell in self._iterate_cells(name):
            places = lines.get(str(to_text(cell)))
            if places is not None and len(places) < SHOWN_ROWS:
                places.append(str(sample.line))
        return lines

    def _refuse(
        self, code: str, lines: Sequence[str], hint: str, column: str | None = None
    ) -> DataError:
        return refuse_file(code, "\n".join(lines), self.rows.file, hint, field=column)

    def _refuse_completions(self, names: Sequence[str]) -> DataError:
        flags = [f"`--column completion={name}`" for name in names]
        message = f"several columns may hold the completions: {listing(names)}"
        return self._refuse(
            "E209",
            [message],
            f"say which: {' or '.join(flags)}",
        )

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

    def _choose_lists(self, columns: dict[str, str]) -> list[str]:
        """Return the columns that may list options.

        Labels are taken out and listed if there is no other list and they do not count.
        """
        options = self.usual.get("options", ())
        lists = [name for name in options if name not in columns.values()]
        labels = columns.get("choices", "")
        if lists or labels not in options or find_numbered(self.rows.columns):
            return lists
        first_label = self._read_first(labels)[0]
        if labels in self.usual["choices"] and first_label in {*"Aa10"}:
            return lists
        return [columns.pop("choices")]

    def _read_first(self, name: str) -> list[str | None]:
        """Return the list that the first row has in a column; one empty text if it has none."""
        cell = get_inside(self.preview.rows[0], name)
        texts, _ = read_option_cell(cell)
        return texts or [""]

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
            sources.append(replace(base, spread=(truths[0], *wrong)))
        yield sources
        if "question" in base.columns:
            yield [base.with_column("options", base.columns["question"])]
        yield [base]

    def _list_wrong(self) -> list[str]:
        """Return the columns of wrong options, in the order of their numbers or letters."""
        wrong: dict[tuple[int, str], str] = {}
        for name in self.rows.columns:
            match = _WRONG.fullmatch(fold_name(name))
            if match:
                wrong[len(match["place"]), match["place"]] = name
        return [name for _, name in sorted(wrong.items())]

    def _list_ways(
        self,
        source: QuestionColumns,
        truths: Sequence[str],
    ) -> Iterator[QuestionColumns]:
        """Yield the ways to read the truths beside some options."""
        unfolded = self.preview.find_unfolded(source.columns, source.spread)
        candidates = dict.fromkeys(truths)
        if "options" in source.columns and not unfolded:
            candidates[source.columns["options"]] = None
        for truth in candidates:
            way = source.with_column("truth", truth)
            unfolded = self.preview.find_unfolded(way.columns, way.spread)
            for form in self._list_forms(way, truths):
                yield replace(way, form=form, unfolded=unfolded)
        if not truths and source.has("options"):
            yield replace(source, unfolded=unfolded)

    def _list_forms(
        self,
        way: QuestionColumns,
        truths: Sequence[str],
    ) -> list[str]:
        """Return the forms that a truth may have; a list of options may mark one of them."""
        truth = way.columns["truth"]
        flag = []
        if any(read_mark(get_inside(row, truth)) is not None for row in self.preview.rows):
            flag.append("flag")
        if truth not in truths:
            return flag
        if truth in way.spread:
            return ["text"]
        if not way.has("options"):
            return [] if way.form else ["true", "yes"]
        return [way.form] if way.form else ["label", "0", "1", "text", *flag]

    def _choose_way(
        self,
        sources: Sequence[QuestionColumns],
        truths: Sequence[str],
    ) -> QuestionColumns | None:
        """Return the one way to read the table with its options in one of these places.

        None when there is none. E215 when there are several ways, or truths name no options.
        """
        ways: list[Way] = []
        for source in sources:
            ways += map(Way, self._list_ways(source, truths))
        if ways:
            try_ways(self.rows, ways)
        filled = [way for way in ways if way.is_filled]
        fitting = choose_fitting(
            filled,
            is_forced=sources != [] and sources[0].form is not None,
        )
        if len(fitting) > 1:
            raise self._refuse_several(fitting)
        if fitting:
            return replace(
                fitting[0].columns,
                is_relabelled=fitting[0].is_relabelled,
            )
        if not filled or filled[0].columns.form in SAID_OPTIONS:
            return None
        if self.needs_all and filled[0].truth is not None:
            raise self._refuse_unfit(filled)
        return replace(
            filled[0].columns,
            form=None,
        )

    # ── what is wrong

    def _require_parts(self, result: QuestionColumns) -> None:
        """Raise E206 for parts that no column holds, with the columns that may hold them."""
        missing = [part for part in ("question", "options", "truth") if not result.has(part)]
        if "options" in missing and self.usual["options"]:
            raise self._refuse_options(self.usual["options"][0])
        if not missing:
            return
        guess = self._guess_columns(result, missing)
        flags = [_write_flag(part, name) for part, name in guess.items()]
        hint = f"name the columns: `{' '.join(flags)}`; there are {listing(self.rows.columns)}"
        if str(self.rows.file).lower().endswith((".csv", ".tsv")):
            hint += "; if the first line is a question, put one above it such as "
            hint += "`question,A,B,C,D,answer`"
        raise self._refuse(
            "E206",
            [f"no column holds the {' or the '.join(missing)}"],
            hint,
        )

    def _refuse_options(self, name: str) -> DataError:
        """Return the error about a column that is named like options and holds none."""
        count = 0
        shown = []
        separators = set("|;/")
        has_text = False
        for sample, cell in self._iterate_cells(name):
            if read_option_cell(cell)[0]:
                continue
            count += 1
            if count <= SHOWN_ROWS:
                shown.append(show_line(sample) + shorten(repr(cell), SHOWN_TEXT))
            if isinstance(cell, str):
                has_text = True
                separators.intersection_update(cell)
        message = f"`{name}` holds no list of options in {count:,} of {len(self.rows):,} rows"
        if not count:
            message = f"`{name}` holds labels, and no column holds the texts of the options"
        hint = "list the texts in each row, or name another column: `--column options=NAME`; "
        hint += f"columns: {listing(self.rows.columns)}"
        if has_text and separators:
            separator = min(
                separators,
                key="|;/".index,
            )
            flag = _write_flag("options", f"{name}:{separator}")
            hint = f"say what separates the options: `{flag}`"
        return self._refuse(
            "E206",
            [message, *shown],
            hint,
            name,
        )

    def _guess_columns(self, result: QuestionColumns, missing: Sequence[str]) -> dict[str, str]:
        """Return likely columns of the missing parts; `NAME` for each if they do not fit all rows.

        The question has the longest text, the truth the shortest.
        """
        guess: dict[str, str] = {}
        texts: list[str] = []
        for name in self.rows.columns:
            if len(self._read_first(name)) > 1:
                guess.setdefault("options", name)
            elif name not in result.taken:
                texts.append(name)
        if texts:
            first = self.preview.rows[0]
            texts.sort(key=lambda name: len(str(first[name])))
            guess |= {"question": texts[-1], "truth": texts[0]}
        guess = {part: guess.get(part, "") for part in missing}
        with suppress(DataError):
            columns = recognise(self.rows, {**self.names, **guess}, needs_all=False)
            if columns.form is not None and columns.has("question"):
                return guess
        return dict.fromkeys(missing, "NAME")

    def _refuse_several(self, ways: Sequence[Way]) -> DataError:
        """Return the error about a table that can be read in several ways, with rows that show
        it.
        """
        names = [way.columns.say() for way in ways]
        hints = []
        for roles in names:
            flags = []
            for role, name in roles.items():
                if any(other_roles.get(role) != name for other_roles in names):
                    flags.append(_write_flag(role, name))
            hints.append(f"`{' '.join(flags)}`")
        message = f"the truths can be read in {len(ways)} ways, which all fit"
        shown = islice(show_conflicts(self.rows, ways), SHOWN_ROWS)
        hint = f"say which is meant: {' or '.join(hints)}"
        return self._refuse(
            "E215",
            [message, *shown],
            hint,
            ways[0].truth,
        )

    def _refuse_unfit(self, ways: Sequence[Way]) -> DataError:
        """Return the error about truths that name no options, or that are hidden."""
        best = min(ways, key=lambda way: way.missed / way.total)
        truth, total, missed = best.truth, best.total, best.missed
        message = f"the truths name no option in {missed:,} of {total:,} rows"
        names = listing({str(way.truth): way for way in ways})
        hint = f"name the column of the truth: `--column truth=NAME`; looked at {names}; "
        hint += f"columns: {listing(self.rows.columns)}"
        if best.hidden == total:
            message = f"the truths are hidden: `{truth}` is empty or -1 in all {total:,} rows"
            hint = "use a split of the dataset that has its truths, or name their column: "
            hint += "`--column truth=NAME`"
            return self._refuse(
                "E215",
                [message],
                hint,
                truth,
            )
        if 2 * best.several > missed:
            message = f"`{truth}` names several right options in {best.several:,} "
            message += f"of {total:,} rows"
            hint = "only one right option per question is supported: correct these rows, "
            hint += "or leave them out"
            if missed < total:
                flag = _write_flag("truth", f"{truth}:{best.columns.form}")
                hint += f"; to score the others: `{flag} --allow-failed {missed}`"
        return self._refuse(
            "E215",
            [message, *best.shown],
            hint,
            truth,
        )


def _write_flag(
    role: str,
    name: str | Sequence[str],
) -> str:
    if not isinstance(name, str):
        name = ",".join(name)
    return f"--column {shlex.quote(f'{role}={name}')}"


def _holds_labels(cell: object) -> bool:
    texts, labels = read_option_cell(cell)
    return bool(texts) and not labels and _are_labels(tuple(texts or ()))


@lru_cache(1_024)
def _are_labels(texts: tuple[str | None, ...]) -> bool:
    """Return whether texts count, with the same characters around: A, B; 1, 2; A1, A2; (a), (b)."""
    places: list[int] = []
    around: set[tuple[str, str]] = set()
    for text in texts:
        match = _LABEL.fullmatch((text or "").strip())
        if match is None:
            return False
        place = match["place"]
        places.append(int(place) if place.isdecimal() else ord(place))
        around.add((match["before"], match["after"]))
    # A lone text is an option.
    if len(places) == 1 and around != {("", "")}:
        return False
    is_counting = all(after == before + 1 for before, after in pairwise(places))
    return is_counting and len(around) == 1
