"""Questions in tables: which columns hold question, options and truth, and how their cells spell them.

`recognise` tells it from all rows of a table; `QuestionColumns.derive` adds columns that every task can read.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Any

import polars as pl

from answerkey.datasets.columns import fill_column
from answerkey.datasets.rows import ID_COLUMN, Rows, get_inside, read_cells, split_name
from answerkey.errors import DataError, Place, listing, refuse_column
from answerkey.text import parse_python
from answerkey.types import OPTION_TEXT_KEYS, Samples

Texts = tuple[str, ...]
Cells = pl.Series | list[object]
_TEXT_LISTS = pl.List(pl.String)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked. `choices` are the labels, `options` their texts in the same order.

    `truth` is a label where one can be told, else what the table says. `original` is the row as it was, for
    whoever wants more of it.
    """

    question: str | None = None
    choices: Texts | None = None
    options: Texts | None = None
    truth: str | None = None
    category: str | None = None
    original: Mapping[str, object] = field(default_factory=dict)
    passage: str | None = None


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_LIST = 100_000
#: A list of texts as NumPy prints it, without commas: Python would read a single text.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
#: What a list of options says of each, where it says more than the text.
_TEXT_KEYS, _LABEL_KEYS = OPTION_TEXT_KEYS, ("label", "key", "id", "letter")
_MARK_KEYS = ("is_correct", "correct", "isCorrect")


def write_cell(value: object) -> str | None:
    """Return a text, or a number as text; None for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_option_cell(cell: object) -> tuple[list[str | None] | None, list[str]]:
    """Return the texts of a list of options, and their labels where it has any; None for what is no list.

    A list of texts, of mappings with text and label, a mapping of both lists, of label to text, or of text to
    a mark (0 or 1), or JSON or a Python literal of any of these.
    """
    if isinstance(cell, list) and set(map(type, cell)) == {str}:
        return cell, []
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if cell is None:
        return None, []
    if isinstance(cell, Mapping):
        texts, labels = _pick(cell, _TEXT_KEYS), _pick(cell, _LABEL_KEYS)
        if isinstance(texts, list | tuple):
            named = [str(one) for one in labels] if isinstance(labels, list | tuple) else []
            return [None if one is None else str(one) for one in texts], named
        if read_mark(cell) is not None and not take_labels([*map(str, cell)]):
            return [*map(str, cell)], []
        if all(value is None or isinstance(value, str | int | float) for value in cell.values()):
            pairs = [(str(name), str(value)) for name, value in cell.items() if value is not None]
            return [text for _, text in pairs], [name for name, _ in pairs]
        return None, []
    if not isinstance(cell, list | tuple):
        return None, []
    listed: list[object] = list(cell)
    labels = []
    if cell and all(isinstance(one, Mapping) for one in cell):
        listed, labels = ([_pick(one, keys) for one in cell] for keys in (_TEXT_KEYS, _LABEL_KEYS))
    texts = [None if one is None else str(one) for one in listed]
    return texts, [str(one) for one in labels if one is not None]


def read_mark(cell: object) -> int | None:
    """Return the place of the one option that is marked as right; None where not exactly one is.

    Marks are a list of 0 and 1 (or true and false), the values of a mapping, or fields of listed mappings.
    """
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if isinstance(cell, Mapping):
        cell = list(cell.values())
    if not isinstance(cell, list | tuple):
        return None
    marks = [_pick(one, _MARK_KEYS) if isinstance(one, Mapping) else one for one in cell]
    is_marked = all(isinstance(one, int) and one in {0, 1} for one in marks) and marks.count(1) == 1
    return marks.index(1) if is_marked else None


def _pick(cell: Mapping[str, object], names: Sequence[str]) -> object:
    return next((cell[name] for name in names if name in cell), None)


def _parse_list(text: str) -> object:
    """Return what JSON or Python reads in the text of a list or a mapping; None for other texts."""
    bare = text.strip()
    if bare[:1] not in {"[", "(", "{"} or len(text) > _LONGEST_LIST:
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(bare)
    printed = _QUOTED.findall(bare)
    is_printed = len(printed) > 1 and not _QUOTED.sub("", bare).strip("[] \t\r\n")
    with suppress(ValueError):
        return [*map(parse_python, printed)] if is_printed else parse_python(bare)
    return None


def read_texts(value: object) -> Texts | None:
    """Return a list of texts: a list, a mapping's values, or JSON or a Python literal of either."""
    if value is None:
        return None
    if isinstance(value, str):
        value = _parse_list(value)
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple) or not value:
        return None
    return tuple(map(str, value)) if all(isinstance(one, str | int | float) for one in value) else None


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────

