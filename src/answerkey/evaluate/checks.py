"""What is wrong with rows and templates, found without calling a model: truths, choices, prompts,
options.

`check_samples` is the step *check* of the pipeline: it looks at the rows of one shard. What it
finds in all shards is merged into one `RowProblems`, to which `check_whole` adds what is wrong with
the task as a whole.
"""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from answerkey.datasets.dataset import Shard
from answerkey.datasets.questions import read_option_cell
from answerkey.datasets.rows import Rows
from answerkey.errors import AnswerkeyError, DataError, Place, SpecError, distinct, listing
from answerkey.evaluate.choice_order import find_order_problems
from answerkey.evaluate.job import CHUNK_ROWS, Job
from answerkey.models.config import sees_samples
from answerkey.models.images import list_images
from answerkey.scorers import (
    Scorer,
    build_table,
    compile_templates,
    reads_choices,
    try_action,
)
from answerkey.scorers.mcqa import check_characters, check_characters_or_numbers
from answerkey.scorers.question import build_question, build_questions
from answerkey.solvers import find_column_field, require_known
from answerkey.solvers.solver import Prompt
from answerkey.spec import ScoringStep, Task
from answerkey.spec.nodes import Node
from answerkey.templates import RowError, Template, TemplateStopped
from answerkey.text import show_place
from answerkey.types import Completion, Completions, Notice, Samples, Score, Scores, ScoreStatus

#: How many rows of one kind are shown before only their number is.
SHOWN = 20


@dataclass
class RowProblems:
    """What is wrong with rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds the positions of rows that may be FAILED with `--allow-failed`, in order once
    merged; `fatal` the errors that no allowance covers. `rows` is how many rows were looked at, or
    will be. `images` are the kinds of images in the prompts, `image_files` the SHA-256 of each that
    is a file.
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
        """Count an error.

        Keep it while there are few of its kind. The very same error is told once.
        """
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

    def errors(self, job: Job) -> list[AnswerkeyError]:
        """Return the errors to show: what many rows have in common, then single rows, then how many
        more.

        Each row says how to go on all the same, if a row would be left.
        """
        common, left, rows = list[AnswerkeyError](), len(self.failed), job.dataset.rows
        for step in job.task.scoring:
            kind, above = (
                f"scorer `{step.key}`",
                job.task.places.at("definition", "scorers", step.index),
            )
            codes = [
                code for code in _COMMON if self.counts[kind, code] >= max(FEWEST, len(rows) / 2)
            ]
            if not codes or not hasattr(step.scorer, TRUTH):
                continue
            count = self.counts[kind, codes[0]]
            shared = describe_common(codes[0], count, step.scorer, rows, self.failed, above)
            if shared is None:
                continue
            common.append(shared)
            left -= count
            # Truths are compared with choices: those are to be right first.
            self.shown = [(name, error) for name, error in self.shown if name != kind]
            self.counts = Counter({key: n for key, n in self.counts.items() if key[0] != kind})
        left = max(left, len({error.where for _, error in self.shown}))
        own = _list_own_columns(job)
        allow = f"run with `--allow-failed {left}` to score the rest and report"
        shown: list[AnswerkeyError] = []
        for error in (_name_own_column(error, own) for _, error in self.shown):
            these = "this sample" if error.where and error.where.sample else "these samples"
            hint = f"{error.hint or 'fix the row'}, or {allow} {these} as FAILED"
            told = DataError(error.code, error.message, where=error.where, hint=hint)
            shown.append(error if left >= self.rows else told)
        cut = [
            (kind, code, count - SHOWN)
            for (kind, code), count in self.counts.items()
            if count > SHOWN
        ]
        for kind, code, count in cut:
            message = f"{kind}: {count} more rows have the same problem"
            shown.append(DataError(code, message, hint="correct the others first"))
        return [*self.fatal, *common, *shown]


def _list_own_columns(job: Job) -> dict[str | None, str]:
    """Return the file's own names of the columns that `questions` derives from it."""
    said = getattr(job.specification.dataset.source, "questions", {})
    own: dict[str | None, str] = {}
    for part, columns in said.items():
        own[part] = columns if isinstance(columns, str) else ", ".join(columns)
        if part in {"truth", "options"}:  # whose form may follow
            own[part] = own[part].rpartition(":")[0] or own[part]
    return {"choices": own["options"], **own} if "options" in own else own


