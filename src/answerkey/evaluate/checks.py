"""What is wrong with rows and templates, found without calling a model: truths, choices, prompts, options.

`check_samples` is the step *check* of the pipeline: it looks at the rows of one shard. What it finds in all
shards is merged into one `RowProblems`, to which `check_whole` adds what is wrong with the task as a whole.
"""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path

import polars as pl

from answerkey.datasets.dataset import Shard
from answerkey.datasets.questions import NAMES, find_numbered, read_option_cell
from answerkey.datasets.rows import Rows
from answerkey.errors import AnswerkeyError, DataError, SpecError, distinct, listing
from answerkey.evaluate.choice_order import find_order_problems
from answerkey.evaluate.prepare import SHARD_ROWS, Prepared
from answerkey.models.config import sees_samples
from answerkey.models.images import list_images
from answerkey.reader.explain import shorten
from answerkey.scorers import (
    Scorer,
    asks_model,
    build_scores,
    compile_templates,
    find_role,
    resolve_rows,
    try_action,
)
from answerkey.solvers import SingleTurnSolver, find_column_field, require_known
from answerkey.spec import ScoringStep, Specification, Task
from answerkey.spec.nodes import Node
from answerkey.templates import ACTION_NAMES, Plan, RowError, Template, TemplateStopped
from answerkey.text import show_place
from answerkey.types import Completion, Completions, Notice, Samples, Scores, ScoreStatus

#: How many rows of one kind are shown before only their number is.
SHOWN = 20


