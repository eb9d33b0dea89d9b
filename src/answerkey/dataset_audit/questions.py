"""The questions of a dataset: where their parts are, what they say, and what is odd about single
ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from html.entities import html5
from typing import Literal, NamedTuple, TypedDict, Unpack

import polars as pl

from answerkey.datasets import questions as ask
from answerkey.datasets.options import label_options, read_option_cell
from answerkey.datasets.recognition import recognise
from answerkey.datasets.rows import Rows
from answerkey.errors import DataError, Place, listing, refuse_column
from answerkey.scorers import StringEqualsMcqa
from answerkey.solvers import find_reference
from answerkey.templates import RowError, Template
from answerkey.types import Samples

# ------------------------------------------------------------------------------- where the parts
# are

#: How a truth names its option: by its label, its place counted from 0 or from 1, or its text; each
#: as `--column truth=NAME:FORM` says it.
TruthForm = Literal["label", "index", "number", "text"]
TRUTH_FORMS: dict[TruthForm, str] = {"label": "label", "index": "0", "number": "1", "text": "text"}


@dataclass(frozen=True)
class QuestionFields:
    """Templates for the parts of a question.

    `options` is one template that yields the list, or one for each option. `labels` yields what the
    options are called; without it they have names of their own, or letters. `shown` says where each
    part is found.
    """

    questions: tuple[Template, ...]
    options: tuple[Template, ...] = ()
    labels: Template | None = None
    names: tuple[str, ...] = ()
    truth: Template | None = None
    truth_form: TruthForm = "label"
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that are read; None for all."""
        found: frozenset[str] = frozenset()
        for template in (*self.questions, *self.options, self.labels, self.truth):
            if template is not None:
                if template.columns is None:
                    return None
                found |= template.columns
        return found


class FieldOptions(TypedDict, total=False):
    """Where the parts of a question are: columns, paths such as `question.stem`, or templates.

    `truth_form` says how a truth names its option.
    """

    question: Sequence[str]
    options: Sequence[str]
    choices: str | None
    truth: str | None
    truth_form: TruthForm | None


def find_fields(
    rows: Rows, scorer: StringEqualsMcqa | None = None, **said: Unpack[FieldOptions]
) -> QuestionFields:
    """Return where the parts are: what the caller says wins, then the scorer of a task, then usual
    names.
    """
    columns, where = rows.columns, Place(file=rows.file)

    def read(text: str) -> Template:
        """Return what the caller means."""
        if "{{" in text or "{%" in text:
            return Template.compile(text)
        path = (text,) if text in columns else tuple(text.split("."))
        if path[0] not in columns:
            raise refuse_column(f"there is no column `{path[0]}`", path[0], columns, where)
        return Template.compile("{{ sample" + "".join(f"[{step!r}]" for step in path) + " }}")

    known = ask.find_columns(tuple(columns), ask.DATASET_ROLES)
    asking = recognise(
        rows.slice(0, ask.LOOKED_AT), roles=("passage", "question"), needs_all=False
    ).columns
    found = {role: read(name) for role, name in {**known.columns, **asking}.items()}
    asked = [read(one) for one in said.get("question") or ()]
    if not asked:
        if "question" not in found:
            hint = f"name it with `--question COLUMN`; columns: {listing(columns)}"
            raise DataError("E206", "no column holds the question", where=where, hint=hint)
        asked = [found[role] for role in ("passage", "question") if role in found]
    told = scorer.templates() if scorer else {}
    names: tuple[str, ...] = ()
    cells = [read(one) for one in said.get("options") or ()]
    if not cells and (listed := told.get("options") or found.get("options")):
        cells = [listed]
    elif not cells:
        cells = [read(name) for name in known.spread]
        names = known.spread if all(len(name) == 1 for name in known.spread) else ()
    labels = read(choices) if (choices := said.get("choices")) else told.get("choices")
    labels = labels or found.get("choices")
    right = read(truth) if (truth := said.get("truth")) else told.get("ground_truth_choice")
    right = right or next(
        (found[role] for role in ("answer", "index", "key") if role in found), None
    )
    parts: dict[str, Sequence[Template | None]] = {
        "question": asked,
        "options": cells,
        "choices": [labels],
        "truth": [right],
    }
    shown = {
        name: ", ".join(_show_template(one) for one in templates if one is not None) or "none"
        for name, templates in parts.items()
    }
    form = said.get("truth_form") or "label"
    shown["truth form"] = form
    return QuestionFields(tuple(asked), tuple(cells), labels, names, right, form, shown)


