"""Choices and truth of every row, as `string_equals_mcqa` reads them, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import polars as pl

from answerkey.errors import listing
from answerkey.scorers.base import RowProblem
from answerkey.scorers.choices import Choices, Truth, check_truth, parse_choices, parse_truth
from answerkey.scorers.row_faults import FieldFault, RowFault, name_column, report_faults
from answerkey.templates import Distinct, RowTrouble, Template
from answerkey.types import Notice, Samples


@dataclass(frozen=True)
class Pair:
    """Choices and truth as some rows have them, or the faults that keep those rows from being scored."""

    choices: tuple[str, ...] | None
    truth: str | None
    faults: tuple[FieldFault, ...]
    is_trimmed: Mapping[str, bool]


@dataclass(frozen=True)
class ResolvedRows:
    """The pairs of choices and truth, and for each row the position of its pair; some pairs have no row.

    `cells` are the columns of fields that hold in every row just what is read there. `options` holds the rows
    on which the template of the option texts fails.
    """

    pairs: list[Pair]
    codes: pl.Series
    options: Mapping[int, FieldFault]
    cells: Mapping[str, pl.Series]

    def faults(self) -> Iterator[tuple[int, FieldFault]]:
        """Yield the faulty rows with each of their faults, in order."""
        bad = self.choose(lambda pair: bool(pair.faults), pl.Boolean()).arg_true().to_list()
        for position in sorted({*bad, *self.options}):
            yield from ((position, one) for one in self.pairs[self.codes[position]].faults)
            if position in self.options:
                yield position, self.options[position]

    def choose(self, pick: Callable[[Pair], object], dtype: pl.DataType) -> pl.Series:
        """Return one value per row, picked from its pair."""
        return pl.Series([pick(pair) for pair in self.pairs], dtype=dtype).gather(self.codes)

    @property
    def truths(self) -> pl.Series:
        """The ground truth of each row; null where there is none."""
        cells = self.cells.get("ground_truth_choice")
        return self.choose(lambda pair: pair.truth, pl.String()) if cells is None else cells

    @property
    def choices(self) -> pl.Series:
        """The choices of each row; null where there are none."""
        cells = self.cells.get("choices")
        return self.choose(lambda pair: pair.choices, pl.List(pl.String)) if cells is None else cells


#: More combinations of choices and truths than this are only looked at if there are rows with them.
MOST_PAIRS = 256


def resolve_rows(templates: Mapping[str, Template], samples: Samples) -> ResolvedRows:
    """Return choices and truth of every row; distinct values are parsed once."""
    options = _find_option_faults(templates, samples)
    names = [name for name in ("choices", "ground_truth_choice") if name in templates]
    fields = {name: templates[name].distinct(samples) for name in names}
    read = {name: [_read_value(name, value) for value in one.values] for name, one in fields.items()}
    combinations, codes = _combine([fields[name] for name in names], len(samples))
    pairs = [
        _build_pair({name: read[name][code] for name, code in zip(names, combination, strict=True)})
        for combination in combinations
    ]
    cells: dict[str, pl.Series] = {}
    for name in names:
        series = templates[name].series(samples) if _is_clean(read[name], fields[name]) else None
        cells |= {} if series is None or series.dtype != _DTYPES[name] else {name: series}
    return ResolvedRows(pairs, codes, options, cells)


_DTYPES: dict[str, pl.DataType] = {"choices": pl.List(pl.String), "ground_truth_choice": pl.String()}


def _combine(fields: Sequence[Distinct], height: int) -> tuple[list[tuple[int, ...]], pl.Series]:
    """Return combinations of codes, one from each field, and which of them each row has."""
    sizes = [len(one.values) for one in fields]
    codes = pl.zeros(height, pl.UInt32, eager=True)
    if math.prod(sizes) <= MOST_PAIRS:
        for field, size in zip(fields, sizes, strict=True):
            codes = codes * size + field.codes
        return list(product(*map(range, sizes))), codes
    frame = pl.DataFrame([one.codes.alias(str(place)) for place, one in enumerate(fields)])
    distinct = frame.unique(maintain_order=True).with_row_index("pair")
    found = frame.join(distinct, on=frame.columns, how="left", maintain_order="left")["pair"]
    return distinct.drop("pair").rows(), found


def _is_clean(read: Sequence[object], distinct: Distinct) -> bool:
    """Say whether cells hold just what is read there: nothing to trim, to compose or to parse, no faults."""
    return all(_spell(one) == value for one, value in zip(read, distinct.values, strict=True))


def _spell(read: object) -> object:
    if isinstance(read, Choices):
        return list(read.names)
    return read.name if isinstance(read, Truth) else read


def _find_option_faults(templates: Mapping[str, Template], samples: Samples) -> dict[int, FieldFault]:
    """Return the rows on which `options` fails; apart from the pairs, since every row has its own texts."""
    template = templates.get("options")
    if template is None or template.series(samples) is not None:
        return {}
    values = enumerate(template.values(samples))
    return {
        row: FieldFault.from_trouble("options", one) for row, one in values if isinstance(one, RowTrouble)
    }


def find_faults(values: Mapping[str, object]) -> tuple[FieldFault, ...]:
    """Return what is wrong with these values of the fields `choices` and `ground_truth_choice`."""
    return _build_pair({name: _read_value(name, value) for name, value in values.items()}).faults


def _read_value(name: str, value: object) -> object:
    """Return the parsed value of a field, or its `FieldFault`."""
    if isinstance(value, RowTrouble):
        return FieldFault.from_trouble(name, value)
    try:
        return parse_choices(value) if name == "choices" else parse_truth(value)
    except RowFault as fault:
        return FieldFault(name, fault)


def _build_pair(read: Mapping[str, object]) -> Pair:
    choices, truth = read.get("choices"), read.get("ground_truth_choice")
    faults = [one for one in (choices, truth) if isinstance(one, FieldFault)]
    names = choices.names if isinstance(choices, Choices) else None
    name = truth.name if isinstance(truth, Truth) else None
    if names is not None and name is not None:
        try:
            check_truth(name, names)
        except RowFault as fault:
            faults.append(FieldFault("ground_truth_choice", fault))
    trimmed = {field: value.is_trimmed for field, value in read.items() if isinstance(value, Choices | Truth)}
    return Pair(names, name, tuple(faults), trimmed)


def report_rows(
    rows: ResolvedRows, templates: Mapping[str, Template], samples: Samples
) -> tuple[list[RowProblem], list[Notice]]:
    """Return an error for every faulty row, and a notice for every field whose values were trimmed."""
    faulty = list(rows.faults())
    problems = report_faults(faulty, templates, samples)
    return problems, list(_find_trimmed(rows, templates, samples))


def _is_trimmed(field: str, pair: Pair) -> bool:
    return pair.is_trimmed.get(field, False)


def _find_trimmed(
    rows: ResolvedRows, templates: Mapping[str, Template], samples: Samples
) -> Iterator[Notice]:
    for name, template in templates.items():
        columns = _list_columns(template)
        trimmed = rows.choose(partial(_is_trimmed, name), pl.Boolean())
        if columns and trimmed.any():
            noun = "choices" if name == "choices" else "ground truths"
            word = "column" if len(columns) == 1 else "columns"
            yield Notice(
                f"white space around {noun} in {word} {listing(columns)} is ignored",
                where=samples.place(int(trimmed.arg_true()[0]), columns[0] if len(columns) == 1 else None),
                hint="clean the cells to be rid of this warning",
            )


def _list_columns(template: Template) -> list[str]:
    """Return the columns whose cells a template hands on; none when text of its own stands around them."""
    column = name_column(template)
    if column is not None:
        return [column]
    source = str(template.source).strip()
    is_lone = source.startswith("{{") and source.endswith("}}") and source.count("{{") == 1
    return sorted(template.columns or ()) if is_lone else []