#: The labels of a log's options that have none: letters, then digits, as other tools go on after `Z`.
LABELS = (*string.ascii_uppercase, *"123456789", *string.ascii_lowercase)
#: The labels of a data file's options: letters, or numbers where there are more options than letters.
_LETTERS = tuple(string.ascii_uppercase)
MOST_OPTIONS = 1_000
_NUMBERS = tuple(map(str, range(1, MOST_OPTIONS + 1)))
#: Marks around a label: `(B)`, `B.`, `**B**`.
_WRAPPED_LABEL = r"[\s(\[{*_\"'`]*(\d{1,4}|[A-Za-z])[\s)\]}*_\"'`.:]*"
_WRAPPED = re.compile(_WRAPPED_LABEL)
_WRAPPED_NUMBER = r"^[(\[]?(\d{1,4})(?:\.0+)?[)\].:]?$"


def label_options(count: int) -> Texts | None:
    """Return a label for each of `count` options; None for more than there are labels, and for none."""
    return LABELS[:count] if 0 < count <= len(LABELS) else None


def take_labels(texts: Sequence[str], *, counting: bool = False) -> Texts | None:
    """Return texts that are themselves labels: distinct single characters, or 1, 2, …; None for others.

    With `counting` only those that count: `A`, `B`, …, or `a`, `1` or `0`, …; others may be options.
    """
    found = tuple([text.strip() for text in texts])
    if found and found == _NUMBERS[: len(found)]:
        return found
    if set(map(len, found)) != {1} or len(set(found)) != len(found):
        return None
    rows = (LABELS, string.ascii_lowercase, "123456789", string.digits)
    return found if not counting or any(found == tuple(row[: len(found)]) for row in rows) else None


def find_label(
    value: object, choices: Sequence[str] | None, options: Sequence[str] | None, *, by_index: bool = False
) -> str | None:
    """Return the label that a value means: a label, also in brackets; a place; or the text of one option.

    A whole number, also as text, is a place from 0 on with `by_index`; otherwise only where it is no label.
    None when nothing fits, or more than one option does.
    """
    if choices is None or value is None or isinstance(value, bool):
        return None
    digits = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    is_place = digits.isascii() and digits.isdigit() and len(digits) <= len(str(len(choices)))
    at_place = choices[int(digits)] if is_place and int(digits) < len(choices) else None
    if at_place is not None and by_index:
        return at_place
    text = str(value).strip()
    if text in choices:
        return text
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped and wrapped[1] in choices:
        return wrapped[1]
    same = [at for at, option in enumerate(options or ()) if option.strip() == text]
    return choices[same[0]] if len(same) == 1 and same[0] < len(choices) else at_place


def find_truth(target: object, choices: Sequence[str] | None, options: Sequence[str] | None) -> str | None:
    """Return a truth, or several joined by commas: labels where they are some."""
    wanted = target if isinstance(target, list) else [target]
    found = [find_label(one, choices, options) or write_cell(one) for one in wanted]
    return ",".join(one for one in found if one) or None


# ── options in a text ───────────────────────────────────────────────────────────────────────────────────────

#: A line that shows an option: `A) one`, `(B) two`, `C. three`; also with the wide marks of East Asia.
_OPTION = re.compile(r"\n[ \t]*[(\[\uff08]?([A-Z])[)\].:\uff09\uff0e\uff1a\u3001][ \t]*(?=\S)")
#: Options without letters, and the word above options.
_BULLETS = re.compile(r"\noptions:[ \t]*(?P<options>(?:\n[ \t]*- [^\n]+)+)\s*\Z", re.IGNORECASE)
_HEADING = re.compile(r"(?:^|\n)[ \t]*(?:answer )?(?:options|choices):?[ \t]*\Z", re.IGNORECASE)
#: Options stand at the end of a prompt; no more of it is searched.
_SEARCHED = 100_000
_FEWEST = 2


def find_shown(prompt: str | None) -> Question:
    """Return the question of a prompt with its last options that are lettered from A on.

    Options before them belong to worked examples. A prompt without any is the question as a whole.
    """
    before, options = find_lettered(prompt or "")
    return Question(prompt) if options is None else Question(before.strip(), LABELS[: len(options)], options)


def find_lettered(prompt: str) -> tuple[str, Texts | None]:
    """Return what stands before the last options of a prompt that are lettered from A on, and these."""
    text = f"\n{prompt[-_SEARCHED:]}"
    found: list[re.Match[str]] = []
    at = end = len(text)
    while len(found) < _FEWEST:  # from the end: worked examples have options, too
        if (at := text.rfind("A", 0, at)) < 0:
            return prompt, None
        at = text.rfind("\n", 0, at)
        if (first := _OPTION.match(text, at)) is None or first[1] != "A":
            continue
        places = enumerate(_OPTION.finditer(text, at, end))
        found = [one for _, one in takewhile(lambda pair: pair[1][1] == LABELS[pair[0]], places)]
        end = at
    last = text.find("\n", found[-1].end())
    ends = [one.start() for one in found[1:]]
    ends.append(len(text) if last < 0 else last)
    options = [text[one.end() : end].strip() for one, end in zip(found, ends, strict=True)]
    return prompt[: len(prompt) + 1 - len(text) + found[0].start()], tuple(options)


