"""Whether the prompt shows the options: a model that does not see them can only guess a letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from answerkey.datasets.dataset import Shard
from answerkey.datasets.options import read_option_cell
from answerkey.errors import AnswerkeyError
from answerkey.spec import Task
from answerkey.templates import RowError
from answerkey.types import Notice, Samples

#: So many rows are looked at, and so many words of an option, for a template may cut long ones.
LOOKED_AT = 20
COMPARED_WORDS = 5
#: Columns that hold option texts, if not only labels.
COLUMNS = ("options", "choices")
_LABEL = re.compile(r"^\s*\(?\w{1,2}[.):]\s+")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_BREAK = re.compile(r"\\[nrt]|<[^<>]*>")


def find_hidden_options(
    task: Task, chunk: Shard, prompts: Sequence[object], failed: set[int]
) -> list[Notice]:
    """Return a notice when option texts are known and no prompt of the first rows shows them.

    `prompts` are those of the chunk, in order; rows at the positions `failed` are passed over.
    """
    rows = [row for row in range(min(LOOKED_AT, len(prompts))) if row not in failed]
    samples = chunk.samples.slice(0, LOOKED_AT).load().take(rows)
    try:
        options = _find_texts(task, samples)
    except AnswerkeyError:  # what is wrong with the rows or the templates is reported elsewhere
        return []
    first_text = None
    count = 0
    for row, texts in zip(rows, options, strict=True):
        if not texts or isinstance(prompts[row], RowError):
            continue
        if _shows(prompts[row], texts):
            return []
        first_text = first_text or texts[0]
        count += 1
    if not count:
        return []
    notice = Notice(
        f"the prompt of task `{task.key}` shows no options: none of the first {count} prompts "
        f"holds the option texts of its row, such as {first_text!r}",
        where=task.place("definition", "solver", "input_builder"),
        hint="let the template print the options; `answerkey run --dry-run` shows the prompt",
    )
    return [notice]


def _find_texts(task: Task, samples: Samples) -> list[list[str]]:
    """Return the option texts of each row: those that a scorer knows, else those of a column."""
    facts = task.sample_facts(samples)
    columns = [name for name in COLUMNS if name in samples.columns]
    options = []
    for position, fields in enumerate(samples.rows()):
        cells: list[object] = [fields[name] for name in columns]
        labels: Sequence[str] = ()
        if facts is not None:
            cells.insert(0, facts.options[position])
            labels = facts.choices[position] or ()
        texts = (_read_texts(cell, labels) for cell in cells)
        options.append(next(filter(None, texts), []))
    return options


def _read_texts(cell: object, labels: Sequence[str]) -> list[str]:
    """Return the texts of a cell; nothing for one that holds labels only."""
    options, _ = read_option_cell(cell)
    texts = [text for text in options or () if text and text.strip()]
    for text in texts:
        if text.strip() not in labels and len(text.strip()) > 1:
            return texts
    return []


def _shows(prompt: object, texts: Sequence[str]) -> bool:
    """Return whether a prompt has the first words of half of the texts."""
    raw = "\n".join(_walk_texts(prompt))
    words = f" {_join_words(raw)} "
    shown = [text for text in texts if text.strip() in raw or _has_words(words, text)]
    return 2 * len(shown) >= len(texts)


def _has_words(words: str, text: str) -> bool:
    """Return whether the first words of a text, with or without its label, are among `words`."""
    for variant in (text, _LABEL.sub("", text)):
        beginning = " ".join(_join_words(variant).split()[:COMPARED_WORDS])
        if beginning.isascii() and beginning:
            beginning = f" {beginning} "
        if beginning and beginning in words:
            return True
    return False


def _join_words(text: str) -> str:
    """Return the words of a text, whatever its case, marks, white space and JSON or HTML
    escapes.
    """
    from html import unescape

    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), unescape(text))
    folded = unicodedata.normalize("NFKC", _BREAK.sub(" ", plain)).casefold()
    return " ".join(re.findall(r"\w+", folded))


def _walk_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _walk_texts(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _walk_texts(entry)
