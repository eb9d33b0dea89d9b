"""Which columns of a table hold question, options, truth and so on, and how the truth is spelled.

Every way to read the table is tried on all of its rows, block by block. Ways that make the same of every row
are one way. One that is left decides; where several are left, the caller does.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, islice, pairwise
from operator import or_

import polars as pl

from answerkey.datasets import questions as ask
from answerkey.datasets.questions import QuestionColumns, Texts
from answerkey.datasets.rows import Rows, iterate_blocks, split_name
from answerkey.errors import DataError, Place, listing
from answerkey.text import shorten
from answerkey.types import Samples

#: Wrong options in columns of their own, or in a list.
_WRONG = re.compile(
    r"(?:distractor|(?:incorrect|wrong|false)(?:answer|option|choice)?)s?(?P<place>[a-z]|\d*)"
)
#: A way that misses a larger share of the rows is none; those that it misses are told when rows are checked.
_MISSED = 0.1
_HIDDEN = ("-1", "-1.0")
#: A label, and what all labels of a question may have around it.
_LABEL = re.compile(r"(?P<before>.*?)(?P<place>\d{1,4}|.)(?P<after>\W*)", re.DOTALL)
#: Several labels in place of one: `AB`, `A, C`, `A and C`.
_SEVERAL = r"^[A-Z](?:\s*(?:[,;/&+|]|and)?\s*[A-Z])+$"
#: Names of ids of something larger than a question, such as an article: these may come again.
_SHARED_IDS = ("docid", "exampleid", "idx", "index")
#: How many rows, and how much of a text, an error shows.
_SHOWN_ROWS, _SHOWN_TEXT = 3, 40


def recognise(
    rows: Rows,
    chosen: Mapping[str, str] | None = None,
    roles: Texts = ask.DATASET_ROLES,
    *,
    needs_all: bool = True,
) -> QuestionColumns:
    """Return which columns of a table are what, and how the truth is spelled, judged on all rows.

    What is `chosen` by role wins; an empty name says that there is none. E206 when nothing holds a part, if
    it `needs_all`; E215 when the table can be read in more than one way, or its truths name no options.
    """
    said = {("truth" if role in ask.TRUTH_ROLES else role): name for role, name in (chosen or {}).items()}
    forced = QuestionColumns.of({role: name for role, name in said.items() if name}, rows)
    paths, columns = _list_paths(rows), dict(forced.columns)
    known = {role: [paths[one] for one in ask.FOLDED[role] if one in paths] for role in roles}
    for role in roles:
        if role not in said and role not in {"options", *ask.TRUTH_ROLES}:
            names = known[role] + known.get("options", []) * (role == "choices")
            free = [one for one in names if one not in {*columns.values(), *forced.spread}]
            # In a log the id of a sample comes again for each of its trials.
            kind = "text" if role == "id" and "trial" in roles else role
            held = list(islice((one for one in free if _holds(rows, kind, one)), 1 + (role == "completion")))
            columns |= {role: held[0]} if held else {}
            if kind == "id" and needs_all and not held:
                _refuse_repeated_ids(rows, free)
            if len(held) > 1 and needs_all and ask.fold_name(held[0]) != role:
                hint = f"say which: `--column completion={held[0]}` or `--column completion={held[1]}`"
                message = f"several columns may hold the completions: {listing(held)}"
                raise DataError("E209", message, where=Place(file=rows.file), hint=hint)
    truths = [columns.pop("truth")] if "truth" in columns else []
    if not truths and said.get("truth") != "":
        every = dict.fromkeys(one for role in ask.TRUTH_ROLES for one in known.get(role, ()))
        truths = [one for one in every if one not in columns.values()]
    found = QuestionColumns(columns, unfolded=ask.find_unfolded(rows, columns))
    listed = [one for one in known.get("options", ()) if one not in columns.values()]
    labels = columns.get("choices")
    is_alone = not listed and labels in known.get("options", ()) and not ask.find_numbered(rows.columns)
    if is_alone and not (labels in known["choices"] and _read_first(rows, labels)[0] in {*"Aa10"}):
        listed = [columns.pop("choices")]  # 4, 5 and 6 are what is chosen from
    places = _list_options(rows, replace(forced, columns=columns), listed, truths)
    for options in places if "options" in roles else ():
        if (read := _choose_reading(rows, options, truths, needs_all=needs_all)) is not None:
            found = read
            break
    else:  # no options: what the truth is can only be told by its name
        named = [one for one in truths if _holds(rows, "text", one)]
        found = replace(found, columns={**columns, "truth": named[0]} if named else columns)
    missing = [part for part in ("question", "options", "truth") if not found.has(part)]
    if needs_all and "options" in missing and known["options"]:
        raise _refuse_options(rows, known["options"][0])
    if needs_all and missing:
        raise _refuse_missing(rows, found, missing, said)
    return found


def _list_paths(rows: Rows) -> dict[str, str]:
    """Return columns, and fields inside their cells as dotted names, by their folded names.

    A column comes before a field, the first before others. Of lists, only fields of questions are listed.
    """
    first, fields = rows.slice(0, ask.FIRST_ROWS).load(), dict[str, str]()
    for name in reversed(rows.columns):
        depth, names = ask.look_inside(first, name)
        inner = {ask.fold_name(one): f"{name}.{one}" for one in reversed(names)}
        if not depth or inner.keys() & {"question", "questiontext", "questionstem", "query"}:
            fields |= inner
    return fields | {ask.fold_name(name): name for name in reversed(rows.columns)}


def _read_first(rows: Rows, name: str) -> list[str | None]:
    """Return the list that the first row of a column has; one empty text where it has none."""
    cells = ask.list_cells(ask.read_column(rows.slice(0, 1).load(), name))
    return ask.read_option_cell(cells[0])[0] or [""]


def _holds(rows: Rows, role: str, name: str) -> bool:
    """Return whether a column holds what a role needs: all rows have an id, and labels; some have a text."""
    if role == "choices" and not _are_labels(_read_first(rows, name)):
        return False
    column = name if name in rows.columns else split_name(name, rows.columns)[0][0]
    unfolded = ask.find_unfolded(rows, {role: name}) if role == "question" else ()
    hashes: list[pl.Series] = []
    for _, block in iterate_blocks(rows, [column]):
        cells = ask.read_column(QuestionColumns({}, unfolded=unfolded).unfold(block)[0], name)
        if role == "choices":
            distinct = cells.to_frame().unique().to_series() if isinstance(cells, pl.Series) else cells
            lists = map(ask.read_option_cell, ask.list_cells(distinct))
            if not all(found and not names and _are_labels(found) for found, names in lists):
                return False
            continue
        texts = ask.to_texts(cells)
        if role == "id":
            if texts.null_count() or (texts == "").any():
                return False
            hashes.append(texts.hash())
        elif (texts.str.strip_chars() != "").any() or (role == "completion" and any(ask.list_cells(cells))):
            return True
    return role == "choices" or (role == "id" and not pl.concat(hashes).is_duplicated().any())


def _are_labels(texts: Sequence[str | None]) -> bool:
    """Return whether texts count, with the same characters around: A, B; 1, 2; A1, A2; (a), (b)."""
    places: list[int] = []
    around: set[tuple[str, str]] = set()
    for text in texts:
        match = _LABEL.fullmatch((text or "").strip())
        if match is None:
            return False
        places.append(int(match["place"]) if match["place"].isdecimal() else ord(match["place"]))
        around.add((match["before"], match["after"]))
    if len(places) == 1 and around != {("", "")}:  # a lone text is an option
        return False
    return len(around) == 1 and all(two == one + 1 for one, two in pairwise(places))


def _list_options(
    rows: Rows, said: QuestionColumns, listed: Sequence[str], truths: Sequence[str]
) -> Iterator[list[QuestionColumns]]:
    """Yield where options may be: in columns of theirs; else in the question; else they are yes and no."""
    if said.has("options"):
        yield [said]
        return
    found = [replace(said, columns={**said.columns, "options": one}) for one in listed]
    found += [replace(said, spread=one) for one in [ask.find_numbered(rows.columns)] if one]
    wrong = {match["place"]: one for one in rows.columns if (match := _WRONG.fullmatch(ask.fold_name(one)))}
    if wrong and truths:
        several = (wrong[place] for place in sorted(wrong, key=lambda one: (len(one), one)))
        found.append(replace(said, spread=(truths[0], *several)))
    yield found
    if "question" in said.columns:
        yield [replace(said, columns={**said.columns, "options": said.columns["question"]})]
    yield [said]


@dataclass(eq=False)
class _Reading:
    """One way to read a table: how many rows it has seen, and what it makes of those at hand."""

    columns: QuestionColumns
    total: int = 0
    filled: int = 0
    stated: int = 0
    missed: int = 0
    is_relabelled: bool = False
    samples: Samples = field(default_factory=lambda: Samples(pl.DataFrame(), pl.Series()))
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)
    places: pl.Series = field(default_factory=pl.Series)

    @property
    def truth(self) -> str | None:
        """The column of the truth."""
        return self.columns.columns.get("truth")

    def read(self, block: Samples, known: dict[object, tuple[Samples, pl.DataFrame]]) -> None:
        """Read some rows; `known` are the options that other ways have read in them."""
        said, one = self.columns, self.columns.columns
        key = (
            one.get("options"),
            said.separator,
            said.spread,
            said.unfolded,
            said.form in ask.SAID_OPTIONS and said.form,
        )
        if key not in known:
            samples = said.unfold(block)[0]
            content = pl.col("options").list.join("\0").hash()
            known[key] = samples, said.read_options(samples).with_columns(content.alias("content"))
        self.samples, self.frame = known[key]
        self.total += len(self.samples)
        self.filled += len(self.frame) - self.frame["options"].null_count()
        self.stated += len(self.frame) - self.frame["names"].null_count()
        labels, names = (self.frame[name].list.join("\0") for name in ("choices", "names"))
        self.is_relabelled = self.is_relabelled or bool((labels != names).any())
        self.places = pl.Series([None] * len(self.frame), dtype=pl.Int64)
        if self.truth is not None:
            self.places = said.find_places(self.frame, self.samples)
            self.missed += self.places.null_count()

    def differs(self, other: _Reading) -> pl.Series:
        """Return of which rows at hand two ways make something else; Yes is True."""
        is_other = self.places.ne_missing(other.places)
        if self.frame is other.frame or {self.columns.form, other.columns.form} <= ask.SAID_OPTIONS.keys():
            return is_other
        return is_other | self.frame["content"].ne_missing(other.frame["content"])

    def locate(self, row: int) -> str:
        """Return where a row stands."""
        line = self.samples.place(row).line
        return f"line {line}: " if line is not None else ""

    def show(self, row: int) -> str:
        """Return what the table says of a row's truth, and what this way makes of it."""
        options, place = self.frame["options"][row], self.places[row]
        meant = "no option" if place is None else repr(shorten(str(options[place]), _SHOWN_TEXT))
        cell = ask.list_cells(ask.read_column(self.samples.slice(row, 1), str(self.truth)))[0]
        form = ask.FORMS[str(self.columns.form)]
        return f"`{self.truth}` {shorten(repr(cell), _SHOWN_TEXT)} as {form} is {meant}"