def _split_question(text: str | None) -> tuple[str | None, list[str] | None]:
    """Return a question without the options at its end, and these; None when there are none."""
    if bullets := _BULLETS.search(text or ""):
        listed = (one.strip().removeprefix("- ").strip() for one in bullets["options"].split("\n"))
        return (text or "")[: bullets.start()].strip(), [*filter(None, listed)]
    shown = find_shown(text)
    return _HEADING.sub("", shown.question or "").strip() or text, list(shown.options or ()) or None


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────

#: What a column may be, and the names by which it is known, the likeliest first; case and marks between words
#: do not count. A column is one thing only: that of the first role that knows it.
NAMES: dict[str, Texts] = {
    role: tuple(names.split())
    for role, names in {
        "passage": "passage context article story narrative paragraph background flores_passage support "
        "premise",
        "id": "sample_id custom_id question_id id qid doc_id index idx example_id record_id uuid",
        "question": "question question_text question_stem stem query problem input prompt sentence ctx goal "
        "startphrase sent1 text questions",
        "options": "options endings candidates alternatives option_texts choices answers answer_choices "
        "answer_options mc1_targets",
        "choices": "choices choice_labels option_labels labels letters",
        "answer": "answer answer_key correct_answer ground_truth groundtruth truth label target gold "
        "correct_option cop correct_choice answer_choice best_answer right_answer letter",
        "index": "answer_index correct_index label_index answer_idx groundtruth_answer correct_answer_num "
        "correct_answer_index correct_idx gold_index gold_label",
        "key": "correct key answers labels mc1_targets",
        "completion": "completion output response model_output model_outputs generated_text reply raw_output "
        "model_response generation prediction_text",
        "category": "category subject topic domain subset task subject_name high_level_domain subdomain",
        "trial": "trial epoch repeat",
        "score": "their_score score is_correct correct acc exact_match",
        "predicted": "their_answer pred prediction predicted predicted_answer extracted_answer extracted "
        "parsed_answer model_answer",
    }.items()
}
#: Roles of the truth, by how sure their names are; the caller calls it `truth`.
TRUTH_ROLES = ("answer", "index", "key")
#: What a row says of the question alone; of a question with a passage and its truth; of a log.
QUESTION_ROLES = ("question", "options", "choices", "answer", "index", "category")
DATASET_ROLES = ("passage", "id", "question", "options", "choices", *TRUTH_ROLES, "completion", "category")
LOG_ROLES = tuple(role for role in NAMES if role not in {"passage", "key"})
#: What the caller, or a dataset file, may say of a table.
SAID_ROLES = ("question", "passage", "options", "choices", "truth", "category", "id", "completion")
#: How a truth names its option, and what that is called.
FORMS = {
    "label": "label",
    "0": "index from 0",
    "1": "index from 1",
    "text": "text of the option",
    "flag": "mark at the option",
    "yes": "yes or no",
    "true": "true or false",
}
#: What may separate options that are one text.
_SEPARATORS = ("|", ";", "/", "\n")
#: The options of questions that have none but yes and no.
SAID_OPTIONS = {"yes": ["Yes", "No"], "true": ["True", "False"]}
#: So many rows are looked at where no more need be known than what a table shows people.
LOOKED_AT = 2_000
#: Options in columns of their own: `A`, `B`, …; `option_a`, …; `choice1`, …
_NUMBERED = re.compile(
    r"(?P<stem>|option|choice|(?:mc_?)?answer|ending|opt?|sol)[_ ]?(?P<place>[a-z]|\d{1,2})", re.IGNORECASE
)
#: An option that begins with a label: `(A) one`.
_LABELLED = r"\s*[(\[]?([A-Z]|\d)[)\].:\u3001\uff0e]\s*"
#: So many rows show what kind of cells a column has.
FIRST_ROWS = 50