def _name_own_column(error: AnswerkeyError, own: Mapping[str | None, str]) -> AnswerkeyError:
    """Return an error of a row with the file's own name of the column that is at fault."""
    if error.where is None or error.where.field not in own:
        return error
    message, hint = error.message, error.hint
    if error.where.field == "choices":  # which are made of the options, unless there are none
        message, hint = f"sample `{error.where.sample}`: the question has no options", "list them"
    where = replace(error.where, field=own[error.where.field])
    return DataError(error.code, message, where=where, hint=hint)


def find_odd_options(job: Job) -> list[Notice]:
    """Return notices of questions with one option only, and of those with the same option twice."""
    odd: dict[str, list[Place]] = {"only one option": [], "the same option twice": []}
    scorers = [step.scorer for step in job.task.scoring if reads_choices(step.scorer)]
    rows = job.dataset.rows
    for start in range(0, len(rows) if scorers else 0, CHUNK_ROWS):
        samples = rows.slice(start, CHUNK_ROWS).load(job.columns)
        for row, options in enumerate(scorers[0].option_texts(samples, only_told=False)):
            texts = [option.strip() for option in options or ()]
            if len(texts) == 1:
                odd["only one option"].append(samples.place(row))
            if len(set(texts)) < len(texts):
                odd["the same option twice"].append(samples.place(row))
    notices = []
    for what, places in odd.items():
        if places:
            ids = listing([str(place.sample) for place in places], limit=3)
            message = f"{len(places):,} of {len(rows):,} questions have {what}: sample {ids}"
            notices.append(
                Notice(message, places[0], "correct the options, or leave these questions out")
            )
    return notices


def check_samples(job: Job, shard: Shard, samples: Samples) -> RowProblems:
    """Return what is wrong with rows of a shard.

    Prompts do not matter where completions are recorded. A problem of the whole, such as a missing
    column, is placed where the task asks for it.
    """
    found, task = RowProblems(len(samples)), job.task

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
                    message = f"{error.message} of dataset `{job.dataset.name}`"
                    error = DataError(error.code, message, where=at, hint=error.hint)
                elif error.code != "E206" and len(task.scoring) > 1:
                    message = f"{error.message} (scorer `{step.key}`)"
                    error = DataError(error.code, message, where=error.where, hint=error.hint)
                add(f"scorer `{step.key}`", problem.position, error)
        for problem in find_order_problems(task, samples):
            add("`choice_order`", problem.position, problem.error)
        solver = None if shard.recorded is not None else task.solver
        prompts: list[Prompt | RowError] = []
        wrong: list[tuple[int, DataError]] = []
        if solver is not None:
            prompts, wrong = solver.check_prompts(samples, job.examples)
        for prompt in prompts:
            for image in [] if isinstance(prompt, RowError) else list_images(prompt):
                found.images.add(image.kind)
                if isinstance(image.held, Path):
                    found.image_files[str(image.held)] = str(image["sha256"])
        failed = set(found.failed)
        for position, prompt_error in wrong:
            if position in failed:  # its prompt fails for the same reason
                continue
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


def check_whole(problems: RowProblems, job: Job) -> None:
    """Add what is wrong with the task as a whole: what the model must know, and templates of
    completions.
    """
    if job.model is not None:
        try:
            if sees_samples(job.model):
                samples = job.dataset.rows.slice(0, CHUNK_ROWS).load(job.columns)
                require_known(job.model, samples, job.task.sample_facts(samples))
            if (connection := getattr(job.model, "connection", None)) is not None:
                connection.require_images(problems.images)
        except SpecError as error:
            problems.fatal.append(error)
    problems.fatal.extend(find_unreadable(job))