def find_derived(columns: ask.QuestionColumns) -> QuestionFields:
    """Return the parts of rows that `derive` made; they are shown as the table has them."""
    names = {
        name: ", ".join([one] if isinstance(one, str) else one)
        for name, one in columns.say().items()
    }
    has = {*names, *(("options", "choices") if columns.has("options") else ())}

    def read(name: str) -> Template | None:
        return Template.compile(f"{{{{ sample.{name} }}}}") if name in has else None

    forms = {form: name for name, form in TRUTH_FORMS.items()}
    shown = {name: names.get(name, "none") for name in ("question", "options", "choices")}
    shown["question"] = ", ".join(names[one] for one in ("passage", "question") if one in names)
    shown["truth"] = columns.columns.get("truth", "none")
    shown["truth form"] = forms.get(columns.form or "label", str(columns.form))
    asked = tuple(one for one in (read("passage"), read("question")) if one)
    options = tuple(one for one in (read("options"),) if one)
    return QuestionFields(asked, options, read("choices"), truth=read("truth"), shown=shown)


def _show_template(template: Template) -> str:
    return str(template.source) if template.path is None else ".".join(map(str, template.path))


# ------------------------------------------------------------------------------- what they say

_LABELLED = re.compile(r"\s*[(\[]?([A-Z]|\d)[)\].:\u3001\uff0e]\s*")


@dataclass(frozen=True)
class Question:
    """One question. `truth` is the place of the right option, None when it cannot be told.

    `said` is the truth as the dataset writes it, None when there is none.
    """

    text: str | None
    options: tuple[str | None, ...]
    labels: tuple[str, ...]
    truth: int | None
    said: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the options, empty where there is none."""
        return tuple(one or "" for one in self.options)

    @property
    def size(self) -> int:
        """How many choices there are."""
        return max(len(self.options), len(self.labels))


@dataclass(frozen=True)
class Questions:
    """The questions of some samples: the text of each row, and all else as one of the distinct
    `parts`.

    A part is a question without its text; `codes` says which part each row has.
    """

    texts: pl.Series
    parts: Sequence[Question]
    codes: pl.Series

    def __iter__(self) -> Iterator[Question]:
        for text, code in zip(self.texts, self.codes, strict=True):
            yield replace(self.parts[code], text=text)


def read_questions(samples: Samples, fields: QuestionFields) -> Questions:
    """Return the questions of some samples."""
    templates = [*fields.options, fields.labels, fields.truth]
    columns = [template.values(samples) for template in templates if template is not None]
    codes: list[int] = []
    parts: list[Question] = []
    known: dict[str, int] = {}
    rows = zip(*columns, strict=True) if columns else [()] * len(samples)
    for row in rows:
        cells = [None if isinstance(cell, RowError) else cell for cell in row]
        code = known.setdefault(repr(cells), len(parts))
        if code == len(parts):
            parts.append(_read_part(cells, fields))
        codes.append(code)
    return Questions(
        _read_texts(samples, fields.questions), parts, pl.Series(codes, dtype=pl.UInt32)
    )


def _read_part(cells: list[object], fields: QuestionFields) -> Question:
    """Return the question that cells make, without its text: options, then labels, then the
    truth.
    """
    truth = None
    if fields.truth is not None:
        cell = cells.pop()
        truth = None if cell is None else str(cell)
    options, labels = _read_options(cells, fields)
    place = find_place(truth, labels, options, fields.truth_form)
    return Question(None, tuple(options), tuple(labels), place, truth)


def _read_texts(samples: Samples, templates: Sequence[Template]) -> pl.Series:
    """Return what is asked: texts that are not blank, one below the other.

    Null without the last of them. The question itself comes last; a passage alone asks nothing.
    """
    texts: list[str | None] = []
    for values in zip(*(template.values(samples) for template in templates), strict=True):
        lines = [str(value) for value in values if not isinstance(value, RowError | None)]
        shown = [line for line in lines if line.strip()]
        has_question = not isinstance(values[-1], RowError | None)
        texts.append("\n".join(shown) if has_question else None)
    return pl.Series("text", texts, dtype=pl.String)


def _read_options(
    cells: list[object], fields: QuestionFields
) -> tuple[list[str | None], list[str]]:
    """Return the texts of the options and what they are called.

    The last cell is that of the labels.
    """
    told = () if fields.labels is None else read_option_cell(cells.pop())[0] or ()
    if len(fields.options) == 1:
        found, names = read_option_cell(cells[0])
    else:
        found, names = [None if one is None else str(one) for one in cells], list(fields.names)
    options, named = list(found or ()), [one for one in told if one is not None]
    names = [one.strip() for one in named or names] or list(label_options(len(options)) or ())
    if not named and len(names) == len(options):
        options = strip_labels(options, names)
    return options, names


def strip_labels(options: Sequence[str | None], names: Sequence[str]) -> list[str | None]:
    """Return options without the labels that they begin with, if all do, in order: `(A)…`,
    `(B)…`.
    """
    found = [_LABELLED.match(one or "") for one in options]
    if not options or [match and match[1] for match in found] != list(names):
        return list(options)
    return [
        (one or "")[match.end() :] if match else one
        for one, match in zip(options, found, strict=True)
    ]


def find_place(
    said: str | None, labels: Sequence[str], options: Sequence[str | None], form: TruthForm
) -> int | None:
    """Return the place of the option that a truth means, None when it means none of them."""
    if said is None:
        return None
    wanted = said.strip()
    if form in ("label", "text"):
        names = list(labels) if form == "label" else [(one or "").strip() for one in options]
        return names.index(wanted) if wanted in names else None
    place = int(wanted) - (form == "number") if re.fullmatch(r"\d{1,4}", wanted) else -1
    return place if 0 <= place < max(len(options), len(labels)) else None


# ------------------------------------------------------------------------------- what is odd

#: What table tools write for an empty cell.
_EMPTY_WORDS = frozenset({"", "nan", "NaN", "null", "NULL"})
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def find_odd_texts(texts: pl.Series) -> list[int]:
    """Return the rows whose text may be odd, some of them wrongly."""
    return (texts.is_null() | texts.str.contains(_MAYBE_ODD)).arg_true().to_list()


def find_text_oddities(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield each kind of oddity of a text once, with a note; it stands before that of an option."""
    if _is_empty(text):
        yield "MISSING_QUESTION", ""
    yield from find_damage(text or "")