@lru_cache(1_024)
def fold_name(name: str) -> str:
    """Return a name without differences of case and of marks between words."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name


FOLDED = {role: tuple(map(fold_name, names)) for role, names in NAMES.items()}
_FOLDED_OPTIONS = frozenset(FOLDED["options"])


@dataclass(frozen=True)
class QuestionColumns:
    """The columns of a table by what they are; `spread` are those that hold the options, where several do.

    A truth names its option in a `form`. `unfolded` are columns that hold a list with an element for each
    question of a row. `separator` stands between options that are one text. With `is_relabelled`, letters
    stand for the labels of some rows, which are longer.
    """

    columns: Mapping[str, str]
    spread: Texts = ()
    form: str | None = None
    unfolded: Texts = ()
    separator: str = ""
    is_relabelled: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, said: Mapping[str, str | Sequence[str]], rows: Rows) -> QuestionColumns:
        """Return what the caller, or a dataset file, says of a table; E206 for a column that it has not.

        A truth may end with its form (`answer:0`, or `:0` for any column), options with what separates them
        (`options:|`). They may be several columns, with commas or as a list; the exact column comes first.
        """
        columns: dict[str, str] = {}
        spread: Texts = ()
        form, separator = None, ""
        for role, text in said.items():
            name, _, last = str(text).rpartition(":")
            if role == "truth" and last in FORMS and not has_column(rows, str(text)):
                form = last
                columns |= {role: name} if name else {}
            elif role == "options" and last in _SEPARATORS and has_column(rows, name):
                columns[role], separator = name, last
            elif role == "options" and (not isinstance(text, str) or not has_column(rows, text)):
                spread = tuple(text.split(",") if isinstance(text, str) else text)
            else:
                columns[role] = str(text)
        for role, name in (*columns.items(), *(("options", one) for one in spread)):
            if not has_column(rows, name):
                message = f"{role}: there is no column `{name}`"
                raise refuse_column(message, name, rows.columns, Place(file=rows.file))
        return cls(columns, spread, form, find_unfolded(rows, columns, spread), separator)

    def say(self) -> dict[str, str | list[str]]:
        """Return what a dataset file says of the table."""
        said: dict[str, str | list[str]] = dict(self.columns)
        said |= {"options": list(self.spread)} if self.spread else {}
        said |= {"options": f"{self.columns['options']}:{self.separator}"} if self.separator else {}
        said |= {"truth": f"{self.columns['truth']}:{self.form}"} if self.form else {}
        return {role: said[role] for role in SAID_ROLES if role in said}

    def describe(self) -> str:
        """Return what is what, for people."""
        parts = {role: listing([one] if isinstance(one, str) else one) for role, one in self.say().items()}
        if self.form:
            parts["truth"] = f"`{self.columns['truth']}` ({FORMS[self.form]})"
        if self.columns.get("options", "") == self.columns.get("question"):
            parts["options"] = "in the question"
        elif self.is_shuffled:
            parts["options"] += " (shuffled)"
        if self.is_relabelled:
            parts["choices" if "choices" in parts else "options"] += " (labels shown as A, B, …)"
        told = ", ".join(f"{role} {one}" for role, one in parts.items())
        return f"{told}, several questions in a row" if self.unfolded else told

    @property
    def is_shuffled(self) -> bool:
        """Whether the table says which option is the right one by where it stands."""
        return self.columns.get("truth") in self.spread or self.form == "flag"

    @cached_property
    def taken(self) -> frozenset[str]:
        """The columns that are read, those that hold a field that is read included."""
        steps = (name.split(".") for name in (*self.columns.values(), *self.spread))
        return frozenset(".".join(one[: end + 1]) for one in steps for end in range(len(one)))

    def cell(self, row: Mapping[str, object], role: str) -> object:
        """Return what a row has in a role; None where there is nothing. A dotted name reaches into a cell."""
        name = self.columns.get(role)
        return None if name is None else row[name] if name in row else get_inside(row, name)

    def text(self, row: Mapping[str, object], role: str) -> str | None:
        """Return the text, or the number as text, that a row has in a role."""
        return write_cell(self.cell(row, role))

    def read_question(self, row: Mapping[str, object], taken: frozenset[str] | None = None) -> Question:
        """Return what a row asks; what is in no column that is `taken` goes to `original`."""
        stated = read_texts(self.cell(row, "choices"))
        found, names = read_option_cell(self.cell(row, "options"))
        options = tuple([one or "" for one in found]) if found else None
        if options is None:  # columns of their own, up to the first that is empty
            texts = (write_cell(row.get(name)) or "" for name in self.spread)
            options = tuple(takewhile(str.strip, texts)) or None
        choices = take_labels(stated or names)
        if options is not None and (choices is None or len(choices) != len(options)):
            choices = label_options(len(options))
            if tuple(map(str.strip, options)) == choices:  # a list of letters says what may be answered
                options = None
        truth = find_label(self.cell(row, "answer"), choices, options)
        if truth is None and "index" in self.columns:
            truth = find_label(self.cell(row, "index"), choices, options, by_index=True)
        left = self.taken if taken is None else taken
        return Question(
            question=self.text(row, "question"),
            choices=choices,
            options=options,
            truth=truth or self.text(row, "answer") or self.text(row, "index"),
            category=self.text(row, "category"),
            original={name: cell for name, cell in row.items() if name not in left and cell is not None},
            passage=self.text(row, "passage"),
        )

    def has(self, role: str) -> bool:
        """Return whether the table has a part."""
        return role in self.columns or (role == "options" and bool(self.spread or self.form in SAID_OPTIONS))

    def derive(self, samples: Samples) -> Samples:
        """Return rows with a column for each part: `question`, `options`, `choices`, `truth` and so on.

        Several questions in a row become a row each. `options` are texts; `choices` are labels: those of the
        table, or letters; `truth` is one of them, or what the table says where that names none. Options of
        which the table says by their place which is the right one are shuffled. A column of the table with
        one of these names is replaced.
        """
        rows, numbers = self.unfold(samples)
        new: dict[str, Cells] = {
            role: to_texts(self._cells(rows, role))
            for role in ("question", "passage", "category")
            if role in self.columns
        }
        frame = self.read_options(rows) if self.has("options") else None
        if frame is not None:
            new |= {name: frame[name] for name in frame.columns if name != "names"}
        elif "choices" in self.columns:
            new["choices"] = _to_options(self._cells(rows, "choices"))[0]
        if "truth" in self.columns:
            new["truth"] = said = self.read_truth(rows)
            if frame is not None:
                options, places = frame["options"], self.find_places(frame, rows)
                if self.is_shuffled:
                    options, places = _shuffle(to_texts(new["question"]), options, places)
                table = pl.DataFrame([frame["choices"], places.alias("place"), said.alias("said")])
                named = pl.col("choices").list.get("place", null_on_oob=True)
                truth = table.select(pl.coalesce(named, "said")).to_series()
                new |= {"options": options, "truth": truth}
        if "id" in self.columns:
            own = to_texts(self._cells(rows, "id"))
            new[ID_COLUMN] = own if numbers is None else own + "-" + numbers.cast(pl.String)
        if "completion" in self.columns:
            new["completion"] = self._cells(rows, "completion")
        encoded = rows.encoded.difference(new)
        for name, cells in new.items():
            if not isinstance(cells, pl.Series):
                new[name], encoded = fill_column(name, cells, None), encoded | {name}
        added = [pl.Series(name, cells) for name, cells in new.items()]
        return replace(rows, frame=rows.frame.with_columns(added), encoded=encoded)

    def _cells(self, samples: Samples, role: str) -> Cells:
        return read_column(samples, self.columns[role])

    def read_truth(self, samples: Samples) -> pl.Series:
        """Return what the table says of the truth, as text; null where it says nothing.

        Several truths of one question are joined by commas, and so name no option.
        """
        cells = self._cells(samples, "truth")
        if not isinstance(cells, pl.Series) or cells.dtype.is_nested():
            cells = [_join_truths(cell) for cell in list_cells(cells)]
        return to_texts(cells).str.strip_chars().replace("", None)

    def unfold(self, samples: Samples) -> tuple[Samples, pl.Series | None]:
        """Return a row for each question, and its index within its own row; None where none is nested.

        A row without any question stays one; E202 for lists of a row that are not equally long.
        """
        if not self.unfolded:
            return samples, None
        lists = {name: samples.values(name) for name in self.unfolded}
        sizes = [len(one) if isinstance(one, list) and one else 1 for one in lists[self.unfolded[0]]]
        rows = samples.take([row for row, size in enumerate(sizes) for _ in range(size)])
        new = []
        for name, cells in lists.items():
            flat: list[object] = []
            for row, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
                parts = cell if isinstance(cell, list) and cell else [None]
                if len(parts) != size:
                    message = f"`{name}` has {len(parts)} elements, and `{self.unfolded[0]}` has {size}"
                    raise DataError("E202", message, where=samples.place(row, name))
                flat += parts
            dtype: Any = samples.frame.schema[name]
            is_encoded = name in samples.encoded
            new.append(fill_column(name, flat, None) if is_encoded else pl.Series(name, flat, dtype.inner))
        numbers = pl.Series([number for size in sizes for number in range(1, size + 1)])
        return replace(rows, frame=rows.frame.with_columns(new)), numbers

    def read_options(self, samples: Samples) -> pl.DataFrame:
        """Return the `options` of each row, their `choices`, and as `names` the labels that the table states.

        `question` is there, too, where options were taken out of it.
        """
        labels = None
        if self.spread:
            texts = _join_options([read_column(samples, name) for name in self.spread])
        elif "options" not in self.columns:
            texts = pl.Series([SAID_OPTIONS[str(self.form)]] * len(samples), dtype=_TEXT_LISTS)
        elif self.columns["options"] == self.columns.get("question"):
            split = [_split_question(one) for one in to_texts(self._cells(samples, "question"))]
            asked = pl.Series("question", [one for one, _ in split], dtype=pl.String)
            return _name_options(pl.Series([one for _, one in split], dtype=_TEXT_LISTS)).with_columns(asked)
        elif self.separator:
            parts = to_texts(self._cells(samples, "options")).str.split(self.separator)
            texts = _fill_texts(parts.list.eval(pl.element().str.strip_chars()))
        else:
            texts, labels = _to_options(self._cells(samples, "options"))
        too_many = (texts.list.len() > MOST_OPTIONS).arg_true()
        if len(too_many):
            count, where = len(texts[too_many[0]]), samples.place(too_many[0], self.columns.get("options"))
            message = f"a question has at most {MOST_OPTIONS:,} options, and this one has {count:,}"
            raise DataError("E205", message, where=where, hint="leave the row out, or offer fewer options")
        if "choices" in self.columns:
            labels = _to_options(self._cells(samples, "choices"))[0]
        return _name_options(texts, labels)

    def find_places(self, frame: pl.DataFrame, samples: Samples) -> pl.Series:
        """Return the place of the option that each truth names; null where it names none, or several."""
        if self.form == "flag":
            return pl.Series([*map(read_mark, list_cells(self._cells(samples, "truth")))], dtype=pl.Int64)
        said, count = pl.col("said"), pl.col("options").list.len().cast(pl.Int64)
        options = pl.col("options")
        table = frame.select(
            options.list.eval(pl.element().str.strip_chars()) if self.form == "text" else options,
            pl.coalesce("names", "choices").alias("names"),
            self.read_truth(samples).alias("said"),
        )
        place: pl.Expr
        if self.columns["truth"] in self.spread:
            place = pl.when(said.is_not_null() & (count > 1)).then(0)
        elif self.form in SAID_OPTIONS:
            words = ("true", "false") if self.form == "true" else ("yes", "no", "true", "false")
            places = {word: number % 2 for number, word in enumerate(words)}
            place = said.str.to_lowercase().replace_strict(places, default=None, return_dtype=pl.Int64)
        elif self.form in {"0", "1"}:
            number = said.str.extract(_WRAPPED_NUMBER).cast(pl.Int64) - int(self.form)
            place = pl.when((number >= 0) & (number < count)).then(number)
        else:
            most = int(table.select(count.max()).item() or 0)
            name, pattern, group = "names", f"^{_WRAPPED_LABEL}$", 1
            if self.form == "text":
                name, pattern, group = "options", f"(?s)^{_LABELLED}(.*)$", 2
            place = _match(name, said, most)
            if table.select(place.is_null().any()).item():  # most tables write truths as they write options
                bare = said.str.extract(pattern, group)
                lower = pl.col(name).list.eval(pl.element().str.to_lowercase())
                table = table.with_columns(bare.alias("bare"), lower.alias("lower"))
                table = table.with_columns(pl.col("said", "bare").str.to_lowercase().name.suffix(" lower"))
                ways = ((name, "said"), (name, "bare"), ("lower", "said lower"), ("lower", "bare lower"))
                place = pl.coalesce(_match(one, pl.col(wanted), most) for one, wanted in ways)
            if self.spread and name == "names":  # a spreadsheet may name the column of the right option
                columns = {one.lower(): at for at, one in enumerate(self.spread)}
                named = said.str.to_lowercase().replace_strict(columns, default=None, return_dtype=pl.Int64)
                place = pl.coalesce(place, pl.when(named < count).then(named))
        return table.with_columns(place=place.cast(pl.Int64))["place"]  # also where no row has options


#: The columns that `derive` adds, for whoever reads them row by row.
_PARTS = ("question", "options", "choices", "category")
DERIVED = QuestionColumns({**dict(zip(_PARTS, _PARTS, strict=True)), "answer": "truth"})


def _match(name: str, wanted: pl.Expr, most: int) -> pl.Expr:
    """Return the place of the only element of a list that is wanted; null for none, and for several."""
    hits = [pl.col(name).list.get(place, null_on_oob=True) == wanted for place in range(most)]
    if not hits:
        return pl.lit(None, pl.Int64)
    place = pl.coalesce(pl.when(hit).then(place) for place, hit in enumerate(hits))
    return pl.when(pl.sum_horizontal(one.fill_null(value=False) for one in hits) == 1).then(place)


def _shuffle(questions: pl.Series, options: pl.Series, places: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return options in an order that a hash of question and option gives, and where the truth went."""
    lists: list[list[str] | None] = []
    moved: list[int | None] = []
    for question, texts, place in zip(questions, options.to_list(), places, strict=True):
        ranks = [blake2b(f"{question}\0{one}".encode(), digest_size=8).digest() for one in texts or ()]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        lists.append(texts and [texts[one] for one in order])
        moved.append(order.index(place) if place in order else None)
    return pl.Series(lists, dtype=_TEXT_LISTS), pl.Series(moved, dtype=pl.Int64)


