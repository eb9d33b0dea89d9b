"""What is wrong with rows and templates, found without calling a model: truths, choices, prompts, options.

`check_samples` is the step *check* of the pipeline: it looks at the rows of one shard. What it finds in all
shards is merged into one `RowProblems`, to which `check_whole` adds what is wrong with the task as a whole.
"""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from answerkey.datasets.dataset import Shard
from answerkey.datasets.questions import read_option_cell
from answerkey.errors import AnswerkeyError, DataError, SpecError
from answerkey.evaluate.choice_order import find_order_problems
from answerkey.evaluate.prepare import SHARD_ROWS, Prepared
from answerkey.scorers import asks_model, build_scores, find_role, try_action
from answerkey.solvers import SingleTurnSolver, find_column_field, require_known
from answerkey.spec import ScoringStep, Specification, Task
from answerkey.templates import ACTION_NAMES, Plan, RowError, Template, TemplateStopped
from answerkey.types import Completion, Completions, Notice, Samples, Scores, ScoreStatus

#: How many rows of one kind are shown before only their number is.
SHOWN = 20


@dataclass
class RowProblems:
    """What is wrong with rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds the positions of rows that may be FAILED with `--allow-failed`, in order once merged;
    `fatal` the errors that no allowance covers. `rows` is how many rows were looked at, or will be.
    """

    rows: int
    shown: list[tuple[str, AnswerkeyError]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: array[int] = field(default_factory=lambda: array("q"))
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error; keep it while there are few of its kind. The very same error is told once."""
        is_cut = self.counts[kind, error.code] >= SHOWN
        if (not is_cut or error.where is None) and any(str(error) == str(known) for _, known in self.shown):
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
        self.fatal = list({str(error): error for error in (*self.fatal, *found.fatal)}.values())
        self.notices = list(dict.fromkeys((*self.notices, *found.notices)))

    def errors(self) -> list[AnswerkeyError]:
        """Return the errors to show, with one more for each kind that was cut.

        Each says how to go on all the same, if a row would be left.
        """
        allow = f"run with `--allow-failed {len(self.failed)}` to score the rest and report"
        shown: list[AnswerkeyError] = []
        for _, error in self.shown:
            these = "this sample" if error.where and error.where.sample else "these samples"
            hint = f"{error.hint or 'fix the row'}, or {allow} {these} as FAILED"
            told = DataError(error.code, error.message, where=error.where, hint=hint)
            shown.append(error if len(self.failed) >= self.rows else told)
        cut = [(kind, code, count - SHOWN) for (kind, code), count in self.counts.items() if count > SHOWN]
        more = [
            DataError(code, f"{kind}: {count} more rows have the same problem") for kind, code, count in cut
        ]
        return [*self.fatal, *shown, *more]


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
        samples = prepared.dataset.rows.slice(0, SHARD_ROWS).load(prepared.columns)
        try:
            require_known(prepared.model, samples, prepared.task.sample_facts(samples))
        except SpecError as error:
            problems.fatal.append(error)
    problems.fatal.extend(find_unreadable(prepared))


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
        return text.strip() in raw or any(
            one and (f" {one} " if one.isascii() else one) in words for one in bare
        )

    return 2 * sum(map(holds, texts)) >= len(texts)


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
    judges = {
        step.key for step in task.scoring if asks_model(step.scorer) and find_role(step.scorer) == "judge"
    }
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
