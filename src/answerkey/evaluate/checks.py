"""What is wrong with rows and templates, found without calling a model: truths, choices, prompts, options."""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from answerkey.datasets import Dataset, Shard, cut_shards
from answerkey.engines import Engine
from answerkey.errors import AnswerkeyError, DataError, Place, SpecError, listing, suggest
from answerkey.evaluate.choice_order import find_order_problems
from answerkey.evaluate.prepare import (
    SHARD_ROWS,
    Prepared,
    Progress,
    choose_check_spread,
    choose_shard_rows,
    list_checked_columns,
)
from answerkey.metrics import Design
from answerkey.scorers import AskingScorer, RowProblem, build_scores, try_action
from answerkey.scorers.mcqa import read_options
from answerkey.solvers import SingleTurnSolver, find_asking_field, require_known
from answerkey.spec import ScoringStep, Specification, Task
from answerkey.templates import ACTION_NAMES, Plan, RowTrouble, Template, TemplateStopped
from answerkey.types import Completion, Completions, Notice, Samples, Scores, ScoreStatus

#: What a list of options says of each, where it says more than the text.
_TEXT_KEYS, _LABEL_KEYS = ("text", "content", "value", "option"), ("label", "key", "id", "letter")


def write_text(value: object) -> str | None:
    """Return a cell as text; None stays None."""
    return None if value is None else str(value)


def read_option_cell(cell: object) -> tuple[list[str | None] | None, list[str]]:
    """Return the texts of a list of options, and their labels where it has any; None for what is no list.

    A list of texts, of mappings with text and label, a mapping of both lists or of label to text, or the text
    of any of these.
    """
    if isinstance(cell, str):
        cell = read_options(cell)
    if isinstance(cell, Mapping):
        return _read_mapping(cell)
    if not isinstance(cell, list | tuple):
        return None, []
    if cell and all(isinstance(one, Mapping) for one in cell):
        texts = [write_text(_pick(one, _TEXT_KEYS)) for one in cell]
        labels = [_pick(one, _LABEL_KEYS) for one in cell]
        return texts, [str(one) for one in labels if one is not None]
    return [write_text(one) for one in cell], []


def _read_mapping(cell: Mapping[str, object]) -> tuple[list[str | None] | None, list[str]]:
    texts, labels = _pick(cell, _TEXT_KEYS), _pick(cell, _LABEL_KEYS)
    if isinstance(texts, list | tuple):
        named = [str(one) for one in labels] if isinstance(labels, list | tuple) else []
        return [write_text(one) for one in texts], named
    if all(value is None or isinstance(value, str | int | float) for value in cell.values()):
        pairs = [(str(name), write_text(value)) for name, value in cell.items() if value is not None]
        return [text for _, text in pairs], [name for name, _ in pairs]
    return None, []


def _pick(cell: Mapping[str, object], names: Sequence[str]) -> object:
    return next((cell[name] for name in names if name in cell), None)


def find_missing_design(task: Task, dataset: Dataset) -> list[AnswerkeyError]:
    """Return an error for each `group_by` and `cluster_by` that names no column, where the task says it."""
    found: dict[str, AnswerkeyError] = {}
    for step in task.scoring:
        for number, one in enumerate(step.metrics):
            for name, column in _list_fields(one.design):
                if column not in dataset.columns:
                    where = _find_place(task, ("scorers", step.index, "metrics", number), name)
                    error = _miss(name, column, dataset, where)
                    found.setdefault(str(error), error)
    return list(found.values())


def _list_fields(design: Design) -> Iterator[tuple[str, str]]:
    yield from (("group_by", column) for column in design.group_by)
    if design.cluster_by is not None:
        yield "cluster_by", design.cluster_by


def _find_place(task: Task, metric: tuple[str | int, ...], field: str) -> Place:
    """Return where a metric says it, or the task for all of them."""
    own, above = task.place("definition", *metric, field), task.place("definition", *metric)
    return task.place("definition", field) if own == above else own


def _miss(field: str, column: str, dataset: Dataset, where: Place) -> DataError:
    message = f"`{field}` names the column `{column}`: dataset `{dataset.name}` has none such"
    hint = suggest(column, dataset.columns) or f"columns: {listing(dataset.columns)}"
    return DataError("E206", message, where=where, hint=hint)


#: A name that a row of the dataset itself lacks is that row's trouble, unless so many lack it.
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
Try = Callable[[Samples, Completions, dict[str, Scores]], RowTrouble | None]