# What most rows have in common: one error in place of thousands, and a hint by what their values
# look like.
#
# The lines of a hint fail on values that look otherwise: none gives a wrong truth to a row that has
# none.

TRUTH, CHOICES = "ground_truth_choice", "choices"
#: So many rows at least have something in common; so many of them are shown.
FEWEST = 3
#: So many bad rows are looked at for a hint.
TRIED = 50
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONE = re.compile(r"\s*\{\{-?\s*([^{}]+?)\s*-?\}\}\s*")
_CODE = re.compile(r"\w+(?:\.\w+|\[[^\[\]]*\])*")
_MARKS = "()[].:,;*_ "
#: By code, the first one first: the field of the scorer that is at fault, and what such rows have
#: in common.
_COMMON = {
    "E205": (CHOICES, "the choices are no list of labels"),
    "E204": (TRUTH, "the ground truth is none of the choices"),
}


def describe_common(
    code: str, count: int, scorer: Scorer, rows: Rows, failed: Sequence[int], written: Node
) -> DataError | None:
    """Return the error for a problem that `count` rows have; `written` is their scorer in its file.

    None where they are few and differ: those are better told singly.
    """
    field, what = _COMMON[code]
    samples = rows.take(pl.Series(failed[:TRIED], dtype=pl.UInt32)).load()
    problems = [one for one in scorer.check_rows(samples)[0] if one.error.code == code]
    bad, (templates, _) = (
        samples.take([one.position for one in problems]),
        compile_templates(scorer),
    )
    messages = [re.sub(r"^sample `.*?`: ", "", one.error.message) for one in problems]
    proposals = [
        one for one in _read_otherwise(code, templates, bad) if _mends(one, templates, bad)
    ]
    if not proposals and count <= SHOWN and len(set(messages)) > 1:
        return None
    hint = f"correct the rows, or name the column that holds it: {listing(rows.columns)}"
    if proposals:
        blocks = [_write_fields(one) for one in proposals]
        hint = "\nor, if that is meant:\n".join([f"write in the scorer:\n{blocks[0]}", *blocks[1:]])
    elif code == "E204" and {str(one) for one in templates[TRUTH].values(bad)} == {"-1"}:
        hint = (
            "the truths are kept secret: use a part of the dataset that has them, such as "
            "`validation`"
        )
    scope = f"all {len(rows):,} rows" if count == len(rows) else f"{count:,} of {len(rows):,} rows"
    lines = [f"{scope}: {what}"]
    for row, message in enumerate(messages[:FEWEST]):
        lines.append(f"{show_place(bad.place(row))}: {message}")
    return DataError(code, "\n".join(lines), where=written.at(field).place, hint=hint)


def _mends(
    proposal: Mapping[str, str], templates: Mapping[str, Template], samples: Samples
) -> bool:
    """Return whether the fields of a proposal read most of these bad rows."""
    changed = {name: Template.compile(f"{{{{ {code} }}}}") for name, code in proposal.items()}
    questions = build_questions({**templates, **changed}, samples, check_characters_or_numbers)
    if TRUTH in proposal:
        good = [question for question in questions if not question.faults]
    else:
        good = [question for question in questions if question.labels]
    return 2 * len(good) > len(samples)