@dataclass
class RowProblems:
    """What is wrong with rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds the positions of rows that may be FAILED with `--allow-failed`, in order once merged;
    `fatal` the errors that no allowance covers. `rows` is how many rows were looked at, or will be.
    `images` are the kinds of images in the prompts, `image_files` the SHA-256 of each that is a file.
    """

    rows: int
    shown: list[tuple[str, AnswerkeyError]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: array[int] = field(default_factory=lambda: array("q"))
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    images: set[str] = field(default_factory=set)
    image_files: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error; keep it while there are few of its kind. The very same error is told once."""
        is_cut = self.counts[kind, error.code] >= SHOWN
        told = ((known.message, known.where) for _, known in self.shown)
        if (not is_cut or error.where is None) and (error.message, error.where) in told:
            return
        self.counts[kind, error.code] += 1
        if not is_cut:
            self.shown.append((kind, error))

    def merge(self, found: RowProblems, offset: int) -> None:
        """Add what was found in the next shard, whose first row stands at `offset`."""
        more = found.counts.copy()
        for kind, error in found.shown:
            self.add(kind, error)
            more[kind, error.code] -= 1
        self.counts.update(more)
        self.failed.extend(offset + row for row in sorted(set(found.failed)))
        self.fatal = distinct((*self.fatal, *found.fatal))
        self.images |= found.images
        self.image_files |= found.image_files
        self.notices = list(dict.fromkeys((*self.notices, *found.notices)))

    def errors(self, prepared: Prepared) -> list[AnswerkeyError]:
        """Return the errors to show: what many rows have in common, then single rows, then how many more.

        Each row says how to go on all the same, if a row would be left.
        """
        common, left, rows = list[AnswerkeyError](), len(self.failed), prepared.dataset.rows
        for step in prepared.task.scoring:
            name, above = f"scorer `{step.key}`", prepared.task.places.at("definition", "scorers", step.index)
            is_bad = any(kind == name for kind, _ in self.shown)
            if found := find_common(step.scorer, rows, self.failed, above) if is_bad else None:
                same, mended, unlike, others = found
                common.append(same)
                left = max(left - mended, min(left, unlike))
                # Of this scorer, only rows that are not so are shown.
                self.shown = [one for one in self.shown if one[0] != name]
                self.counts = Counter({kind: n for kind, n in self.counts.items() if kind[0] != name})
                for problem in step.scorer.check_rows(others)[0]:
                    self.add(name, problem.error)
                self.counts[name, same.code] += unlike - len(others)
        allow = f"run with `--allow-failed {left}` to score the rest and report"
        shown: list[AnswerkeyError] = []
        for _, error in self.shown:
            these = "this sample" if error.where and error.where.sample else "these samples"
            hint = f"{error.hint or 'fix the row'}, or {allow} {these} as FAILED"
            told = DataError(error.code, error.message, where=error.where, hint=hint)
            shown.append(error if left >= self.rows else told)
        cut = [(kind, code, count - SHOWN) for (kind, code), count in self.counts.items() if count > SHOWN]
        for kind, code, count in cut:
            message = f"{kind}: {count} more rows have the same problem"
            shown.append(DataError(code, message, hint="correct the others first"))
        return [*self.fatal, *common, *shown]


def check_samples(prepared: Prepared, shard: Shard, samples: Samples) -> RowProblems:
    """Return what is wrong with rows of a shard; prompts do not matter where completions are recorded.

    A problem of the whole, such as a missing column, is placed where the task asks for it.
    """
    found, task = RowProblems(len(samples)), prepared.task

    def add(kind: str, position: int, error: AnswerkeyError) -> None:
        if error.code == "E206":  # a column that is not there is no fault of a row
            found.fatal.append(error)
        else:
            found.failed.append(position)
            found.add(kind, error)

    try:
        for step in task.scoring:
            problems, notices = step.scorer.check_rows(samples)
            found.notices.extend(notices)
            for problem in problems:
                error: AnswerkeyError = problem.error
                if error.code == "E206" and problem.field is not None:
                    at = task.place("definition", "scorers", step.index, problem.field)
                    message = f"{error.message} of dataset `{prepared.dataset.name}`"
                    error = DataError(error.code, message, where=at, hint=error.hint)
                elif error.code != "E206" and len(task.scoring) > 1:
                    message = f"{error.message} (scorer `{step.key}`)"
                    error = DataError(error.code, message, where=error.where, hint=error.hint)
                add(f"scorer `{step.key}`", problem.position, error)
        for problem in find_order_problems(task, samples):
            add("`choice_order`", problem.position, problem.error)
        solver = None if shard.recorded is not None else task.solver
        if isinstance(solver, SingleTurnSolver):
            prompts, wrong = solver.check_prompts(samples, prepared.examples)
            images = [one for prompt in prompts if isinstance(prompt, list) for one in list_images(prompt)]
            found.images.update(image.kind for image in images)
            files = {
                str(image.held): str(image["sha256"]) for image in images if isinstance(image.held, Path)
            }
            found.image_files.update(files)
        else:
            prompts, wrong = [], solver.check_rows(samples, prepared.examples) if solver else []
        for position, prompt_error in wrong:
            message, where, code = prompt_error.message, prompt_error.where, prompt_error.code
            if code == "E207":
                message = f"{message} (prompt of task `{task.key}`)"
            elif code == "E206":
                where = task.place("definition", "solver", *find_column_field(solver, prompt_error))
            elif where is None and code == "E302":
                where = task.place("definition", "solver", "examples", "num_examples")
            add("solver", position, DataError(code, message, where=where, hint=prompt_error.hint))
        if shard.offset == 0 and prompts and not shard.skipped:
            found.notices.extend(_find_hidden_options(task, shard, prompts, set(found.failed)))
    except TemplateStopped as stopped:
        found.fatal.append(stopped.at(task.places.of_template(stopped.source)))
    return found


def check_whole(problems: RowProblems, prepared: Prepared) -> None:
    """Add what is wrong with the task as a whole: what the model must know, and templates of completions."""
    if prepared.model is not None:
        try:
            if sees_samples(prepared.model):
                samples = prepared.dataset.rows.slice(0, SHARD_ROWS).load(prepared.columns)
                require_known(prepared.model, samples, prepared.task.sample_facts(samples))
            if (connection := getattr(prepared.model, "connection", None)) is not None:
                connection.require_images(problems.images)
        except SpecError as error:
            problems.fatal.append(error)
    problems.fatal.extend(find_unreadable(prepared))


# What bad rows have in common, and the lines of their scorer that make them good.
#
# A dataset whose truths are all 0 to 3, `(B)`, lower case or an option's text has one mistake, not thousands.
# Changes of the scorer are tried on the rows by the scorer's own check. One is offered where it makes many
# rows good and leaves the good ones as they are, and where pasting it would not give a wrong truth to a row
# that is an error now.

TRUTH, CHOICES, OPTIONS = "ground_truth_choice", "choices", "options"
#: So many rows, or all there are, have something in common; so many of them are shown.
FEWEST = 3
#: Changes are tried on so many bad rows first; and so many that one mends, or does not, are kept.
TRIED = 50
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONE = re.compile(r"\s*\{\{-?\s*([^{}]+?)\s*-?\}\}\s*")
_CODE = re.compile(r"\w+(?:\.\w+|\[[^\[\]]*\])*")
_PLACE, _OPTION = "the position of its choice, counted from", "the text of its option"
_WHOLE = "{x} | int | string == {x} | string | replace('.0', '') and {x} | int >= "
#: Marks around a label: those that are usual together, then all.
_MARKS = ("()", ".", "[]", "):", "*", "()[].:,;*_\"' ")
_NAME_IT = "correct the rows, or name the column that holds it: COLUMNS"
_SECRET = "use a part of the dataset that has its truths, such as `validation`"  # noqa: S105 - no password
#: What a truth may be, and the code that reads it: `x` is the code of the truth, `l` of the labels, `o` of
#: the options, `m0` and `m1` map numbers to labels. Where the code takes more than is meant, what must hold.
_TRUTHS = (
    (f"{_PLACE} 0", "{l}[{x}]", "{x} is integer and {x} >= 0"),
    (f"{_PLACE} 0", "{m0}[{x} | string]", ""),
    (f"{_PLACE} 0", "{l}[{x} | int]", _WHOLE + "0"),
    (f"{_PLACE} 1", "{l}[{x} - 1]", "{x} is integer and {x} >= 1"),
    (f"{_PLACE} 1", "{m1}[{x} | string]", ""),
    (f"{_PLACE} 1", "{l}[{x} | int - 1]", _WHOLE + "1"),
    (_OPTION, "{l}[{o}.index({x})]", "{o}.count({x}) == 1"),
    ("a list of one", "{x} | join", ""),
    ("a label in the wrong case", "{x} | upper", ""),
    ("a label in the wrong case", "{x} | lower", ""),
    *(("a label with marks around it", f"{{x}} | trim({one!r})", "") for one in _MARKS),
    *(("a label with marks, in the wrong case", f"{{x}} | trim({one!r}) | upper", "") for one in _MARKS),
    *(("a label and the text of its option", f"{{x}}.split({one!r})[0] | trim('( ')", "") for one in ".):"),
)
#: The same for choices, by the type of their cells, with the code of the options.
_SPLITS = [(f"{{c}}.split({mark!r}) | map('trim') | list", "") for mark in ",;|"]
_CHOICES: dict[type, tuple[str, list[tuple[str, str]]]] = {
    str: ("one text", [*_SPLITS, ("{c} | list", "")]),
    dict: ("a mapping", [("{c}.label", "{c}.text"), ("{c} | list", "{c}.values() | list")]),
    list: ("the texts of the options, not labels", [(f"{_LETTERS!r}[:{{c}} | length] | list", "{c}")]),
}
#: What can be said of rows that no line mends: the field, what must hold of its code, what it is, what to do.
_SAID = (
    (TRUTH, "{x} is none", "the ground truth is null", _NAME_IT),
    (CHOICES, "{x} is none", "the choices are null", _NAME_IT),
    (TRUTH, "{x} | string == '-1'", "the ground truth is -1, as where it is kept secret", _SECRET),
    (CHOICES, "{x} is not none", "the choices are no list of labels", _NAME_IT),
    (TRUTH, "{x} is not none", "the ground truth is none of the choices", _NAME_IT),
)


@dataclass
class Mend:
    """What rows have in common, and the lines to write; without lines there is only something to say.

    `test` says the same as the lines, and fails on values that are not so. `way` is what the truth is. Then:
    how many bad rows it mends, how many good ones it leaves as they are, of how many the lines make something
    that is not meant, and some bad rows that it does or does not mend.
    """

    what: str
    lines: dict[str, str]
    test: dict[str, str]
    way: str = ""
    hint: str = ""
    mended: int = 0
    kept: int = 0
    spoilt: int = 0
    rows: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def fits(self, total: int, bad: int) -> bool:
        """Return whether it is worth telling of so many rows, of which so many are bad."""
        if not self.lines:  # rows that are wrong in several ways are better told singly, if all can be
            return self.mended >= max(SHOWN + 1 if self.way else FEWEST, total / 2)
        # A position may look like a label: all of them are meant.
        is_position = self.way.startswith(_PLACE) and self.mended + self.kept == total
        is_common = is_position or self.mended >= min(FEWEST, total)
        return is_common and self.kept == total - bad and not self.spoilt


def find_common(
    scorer: Scorer, rows: Rows, failed: Sequence[int], written: Node
) -> tuple[DataError, int, int, Samples] | None:
    """Return an error for what many bad rows have in common, how many do and how many do not, some of these.

    Some of the `failed` rows are bad for this scorer, which is `written` in a file. None when no more than a
    few rows are alike.
    """
    templates, _ = compile_templates(scorer)
    few, total, bad = _take(rows, failed), len(rows), 0
    possible = _list_mends(templates, few) if {TRUTH, CHOICES} <= templates.keys() else ()
    hits = [(int(_try(one.test, templates, few)[0].sum()), one) for one in possible]
    mends = [one for hit, one in hits if hit and 2 * hit >= max(hits, key=itemgetter(0))[0]]
    for start in range(0, total if mends else 0, SHARD_ROWS):
        samples = rows.slice(start, SHARD_ROWS).load()
        was_good, before = _try({}, templates, samples)
        bad += len(samples) - int(was_good.sum())
        for mend in mends:
            is_good, truths = _try(mend.test, templates, samples)
            is_same = is_good if mend.way.startswith(_PLACE) else is_good & truths.eq_missing(before)
            mend.spoilt += int((_try(mend.lines, templates, samples)[0] & ~is_good).sum())
            mend.mended += int((is_good & ~was_good).sum())
            mend.kept += int((is_same & was_good).sum())
            mend.rows += (start + (is_good & ~was_good).arg_true().head(TRIED)).to_list()
            mend.others += (start + (~is_good & ~was_good).arg_true().head(TRIED)).to_list()
    fit = [one for one in mends if one.fits(total, bad)]
    fit = [one for one in fit if one.lines] or fit
    if not fit:
        return None
    best = [one for one in fit if one.mended == max(one.mended for one in fit)]
    # Ways to read a truth between which no row decides.
    rivals = {one.way: one for one in reversed(best) if one.way.startswith((_PLACE, _OPTION))}
    first, chosen = best[0], list(rivals.values())[::-1] if best[0].way in rivals else best[:1]
    names = [name for name in (CHOICES, TRUTH) if name in (first.lines or list(first.test)[:1])]
    samples = _take(rows, first.rows)
    shown = names if first.lines else (CHOICES, TRUTH)
    values = zip(*(templates[name].values(samples) for name in shown), strict=True)
    texts = [", ".join("null" if one is None else shorten(one) for one in row) for row in values]
    order = sorted(range(len(texts)), key=lambda row: (texts.index(texts[row]) != row, row))
    scope = f"all {total:,} rows" if first.mended == total else f"{first.mended:,} of {total:,} rows"
    told = [f"{scope}: {', or '.join([first.what, *(one.way for one in chosen[1:])])}"]
    told += [f"{show_place(samples.place(row))}: {texts[row]}" for row in sorted(order[:FEWEST])]
    blocks = ["\n".join(f"{name}: {value}" for name, value in one.lines.items()) for one in chosen]
    hint = "\nor, if that is meant:\n".join(["write in the scorer:\n" + blocks[0], *blocks[1:]])
    hint = hint if first.lines else first.hint.replace("COLUMNS", listing(rows.columns))
    where, code = written.at(names[0]).place, "E205" if CHOICES in names else "E204"
    error = DataError(code, "\n".join(told), where=where, hint=hint)
    return error, first.mended, bad - first.mended, _take(rows, first.others)


def _take(rows: Rows, positions: Sequence[int]) -> Samples:
    return rows.take(pl.Series(positions[:TRIED], dtype=pl.UInt32)).load()


def _try(
    test: Mapping[str, str], templates: Mapping[str, Template], samples: Samples
) -> tuple[pl.Series, pl.Series]:
    """Return which rows are good with changed lines, and their truths."""
    try:
        changes = {name: Template.compile(json.loads(value)) for name, value in test.items()}
        found = resolve_rows({**templates, **changes}, samples)
    except AnswerkeyError:  # a column may be called anything
        return pl.repeat(False, len(samples), eager=True), pl.repeat(None, len(samples), eager=True)  # noqa: FBT003 - Polars'
    return found.reasons().is_null(), found.truths


def _list_mends(templates: Mapping[str, Template], few: Samples) -> Iterator[Mend]:
    """Yield changes to try, the simplest first: of choices, truths or both; then what can be said."""
    truth, choices = (_find_code(templates[name]) for name in (TRUTH, CHOICES))
    stated = resolve_rows({CHOICES: templates[CHOICES]}, few).choices
    constant = "".join(stated[0]) if templates[CHOICES].kind == "constant" else ""
    # What the choices are, lines for that and to test it, the code of the labels, all labels, the options.
    readings: list[tuple[str, dict[str, str], dict[str, str], str, str, str]] = []
    readings.append(("", {}, {}, repr(constant) if constant else choices, constant, ""))
    cell = next((one for one in templates[CHOICES].values(few) if one is not None), None)
    if choices and stated.null_count() and type(cell) in _CHOICES:
        what, forms = _CHOICES[type(cell)]
        for code, texts in ((one.format(c=choices), more.format(c=choices)) for one, more in forms):
            options = {OPTIONS: _write(texts)} if texts and OPTIONS not in templates else {}
            lines = test = {CHOICES: _write(code)} | options
            size = len(cell) if isinstance(cell, list) else 0
            if size:
                must = f"{choices} is not string and {choices} is not mapping"
                test = {CHOICES: _write(f"{code} if {must}")} | options
            if 1 < size <= len(_LETTERS):  # the same labels in every row, if it has as many
                same = {CHOICES: _write(f"{code} if {must} and {choices} | length == {size}")} | options
                fixed = {CHOICES: json.dumps([*_LETTERS[:size]])} | options
                readings.append((what, fixed, same, repr(_LETTERS[:size]), _LETTERS[:size], texts))
            labels = repr(_LETTERS) if size else f"({code})"
            readings.append((what, lines, test, labels, "", f"({texts})" if " " in texts else texts))
    columns = [one for name in NAMES["options"] for one in few.columns if one.lower() == name]
    known = [f"sample.{one}" if one.isidentifier() else f"sample[{one!r}]" for one in columns]
    spread = f"[{', '.join(f'sample[{one!r}]' for one in find_numbered(few.columns))}]"
    given = [_find_code(templates[OPTIONS])] if OPTIONS in templates else [*known, spread]
    for what, lines, test, labels, names, texts in readings:
        said = f"the choices are {what}" if what else ""
        if lines:
            yield Mend(said, lines, test)
        maps = [repr({str(at): one for at, one in enumerate(names, base)}) for base in (0, 1)]
        for way, form, must in _TRUTHS if truth else ():
            for option in filter(None, [texts, *given]) if "{o}" in form else [""]:
                code = form.format(x=truth, l=labels, o=option, m0=maps[0], m1=maps[1])
                tried = f"{code} if {must.format(x=truth, o=option)}" if must else code
                both = "; ".join(filter(None, [said, f"the ground truth is {way}"]))
                yield Mend(both, lines | {TRUTH: _write(code)}, test | {TRUTH: _write(tried)}, way)
    good = {TRUTH: '"A"', CHOICES: '["A", "B"]'}
    for name, must, said, hint in _SAID:
        code = truth if name == TRUTH else choices
        if code and (must != "{x} is not none" or bool(stated.null_count()) == (name == CHOICES)):
            test = {name: _write(f"{json.loads(good[name])!r} if {must.format(x=code)}")}
            test |= {one: value for one, value in good.items() if one != name}
            yield Mend(said, {}, test, way="any" if "not" in must else "", hint=hint)


def _find_code(template: Template) -> str:
    """Return the expression of a template that is nothing else; "" for any other."""
    found = _LONE.fullmatch(template.source) if isinstance(template.source, str) else None
    code = found[1] if found else ""
    return code if not code or _CODE.fullmatch(code) else f"({code})"


def _write(code: str) -> str:
    """Return a template as a value of YAML."""
    return json.dumps(f"{{{{ {code} }}}}", ensure_ascii=False)


# Whether the prompt shows the options: a model that does not see them can only guess a letter.

#: So many rows are looked at, and so many words of an option, for a template may cut long ones.
LOOKED_AT = 20
COMPARED_WORDS = 5
#: Columns that hold option texts, if not only labels.
COLUMNS = ("options", "choices")
_LABEL = re.compile(r"^\s*\(?\w{1,2}[.):]\s+")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_BREAK = re.compile(r"\\[nrt]|<[^<>]*>")


def _find_hidden_options(
    task: Task, shard: Shard, prompts: Sequence[object], failed: set[int]
) -> list[Notice]:
    """Return a notice when option texts are known, and no prompt of the first rows has half of its own.

    `prompts` are those of the shard, in order; rows at the positions `failed` are passed over.
    """
    rows = [row for row in range(min(LOOKED_AT, len(prompts))) if row not in failed]
    samples = shard.samples.slice(0, LOOKED_AT).load().take(rows)
    columns = [name for name in COLUMNS if name in samples.columns]
    try:
        known = task.sample_facts(samples)
        stated = known.options if known else [None] * len(samples)
        labels = known.choices if known else [None] * len(samples)
        cells = [[row[name] for name in columns] for row in samples.rows(columns)]
    except AnswerkeyError:  # what is wrong with the rows or the templates is told elsewhere
        return []
    # The texts that a scorer knows, else those of a column.
    pairs = [
        (prompts[row], texts)
        for row, told, own, marks in zip(rows, stated, cells, labels, strict=True)
        if (texts := next(filter(None, (_read_texts(one, marks or ()) for one in (told, *own))), None))
        and not isinstance(prompts[row], RowError)
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


def _read_texts(cell: object, labels: Sequence[str]) -> list[str]:
    """Return the texts of a cell; nothing for one that holds labels only."""
    found, _ = read_option_cell(cell)
    texts = [text for text in found or () if text and text.strip()]
    return [] if all(text.strip() in labels or len(text.strip()) == 1 for text in texts) else texts


def _shows(prompt: object, texts: Sequence[str]) -> bool:
    """Return whether a prompt has the first words of half of the texts, with or without their labels."""
    raw = "\n".join(_walk_texts(prompt))
    words = f" {_join_words(raw)} "

    def holds(text: str) -> bool:
        bare = (" ".join(_join_words(one).split()[:COMPARED_WORDS]) for one in (text, _LABEL.sub("", text)))
        sought = [f" {one} " if one.isascii() else one for one in bare if one]
        return text.strip() in raw or any(one in words for one in sought)

    return 2 * sum(map(holds, texts)) >= len(texts)


def _join_words(text: str) -> str:
    """Return the words of a text, however it is written: case, marks, white space, JSON or HTML escapes."""
    from html import unescape

    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), unescape(text))
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", _BREAK.sub(" ", plain)).casefold()))


def _walk_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _walk_texts(one)


# Templates that see a completion, tried on a made-up one: what they read that no completion ever has.

#: A name that a row of the dataset itself lacks is that row's error, unless so many lack it.
TRIED_ROWS = 50
#: How many different names one template may read of a message or a score.
MOST_NAMES = 100
TEXT = "A"
_PROMPT = tuple({"role": role, "content": TEXT} for role in ("system", "user"))
_NAME = re.compile(r"^(?P<owner>.*?) (?:has )?no field `(?P<name>[^`]*)`")
#: Made-up values of which the true type is not known.
_UNKNOWN = frozenset(["null", "a number", "a boolean"])
_LINE = re.compile(r" \(line (?P<line>\d+) of the template\)$")

#: Returns what goes wrong with a template on samples, their completions and scores; None when nothing does.
Try = Callable[[Samples, Completions, dict[str, Scores]], RowError | None]


def find_unreadable(prepared: Prepared) -> list[AnswerkeyError]:
    """Return an error for each template that reads a field which a completion or a score cannot have."""
    task, rows = prepared.task, prepared.dataset.rows.slice(0, TRIED_ROWS)
    tries: list[tuple[tuple[str | int, ...], Try]] = [
        (("definition", "scorers", step.index, name), _try_field(step, name))
        for step in task.scoring
        for name in getattr(step.scorer, "completion_fields", ())
    ]
    tries += [
        (("definition", "actions", index, "filter", "expression"), partial(try_action, action))
        for index, action in enumerate(task.actions)
    ]
    if not tries or not len(rows):
        return []
    samples = rows.load(prepared.columns)
    errors: list[AnswerkeyError] = []
    for path, attempt in tries:
        problem = None
        try:
            for row in range(len(samples)):  # a name that one of them has is no mistake of the template
                problem = _try_row(attempt, task, samples.take([row]))
                if problem is None:
                    break
        except TemplateStopped as stopped:
            errors.append(stopped.at(task.places.of_template(stopped.source)))
            continue
        if problem is not None:
            line = _LINE.search(problem.message)
            where = task.places.of_line(path, int(line["line"]) if line else None)
            message = f"`{path[-1]}`: {_LINE.sub('', problem.message)}"
            errors.append(SpecError("E112", message, where=where, hint=problem.hint))
    return errors


def _try_field(step: ScoringStep, name: str) -> Try:
    return lambda samples, completions, _: step.scorer.try_field(name, samples, completions)  # type: ignore[attr-defined]


def _try_row(attempt: Try, task: Task, sample: Samples) -> RowError | None:
    """Return the error about a field that is missing even where a made-up reply and scores have it.

    What a provider adds to a message, and what a snippet returns, is not known beforehand: a field that the
    template reads of one of them may be there. The content of a message may be text or a list of parts.
    """
    told: dict[str, RowError] = {}
    is_in_parts = False
    blank, status = pl.Series([None], dtype=pl.String), pl.Series([ScoreStatus.SCORED.value])
    for _ in range(MOST_NAMES):
        more = dict.fromkeys(told, TEXT)
        content: object = [{"type": "text", "text": TEXT, **more}] if is_in_parts else TEXT
        reply = {**more, "role": "assistant", "content": content}
        usage = {"finish_reason": "stop", "prompt_tokens": 1, "completion_tokens": 1}
        said = Completion(TEXT, prompt=_PROMPT, reply=reply, **usage)  # type: ignore[arg-type]  # of Completion
        completions = Completions.build(sample.ids, [said], source="made up")
        scores = {}
        for step in task.scoring:
            known = (*(step.scorer.value_names or ()), *(step.scorer.metadata_names or ()), *told)
            values = {name: pl.Series([1.0]) for name in known}
            scores[step.key] = build_scores(status, blank, values, metadata={})
        problem = attempt(sample, completions, scores)
        if problem is None or not problem.is_undefined:
            return None
        missing = _NAME.search(problem.message)
        if missing is None or missing["owner"] in _UNKNOWN:
            return None
        is_text, is_mapping = missing["owner"] == "text", missing["owner"] == "there is"
        if is_text and told and not is_in_parts:
            return None
        if missing["name"] in told or not (is_text or is_mapping):
            return told.get(missing["name"], problem)
        is_in_parts |= is_text
        told[missing["name"]] = problem
    return None


# How each template of a task will be evaluated on its dataset: what `check --plan` shows.


@dataclass(frozen=True)
class PlannedTemplate:
    """A template by the name of its field, and how it will be evaluated."""

    field: str
    template: Template
    plan: Plan

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that it reads; None: any."""
        columns = self.template.columns
        return None if columns is None else tuple(sorted(columns))


def plan_templates(specification: Specification, samples: Samples) -> tuple[PlannedTemplate, ...]:
    """Return the filters of a dataset and every template of its task, in the order in which they are used.

    `samples` are any rows of the dataset: only their columns matter.
    """
    dataset, task, solver = specification.dataset, specification.task, specification.task.solver
    asking = [step for step in task.scoring if asks_model(step.scorer)]
    judges = {step.key for step in asking if find_role(step.scorer) == "judge"}
    has_examples = isinstance(solver, SingleTurnSolver) and solver.examples is not None
    found = [
        PlannedTemplate(
            f"dataset {dataset.key}.filters.{position}.expression", template, template.plan(samples)
        )
        for position, template in enumerate(one.row_template for one in dataset.source.filters)
    ]
    for name, template in task.templates():
        is_prompt, is_judged = name.startswith("solver."), name.rpartition(".")[0] in judges
        if not is_prompt and not is_judged:
            plan = template.plan(samples, later=ACTION_NAMES)
        else:
            plan = template.plan(samples, as_text=True)
            if plan.kind != "constant" and (is_judged or has_examples):
                beside = "completion" if is_judged else "examples"
                plan = Plan("rows", plan.reads, f"the prompt is written with the {beside} of each row")
        found.append(PlannedTemplate(name, template, plan))
    return tuple(found)