def read_column(samples: Samples, name: str) -> Cells:
    """Return the cells of a column; of a field in one for a dotted name."""
    column, inside = (name, "") if name in samples.columns else split_name(name, samples.columns)[0]
    return read_cells(samples, column, inside)


def list_cells(cells: Cells) -> list[object]:
    """Return cells as Python values."""
    return cells.to_list() if isinstance(cells, pl.Series) else cells


def to_texts(cells: Cells) -> pl.Series:
    """Return cells as texts: whole numbers without a point, the only element of a list; null for others."""
    if isinstance(cells, pl.Series) and (cells.dtype in {pl.String, pl.Boolean} or cells.dtype.is_integer()):
        return cells.cast(pl.String)
    texts: list[str | None] = []
    for cell in list_cells(cells):
        one = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
        if isinstance(one, bool):
            texts.append(str(one).lower())
        else:
            texts.append(write_cell(int(one) if isinstance(one, float) and one.is_integer() else one))
    return pl.Series(texts, dtype=pl.String)


def _join_truths(cell: object) -> object:
    """Return the elements of a list of several truths as one text; any other cell as it is."""
    if not isinstance(cell, list) or len(cell) < _FEWEST:
        return cell
    return ", ".join(map(str, cell))


def _to_options(cells: Cells) -> tuple[pl.Series, pl.Series | None]:
    """Return the texts of options, and their labels where cells state some; null for what is no list."""
    dtype = cells.dtype if isinstance(cells, pl.Series) else None
    if isinstance(cells, pl.Series) and dtype == _TEXT_LISTS:
        return _fill_texts(cells), None
    inner = {one.name: one.dtype for one in dtype.fields} if isinstance(dtype, pl.Struct) else {}
    if isinstance(cells, pl.Series) and inner.get("text") == inner.get("label") == _TEXT_LISTS:
        return _fill_texts(cells.struct.field("text")), cells.struct.field("label")
    texts: list[list[str] | None] = []
    labels: list[list[str] | None] = []
    for cell in list_cells(cells):
        listed, names = read_option_cell(cell)
        shown = _split_question(cell)[1] if listed is None and isinstance(cell, str) else None
        texts.append([one or "" for one in listed] if listed else shown)
        labels.append(names or None)
    return pl.Series(texts, dtype=_TEXT_LISTS), pl.Series(labels, dtype=_TEXT_LISTS) if any(labels) else None


