"""The extraction rules over columns of completions; and `{pattern: …}`, a regular expression of the user's.

A rule that looks at the beginning of a text gives the same for every text that begins alike. It is tried on
the distinct prefixes of the texts, which are few; only texts whose prefix does not decide are read further.
The other rules read each distinct text once.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import SupportsIndex

import polars as pl

from answerkey.errors import SpecError, listing, suggest
from answerkey.reader import (
    Reading,
    read_first_character,
    read_first_code_point,
    read_leading_label,
    read_stated_answer,
)
from answerkey.reader.characters import (
    LINE_BREAKS,
    LONGEST_CHARACTER,
    WHITE_SPACE,
    compose,
    strip_white_space,
)
from answerkey.reader.first_character import LABEL_MARKS
from answerkey.reader.stated_answer import narrow_options

#: What a column of readings looks like: the choice, or the reason why there is none.
READING_SCHEMA: dict[str, pl.DataType] = {"choice": pl.String(), "reason": pl.String()}
#: Of a rule that has parts also the part that decided, and where the passage begins and ends.
PART_SCHEMA: dict[str, pl.DataType] = {**READING_SCHEMA, "part": pl.String(), "span": pl.List(pl.Int64)}


@dataclass(frozen=True)
class ExtractionRule:
    """One way to read a choice from a text; `read_all` gives exactly what `read` gives row by row.

    Both take the texts, the choices and, in a rule that `reads_options`, the texts of the options. No text of
    a column is null. With `has_parts`, readings say which part of the rule decided, and where in the text.
    `read_own` gives the same where each text has choices of its own, a column of lists of `PRINTABLE` labels.
    """

    name: str
    read: Callable[..., Reading]
    read_all: Callable[..., pl.DataFrame]
    has_parts: bool = False
    reads_options: bool = False
    read_own: Callable[[pl.Series, pl.Series], pl.DataFrame] | None = None

    @property
    def reads_numbers(self) -> bool:
        """Whether the rule reads labels of several digits, such as 27."""
        return self.name == "stated_answer"

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """What a column of this rule's readings looks like."""
        return PART_SCHEMA if self.has_parts else READING_SCHEMA