def find_unreadable(prepared: Prepared) -> list[AnswerkeyError]:
    """Return an error for each template that reads a field which a completion or a score cannot have."""
    task, rows = prepared.task, prepared.dataset.rows.slice(0, TRIED_ROWS)
    tries = list(_list_tries(task))
    if not tries or not len(rows):
        return []
    samples = rows.load(prepared.columns)
    errors: list[AnswerkeyError] = []
    for path, attempt in tries:
        try:
            trouble = _find_trouble(attempt, task, samples)
        except TemplateStopped as stopped:
            errors.append(stopped.at(task.places.of_template(stopped.source)))
            continue
        if trouble is not None:
            line = _LINE.search(trouble.message)
            where = task.places.of_line(path, int(line["line"]) if line else None)
            message = f"`{path[-1]}`: {_LINE.sub('', trouble.message)}"
            errors.append(SpecError("E112", message, where=where, hint=trouble.hint))
    return errors


def _list_tries(task: Task) -> Iterator[tuple[tuple[str | int, ...], Try]]:
    """Yield the templates that see a completion: where they stand, and how to try them."""
    for step in task.scoring:
        for name in getattr(step.scorer, "completion_fields", ()):
            yield ("definition", "scorers", step.index, name), _try_field(step, name)
    for index, action in enumerate(task.actions):
        path = ("definition", "actions", index, "filter", "expression")
        yield path, lambda *tables, one=action: try_action(one, *tables)


def _try_field(step: ScoringStep, field: str) -> Try:
    return lambda samples, completions, _: step.scorer.try_field(field, samples, completions)  # type: ignore[attr-defined]


def _find_trouble(attempt: Try, task: Task, samples: Samples) -> RowTrouble | None:
    """Return what is wrong with a template on every one of the samples; None when one of them is fine."""
    found = None
    for row in range(len(samples)):
        found = _try_row(attempt, task, samples.take([row]))
        if found is None:
            break
    return found


def _try_row(attempt: Try, task: Task, sample: Samples) -> RowTrouble | None:
    """Return the trouble with a field that is missing even where a made-up reply and score have it.

    What a provider adds to a message, and what a snippet returns, is not known beforehand: a field that the
    template reads of one of them may be there. The content of a message may be text or a list of parts.
    """
    told: dict[str, RowTrouble] = {}
    is_in_parts = False
    for _ in range(MOST_NAMES):
        said = _make_completion(told, is_in_parts=is_in_parts)
        completions = Completions.build(sample.ids, [said], source="made up")
        trouble = attempt(sample, completions, _make_scores(task, told))
        if trouble is None or not trouble.is_undefined:
            return None
        missing = _NAME.search(trouble.message)
        if missing is None or missing["owner"] in _UNKNOWN:
            return None
        is_text, is_mapping = missing["owner"] == "text", missing["owner"] == "there is"
        if is_text and told and not is_in_parts:
            return None
        if missing["name"] in told or not (is_text or is_mapping):
            return told.get(missing["name"], trouble)
        is_in_parts |= is_text
        told[missing["name"]] = trouble
    return None


def _make_completion(names: Iterable[str], *, is_in_parts: bool) -> Completion:
    """Return a completion whose message has these fields, too; its content may be a list of parts."""
    more = dict.fromkeys(names, TEXT)
    content: object = [{"type": "text", "text": TEXT, **more}] if is_in_parts else TEXT
    reply = {**more, "role": "assistant", "content": content}
    return Completion(
        TEXT, prompt=_PROMPT, reply=reply, finish_reason="stop", prompt_tokens=1, completion_tokens=1
    )


def _make_scores(task: Task, names: Iterable[str]) -> dict[str, Scores]:
    """Return one verdict of each scorer, with every name that is known of it, and these."""
    blank, status = pl.Series([None], dtype=pl.String), pl.Series([ScoreStatus.SCORED.value])
    verdicts = {}
    for step in task.scoring:
        known = (*(step.scorer.value_names or ()), *(step.scorer.metadata_names or ()), *names)
        values = {name: pl.Series([1.0]) for name in known}
        verdicts[step.key] = build_scores(status, blank, values, metadata={})
    return verdicts


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


#: How many rows of one kind are shown before only their number is.
SHOWN = 20
Kind = tuple[str, str]


@dataclass
class ShardFindings:
    """What is wrong with the rows of one shard: the first errors of each kind, and how many there are more.

    An error that belongs to no row may be that of another shard, too; all of these are kept.
    """

    rows: int
    kept: list[tuple[str, AnswerkeyError]] = field(default_factory=list)
    more: Counter[Kind] = field(default_factory=Counter)
    failed: set[int] = field(default_factory=set)
    fatal: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(self, name: str, problem: RowProblem) -> None:
        """Take one problem."""
        error = problem.error
        if error.code == "E206":
            self.fatal.append(error)
            return
        self.failed.add(problem.position)
        kind = name, error.code
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN or error.where is None:
            self.kept.append((name, error))
        else:
            self.more[kind] += 1


