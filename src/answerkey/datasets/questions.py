"""Questions in tables: which columns hold question, options and truth, and how their cells spell them."""

from __future__ import annotations

import ast
import json
import re
import string
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, takewhile

from answerkey.datasets.recorded import get_inside
from answerkey.types import Samples

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked. `choices` are labels of one character, `options` their texts in the same order.

    `truth` is a label where one can be told, else what the table says. `original` is the row as it was, for
    whoever wants more of it.
    """

    question: str | None = None
    choices: Texts | None = None
    options: Texts | None = None
    truth: str | None = None
    category: str | None = None
    original: Mapping[str, object] = field(default_factory=dict)


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_LIST = 100_000
#: What a list of options says of each, where it says more than the text.
_TEXT_KEYS, _LABEL_KEYS = ("text", "content", "value", "option"), ("label", "key", "id", "letter")


def write_cell(value: object) -> str | None:
    """Return a text, or a number as text; None for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_option_cell(cell: object) -> tuple[list[str | None] | None, list[str]]:
    """Return the texts of a list of options, and their labels where it has any; None for what is no list.

    A list of texts, of mappings with text and label, a mapping of both lists or of label to text, or JSON or
    a Python literal of any of these.
    """
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if isinstance(cell, Mapping):
        texts, labels = _pick(cell, _TEXT_KEYS), _pick(cell, _LABEL_KEYS)
        if isinstance(texts, list | tuple):
            named = [str(one) for one in labels] if isinstance(labels, list | tuple) else []
            return [None if one is None else str(one) for one in texts], named
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


def _pick(cell: Mapping[str, object], names: Sequence[str]) -> object:
    return next((cell[name] for name in names if name in cell), None)


def _parse_list(text: str) -> object:
    """Return what JSON or Python reads in the text of a list or a mapping; None for other texts."""
    bare = text.strip()
    if bare[:1] not in {"[", "(", "{"} or len(text) > _LONGEST_LIST:
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(bare)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def read_texts(value: object) -> Texts | None:
    """Return a list of texts: a list, a mapping's values, or JSON or a Python literal of either."""
    if isinstance(value, str):
        value = _parse_list(value)
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple) or not value:
        return None
    return tuple(map(str, value)) if all(isinstance(one, str | int | float) for one in value) else None


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────

#: The labels of options that have none: letters, then digits, as other tools go on after `Z`.
LABELS = (*string.ascii_uppercase, *"123456789", *string.ascii_lowercase)
#: Marks around a label: `(B)`, `B.`, `**B**`.
_WRAPPED = re.compile(r"[\s(\[{*_\"'`]*(?P<label>[^\W_])[\s)\]}*_\"'`.:]*", re.ASCII)


def label_options(count: int) -> Texts | None:
    """Return a label for each of `count` options; None for more than there are labels, and for none."""
    return LABELS[:count] if 0 < count <= len(LABELS) else None


def take_labels(texts: Sequence[str], *, counting: bool = False) -> Texts | None:
    """Return texts that are themselves labels: distinct single characters; None when they are not.

    With `counting` only those that count: `A`, `B`, …, or `a`, `1` or `0`, …; others may be options.
    """
    found = tuple(text.strip() for text in texts)
    if not found or any(len(one) != 1 for one in found) or len(set(found)) != len(found):
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
    if wrapped and wrapped["label"] in choices:
        return wrapped["label"]
    same = [at for at, option in enumerate(options or ()) if option.strip() == text]
    return choices[same[0]] if len(same) == 1 and same[0] < len(choices) else at_place


def find_truth(target: object, choices: Sequence[str] | None, options: Sequence[str] | None) -> str | None:
    """Return a truth, or several joined by commas: labels where they are some."""
    wanted = target if isinstance(target, list) else [target]
    found = [find_label(one, choices, options) or write_cell(one) for one in wanted]
    return ",".join(one for one in found if one) or None


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────

#: What a column may be, and the names by which it is known, the likeliest first. A column is one thing only:
#: that of the first role that knows it.
NAMES: dict[str, Texts] = {
    "passage": ("passage", "context", "article", "story", "paragraph", "background"),
    "id": ("sample_id", "custom_id", "question_id", "id", "qid", "doc_id", "index", "idx"),
    "question": (
        *("question", "question_text", "question_stem", "stem", "query", "problem", "input", "prompt"),
        *("sentence", "ctx", "text"),
    ),
    "options": ("options", "endings", "candidates", "alternatives", "option_texts", "choices", "answers"),
    "choices": ("choices", "choice_labels", "option_labels", "labels", "letters"),
    "answer": (
        *("answer", "answer_key", "answerkey", "correct_answer", "ground_truth", "groundtruth", "truth"),
        *("label", "target", "gold", "correct_option", "cop"),
    ),
    "index": ("answer_index", "correct_index", "label_index", "answer_idx", "groundtruth_answer"),
    "key": ("correct", "key"),
    "completion": (
        *("completion", "output", "response", "model_output", "model_outputs", "generated_text", "reply"),
        *("raw_output", "model_response", "generation", "prediction_text"),
    ),
    "category": ("category", "subject", "topic", "domain", "subset", "task"),
    "trial": ("trial", "epoch", "repeat"),
    "score": ("their_score", "score", "is_correct", "correct", "acc", "exact_match"),
    "predicted": (
        *("their_answer", "pred", "prediction", "predicted", "predicted_answer", "extracted_answer"),
        *("extracted", "parsed_answer", "model_answer"),
    ),
}
#: What a row says of the question alone; of a question with a passage and its truth; of a log.
QUESTION_ROLES = ("question", "options", "choices", "answer", "index", "category")
DATASET_ROLES = ("passage", "question", "options", "choices", "answer", "index", "key")
LOG_ROLES = tuple(role for role in NAMES if role not in {"passage", "key"})
#: So many rows are looked at to see what a column holds.
LOOKED_AT = 2_000
#: Options in columns of their own: `A`, `B`, …; `option_a`, …; `choice1`, …
_NUMBERED = re.compile(
    r"(?P<stem>|option|choice|answer|ending|opt?)[_ ]?(?P<place>[a-z]|\d{1,2})", re.IGNORECASE
)