def tabulate(readings: Iterable[Reading], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return readings as a table with these columns."""
    found = list(readings)
    columns = {name: [getattr(one, name) for one in found] for name in schema}
    return pl.DataFrame([pl.Series(name, values, schema[name]) for name, values in columns.items()])


#: Characters that are labels as they stand: ASCII, no white space.
PRINTABLE = "".join(map(chr, range(ord("!"), ord("~") + 1)))
#: ASCII characters that another character becomes in NFC.
ALIASES = {";": "\u037e", "`": "\u1fef", "K": "\u212a"}


# Reading by prefixes.

#: So few distinct prefixes are read at their longest at once; more of one size than the other are not kept.
FEW_PREFIXES, MOST_KNOWN = 64, 100_000
#: Two characters decide nearly every text, some more those that go on with a word.
PREFIX_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12)


class BeyondPrefix(Exception):  # noqa: N818 - says where a rule looked; nothing went wrong
    """A rule looked beyond the prefix of a text; `at_rest` when it asked for all the rest."""

    def __init__(self, *, at_rest: bool = False) -> None:
        super().__init__()
        self.at_rest = at_rest


class Prefix(str):
    """The beginning of a longer text: to look beyond its end raises `BeyondPrefix`."""

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """Return a part of the prefix."""
        stop = key.stop if isinstance(key, slice) else key.__index__() + 1
        if stop is None or stop > len(self):
            raise BeyondPrefix(at_rest=stop is None)
        return super().__getitem__(key)

    def lstrip(self, characters: str | None = None, /) -> str:
        """Return the prefix without these characters before it."""
        rest = super().lstrip(characters)
        if not rest:
            raise BeyondPrefix
        return Prefix(rest)


class Undecided(Enum):
    """What a prefix says of a text that it does not decide: a longer one may, or only the whole text."""

    LONGER = "longer"
    WHOLE = "whole"


#: What has been read in prefixes, for each size.
KnownPrefixes = defaultdict[int, dict[tuple[object, ...], Reading | Undecided]]


class PrefixReader:
    """Applies a rule to columns of texts, none of them null; a column of readings is one of their numbers.

    What was read in a prefix is kept in `known`, for further columns and the same rule. Where texts have
    choices of their own, these are given as `labels`, a column for each place, and the rule takes them.
    """

    def __init__(self, read: Callable[..., Reading], known: KnownPrefixes | None = None) -> None:
        self.read = read
        self.known = defaultdict(dict) if known is None else known
        self._numbers: dict[Reading | Undecided, int] = {one: number for number, one in enumerate(Undecided)}

    def read_prefixes(
        self, texts: pl.Series, sizes: Sequence[int], labels: pl.DataFrame | None = None
    ) -> pl.Series:
        """Return the number of each text's reading, by prefixes of growing sizes as far as those decide."""
        size, *further = sizes
        if len(self.known[size]) > MOST_KNOWN:
            self.known[size].clear()
        numbers = self._number(texts.str.head(size), partial(self._read_prefix, size=size), labels)
        is_open = self.find(Undecided.LONGER, numbers)
        if further and is_open.any():
            longest = texts.filter(is_open).str.head(further[-1])
            further = further[-1:] if longest.n_unique() <= FEW_PREFIXES else further
            left = None if labels is None else labels.filter(is_open)
            numbers.scatter(is_open.arg_true(), self.read_prefixes(longest, further, left))
        return numbers

    def read_whole(self, texts: pl.Series, labels: pl.DataFrame | None = None) -> pl.Series:
        """Return the number of each text's reading; equal texts are read once."""
        return self._number(texts, self.read, labels)

    def find(self, state: Undecided, numbers: pl.Series) -> pl.Series:
        """Return which texts are undecided in this way."""
        return numbers == self._numbers[state]

    def look_up(self, numbers: pl.Series) -> pl.DataFrame:
        """Return `choice` and `reason` of the readings with these numbers."""
        readings = [Reading() if isinstance(one, Undecided) else one for one in self._numbers]
        return tabulate(readings, READING_SCHEMA).select(pl.all().gather(numbers))

    def _number(
        self, texts: pl.Series, read: Callable[..., Reading | Undecided], labels: pl.DataFrame | None
    ) -> pl.Series:
        """Return the number of each text's reading; each distinct text is read once."""
        count = 0 if labels is None else labels.width
        if labels is not None:
            # A label that is not in the text does not matter to the rule, but for being there.
            plain = pl.lit(texts.str.replace_many({alias: one for one, alias in ALIASES.items()}))
            has = [pl.when(plain.str.contains(pl.lit(one), literal=True)).then(one) for one in labels]
            texts = pl.select(pl.concat_str([*(one.fill_null(_ABSENT) for one in has), texts])).to_series()
        distinct = texts.unique()
        found = [
            self._numbers.setdefault(read(text[count:], *_list_labels(text[:count])), len(self._numbers))
            for text in distinct.to_list()
        ]
        return pl.Series(found, dtype=pl.UInt32).gather(texts.cast(pl.Enum(distinct)).to_physical())

    def _read_prefix(self, prefix: str, *choices: tuple[str, ...], size: int) -> Reading | Undecided:
        known, key = self.known[size], (prefix, *choices)
        if key not in known:
            try:
                # What is shorter than asked for is no prefix but the text itself.
                known[key] = self.read(prefix if len(prefix) < size else Prefix(prefix), *choices)
            except BeyondPrefix as beyond:
                known[key] = Undecided.WHOLE if beyond.at_rest else Undecided.LONGER
        return known[key]


#: Stands for a label that is not in a text, and for what no character of a text equals.
_ABSENT, _NO_CHARACTER = " ", "no character"


def _list_labels(marked: str) -> tuple[tuple[str, ...], ...]:
    """Return the choices as a rule is given them beside a text; nothing where it has them already."""
    return (tuple(_NO_CHARACTER if one == _ABSENT else one for one in marked),) if marked else ()


def _read_first_characters(
    texts: pl.Series, choices: Sequence[str], _options: object = None, *, labels: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return what `read_first_character` reads: by prefixes, else by the whole text, equal texts once.

    With `labels`, which are the choices of each text, `choices` are all that they may be.
    """
    names = tuple(choices)
    read = read_first_character if labels is not None else partial(read_first_character, choices=names)
    reader = PrefixReader(read, _recall_prefixes(names))
    numbers = reader.read_prefixes(texts, PREFIX_SIZES, labels)
    is_label, is_open = reader.find(Undecided.WHOLE, numbers), reader.find(Undecided.LONGER, numbers)

    def read_rest(rows: pl.Series, rest: pl.Series) -> None:
        own = None if labels is None else labels.filter(rows)
        numbers.scatter(rows.arg_true(), reader.read_whole(rest, own))

    if is_label.any():
        # Of a text that begins with the first choice as a label, only the labels after it matter to the rule,
        # and they are the same for many texts.
        found = texts.filter(is_label)
        start = found.str.strip_chars_start(WHITE_SPACE).str.extract(f"^(.[^{LABEL_MARKS}]*.)")
        others = names[1:] if labels is None else names
        read_rest(is_label, start + found.str.extract_all(_write_label(others)).list.join(""))
    if is_open.any():
        read_rest(is_open, texts.filter(is_open))
    return reader.look_up(numbers)


def _read_own_choices(texts: pl.Series, choices: pl.Series) -> pl.DataFrame:
    """Return what `read_first_character` reads where each text has choices of its own."""
    sizes = choices.list.len()
    rows = [(sizes == size).arg_true() for size in sizes.unique()]
    parts = [
        _read_first_characters(
            texts.gather(one),
            PRINTABLE,
            labels=pl.DataFrame(
                [choices.gather(one).list.get(place).alias(str(place)) for place in range(size)]
            ),
        )
        for one, size in zip(rows, sizes.unique(), strict=True)
    ]
    return pl.concat(parts).with_columns(pl.concat(rows).alias("row")).sort("row").drop("row")


@lru_cache(maxsize=64)
def _recall_prefixes(choices: tuple[str, ...]) -> KnownPrefixes:  # noqa: ARG001 - the key of the cache
    return defaultdict(dict)


def _write_label(others: Sequence[str]) -> str:
    """Return the pattern of a line that may begin with another choice as a label, and of a digit after it.

    A choice beyond ASCII has many spellings; what may be one is left for the rule to see.
    """
    plain = "".join(d + ALIASES.get(d, "") for d in others if d.isascii())
    bases = "".join(unicodedata.normalize("NFD", d)[0] for d in others if not d.isascii())
    kinds = [f"[{_escape(plain)}]"] if plain else []
    if bases:
        kinds.append(rf"(?:[{_escape(bases)}]|{_BEYOND_ASCII}){_BEYOND_ASCII}{{0,{LONGEST_CHARACTER - 1}}}")
    breaks, spaces = _escape(LINE_BREAKS), _escape(WHITE_SPACE)
    return f"[{breaks}][{spaces}]*(?:{'|'.join(kinds)})[{LABEL_MARKS}](?:[0-9]|{_BEYOND_ASCII})?"


def _escape(characters: str) -> str:
    return "".join(rf"\x{{{ord(one):x}}}" for one in characters)


_BEYOND_ASCII = rf"[^\x00-\x7f{_escape(LINE_BREAKS)}]"


def _read_first_code_points(texts: pl.Series, choices: Sequence[str], _: object = None) -> pl.DataFrame:
    reader = PrefixReader(partial(read_first_code_point, choices=choices))
    return reader.look_up(reader.read_whole(texts.str.head(1)))


# Reading distinct texts.


def _read_distinct(
    texts: pl.Series, choices: Sequence[str], _options: object = None, *, read: Callable[..., Reading]
) -> pl.DataFrame:
    distinct = texts.unique(maintain_order=True)
    return _spread(texts, distinct, [read(text, choices) for text in distinct])


def _spread(texts: pl.Series, distinct: pl.Series, readings: Iterable[Reading]) -> pl.DataFrame:
    """Return the readings of distinct texts at each of the texts."""
    table = tabulate(readings, PART_SCHEMA).with_columns(distinct.alias("text"))
    found = texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return found.select(list(PART_SCHEMA))


#: Texts with one character of a word in them: if that names a choice, only an option like it can change it.
LONE_CHARACTER = r"^\W*\w\W*$"


def _read_stated_answers(
    texts: pl.Series, choices: Sequence[str], options: pl.Series | None = None
) -> pl.DataFrame:
    """Return what `read_stated_answer` reads; texts that are read alike with their options are read once."""
    if options is None:
        return _read_distinct(texts, choices, read=read_stated_answer)
    alike = options.list.eval(pl.element().str.contains(LONE_CHARACTER)).list.any()
    is_lone = texts.str.contains(LONE_CHARACTER) & ~alike.fill_null(value=False)
    lone = _read_distinct(texts.filter(is_lone), choices, read=read_stated_answer)
    is_decided = is_lone.clone()
    is_decided[is_lone.arg_true()] = lone["choice"].is_not_null()
    known: dict[tuple[str, tuple[str, ...] | None], int] = {}
    codes = [
        known.setdefault((text, narrow_options(text, choices, told) if told else None), len(known))
        for text, told in zip(texts.filter(~is_decided), options.filter(~is_decided).to_list(), strict=True)
    ]
    readings = (read_stated_answer(text, choices, told) for text, told in known)
    paired = tabulate(readings, PART_SCHEMA)[pl.Series(codes, dtype=pl.UInt32)]
    order = pl.concat([is_decided.arg_true(), (~is_decided).arg_true()]).alias("row")
    both = pl.concat([lone.filter(lone["choice"].is_not_null()), paired])
    return both.with_columns(order).sort("row").drop("row")


# A regular expression of the user's own, matched in linear time.

_HINT = "write it in RE2 syntax, with one group around the choice: `answer is \\(?([A-D])\\)?`"


def _read_pattern(text: str, choices: Sequence[str], _options: object = None, *, pattern: str) -> Reading:
    """Return the choice that the first match names, or why there is none."""
    # A lone surrogate is no text that Polars holds; it is replaced by one character, so that places stay.
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return next(iter(_match_all(pl.Series([plain]), tuple(choices), pattern)))


def _read_patterns(
    texts: pl.Series, choices: Sequence[str], _options: object = None, *, pattern: str
) -> pl.DataFrame:
    distinct = texts.unique(maintain_order=True)
    return _spread(texts, distinct, _match_all(distinct, tuple(choices), pattern))


def _match_all(texts: pl.Series, choices: tuple[str, ...], pattern: str) -> Iterable[Reading]:
    whole, group = (texts.str.extract(pattern, number) for number in (0, 1))
    # In any case, when no two choices differ only by case.
    folded = {choice.lower(): choice for choice in choices}
    folded = folded if len(folded) == len(choices) else {}
    for said, match, name, offset in zip(texts, whole, group, texts.str.find(pattern), strict=True):
        if not said.strip(WHITE_SPACE):
            yield Reading(reason="EMPTY")
        elif match is None or name is None or offset is None:
            yield Reading(reason="NOTHING_STATED")
        else:
            begin = offset if said.isascii() else len(said.encode()[:offset].decode())
            bare = compose(strip_white_space(name))
            choice = bare if bare in choices else folded.get(bare.lower())
            yield Reading(choice, None if choice else "NOT_A_CHOICE", (begin, begin + len(match)))


RULES: dict[str, ExtractionRule] = {
    rule.name: rule
    for rule in (
        ExtractionRule(
            "first_character", read_first_character, _read_first_characters, read_own=_read_own_choices
        ),
        ExtractionRule("first_character_literal", read_first_code_point, _read_first_code_points),
        ExtractionRule(
            "leading_label",
            read_leading_label,
            partial(_read_distinct, read=read_leading_label),
            has_parts=True,
        ),
        ExtractionRule(
            "stated_answer", read_stated_answer, _read_stated_answers, has_parts=True, reads_options=True
        ),
    )
}


def find_rule(extraction: object) -> ExtractionRule:
    """Return the rule with this name or pattern, or raise a SpecError that names those there are.

    A pattern is a regular expression with exactly one group. A `fallback` beside them is no part of the rule.
    """
    written = extraction
    if isinstance(extraction, Mapping) and "fallback" in extraction:
        if not isinstance(extraction["fallback"], str) or not extraction["fallback"].strip():
            message = f"`fallback` must name a model, not {extraction['fallback']!r}"
            raise SpecError("E108", message, hint="leave it out to ask none")
        extraction = {name: value for name, value in extraction.items() if name != "fallback"}
    if isinstance(extraction, Mapping) and set(extraction) == {"rule"}:
        extraction = extraction["rule"]
    if isinstance(extraction, str) and extraction in RULES:
        return RULES[extraction]
    if isinstance(extraction, Mapping) and set(extraction) == {"pattern"}:
        pattern = extraction["pattern"]
        if not isinstance(pattern, str):
            raise SpecError("E108", f"`pattern` must be text, not {pattern!r}", hint=_HINT)
        try:
            groups = pl.select(pl.lit("").str.extract_groups(pattern)).to_series().struct.fields
        except pl.exceptions.ComputeError as error:
            why = str(error).rstrip().splitlines()[-1].removeprefix("error: ").removeprefix("regex error: ")
            message = f"`pattern` {pattern!r} is not a regular expression: {why}"
            raise SpecError("E108", message, hint=_HINT) from None
        if len(groups) != 1:
            message = f"`pattern` {pattern!r} has {len(groups)} groups, and needs exactly one"
            raise SpecError("E108", message, hint=f"{_HINT}; further brackets are written `(?:…)`")
        read, read_all = partial(_read_pattern, pattern=pattern), partial(_read_patterns, pattern=pattern)
        return ExtractionRule("pattern", read, read_all, has_parts=True)
    near = suggest(extraction, RULES) if isinstance(extraction, str) else None
    known = (
        f"extraction rules: {listing(RULES)}, and `{{pattern: …}}` with a regular expression;"
        " `{rule: …, fallback: MODEL}` has a model read the rest"
    )
    message = f"unknown extraction rule {written!r}"
    raise SpecError("E108", message, hint=f"{near} {known}" if near else known)