def _fill_texts(lists: pl.Series) -> pl.Series:
    filled = lists.list.eval(pl.element().fill_null(""))
    return pl.select(pl.when(filled.list.len() > 0).then(filled)).to_series()


def _join_options(parts: Sequence[Cells]) -> pl.Series:
    """Return the options of several columns, up to the first that is empty; the last may hold a list."""
    last = parts[-1]
    is_flat = len(parts) > _FEWEST and isinstance(last, pl.Series) and not last.dtype.is_nested()
    if not is_flat and not (listed := _to_options(last)[0]).null_count():
        texts = [to_texts(one).alias(str(place)) for place, one in enumerate(parts[:-1])]
        options = pl.concat_list(pl.all()).list.eval(pl.element().str.strip_chars())
        return pl.DataFrame([*texts, listed.alias("listed")]).select(options).to_series()
    cells = [to_texts(one).str.strip_chars().fill_null("") for one in parts]
    frame = pl.DataFrame([one.alias(str(place)) for place, one in enumerate(cells)])
    empty = (pl.when(pl.col(name) == "").then(place) for place, name in enumerate(frame.columns))
    count = pl.coalesce(*empty, len(parts))
    return frame.select(pl.when(count > 0).then(pl.concat_list(pl.all()).list.head(count))).to_series()