def _read_otherwise(
    code: str, templates: Mapping[str, Template], samples: Samples
) -> list[dict[str, str]]:
    """Return the fields of a scorer that would read these bad rows, in each way that may be
    meant.
    """
    truth, choices = (_find_code(templates[name]) for name in (TRUTH, CHOICES))
    if code == "E205":
        cells = templates[CHOICES].values(samples)
        are_alike = 2 * sum(type(cell) is type(cells[0]) for cell in cells) > len(cells)
        fields = _read_choices(choices, cells[0]) if choices and are_alike else {}
        return [fields] if fields else []
    labels = ""
    if templates[CHOICES].kind == "constant":
        question = build_question({CHOICES: templates[CHOICES].evaluate()}, check_characters)
        labels = "".join(question.labels)
        choices = repr(labels)
    if not truth or not choices:
        return []
    truths = templates[TRUTH].values(samples)
    expressions = _read_truths(truth, truths, choices, labels)
    for name in samples.columns if not expressions else ():
        cells = samples.values(name)
        if all(
            isinstance(cell, list) and one in cell for cell, one in zip(cells, truths, strict=True)
        ):
            column = f"sample.{name}" if name.isidentifier() else f"sample[{name!r}]"
            expressions = [f"{choices}[{column}.index({truth})]"]
    return [{TRUTH: one} for one in expressions]


def _read_truths(truth: str, values: Sequence[object], choices: str, labels: str) -> list[str]:
    """Return how positions, lists of one, and labels with something around them are read.

    `truth` and `choices` are the code of both, `labels` the choices where they are the same in
    every row.
    """
    texts = [str(one) for one in values]

    def look_like(pattern: str) -> bool:
        return 2 * sum(
            re.fullmatch(pattern, text, re.IGNORECASE) is not None for text in texts
        ) > len(texts)

    label = f"[{re.escape(labels)}]" if labels else r"\w"
    if look_like(r"\d+(\.0)?"):
        if not labels:
            return [f"{choices}[{truth}]", f"{choices}[{truth} - 1]"][: 1 if "0" in texts else 2]
        ending = ".0" if "." in texts[0] else ""
        maps = [{f"{at}{ending}": one for at, one in enumerate(labels, base)} for base in (0, 1)]
        fitting = [
            one for one in maps if {*texts} & {f"0{ending}", f"{len(labels)}{ending}"} <= one.keys()
        ]
        return [f"{one}[{truth} | string]" for one in fitting]
    if look_like(rf"\['{label}'\]"):
        return [f"{truth} | join"]
    if look_like(rf"[{re.escape(_MARKS)}]*{label}[{re.escape(_MARKS)}]*"):
        return [f"{truth} | trim({_MARKS!r}) | {'lower' if labels.islower() else 'upper'}"]
    if look_like(rf"\(?{label}[.):] .*"):
        return [f"{truth}.split({texts[0].lstrip('(')[1]!r})[0] | trim('( ')"]
    return []


def _read_choices(choices: str, cell: object) -> dict[str, str]:
    """Return how labels are read from the cell of a row that is no list of them.

    Nothing where none are.
    """
    if isinstance(cell, str):
        mark = next((one for one in ",;|" if one in cell), "")
        return {
            CHOICES: f"{choices}.split({mark!r}) | map('trim') | list"
            if mark
            else f"{choices} | list"
        }
    if isinstance(cell, Mapping):
        if {"label", "text"} <= cell.keys():
            return {CHOICES: f"{choices}.label", "options": f"{choices}.text"}
        return {CHOICES: f"{choices} | list", "options": f"{choices}.values() | list"}
    if not isinstance(cell, list) or not any(len(str(one)) > 1 for one in cell):
        return {}
    for key in ("key", "label") if isinstance(cell[0], Mapping) else ():
        if {key, "text"} <= cell[0].keys():
            return {CHOICES: f"{choices} | map(attribute='{key}') | list", "options": choices}
    return {CHOICES: f"{_LETTERS!r}[:{choices} | length] | list", "options": choices}


def _find_code(template: Template) -> str:
    """Return the expression of a template that is nothing else; "" for any other."""
    lone = _LONE.fullmatch(template.source) if isinstance(template.source, str) else None
    code = lone[1] if lone else ""
    return code if not code or _CODE.fullmatch(code) else f"({code})"