def _choose_reading(
    rows: Rows, places: Sequence[QuestionColumns], truths: Sequence[str], *, needs_all: bool
) -> QuestionColumns | None:
    """Return the one way to read a table with its options in one of these places; None when it has none.

    E215 when there are several ways, or truths name no options.
    """
    readings = [_Reading(one) for options in places for one in _list_readings(rows, options, truths)]
    differing: set[tuple[int, int]] = set()
    for _, block in _iterate(rows, readings):
        known: dict[object, tuple[Samples, pl.DataFrame]] = {}
        # How many questions are nested in the rows is not known yet.
        most = math.inf if readings[0].columns.unfolded else _MISSED * len(rows)
        alive = [at for at, one in enumerate(readings) if one.missed <= most]
        for at in alive:
            readings[at].read(block, known)
        for pair in combinations(alive, 2):
            if pair not in differing and readings[pair[0]].differs(readings[pair[1]]).any():
                differing.add(pair)
    is_said = any(options.form for options in places)
    filled = [one for one in readings if one.total - one.filled <= _MISSED * one.total]
    told = [one for one in filled if one.truth is not None]
    fitting = [one for one in told if not one.missed]
    fitting = fitting or [one for one in told if is_said or one.missed <= _MISSED * one.total]
    # A label that the table states is no guess: a number among them is a label before it is an index.
    stated = {one.truth for one in fitting if one.columns.form == "label" and one.stated == one.total}
    fitting = [one for one in fitting if one.columns.form not in {"0", "1"} or one.truth not in stated]
    fitting = _drop_unconfirmed(fitting, readings, differing)
    different: list[_Reading] = []
    for one in fitting:
        if all((readings.index(other), readings.index(one)) in differing for other in different):
            different.append(one)
    if len(different) > 1:
        raise _refuse_several(rows, different)
    if different or not filled or filled[0].columns.form in ask.SAID_OPTIONS:
        if not different:
            return None
        return replace(different[0].columns, is_relabelled=different[0].is_relabelled)
    if needs_all and filled[0].truth is not None:
        raise _refuse_unfit(rows, filled)
    return replace(filled[0].columns, form=None)