@dataclass
class RowFindings:
    """What is wrong with the rows: errors to show (each kind cut after 20), and which rows they are.

    `failed` holds, in order, the rows that may be FAILED with `--allow-failed`; `fatal` the errors that no
    allowance covers. `rows` is how many rows there are.
    """

    rows: int
    shown: list[AnswerkeyError] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    failed: array[int] = field(default_factory=lambda: array("q"))
    fatal: list[AnswerkeyError] = field(default_factory=list)
    counts: Counter[Kind] = field(default_factory=Counter)

    def add(self, kind: str, error: AnswerkeyError) -> None:
        """Count an error; keep it while there are few of its kind. The very same error is told once."""
        if any(str(error) == str(known) for known in self.shown):
            return
        self.counts[kind, error.code] += 1
        if self.counts[kind, error.code] <= SHOWN:
            self.shown.append(error)

    def take(self, found: ShardFindings, offset: int) -> None:
        """Add what was found in the next shard, whose first row stands at `offset`."""
        for name, error in found.kept:
            self.add(name, error)
        self.counts.update(found.more)
        self.failed.extend(offset + row for row in sorted(found.failed))
        self.fatal = list({str(error): error for error in (*self.fatal, *found.fatal)}.values())
        self.notices = list(dict.fromkeys((*self.notices, *found.notices)))

    def errors(self) -> list[AnswerkeyError]:
        """Return the errors to show, with one more for each kind that was cut."""
        cut = [(kind, code, count - SHOWN) for (kind, code), count in self.counts.items() if count > SHOWN]
        return [
            *self.fatal,
            *(self._allow_failed(error) for error in self.shown),
            *(DataError(code, f"{kind}: {more} more rows have the same trouble") for kind, code, more in cut),
        ]

    def _allow_failed(self, error: AnswerkeyError) -> AnswerkeyError:
        """Return the error with the way to go on all the same added to its hint, if a row would be left."""
        failed = len(self.failed)
        if failed >= self.rows:
            return error
        these = "this sample" if error.where and error.where.sample else "these samples"
        allow = f"run with `--allow-failed {failed}` to score the rest and report {these} as FAILED"
        hint = f"{error.hint or 'fix the row'}, or {allow}"
        return DataError(error.code, error.message, where=error.where, hint=hint)


def check_rows(prepared: Prepared, progress: Progress, engine: Engine) -> RowFindings:
    """Check truths, choices and prompts on every row of the prepared dataset."""
    dataset = prepared.dataset
    findings = RowFindings(len(dataset))
    columns = list_checked_columns(prepared.task, dataset, prepared.recorded)
    bare = replace(prepared.without_rows(), columns=columns, model=None, judges={})
    function = partial(check_shard, bare, is_recorded=prepared.recorded is not None)
    spread = choose_check_spread(prepared)
    rows = choose_shard_rows(replace(prepared, columns=columns, recorded=None), spread)
    done = 0
    for found in engine.map(function, cut_shards(dataset, rows), spread=spread):
        findings.take(found, done)
        done += found.rows
        progress("check", done, len(dataset))
    conclude_findings(findings, prepared)
    return findings


def conclude_findings(findings: RowFindings, prepared: Prepared) -> None:
    """Add what is wrong with the task as a whole."""
    findings.fatal.extend([*_find_unknown(prepared), *find_missing_design(prepared.task, prepared.dataset)])
    findings.fatal.extend(find_unreadable(prepared))
    findings.notices.extend(find_hidden_options(prepared, findings.failed))