def _write_fields(expressions: Mapping[str, str]) -> str:
    """Return fields of a scorer as lines of YAML."""
    return "\n".join(
        f"{name}: {json.dumps(f'{{{{ {code} }}}}')}" for name, code in expressions.items()
    )


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
    """Return a notice when option texts are known, and no prompt of the first rows has half of its
    own.

    `prompts` are those of the shard, in order; rows at the positions `failed` are passed over.
    """
    rows = [row for row in range(min(LOOKED_AT, len(prompts))) if row not in failed]
    samples = shard.samples.slice(0, LOOKED_AT).load().take(rows)
    columns = [name for name in COLUMNS if name in samples.columns]
    try:
        known = task.sample_facts(samples)
        stated = known.options if known else [None] * len(samples)
        labels = known.choices if known else [None] * len(samples)
        cells = [[row[name] for name in columns] for row in samples.rows()]
    except AnswerkeyError:  # what is wrong with the rows or the templates is told elsewhere
        return []
    # The texts that a scorer knows, else those of a column.
    pairs = [
        (prompts[row], texts)
        for row, told, own, marks in zip(rows, stated, cells, labels, strict=True)
        if (
            texts := next(
                filter(None, (_read_texts(one, marks or ()) for one in (told, *own))), None
            )
        )
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
    """Return whether a prompt has the first words of half of the texts, with or without their
    labels.
    """
    raw = "\n".join(_walk_texts(prompt))
    words = f" {_join_words(raw)} "

    def holds(text: str) -> bool:
        bare = (
            " ".join(_join_words(one).split()[:COMPARED_WORDS])
            for one in (text, _LABEL.sub("", text))
        )
        sought = [f" {one} " if one.isascii() else one for one in bare if one]
        return text.strip() in raw or any(one in words for one in sought)

    return 2 * sum(map(holds, texts)) >= len(texts)


def _join_words(text: str) -> str:
    """Return the words of a text, however it is written: case, marks, white space, JSON or HTML
    escapes.
    """
    from html import unescape

    plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), unescape(text))
    return " ".join(
        re.findall(r"\w+", unicodedata.normalize("NFKC", _BREAK.sub(" ", plain)).casefold())
    )


def _walk_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _walk_texts(one)


# Templates that see a completion, tried on a made-up one: what they read that no completion ever
# has.

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

#: Returns what goes wrong with a template on samples, their completions and scores; None when
#: nothing does.
Try = Callable[[Samples, Completions, dict[str, Scores]], RowError | None]


def find_unreadable(job: Job) -> list[AnswerkeyError]:
    """Return an error for each template that reads a field which a completion or a score cannot
    have.
    """
    task, rows = job.task, job.dataset.rows.slice(0, TRIED_ROWS)
    tries: list[tuple[tuple[str | int, ...], Try]] = [
        (("definition", "scorers", step.index, name), _try_field(step, name))
        for step in task.scoring
        for name in step.scorer.completion_fields
    ]
    tries += [
        (("definition", "actions", index, "filter", "expression"), partial(try_action, action))
        for index, action in enumerate(task.actions)
    ]
    if not tries or not len(rows):
        return []
    samples = rows.load(job.columns)
    errors: list[AnswerkeyError] = []
    for path, attempt in tries:
        problem = None
        try:
            for row in range(
                len(samples)
            ):  # a name that one of them has is no mistake of the template
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
    return lambda samples, completions, _: step.scorer.try_field(name, samples, completions)


def _try_row(attempt: Try, task: Task, sample: Samples) -> RowError | None:
    """Return the error about a field that is missing even where a made-up reply and scores have it.

    What a provider adds to a message, and what a snippet returns, is not known beforehand: a field
    that the template reads of one of them may be there. The content of a message may be text or a
    list of parts.
    """
    told: dict[str, RowError] = {}
    is_in_parts = False
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
            made_up = Score(ScoreStatus.SCORED, values=dict.fromkeys(known, 1.0))
            scores[step.key] = build_table([made_up], dict.fromkeys(known, pl.Float64()), {})
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