def _drop_unconfirmed(
    fitting: Sequence[_Reading], readings: Sequence[_Reading], differing: set[tuple[int, int]]
) -> list[_Reading]:
    """Return the readings without those as an index from 0 or 1 where another column says it is the other."""

    def is_confirmed(reading: _Reading) -> bool:
        for other in fitting:
            pair = sorted((readings.index(reading), readings.index(other)))
            is_sure = other.columns.form in {"label", "text"} and other.truth != reading.truth
            if is_sure and tuple(pair) not in differing:
                return True
        return False

    indexed = [reading for reading in fitting if reading.columns.form in {"0", "1"}]
    confirmed = [reading for reading in indexed if is_confirmed(reading)]
    settled = {reading.truth for reading in confirmed}
    dropped = [reading for reading in indexed if reading.truth in settled and reading not in confirmed]
    return [reading for reading in fitting if reading not in dropped]


def _list_readings(rows: Rows, options: QuestionColumns, truths: Sequence[str]) -> Iterator[QuestionColumns]:
    """Yield the ways to read the truths of a table with these options, in the form that is said or any."""
    first, place = rows.slice(0, ask.FIRST_ROWS).load(), options.columns.get("options")
    unfolded = ask.find_unfolded(rows, options.columns, options.spread)
    for truth in (*truths, *({place} - {None, *truths} if not unfolded else ())):
        columns, cells = {**options.columns, "truth": truth}, ask.list_cells(ask.read_column(first, truth))
        marks = ["flag"] if any(ask.read_mark(one) is not None for one in cells) else []
        if truth not in truths:  # options with marks
            forms = marks
        elif truth in options.spread:
            forms = ["text"]
        elif options.has("options"):
            forms = ["label", "0", "1", "text", *marks] if options.form is None else [options.form]
        else:
            forms = [] if options.form else ["true", "yes"]
        for one in forms:
            unfolded = ask.find_unfolded(rows, columns, options.spread)
            yield replace(options, columns=columns, form=one, unfolded=unfolded)
    if not truths and options.has("options"):
        yield replace(options, unfolded=unfolded)