def find_part_oddities(question: Question) -> Iterator[tuple[str, str]]:
    """Yield each kind of oddity of a question once, with a note, whatever its text."""
    labels, truth, said = question.labels, question.truth, question.said
    found = study_options(question.options, labels)
    if _is_empty(said):
        yield "MISSING_TRUTH", ""
    elif question.size and truth is None:
        yield "TRUTH_NOT_A_CHOICE", f"{said!r}, choices {', '.join(labels)}"
    if truth is not None and truth < len(found.folded) and found.folded[truth] in found.repeated:
        yield "RIGHT_OPTION_TWICE", repr(found.folded[truth])
    yield from found.kinds.items()


class OptionFacts(NamedTuple):
    """What is found in the options of a question: kinds of oddities with notes, and which texts
    repeat.

    `lengths` is how long they are without white space around them.
    """

    kinds: dict[str, str]
    lengths: tuple[int, ...]
    folded: tuple[str, ...]
    repeated: frozenset[str]


@lru_cache(maxsize=8_192)
def study_options(options: tuple[str | None, ...], labels: tuple[str, ...]) -> OptionFacts:
    """Return what is odd about options; many rows may have the same."""
    kinds: dict[str, str] = {}
    if empty := [label for label, one in zip(labels, options, strict=False) if _is_empty(one)]:
        kinds["MISSING_OPTION"] = f"option {', '.join(empty)}"
    if options and len(options) != len(labels):
        kinds["CHOICES_DO_NOT_FIT"] = f"{len(options)} options, {len(labels)} labels"
    if max(len(options), len(labels)) == 1:
        kinds["ONE_CHOICE"] = labels[0] if labels else ""
    written = [one or "" for one in options]
    folded = tuple(map(fold_text, written))
    counts = Counter(one for one in folded if one)
    repeated = [one for one, count in counts.items() if count > 1]
    if repeated:
        kinds["DUPLICATE_OPTIONS"] = repr(repeated[0])
    texts = [one.casefold() for one in counts]
    pairs = (
        (one, other) for one in texts for other in texts if len(one) < len(other) and one in other
    )
    if nested := next(((one, other) for one, other in pairs if _is_within(one, other)), None):
        kinds["NESTED_OPTIONS"] = f"{nested[0]!r} in {nested[1]!r}"
    if options and (reference := find_reference(written, labels)) is not None:
        kinds[reference] = next((one for one in written if find_reference([one], labels)), "")
    for text in written:
        kinds = dict(find_damage(text)) | kinds
    lengths = tuple(len(one.strip()) for one in written)
    return OptionFacts(kinds, lengths, folded, frozenset(repeated))