def check_shard(prepared: Prepared, shard: Shard, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with the rows of one shard."""
    return look_at_shard(prepared, shard, shard.samples.load(prepared.columns), is_recorded=is_recorded)


def look_at_shard(prepared: Prepared, shard: Shard, samples: Samples, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with the rows of a shard that has been loaded; not with those withheld."""
    if not shard.withheld:
        return look_at_samples(prepared, samples, is_recorded=is_recorded)
    left = shard.left
    found = look_at_samples(prepared, samples.take(left), is_recorded=is_recorded)
    return replace(found, rows=len(samples), failed={left[position] for position in found.failed})


def look_at_samples(prepared: Prepared, samples: Samples, *, is_recorded: bool) -> ShardFindings:
    """Return what is wrong with these samples; prompts are of no concern when completions are recorded."""
    found = ShardFindings(len(samples))
    try:
        _look_at_parts(prepared, samples, found, is_recorded=is_recorded)
    except TemplateStopped as stopped:
        found.fatal.append(stopped.at(prepared.task.places.of_template(stopped.source)))
    return found


def _look_at_parts(prepared: Prepared, samples: Samples, found: ShardFindings, *, is_recorded: bool) -> None:
    for step in prepared.task.scoring:
        problems, heard = step.scorer.check_rows(samples)
        found.notices.extend(heard)
        for problem in problems:
            found.add(f"scorer `{step.key}`", _name_field(prepared, problem, step))
    for problem in find_order_problems(prepared.task, samples):
        found.add("`choice_order`", problem)
    solver = None if is_recorded else prepared.task.solver
    for position, error in solver.check_rows(samples, prepared.examples) if solver else ():
        found.add("solver", RowProblem(position, _place_setting(prepared, error), "PROMPT_FAILED"))


def _place_setting(prepared: Prepared, error: DataError) -> DataError:
    """Return an error that belongs to no row placed where the task asks for the column or the examples.

    One that does belong to a row says whose prompt it is.
    """
    if error.code == "E207":
        message = f"{error.message} (prompt of task `{prepared.task.key}`)"
        return DataError(error.code, message, where=error.where, hint=error.hint)
    if error.code == "E206":
        way = find_asking_field(prepared.task.solver, error)
    elif error.where is None and error.code == "E302":
        way = ("examples", "num_examples")
    else:
        return error
    where = prepared.task.place("definition", "solver", *way)
    return DataError(error.code, error.message, where=where, hint=error.hint)


def _name_field(prepared: Prepared, problem: RowProblem, step: ScoringStep) -> RowProblem:
    """Return the problem of a missing column placed where the task asks for it, not in the dataset.

    A row's own problem names the scorer when there are several.
    """
    if problem.error.code != "E206":
        return _name_scorer(prepared, problem, step)
    if problem.field is None:
        return problem
    where = prepared.task.place("definition", "scorers", step.index, problem.field)
    message = f"{problem.error.message} of dataset `{prepared.dataset.name}`"
    error = DataError("E206", message, where=where, hint=problem.error.hint)
    return replace(problem, error=error)


def _name_scorer(prepared: Prepared, problem: RowProblem, step: ScoringStep) -> RowProblem:
    error = problem.error
    if len(prepared.task.scoring) == 1:
        return problem
    message = f"{error.message} (scorer `{step.key}`)"
    return replace(problem, error=DataError(error.code, message, where=error.where, hint=error.hint))


def _find_unknown(prepared: Prepared) -> list[AnswerkeyError]:
    """Return what the model needs to know of the samples and nobody tells it; the first ones tell."""
    if prepared.model is None:
        return []
    samples = prepared.dataset.rows.slice(0, SHARD_ROWS).load(prepared.columns)
    try:
        require_known(prepared.model, samples, prepared.task.know(samples))
    except SpecError as error:
        return [error]
    return []


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
    return (*_plan_filters(specification, samples), *_plan_task(specification.task, samples))


def _plan_filters(specification: Specification, samples: Samples) -> Iterator[PlannedTemplate]:
    dataset = specification.dataset
    for position, one in enumerate(dataset.source.filters):
        name = f"dataset {dataset.key}.filters.{position}.expression"
        yield PlannedTemplate(name, one.row_template, one.row_template.plan(samples))


def _plan_task(task: Task, samples: Samples) -> Iterator[PlannedTemplate]:
    judges = {step.key for step in task.scoring if isinstance(step.scorer, AskingScorer)}
    for name, template in task.templates():
        if name.startswith("solver."):
            plan = _plan_prompt(task, template, samples)
        elif name.rpartition(".")[0] in judges:
            plan = _leave_to_rows(template, samples, "the prompt is written with the completion of each row")
        else:
            plan = template.plan(samples, later=ACTION_NAMES)
        yield PlannedTemplate(name, template, plan)


def _plan_prompt(task: Task, template: Template, samples: Samples) -> Plan:
    if isinstance(task.solver, SingleTurnSolver) and task.solver.examples is not None:
        return _leave_to_rows(template, samples, "the prompt is written with the examples of each row")
    return template.plan(samples, as_text=True)


def _leave_to_rows(template: Template, samples: Samples, why: str) -> Plan:
    plan = template.plan(samples, as_text=True)
    return plan if plan.kind == "constant" else Plan("rows", plan.reads, why)