def _iterate(rows: Rows, readings: Sequence[_Reading]) -> Iterator[tuple[int, Samples]]:
    """Yield the rows, with the columns that some ways read."""
    taken = frozenset[str]().union(*(one.columns.taken for one in readings))
    return iterate_blocks(rows, taken.intersection(rows.columns)) if readings else iter(())


def _refuse_repeated_ids(rows: Rows, names: Sequence[str]) -> None:
    """Raise E208 if the first of these columns that is full has an id that comes again."""
    for name in names:
        if ask.fold_name(name) in _SHARED_IDS or name not in rows.columns:
            continue
        samples = rows.load([name])
        ids = ask.to_texts(ask.read_column(samples, name))
        if ids.null_count() or (ids == "").any():
            continue
        repeated = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        shown = [f"`{name}` has the same value in several rows, and is no id"]
        for text in repeated.head(_SHOWN_ROWS):
            lines = [str(samples.place(row).line) for row in (ids == text).arg_true().head(_SHOWN_ROWS)]
            shown.append(f"{text!r} on lines {', '.join(lines)}")
        hint = "give every row its own id, or number the rows instead: `--column id=`"
        raise DataError("E208", "\n".join(shown), where=Place(file=rows.file, field=name), hint=hint)


def _refuse_options(rows: Rows, name: str) -> DataError:
    """Return the error about a column that is named like options and holds none."""
    samples = rows.load([name.partition(".")[0]])
    cells = ask.list_cells(ask.read_column(samples, name))
    bad = [row for row, cell in enumerate(cells) if not ask.read_option_cell(cell)[0]]
    message = [f"`{name}` holds no list of options in {len(bad):,} of {len(cells):,} rows"]
    shown = bad[:_SHOWN_ROWS]
    message += [f"line {samples.place(row).line}: {shorten(repr(cells[row]), _SHOWN_TEXT)}" for row in shown]
    texts = [cells[row] for row in bad if isinstance(cells[row], str)]
    marks = [mark for mark in "|;/" if texts and all(mark in str(text) for text in texts)]
    hint = "list the texts in each row, or name another column: `--column options=NAME`; columns: "
    hint += listing(rows.columns)
    if marks:
        flag = shlex.quote(f"options={name}:{marks[0]}")
        hint = f"say what separates the options: `--column {flag}`"
    return DataError("E206", "\n".join(message), where=Place(file=rows.file, field=name), hint=hint)


