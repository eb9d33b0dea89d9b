"""Whether the prompt shows the options: a model that does not see them can only guess a letter."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from answerkey.errors import AnswerkeyError
from answerkey.pipeline import Prepared
from answerkey.solvers import SingleTurnSolver
from answerkey.spec import Task
from answerkey.templates import RowTrouble
from answerkey.types import Notice, Samples
from answerkey.verbs.option_cells import read_option_cell

#: So many rows are looked at, and so many words of an option, for a template may cut long ones.
LOOKED_AT = 20
COMPARED_WORDS = 5
#: Columns that hold option texts, if not only labels.
COLUMNS = ("options", "choices")
_LABEL = re.compile(r"^\s*\(?\w{1,2}[.):]\s+")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_BREAK = re.compile(r"\\[nrt]|<[^<>]*>")


def find_hidden_options(prepared: Prepared, failed: Sequence[int]) -> list[Notice]:
    """Return a notice when option texts are known, and no prompt of the first rows has half of its own.

    Rows at the positions `failed` have no prompt and are passed over.
    """
    task, solver = prepared.task, prepared.task.solver
    if prepared.recorded is not None or not isinstance(solver, SingleTurnSolver):
        return []
    samples = prepared.dataset.rows.slice(0, LOOKED_AT).load()
    if failed:
        samples = samples.take([row for row in range(len(samples)) if row not in set(failed)])
    try:
        prompts = solver.build_prompts(samples, prepared.examples)
        options = _list_options(task, samples)
    except AnswerkeyError:  # what is wrong with the rows or the templates is told elsewhere
        return []
    pairs = [
        (prompt, texts)
        for prompt, texts in zip(prompts, options, strict=True)
        if texts and not isinstance(prompt, RowTrouble)
    ]
    if not pairs or any(_shows(prompt, texts) for prompt, texts in pairs):
        return []
    what = f"the prompt of task `{task.key}` shows no options"
    seen = f"none of the first {len(pairs)} prompts holds the option texts of its row"
    return [
        Notice(
            f"{what}: {seen}, such as {pairs[0][1][0]!r}",
            where=task.place("definition", "solver", "input_builder"),
            hint="let the template print the options; `answerkey run --dry-run` shows the prompt",
        )
    ]


def _list_options(task: Task, samples: Samples) -> list[list[str]]:
    """Return the option texts of each row: those that a scorer knows, else those of a column; or none."""
    known = task.know(samples)
    stated = known.options if known else [None] * len(samples)
    labels = known.choices if known else [None] * len(samples)
    columns = [name for name in COLUMNS if name in samples.columns]
    cells = [[row[name] for name in columns] for row in samples.rows(columns)]
    return [
        next((texts for one in (told, *own) if (texts := _read_texts(one, marks or ()))), [])
        for told, own, marks in zip(stated, cells, labels, strict=True)
    ]


def _read_texts(cell: object, labels: Sequence[str]) -> list[str]:
    """Return the texts of a cell; nothing for one that holds labels only."""
    found, _ = read_option_cell(list(cell) if isinstance(cell, tuple) else cell)
    texts = [text for text in found or () if text and text.strip()]
    return [] if all(text.strip() in labels or len(text.strip()) == 1 for text in texts) else texts


def _shows(prompt: object, texts: Sequence[str]) -> bool:
    raw = "\n".join(_walk_texts(prompt))
    words = f" {_join_words(raw)} "
    return 2 * sum(_holds(raw, words, text) for text in texts) >= len(texts)


def _holds(raw: str, words: str, text: str) -> bool:
    """Return whether a prompt has the first words of a text, with or without its label."""
    if text.strip() in raw:
        return True
    for one in (text, _LABEL.sub("", text)):
        wanted = " ".join(_join_words(one).split()[:COMPARED_WORDS])
        if wanted and (f" {wanted} " if wanted.isascii() else wanted) in words:
            return True
    return False


def _join_words(text: str) -> str:
    """Return the words of a text, however it is written: case, marks, white space, JSON or HTML escapes."""
    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), html.unescape(text))
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", _BREAK.sub(" ", plain)).casefold()))


def _walk_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _walk_texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _walk_texts(one)