@dataclass(frozen=True)
class QuestionColumns:
    """The columns of a table by what they are; `spread` are those that hold one option each."""

    columns: Mapping[str, str]
    spread: Texts = ()

    def cell(self, row: Mapping[str, object], role: str) -> object:
        """Return what a row has in a role; None where there is nothing. A dotted name reaches into a cell."""
        name = self.columns.get(role)
        return None if name is None else row[name] if name in row else get_inside(row, name)

    def text(self, row: Mapping[str, object], role: str) -> str | None:
        """Return the text, or the number as text, that a row has in a role."""
        return write_cell(self.cell(row, role))

    def read_question(self, row: Mapping[str, object]) -> Question:
        """Return what a row asks."""
        stated = read_texts(self.cell(row, "choices"))
        found, names = read_option_cell(self.cell(row, "options"))
        options = tuple(one or "" for one in found) if found else None
        if options is None:  # columns of their own, up to the first that is empty
            texts = (write_cell(row.get(name)) or "" for name in self.spread)
            options = tuple(takewhile(str.strip, texts)) or None
        choices = take_labels(stated or names)
        if options is not None and (choices is None or len(choices) != len(options)):
            choices = label_options(len(options))
            if take_labels(options) == choices:  # a list of letters says what may be answered
                options = None
        truth = find_label(self.cell(row, "answer"), choices, options)
        if truth is None and "index" in self.columns:
            truth = find_label(self.cell(row, "index"), choices, options, by_index=True)
        taken = {*self.columns.values(), *self.spread}
        return Question(
            question=self.text(row, "question"),
            choices=choices,
            options=options,
            truth=truth or self.text(row, "answer") or self.text(row, "index"),
            category=self.text(row, "category"),
            original={name: cell for name, cell in row.items() if name not in taken and cell is not None},
        )


def find_columns(
    names: Sequence[str],
    roles: Texts = QUESTION_ROLES,
    chosen: Mapping[str, str] | None = None,
    first: Samples | None = None,
) -> QuestionColumns:
    """Return which of some columns is what; `chosen` are columns by role that are known already.

    With the `first` rows, a column must hold what its role needs, and fields inside a cell are found, too:
    as dotted names.
    """
    paths = {name.lower().strip(): name for name in reversed(names)}
    if first is not None:
        few = first.slice(0, 50)
        for name in names:
            cell = next((cell for cell in few.values(name) if isinstance(cell, dict)), {})
            paths = {str(key).lower(): f"{name}.{key}" for key in reversed(cell)} | paths
    columns = dict(chosen or {})
    for role in roles:
        known = [paths[one] for one in NAMES[role] if one in paths and paths[one] not in columns.values()]
        found = (one for one in known if first is None or _fits(role, one, first))
        if role not in columns and (path := next(found, None)) is not None:
            columns[role] = path
    return QuestionColumns(columns, () if "options" in columns else find_numbered(names))


@lru_cache(64)
def find_columns_of_row(names: Texts, chosen: tuple[tuple[str, str], ...] = ()) -> QuestionColumns:
    """Return the columns of a row that comes alone, by their names; most rows have those of the last one."""
    return find_columns(names, chosen=dict(chosen))


def _fits(role: str, name: str, first: Samples) -> bool:
    """Return whether most cells of a column, as far as they hold anything, are what a role needs."""
    column = name if name in first.columns else name.partition(".")[0]
    values = (
        first.values(column)
        if column == name
        else (get_inside({column: cell}, name) for cell in first.values(column))
    )
    cells = [one for one in values if one is not None]
    if role in {"passage", "question"}:
        good = sum(isinstance(one, str) for one in cells)
    elif role in {"answer", "index", "key"}:
        good = sum(write_cell(one) is not None for one in cells)
    elif role == "options":
        good = sum(read_option_cell(one)[0] is not None for one in cells)
        if name.lower().rpartition(".")[2] == "choices" and _are_labels(cells):
            return False
    elif role == "choices":
        good = len(cells) if _are_labels(cells) else 0
    else:
        return True
    return bool(cells) and 2 * good >= len(cells)


def _are_labels(cells: Sequence[object]) -> bool:
    """Return whether cells are lists of single characters that follow each other: A, B, C or 1, 2, 3."""
    for texts, names in map(read_option_cell, cells):
        characters = [(text or "").strip() for text in texts or ()]
        if names or not characters or any(len(one) != 1 for one in characters):
            return False
        if any(ord(two) != ord(one) + 1 for one, two in pairwise(characters)):
            return False
    return True


def find_numbered(names: Sequence[str]) -> Texts:
    """Return the longest series of columns such as `A`, `B`, `C` or `choice0`, `choice1`; of two at least."""
    series: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            stem = match["stem"].lower() + ("1" if match["place"].isdigit() else "a")
            series.setdefault(stem, {})[match["place"].lower()] = name
    found: Texts = ()
    for places in series.values():
        for order in (string.ascii_lowercase, map(str, range(100)), map(str, range(1, 100))):
            run = tuple(places[place] for place in takewhile(places.__contains__, order))
            found = run if len(run) > max(1, len(found)) else found
    return found