def _refuse_missing(
    rows: Rows, found: QuestionColumns, missing: Sequence[str], said: Mapping[str, str]
) -> DataError:
    """Return the error about parts that no column holds, with the columns that may hold them."""
    guess = _guess_columns(rows, found, missing, said)
    named = [f"{part}={guess.get(part, 'NAME')}" for part in missing]
    flags = " ".join(f"--column {shlex.quote(pair)}" for pair in named)
    hint = f"name the columns: `{flags}`; there are {listing(rows.columns)}"
    if str(rows.file).lower().endswith((".csv", ".tsv")):
        hint += "; if the first line is a question, put one above it such as `question,A,B,C,D,answer`"
    message = f"no column holds the {' or the '.join(missing)}"
    return DataError("E206", message, where=Place(file=rows.file), hint=hint)


def _guess_columns(
    rows: Rows, found: QuestionColumns, missing: Sequence[str], said: Mapping[str, str]
) -> dict[str, str]:
    """Return columns that hold the missing parts, if all can be told: guessed by some rows, tried on all."""
    first = rows.slice(0, ask.FIRST_ROWS).load()
    free = [name for name in rows.columns if name not in found.taken]
    sizes = {name: ask.to_texts(ask.read_column(first, name)).str.len_chars().sum() for name in free}
    guess: dict[str, str] = {}
    listed = [name for name in free if len(_read_first(rows, name)) > 1]
    if "options" in missing and listed:
        guess["options"] = listed[0]
    texts = sorted((name for name in free if name not in listed), key=lambda name: -int(sizes[name]))
    if "question" in missing and texts:
        guess["question"] = texts.pop(0)
    for name in texts if "truth" in missing else [""]:
        parts = {**guess, "truth": name} if name else guess
        with suppress(DataError):
            tried = recognise(rows, {**said, **parts}, needs_all=False)
            if tried.form is not None and tried.has("question"):
                return parts
    return {}