def _name_options(texts: pl.Series, labels: pl.Series | None = None) -> pl.DataFrame:
    """Return options with their choices: labels of one character that the table states, else letters.

    More options than letters are numbered. `names` are labels that the table states. Labels that options
    begin with are taken away where all of a row do, in order.
    """
    stated = pl.Series([None] * len(texts), dtype=_TEXT_LISTS) if labels is None else labels
    table = pl.DataFrame([texts.alias("options"), stated.alias("names")])
    count = pl.col("options").list.len()
    letters = pl.lit(pl.Series([_LETTERS], dtype=_TEXT_LISTS)).list.head(count)
    numbers = pl.lit(pl.Series([_NUMBERS], dtype=_TEXT_LISTS)).list.head(count)
    names, stripped = pl.col("names"), pl.col("names").list.eval(pl.element().str.strip_chars())
    is_short = names.list.eval(pl.element().str.len_chars() == 1).list.all()
    is_own = is_short & (names.list.n_unique() == count)
    own = pl.when(is_own).then(names).when((count > len(_LETTERS)) | (names == numbers)).then(numbers)
    table = table.with_columns(pl.when(names.list.len() == count).then(stripped).alias("names"))
    table = table.with_columns(pl.when(count > 0).then(own.otherwise(letters)).alias("choices"))
    first = pl.col("options").list.eval(pl.element().str.extract(f"^{_LABELLED}").fill_null(""))
    is_labelled = table.select(first.list.join("\0") == pl.col("choices").list.join("\0")).to_series()
    if not is_labelled.any():
        return table
    bare = pl.col("options").list.eval(pl.element().str.replace(f"^{_LABELLED}", ""))
    return table.with_columns(pl.when(is_labelled).then(bare).otherwise("options").alias("options"))


# ── which columns a table has ───────────────────────────────────────────────────────────────────────────────


@lru_cache(64)
def find_columns(
    names: Texts, roles: Texts = QUESTION_ROLES, chosen: tuple[tuple[str, str], ...] = ()
) -> QuestionColumns:
    """Return which of some columns is what, by their names alone; `chosen` are known already, by role."""
    folded = {fold_name(name.rpartition(".")[2]): name for name in reversed(names)}
    columns = dict(chosen)
    for role in roles:
        known = [folded[one] for one in FOLDED[role] if one in folded]
        free = [one for one in known if one not in columns.values()]
        columns |= {role: free[0]} if free and role not in columns else {}
    return QuestionColumns(columns, () if "options" in columns else find_numbered(names))


