"""Options in a cell or a text: what they say, their labels, and which of them a truth names."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

from answerkey.datasets.cells import parse_literal
from answerkey.errors import DataError
from answerkey.types import OPTION_TEXT_KEYS

Texts = tuple[str, ...]
#: The texts of options, None where a cell holds none, and their labels.
OptionCell = tuple[list[str | None] | None, list[str]]
#: The texts of options, None if there are none, and their labels.
OptionTexts = tuple[list[str] | None, list[str]]

# ── cells

#: Made once: `list | tuple` would build a type for every cell.
_LISTS = (list, tuple)
_PLAIN = (str, int, float)
_LABEL_KEYS = ("label", "key", "id", "letter")
_MARK_KEYS = ("is_correct", "correct", "isCorrect")


def write_cell(value: object) -> str | None:
    """Return a text, or a number as text; None for anything else."""
    if isinstance(value, _PLAIN) and not isinstance(value, bool):
        return str(value)
    return None


def to_text(cell: object) -> str | None:
    """Return a cell as text: whole numbers without a point, the only element of a list."""
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return write_cell(cell)


def read_truth(cell: object) -> str | None:
    """Return what a cell says of the truth, None where it is empty.

    Several truths are joined by commas, and so name no option.
    """
    if isinstance(cell, list) and len(cell) > 1:
        cell = ", ".join(map(str, cell))
    text = to_text(cell) or ""
    return text.strip() or None


def read_option_cell(cell: object) -> OptionCell:
    """Return the texts of a list of options, and their labels if the cell has any.

    The cell is a list of texts or of mappings with text and label; a mapping of both lists, of
    label to text, or of text to a mark (0 or 1); or JSON or a Python literal of any of these. The
    texts are None for anything else.
    """
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if not isinstance(cell, _LISTS):
        return _read_option_mapping(cell) if isinstance(cell, Mapping) else (None, [])
    texts = []
    labels = []
    for option in cell:
        if not isinstance(option, Mapping):
            return _write_all(cell), []
        texts.append(_pick(option, OPTION_TEXT_KEYS))
        label = _pick(option, _LABEL_KEYS)
        if label is not None:
            labels.append(str(label))
    return _write_all(texts), labels


def _read_option_mapping(cell: Mapping[str, object]) -> OptionCell:
    texts = _pick(cell, OPTION_TEXT_KEYS)
    labels = []
    if isinstance(texts, _LISTS):
        listed = _pick(cell, _LABEL_KEYS)
        if isinstance(listed, _LISTS):
            labels = list(map(str, listed))
        return _write_all(texts), labels
    names = list(map(str, cell))
    if read_mark(cell) is not None and not take_labels(names):
        return _write_all(names), []
    values = []
    for label, value in cell.items():
        if value is None:
            continue
        if not isinstance(value, _PLAIN):
            return None, []
        labels.append(str(label))
        values.append(value)
    return _write_all(values), labels


def _write_all(values: Sequence[object]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def read_option_texts(cell: object) -> OptionTexts:
    """Return the texts and labels of the options in a cell, also of lettered lines; None for no
    options.
    """
    texts, labels = read_option_cell(cell)
    if texts is None and isinstance(cell, str):
        return split_question(cell)[1], []
    if not texts:
        return None, []
    return [text or "" for text in texts], labels


def read_mark(cell: object) -> int | None:
    """Return the place of the only option that is marked as right; None for none or several.

    Marks are a list of 0 and 1 (or true and false), the values of a mapping, or fields of listed
    mappings.
    """
    marks = []
    for mark in list_values(cell):
        if isinstance(mark, Mapping):
            mark = _pick(mark, _MARK_KEYS)  # noqa: PLW2901 - the mark inside it
        if not isinstance(mark, int) or mark not in {0, 1}:
            return None
        marks.append(mark)
    if marks.count(1) != 1:
        return None
    return marks.index(1)


def list_values(cell: object) -> Sequence[object]:
    """Return the elements of a list, or the values of a mapping; none for anything else."""
    if isinstance(cell, str):
        cell = _parse_list(cell)
    if isinstance(cell, _LISTS):
        return cell
    if isinstance(cell, Mapping):
        return list(cell.values())
    return ()


def _pick(
    cell: Mapping[str, object],
    names: Sequence[str],
) -> object:
    for name in names:
        if name in cell:
            return cell[name]
    return None


def _parse_list(text: str) -> object:
    """Return the list or mapping that a text spells in JSON or Python; None for other texts."""
    bare = text.strip()
    if bare.startswith(("[", "(", "{")):
        with suppress(DataError, TypeError, ValueError):
            return parse_literal(bare)
    return None


# ── labels

#: The labels of a log's options that have none: other tools go on with digits after `Z`.
LABELS = (*string.ascii_uppercase, *"123456789", *string.ascii_lowercase)
_COUNTS = ("".join(LABELS), string.ascii_lowercase, "123456789", string.digits)
MOST_OPTIONS = 1_000
_NUMBERS = tuple(map(str, range(1, MOST_OPTIONS + 1)))
#: A label with marks around it: `(B)`, `B.`, `**B**`.
WRAPPED = re.compile(r"[\s(\[{*_\"'`]*(?P<bare>\d{1,4}|[A-Za-z])[\s)\]}*_\"'`.:]*")
_WRAPPED_NUMBER = r"[(\[]?(\d{1,4})(?:\.0+)?[)\].:]?"
#: An option that begins with a label: `(A) one`.
LABELLED = re.compile(r"\s*[(\[]?([A-Z]|\d)[)\].:\u3001\uff0e]\s*")
_LABELLED_TEXT = re.compile(LABELLED.pattern + "(?P<bare>.*)", re.DOTALL)
#: Where words stand among the options of questions that offer only yes and no.
_WORD_PLACES = {
    "true": {"true": 0, "false": 1},
    "yes": {"yes": 0, "no": 1, "true": 0, "false": 1},
}


def label_options(count: int) -> Texts | None:
    """Return a label for each of `count` options; None for no options or too many."""
    if 0 < count <= len(LABELS):
        return LABELS[:count]
    return None


def take_labels(texts: Sequence[str], *, counting: bool = False) -> Texts | None:
    """Return texts that are themselves labels: distinct single characters, or 1, 2, …; else None.

    With `counting`, only those that count from `A`, `a`, `1` or `0` on; others may be options.
    """
    labels = tuple(map(str.strip, texts))
    if labels and labels == _NUMBERS[: len(labels)]:
        return labels
    are_characters = set(map(len, labels)) == {1}
    if not are_characters or len(set(labels)) < len(labels):
        return None
    joined = "".join(labels)
    if counting and not any(count.startswith(joined) for count in _COUNTS):
        return None
    return labels


# ── the options of a question


class OptionList(NamedTuple):
    """The options of a question: their texts, the labels to choose from, and those of the table.

    `names` are the labels that the table states, which may be longer than `choices`.
    """

    texts: list[str]
    choices: list[str]
    names: list[str] | None = None

    def find_place(
        self,
        truth: str,
        form: str | None,
        columns: Sequence[str],
    ) -> int | None:
        """Return the place of the option that a truth names in this form; None for none or several.

        A label may also be the name of the column that holds the option.
        """
        if form in _WORD_PLACES:
            return _WORD_PLACES[form].get(truth.lower())
        if form in {"0", "1"}:
            number = re.fullmatch(_WRAPPED_NUMBER, truth)
            if number is None:
                return None
            place = int(number[1]) - int(form)
            if 0 <= place < len(self.texts):
                return place
            return None
        if form == "text":
            texts = list(map(str.strip, self.texts))
            return _find_text(truth, texts, _LABELLED_TEXT)
        labels = self.names or self.choices
        place_of_label = _find_text(truth, labels, WRAPPED)
        if place_of_label is None:
            return _find_text(truth, columns[: len(self.texts)], WRAPPED)
        return place_of_label

    def shuffle(
        self,
        question: str | None,
        place: int | None,
    ) -> tuple[OptionList, int | None]:
        """Return the options in the order of hashes of question and option, and the new place of
        the truth.
        """
        ranks = []
        for text in self.texts:
            content = f"{question}\0{text}".encode()
            digest = blake2b(content, digest_size=8)
            ranks.append(digest.digest())
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        texts = [self.texts[number] for number in order]
        if place is not None:
            place = order.index(place)
        return self._replace(texts=texts), place


def _find_text(
    truth: str,
    texts: Sequence[str],
    pattern: re.Pattern[str],
) -> int | None:
    """Return the place of the only text that is the truth: as written, without marks, in any
    case.
    """
    if texts.count(truth) == 1:
        return texts.index(truth)
    spellings = [truth]
    match = pattern.fullmatch(truth)
    if match:
        spellings.append(match["bare"])
    for fold in (str, str.lower):
        folded = list(map(fold, texts))
        for spelling in spellings:
            text = fold(spelling)
            if folded.count(text) == 1:
                return folded.index(text)
    return None


def name_options(
    texts: list[str],
    labels: Sequence[str],
) -> OptionList:
    """Return options with their choices: the table's labels if each is one character, else letters.

    More options than letters are numbered. Labels that options begin with are removed if all
    options have them, in order.
    """
    names = None
    if len(labels) == len(texts):
        names = list(map(str.strip, labels))
    choices = list(string.ascii_uppercase)
    if len(texts) > len(choices):
        choices = list(_NUMBERS)
    choices = choices[: len(texts)]
    if names and take_labels(names):
        choices = names
    bare = []
    for text, label in zip(texts, choices, strict=True):
        match = LABELLED.match(text)
        if match is None or match[1] != label:
            return OptionList(texts, choices, names)
        bare.append(text[match.end() :])
    return OptionList(bare, choices, names)


# ── options in a text

#: A line that shows an option: `A) one`, `(B) two`, `C. three`; also with the wide marks of East
#: Asia.
_OPTION = r"\n[ \t]*[(\[\uff08]?([A-Z])[)\].:\uff09\uff0e\uff1a\u3001][ \t]*(?=\S)"
#: The word above options.
_HEADING = r"(?i)(?:^|\n)[ \t]*(?:answer )?(?:options|choices):?[ \t]*\Z"
#: Options stand at the end of a prompt; no more of it is searched.
_SEARCHED = 100_000


def find_lettered(prompt: str) -> tuple[str, Texts | None]:
    """Return the text before the last options of a prompt that are lettered from A on, and them."""
    text = f"\n{prompt[-_SEARCHED:]}\n"
    matches = _match_last_options(text)
    if not matches:
        return prompt, None
    starts = [match.end() for match in matches]
    ends = [match.start() for match in matches[1:]]
    ends.append(text.index("\n", starts[-1]))
    options = []
    for start, end in zip(starts, ends, strict=True):
        options.append(text[start:end].strip())
    cut = len(text) - matches[0].start() - len("\n\n")
    before = prompt[: len(prompt) - cut]
    return before, tuple(options)


def _match_last_options(text: str) -> list[re.Match[str]]:
    """Return the last run of two or more option lines; worked examples before it have theirs."""
    run: list[re.Match[str]] = []
    last = []
    for match in re.finditer(_OPTION, text):
        if match[1] == "A":
            run = []
        if match[1] == LABELS[len(run)]:
            run.append(match)
        if len(run) > 1:
            last = run
    return last


def split_question(text: str | None) -> tuple[str | None, list[str] | None]:
    """Return a question without the options at its end, and them; None when there are none."""
    if text is None:
        return None, None
    question, options = find_lettered(text)
    bare = re.sub(_HEADING, "", question.strip())
    bare = bare.strip() or text
    if options is None:
        return bare, None
    return bare, list(options)