def _refuse_several(rows: Rows, readings: Sequence[_Reading]) -> DataError:
    """Return the error about a table that can be read in several ways, with rows that show it."""

    def show_rows() -> Iterator[str]:
        for _, block in _iterate(rows, readings):
            for one in readings:
                one.read(block, {})
            is_other = reduce(or_, (readings[0].differs(one) for one in readings[1:]))
            for row in is_other.arg_true().to_list():
                yield readings[0].locate(row) + "; ".join(one.show(row) for one in readings)

    ways = [one.columns.say() for one in readings]
    flags = []
    for way in ways:
        names = {role: one for role, one in way.items() if any(each.get(role) != one for each in ways)}
        texts = [f"{role}={one if isinstance(one, str) else ','.join(one)}" for role, one in names.items()]
        flags.append(f"`{' '.join(f'--column {shlex.quote(text)}' for text in texts)}`")
    first = f"the truths can be read in {len(readings)} ways, which all fit"
    message = "\n".join([first, *islice(show_rows(), _SHOWN_ROWS)])
    hint = f"say which is meant: {' or '.join(flags)}"
    return DataError("E215", message, where=Place(file=rows.file, field=readings[0].truth), hint=hint)


def _refuse_unfit(rows: Rows, readings: Sequence[_Reading]) -> DataError:
    """Return the error about truths that name no options, or that are hidden."""
    best = _Reading(min(readings, key=lambda one: one.missed / one.total).columns)
    hidden = several = 0
    shown: list[str] = []
    for _, block in _iterate(rows, [best]):
        best.read(block, {})
        said = best.columns.read_truth(best.samples)
        cells = ask.list_cells(ask.read_column(best.samples, str(best.truth)))
        is_listed = pl.Series([isinstance(cell, list) and len(cell) > 1 for cell in cells])
        is_several = is_listed | said.str.contains(_SEVERAL).fill_null(value=False)
        several += int((is_several & best.places.is_null()).sum())
        hidden += int((said.is_null() | said.is_in(_HIDDEN)).sum())
        unfit = best.places.is_null().arg_true().to_list()[: _SHOWN_ROWS - len(shown)]
        shown += [f"{best.locate(row)}{best.show(row)}" for row in unfit]
    where = Place(file=rows.file, field=best.truth)
    if hidden == best.total:
        message = f"the truths are hidden: `{best.truth}` is empty or -1 in all {best.total:,} rows"
        hint = "use a split of the dataset that has its truths, or name their column: `--column truth=NAME`"
        return DataError("E215", message, where=where, hint=hint)
    if 2 * several > best.missed:
        message = f"`{best.truth}` names several right options in {several:,} of {best.total:,} rows"
        hint = "only one right option per question is supported: correct these rows, or leave them out"
        if best.missed < best.total:
            flags = f"--column {shlex.quote(f'truth={best.truth}:{best.columns.form}')}"
            hint += f"; to score the others: `{flags} --allow-failed {best.missed}`"
        return DataError("E215", "\n".join([message, *shown]), where=where, hint=hint)
    missing = f"the truths name no option in {best.missed:,} of {best.total:,} rows"
    looked = listing(dict.fromkeys(str(one.truth) for one in readings))
    hint = f"name the column of the truth: `--column truth=NAME`; looked at {looked}; columns: "
    return DataError("E215", "\n".join([missing, *shown]), where=where, hint=hint + listing(rows.columns))