def find_asked(listed: Mapping[str, bool], chosen: tuple[tuple[str, str], ...] = ()) -> QuestionColumns:
    """Return which columns of a log's record are what; `listed` says of each whether it holds a list.

    Options are one, whatever else has such a name.
    """
    names = [
        name for name, is_listed in listed.items() if is_listed or fold_name(name) not in _FOLDED_OPTIONS
    ]
    return find_columns(tuple(names), ("passage", *QUESTION_ROLES), chosen)


def read_asked(
    cells: Mapping[str, object],
    prompt: str | None,
    *,
    target: object = None,
    chosen: tuple[tuple[str, str], ...] = (),
) -> Question:
    """Return what a record of a log asks: by the columns of its row, else as its prompt shows it.

    `target` is the truth where the log states it apart, `chosen` the columns that the caller names, by role.
    Options in another order than in the prompt are taken from the prompt: that is what the model saw.
    """
    listed: dict[str, bool] = {}
    inside: dict[str, bool] = {}
    for name, cell in cells.items():
        is_text = isinstance(cell, str) and cell[:1].isalnum()  # the text of a list begins with a bracket
        is_listed = not is_text and (isinstance(cell, list) or read_option_cell(cell)[0] is not None)
        if not is_text and not is_listed and isinstance(cell, Mapping):
            inside |= {f"{name}.{inner}": True for inner, one in cell.items() if read_mark(one) is None}
        else:
            listed[name] = is_listed
    found = find_asked(listed | inside, chosen).read_question(cells)
    shown, question = find_shown(prompt), found.question
    if question and "\n" in question:  # options stand on lines of their own
        asked, own = _split_question(question)
        if own is not None and tuple(own) == (found.options or shown.options):
            question = asked
    choices, options = found.choices, found.options
    said: object = found.truth
    if options is not None and sorted(options) == sorted(shown.options or ()):
        if choices and said in choices:
            said = options[choices.index(said)]
        choices, options = shown.choices, shown.options
    elif options is None and choices in {None, shown.choices}:
        choices, options = shown.choices, shown.options
    said = said if target is None else target
    if isinstance(said, str) and said.startswith("["):
        several = read_texts(said)
        said = several[0] if several and len(several) == 1 else said
    truth = find_truth(said, choices, options)
    question = question or shown.question
    return Question(question, choices, options, truth, found.category, found.original, found.passage)


def find_numbered(names: Sequence[str]) -> Texts:
    """Return the longest series of columns such as `A`, `B`, `C` or `choice0`, `choice1`; of two at least."""
    series: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name.strip()):
            stem = match["stem"].lower() + ("1" if match["place"].isdigit() else "a")
            series.setdefault(stem, {})[match["place"].lower()] = name
    found: Texts = ()
    for places in series.values():
        for order in (string.ascii_lowercase, map(str, range(100)), map(str, range(1, 100))):
            run = tuple(places[place] for place in takewhile(places.__contains__, order))
            found = run if len(run) > max(1, len(found)) else found
    return found


def has_column(rows: Rows, name: str) -> bool:
    """Return whether there is a column, or a field in one that a dotted name reaches."""
    found = split_name(name, rows.columns) if name not in rows.columns else []
    fields = [(look_inside(rows.slice(0, FIRST_ROWS).load([one]), one)[1], inside) for one, inside in found]
    return name in rows.columns or any(one in known or split_name(one, known) for known, one in fields)


def look_inside(first: Samples, name: str) -> tuple[int, list[str]]:
    """Return how many lists are around what a column holds, and the fields of that; some rows show it."""
    if name not in first.encoded:
        dtype: Any = first.frame.schema[name]
        depth = 0
        while isinstance(dtype, pl.List):
            dtype, depth = dtype.inner, depth + 1
        return depth, [one.name for one in dtype.fields] if isinstance(dtype, pl.Struct) else []
    cell, depth = next((one for one in first.values(name) if one), None), 0
    while isinstance(cell, list):
        cell, depth = next((one for one in cell if one), None), depth + 1
    return depth, list(cell) if isinstance(cell, dict) else []


def find_unfolded(rows: Rows, columns: Mapping[str, str], spread: Texts = ()) -> Texts:
    """Return the columns that hold a list with an element for each question of a row, its own first."""
    first, roots = rows.slice(0, FIRST_ROWS).load(), dict[str, None]()
    named = [*columns.items(), *(("options", one) for one in spread)]
    for role, name in sorted(named, key=lambda one: one[0] != "question"):
        root = name if name in first.columns else split_name(name, first.columns)[0][0]
        # Options are a list by themselves, unless they are a field of the questions.
        if look_inside(first, root)[0] > (role == "options" and root == name):
            roots[root] = None
        elif role == "question":
            return ()
    return tuple(roots) if "question" in columns else ()