def _is_empty(text: str | None) -> bool:
    return text is None or text.strip() in _EMPTY_WORDS


def fold_text(text: str) -> str:
    """Return a text without differences of width, white space and a full stop at its end.

    Upper and lower case stay apart: *Bb* and *bb* are two options.
    """
    return " ".join(
        (text if text.isascii() else unicodedata.normalize("NFKC", text)).split()
    ).rstrip(".")


def _is_within(inner: str, outer: str) -> bool:
    """Return whether a text stands in another as whole words."""
    if _UNSPACED.search(inner):
        return inner in outer and len(inner) > 1
    at = outer.find(inner)
    while at >= 0:
        before, after = outer[at - 1 : at], outer[at + len(inner) : at + len(inner) + 1]
        if not _joins(before, inner[0]) and not _joins(after, inner[-1]):
            return True
        at = outer.find(inner, at + 1)
    return False


def _joins(neighbour: str, end: str) -> bool:
    """Return whether a character belongs to the same word or number as the one beside it."""
    if not neighbour:
        return False
    return (neighbour.isalnum() and end.isalnum()) or neighbour in "_.,-/^'" or end in "-+"


# Damage that texts take on their way through encodings.

_ENTITY = re.compile(r"&(?:([A-Za-z]{2,8})|#\d{2,6}|#[xX][0-9a-fA-F]{2,6});")
_ODD_ASCII = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|{_ENTITY.pattern}")
#: Controls that are no line breaks, and marks that nobody sees; joiners belong to scripts and
#: emoji.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_FOREIGN_RUN = re.compile(r"[^\x00-\x7f]{2,}")
#: The first byte of a character of several, read as Latin-1; only such runs can be mojibake.
_LEAD = re.compile("[\xc2-\xf4]")
_SHOWN = 12
#: What every text has that is damaged, or that no question stands in.
_MAYBE_ODD = (
    r"^\W*(?:nan|NaN|null|NULL)?\W*$|&#?\w+;|\x{fffd}|[^\x00-\x7f][\xc2-\xf4]|[\xc2-\xf4][^\x00-\x7f]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\x{200b}\x{2060}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{feff}\x{fff9}-\x{fffb}]"
)


def find_damage(text: str) -> Iterator[tuple[str, str]]:
    """Yield each kind of damage once, with the passage that shows it."""
    if text.isascii() and not _ODD_ASCII.search(text):
        return
    broken = next(
        (run.start() for run in _FOREIGN_RUN.finditer(text) if _is_mojibake(run[0])), None
    )
    control = _CONTROL.search(text) if broken is None else None
    entities = (one for one in _ENTITY.finditer(text) if one[1] is None or f"{one[1]};" in html5)
    entity = next(entities, None)
    found = {
        "REPLACEMENT_CHARACTER": text.index("\ufffd") if "\ufffd" in text else None,
        "MOJIBAKE": broken,
        "CONTROL_CHARACTER": control and control.start(),
        "HTML_ENTITY": entity and entity.start(),
    }
    for kind, at in found.items():
        if at is not None:
            yield kind, text[max(0, at - _SHOWN) : at + _SHOWN]


def _is_mojibake(run: str) -> bool:
    """Return whether characters beyond ASCII are UTF-8 that was read as Latin-1 or Windows-1252."""
    if not _LEAD.search(run):
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            meant = run.encode(encoding).decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            continue
        return len(meant) < len(run)
    return False
