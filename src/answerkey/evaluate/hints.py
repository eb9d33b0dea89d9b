"""What most rows have in common: one error in place of thousands, with a hint by their values.

The lines of a hint fail on values that look otherwise: none gives a wrong truth to a row that has
none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import polars as pl

from answerkey.datasets.rows import Rows
from answerkey.errors import DataError, listing
from answerkey.scorers import Scorer, compile_templates
from answerkey.scorers.mcqa import check_characters, check_characters_or_numbers
from answerkey.scorers.question import build_question, build_questions
from answerkey.spec.nodes import Node
from answerkey.templates import Template
from answerkey.text import show_place
from answerkey.types import Samples

TRUTH, CHOICES = "ground_truth_choice", "choices"
#: So many rows at least have something in common; so many of them are shown.
FEWEST_ALIKE = 3
#: So many different rows are better shown one by one.
SINGLE_ROWS = 20
#: So many bad rows are looked at for a hint.
TRIED = 50
#: By code, the first one first: the scorer's field that is at fault, and what the rows share.
COMMON_PROBLEMS = {
    "E205": (CHOICES, "the choices are no list of labels"),
    "E204": (TRUTH, "the ground truth is none of the choices"),
}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONE = re.compile(r"\s*\{\{-?\s*([^{}]+?)\s*-?\}\}\s*")
_PLAIN_CODE = re.compile(r"\w+(?:\.\w+|\[[^\[\]]*\])*")
_MARKS = "()[].:,;*_ "
#: Fields of a scorer and the expressions that would read the rows.
Fields = dict[str, str]


def describe_common(
    code: str, count: int, scorer: Scorer, rows: Rows, failed: Sequence[int], written: Node
) -> DataError | None:
    """Return the error for a problem that `count` rows have; `written` is their scorer in its file.

    None where they are few and differ: those are better shown one by one.
    """
    field, finding = COMMON_PROBLEMS[code]
    samples = rows.take(pl.Series(failed[:TRIED], dtype=pl.UInt32)).load()
    problems = [problem for problem in scorer.check_rows(samples)[0] if problem.error.code == code]
    bad = samples.take([problem.position for problem in problems])
    templates, _ = compile_templates(scorer)
    messages = [re.sub(r"^sample `.*?`: ", "", problem.error.message) for problem in problems]
    proposals = []
    for fields in _propose_fields(code, templates, bad):
        if _reads_most(fields, templates, bad):
            proposals.append(_write_fields(fields))
    if not proposals and count <= SINGLE_ROWS and len(set(messages)) > 1:
        return None
    hint = f"correct the rows, or name the column that holds it: {listing(rows.columns)}"
    if proposals:
        hint = "write in the scorer:\n" + "\nor, if that is meant:\n".join(proposals)
    elif code == "E204" and {str(truth) for truth in templates[TRUTH].values(bad)} == {"-1"}:
        hint = (
            "the truths are kept secret: use a part of the dataset that has them, such as "
            "`validation`"
        )
    scope = f"{count:,} of {len(rows):,} rows"
    if count == len(rows):
        scope = f"all {count:,} rows"
    lines = [f"{scope}: {finding}"]
    for row, message in enumerate(messages[:FEWEST_ALIKE]):
        lines.append(f"{show_place(bad.place(row))}: {message}")
    return DataError(code, "\n".join(lines), where=written.at(field).place, hint=hint)


def _reads_most(fields: Fields, templates: Mapping[str, Template], samples: Samples) -> bool:
    """Return whether the fields of a proposal read most of these bad rows."""
    changed = {name: Template.compile(f"{{{{ {code} }}}}") for name, code in fields.items()}
    questions = build_questions({**templates, **changed}, samples, check_characters_or_numbers)
    if TRUTH in fields:
        good = [question for question in questions if not question.faults]
    else:
        good = [question for question in questions if question.labels]
    return 2 * len(good) > len(samples)


def _propose_fields(code: str, templates: Mapping[str, Template], samples: Samples) -> list[Fields]:
    """Return the fields of a scorer that may read these bad rows, in each way that may be meant."""
    choices = _find_code(templates[CHOICES])
    if code == "E205":
        cells = templates[CHOICES].values(samples)
        alike = [cell for cell in cells if type(cell) is type(cells[0])]
        if not choices or 2 * len(alike) <= len(cells):
            return []
        fields = _propose_choices(choices, cells[0])
        return [fields] if fields else []
    truth = _find_code(templates[TRUTH])
    labels = ""
    if templates[CHOICES].kind == "constant":
        question = build_question({CHOICES: templates[CHOICES].evaluate()}, check_characters)
        labels = "".join(question.labels)
        choices = repr(labels)
    if not truth or not choices:
        return []
    truths = templates[TRUTH].values(samples)
    codes = _propose_truths(truth, truths, choices, labels)
    if not codes:
        codes = _propose_option_columns(truth, truths, choices, samples)
    return [{TRUTH: expression} for expression in codes]


def _propose_option_columns(
    truth: str, truths: Sequence[object], choices: str, samples: Samples
) -> list[str]:
    """Return how truths are read that are the text of an option: by their place in its column."""
    for name in reversed(samples.columns):
        cells = samples.values(name)
        if all(
            isinstance(cell, list) and value in cell
            for cell, value in zip(cells, truths, strict=True)
        ):
            column = f"sample.{name}" if name.isidentifier() else f"sample[{name!r}]"
            return [f"{choices}[{column}.index({truth})]"]
    return []


def _propose_truths(truth: str, values: Sequence[object], choices: str, labels: str) -> list[str]:
    """Return how positions, lists of one, and labels with something around them are read.

    `truth` and `choices` are the code of both, `labels` the choices where they are the same in
    every row.
    """
    texts = [str(value) for value in values]

    def look_like(pattern: str) -> bool:
        matches = [text for text in texts if re.fullmatch(pattern, text, re.IGNORECASE)]
        return 2 * len(matches) > len(texts)

    label = f"[{re.escape(labels)}]" if labels else r"\w"
    if look_like(r"\d+(\.0)?"):
        return _propose_positions(truth, texts, choices, labels)
    if look_like(rf"\['{label}'\]"):
        return [f"{truth} | join"]
    if look_like(rf"[{re.escape(_MARKS)}]*{label}[{re.escape(_MARKS)}]*"):
        case = "lower" if labels.islower() else "upper"
        return [f"{truth} | trim({_MARKS!r}) | {case}"]
    if look_like(rf"\(?{label}[.):] .*"):
        separator = texts[0].lstrip("(")[1]
        return [f"{truth}.split({separator!r})[0] | trim('( ')"]
    return []


def _propose_positions(truth: str, texts: Sequence[str], choices: str, labels: str) -> list[str]:
    """Return how truths are read that are positions, counted from 0 or from 1."""
    if not labels:
        from_zero = f"{choices}[{truth}]"
        if "0" in texts:
            return [from_zero]
        return [from_zero, f"{choices}[{truth} - 1]"]
    ending = ".0" if "." in texts[0] else ""
    ends = {f"0{ending}", f"{len(labels)}{ending}"}
    codes = []
    for base in (0, 1):
        by_position = {f"{at}{ending}": label for at, label in enumerate(labels, base)}
        if ends.intersection(texts) <= by_position.keys():
            codes.append(f"{by_position}[{truth} | string]")
    return codes


def _propose_choices(choices: str, cell: object) -> Fields:
    """Return how labels are read from a cell that is no list of them; nothing where none are."""
    if isinstance(cell, str):
        for mark in ",;|":
            if mark in cell:
                return {CHOICES: f"{choices}.split({mark!r}) | map('trim') | list"}
        return {CHOICES: f"{choices} | list"}
    if isinstance(cell, Mapping):
        if {"label", "text"} <= cell.keys():
            return {CHOICES: f"{choices}.label", "options": f"{choices}.text"}
        return {CHOICES: f"{choices} | list", "options": f"{choices}.values() | list"}
    if not isinstance(cell, list) or not any(len(str(entry)) > 1 for entry in cell):
        return {}
    if isinstance(cell[0], Mapping):
        for key in ("key", "label"):
            if {key, "text"} <= cell[0].keys():
                return {CHOICES: f"{choices} | map(attribute='{key}') | list", "options": choices}
    return {CHOICES: f"{_LETTERS!r}[:{choices} | length] | list", "options": choices}


def _find_code(template: Template) -> str:
    """Return the expression of a template that is nothing else; "" for any other."""
    match = _LONE.fullmatch(template.source) if isinstance(template.source, str) else None
    if match is None:
        return ""
    if _PLAIN_CODE.fullmatch(match[1]):
        return match[1]
    return f"({match[1]})"


def _write_fields(fields: Fields) -> str:
    """Return fields of a scorer as lines of YAML."""
    lines = []
    for name, code in fields.items():
        template = f"{{{{ {code} }}}}"
        lines.append(f"{name}: {json.dumps(template)}")
    return "\n".join(lines)
