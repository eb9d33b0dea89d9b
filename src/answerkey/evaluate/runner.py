"""`run`, `score`, `check` and the dry run: from a file, or from tables in memory, to a finished run."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import polars as pl

from answerkey._version import __version__
from answerkey.datasets import (
    Dataset,
    InlineSource,
    Recorded,
    Rows,
    cut_shards,
    find_own_completions,
    load_rows,
    load_table,
    match_completions,
    refuse_single,
)
from answerkey.engines import Engine, open_engine
from answerkey.errors import AnswerkeyError, Place, RunError, SpecError, raise_all
from answerkey.evaluate.checks import PlannedTemplate, RowFindings, check_rows, plan_templates
from answerkey.evaluate.choice_order import name_completions, order_dataset, refuse_unordered
from answerkey.evaluate.pipeline import (
    FIRST,
    Outcome,
    Stage,
    Staged,
    open_stage,
    run_repetitions,
    run_task,
    visit_rows,
)
from answerkey.evaluate.prepare import (
    SHARD_ROWS,
    Opened,
    Options,
    Prepared,
    Progress,
    describe_policies,
    find_completions,
    lay_out_work,
    open_judges,
    open_specification,
    read_options,
    stay_silent,
    take_policies,
)
from answerkey.evaluate.session import (
    Onlooker,
    Session,
    choose_price,
    count_calls,
    list_trials,
    open_session,
    require_askable,
)
from answerkey.metrics import find_category_column
from answerkey.models import LiveModel, Model, ModelConfig, SnippetModel, call_key, open_model
from answerkey.models.cache import CachePolicy, CallCache
from answerkey.runs import (
    Run,
    RunPlace,
    RunWriter,
    TaskWriter,
    default_folder,
    find_place,
    require_free,
    start_run,
)
from answerkey.sandbox import require_trust
from answerkey.scorers import AskingScorer
from answerkey.solvers import ChoiceRankingSolver
from answerkey.spec import (
    DatasetSpec,
    Plan,
    Specification,
    Task,
    load_feature,
    load_judges,
    load_plan,
    load_task,
    sort_errors,
)
from answerkey.templates import RowTrouble
from answerkey.types import Notice, Samples


def run(
    path: str | Path,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    onlooker: Onlooker | None = None,
    **options: object,
) -> Run:
    """Check everything, solve, score, write the run folder, and return the run; options as in `Options`.

    `onlooker` sees live models being asked.
    """
    chosen = read_options("run", options)
    report = progress or stay_silent
    plan, notices = read_plan(path, chosen)
    policy = chosen.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    chosen = replace(chosen, cache_policy=policy)
    engine = open_engine(chosen.engine, chosen.ray_address)
    place = find_place(out) if out is not None else default_folder(plan.key)
    require_free(place)
    with open_stage(place, is_far=engine.is_far) as stage:
        opened, heard = check_plan(open_plan(plan, chosen), chosen, report, engine, stage)
        require_askable(opened, chosen)
        sources = {one.prepared.key: describe_sources(one) for one in opened}
        manifest = describe_run(plan.key, plan.display_name, opened, [*notices, *heard])
        manifest |= {"file": str(Path(path).resolve()), "options": chosen.stored()}
        manifest |= describe_policies(plan.policies)
        with start_run(place, manifest, sources) as writer:
            return work(opened, writer, engine, report, options=chosen, onlooker=onlooker)


def read_plan(path: str | Path, options: Options) -> tuple[Plan, list[Notice]]:
    """Load a run or task file; raise all its errors at once, and E118 for code that is not trusted."""
    loaded = load_plan(path, options.overrides())
    raise_all(loaded.errors)
    if loaded.value is None or not loaded.value.specifications:
        raise SpecError(
            "E119",
            f"`{path}` names nothing to run",
            where=Place(file=str(path)),
            hint="a run file needs an `evaluation` with `task_specifications`, or `tasks` and a dataset",
        )
    snippets = [one for spec in loaded.value.specifications for one in spec.snippets]
    require_trust(snippets, trust_code=options.trust_code)
    raise_all(loaded.value.find_baseline_errors())
    return loaded.value, list(loaded.notices)


def open_plan(plan: Plan, options: Options) -> list[Opened]:
    """Open every specification; raise all errors at once."""
    opened: list[Opened] = []
    errors: list[AnswerkeyError] = []
    for specification in plan.specifications:
        one, troubles = open_specification(specification, options)
        errors.extend(troubles)
        opened.extend([one] if one else [])
    raise_all(errors)
    return opened


def check_plan(
    opened: Sequence[Opened],
    options: Options,
    progress: Progress,
    engine: Engine,
    stage: Stage | None = None,
) -> tuple[list[Opened], list[Notice]]:
    """Check the rows to be used; refuse when more are wrong than `allow_failed` says.

    With a stage, a task that can be is scored on this occasion.
    """
    checked, errors, notices = [], [], []
    failures: list[AnswerkeyError] = []
    for one in opened:
        findings, staged = _check_one(one, progress, engine, stage)
        notices.extend([*one.prepared.dataset.notices, *findings.notices])
        errors.extend(_refuse(findings, options.failed_limit(len(one.prepared.dataset))))
        if isinstance(staged, AnswerkeyError):
            failures.append(staged)
            continue
        checked.append(replace(one, prepared=replace(one.prepared, failed=findings.failed), staged=staged))
    raise_all(errors or failures)
    return checked, list(dict.fromkeys(notices))


def _check_one(
    opened: Opened, progress: Progress, engine: Engine, stage: Stage | None
) -> tuple[RowFindings, Staged | AnswerkeyError | None]:
    prepared = opened.prepared
    if stage is None or not stage.takes(prepared) or opened.specification.num_runs > 1:
        return check_rows(prepared, progress, engine), None
    return visit_rows(prepared, stage.open_task(prepared.key), progress, engine)


def _refuse(findings: RowFindings, limit: int) -> list[AnswerkeyError]:
    if findings.fatal or len(findings.failed) > limit:
        return findings.errors()
    return []


def work(
    opened: Sequence[Opened],
    writer: RunWriter,
    engine: Engine,
    progress: Progress,
    *,
    options: Options | None = None,
    onlooker: Onlooker | None = None,
) -> Run:
    """Run every prepared task and close the run.

    It is incomplete when a call failed for good, or more samples could not be scored than `allow_failed`
    says. What stops it before its end leaves it incomplete, too, with its journal.
    """
    changes: dict[str, Mapping[str, Any]] = {}
    is_incomplete = is_stopped = False
    options = options or Options()
    with open_session(opened, writer, options, onlooker, engine.actors) as session:
        for one in opened:
            limit = options.failed_limit(one.prepared.dataset.num_samples)
            key = one.prepared.key
            try:
                if one.staged is not None:
                    outcomes = [one.staged.deliver(writer.task(key))]
                else:
                    run_one = partial(_run_once, session, engine, progress, limit=limit)
                    outcomes = run_repetitions(one, writer.task(key), run_one, is_stopped=is_stopped)
            except KeyboardInterrupt as stop:
                # Whoever sends a signal may not wait long: what there is first, then what still comes.
                _say_stopped(writer, session, {**changes, key: session.describe(key)}, stop)
                session.stack.close()
                _say_stopped(writer, session, {**changes, key: session.describe(key)}, stop)
                raise
            except AnswerkeyError as stop:
                if not isinstance(stop, RunError):  # a folder that cannot be written takes no more words
                    writer.stop({**changes, key: session.describe(key)}, stop)
                raise
            found = {"counts": outcomes[0].tally["counts"], "encoded": outcomes[0].encoded}
            changes[key] = found | session.describe(key)
            is_stopped |= outcomes[-1].is_stopped
            is_incomplete |= any(each.errors or each.tally["unscored"] > limit for each in outcomes)
            session.close_models(key)
    conclude = load_feature("policies").conclude_gates if writer.manifest.get("policies") else None
    return writer.finish("incomplete" if is_incomplete else "complete", changes, conclude)


def _run_once(
    session: Session,
    engine: Engine,
    progress: Progress,
    prepared: Prepared,
    writer: TaskWriter,
    *,
    limit: int,
    is_stopped: bool,
) -> Outcome:
    """Run a task once; where calls or the user's code cost something, the first samples are tried first."""
    # A batch may take a day, so it is handed in whole.
    is_tried = prepared.spread in ("alone", "apart") and limit < FIRST and not session.options.batch
    bound = session.bind(prepared)
    return run_task(bound, writer, engine, progress, first=FIRST if is_tried else 0, is_stopped=is_stopped)


def _say_stopped(
    writer: RunWriter,
    session: Session,
    changes: Mapping[str, Mapping[str, Any]],
    stop: KeyboardInterrupt,
) -> None:
    """Say in the run that a signal stopped it; storage that cannot be reached is told of, and no more."""
    try:
        writer.stop(changes, stop)
    except AnswerkeyError as error:
        session.onlooker.warn(Notice(error.message, hint=error.hint))


def describe_run(
    key: str, display_name: str | None, opened: Sequence[Opened], notices: Sequence[Notice]
) -> dict[str, Any]:
    """Return what `run.json` says before the work begins."""
    return {
        **describe_system(),
        "key": key,
        "display_name": display_name or key,
        "notices": [str(notice) for notice in notices],
        "tasks": [describe_task(one) for one in opened],
    }


def describe_system() -> dict[str, str]:
    """Return what a run runs on."""
    return {
        "answerkey_version": __version__,
        "python": platform.python_version(),
        "platform": platform.system().lower(),
    }


def describe_task(opened: Opened) -> dict[str, Any]:
    """Return a task's entry in `run.json`."""
    specification, prepared = opened.specification, opened.prepared
    return {
        "key": prepared.key,
        "display_name": specification.display_name or prepared.task.display_name,
        "task": {
            "key": prepared.task.key,
            "display_name": prepared.task.display_name,
            "fingerprint": prepared.task.fingerprint,
            "file": prepared.task.file,
        },
        "dataset": _describe_dataset(opened),
        "model": _describe_model(prepared.model),
        "completions": opened.completions,
        "config": prepared.task.config,
        "scorers": [
            {
                "key": step.key,
                "type": step.scorer.type,
                "title": step.scorer.title,
                "purpose": step.purpose,
                "display_name": step.display_name,
                "validity": "completion_validity" in (step.scorer.metadata_names or ()),
                **_describe_judge(prepared.judges.get(step.key)),
            }
            for step in prepared.task.scoring
        ],
        "selection": asdict(specification.selection),
        **_describe_repeats(specification),
        "counts": None,
    }


def _describe_repeats(specification: Specification) -> dict[str, Any]:
    """Return how often samples are asked, in which orders, and the task is run; nothing where all is once."""
    task, num_runs = specification.task, specification.num_runs
    asked: dict[str, Any] = {} if task.trials is None else {"trials": asdict(task.trials)}
    asked |= {} if specification.variant is None else {"variant": asdict(specification.variant)}
    asked |= {} if task.choice_order is None else {"choice_order": asdict(task.choice_order)}
    return asked | ({} if num_runs == 1 else {"repeatability": {"num_runs": num_runs}})


def _describe_judge(model: Model | None) -> dict[str, object]:
    """Return who judges; nothing for a scorer that asks nobody."""
    return {} if model is None else {"model": _describe_model(model)}


def _describe_model(model: Model | None) -> dict[str, object] | None:
    if model is None:
        return None
    identity = getattr(model, "identity", None)  # what decides a live model's answers, without secrets
    return {"name": model.name, "simulated": model.is_simulated} | (
        {"identity": identity} if identity else {}
    )


def _describe_dataset(opened: Opened) -> dict[str, object]:
    dataset, specification = opened.prepared.dataset, opened.specification.dataset
    return {
        "key": specification.key,
        "display_name": specification.display_name,
        "file": getattr(specification.source, "origin", None),
        "fingerprint": dataset.fingerprint,
        "rows_read": dataset.rows_read,
        "rows_filtered": dataset.rows_filtered,
        "samples": dataset.num_samples,
        "category": find_category_column(dataset.columns),
    }


def describe_sources(opened: Opened) -> dict[str, Any]:
    """Return `task.json`: the task as resolved and where its samples come from, enough to open it again."""
    specification = opened.specification
    examples = specification.examples
    return {
        "task": specification.task.source,
        "dataset": _describe_source(specification.dataset),
        "examples": _describe_source(examples) if examples else None,
        "examples_fingerprint": _hash_samples(opened.prepared.examples),
        "model_key": specification.model_key,
        "generation": _describe_generation(specification),
        "num_runs": specification.num_runs,
    }


def _describe_generation(specification: Specification) -> dict[str, object] | None:
    model = specification.model
    return model.generation.given() if isinstance(model, ModelConfig) else None


def _hash_samples(samples: Samples | None) -> str | None:
    return None if samples is None else Dataset.of(samples, name="examples").fingerprint


def _describe_source(dataset: DatasetSpec) -> dict[str, Any]:
    source: Any = dataset.source
    return asdict(source)


Table = pl.DataFrame | Sequence[Mapping[str, object]] | str | Path


def score(
    task: Task | Mapping[str, object] | str | Path,
    samples: Table,
    completions: Table | Sequence[str | None] | None = None,
    **options: object,
) -> Run:
    """Score completions against samples in memory and return the run; options as in `Options`.

    `completions` is a table, a file, or texts in the order of the samples; without it the samples' own
    completion column is scored. A scorer that asks a model must name it by provider or URL; it is asked.
    """
    chosen = read_options("score", options)
    ready = _take_task(task, chosen)
    engine = open_engine(chosen.engine, chosen.ray_address)
    is_callers = isinstance(task, Mapping)
    judges = load_judges(ready, run_file=None, overrides=chosen.overrides(), is_callers=is_callers)
    require_trust(ready.snippets, trust_code=chosen.trust_code)
    judge_models, errors = open_judges(ready, judges)
    raise_all(errors)
    given_rows = _take_table(completions)
    dataset = order_dataset(ready, Dataset.of(_take_samples(samples), name="samples"), given_rows)
    model = open_model(chosen.model) if chosen.model else None
    recorded = _take_completions(given_rows, ready, dataset, options=chosen)
    prepared = lay_out_work(
        Prepared(
            key=ready.key, task=ready, dataset=dataset, model=model, recorded=recorded, judges=judge_models
        )
    )
    given = DatasetSpec("samples", InlineSource(rows=()))
    specification = Specification(key=ready.key, task=ready, dataset=given, model=chosen.model, judges=judges)
    source = "recorded" if completions is not None else "builtin" if recorded is None else "dataset"
    opened, notices = check_plan(
        [Opened(specification, prepared, {"source": source, "file": None, "sha256": None, "column": None})],
        chosen,
        stay_silent,
        engine,
        Stage(),
    )
    policies, heard = take_policies({ready.key: ready}, ready.key, chosen)
    manifest = describe_run(ready.key, ready.display_name, opened, [*notices, *heard])
    manifest |= describe_policies(policies)
    writer = start_run(None, manifest, {ready.key: describe_sources(opened[0])})
    return work(opened, writer, engine, stay_silent, options=chosen)


def _take_task(task: Task | Mapping[str, object] | str | Path, options: Options) -> Task:
    if isinstance(task, Task):
        return task
    loaded = load_task(task, config=options.config, overrides=options.overrides())
    raise_all(loaded.errors)
    if loaded.value is None:
        raise SpecError(
            "E119", "there is no task to score with", hint="give a task file, a mapping or a Task"
        )
    return loaded.value


def _take_samples(samples: Table) -> Rows:
    if isinstance(samples, str | Path):
        return load_table(samples).rows
    return load_rows(samples, name="samples").rows


def _take_table(completions: Table | Sequence[str | None] | None) -> Rows | None:
    """Return the rows of completions that are given as a file, a table, or texts."""
    if completions is None:
        return None
    if isinstance(completions, str | Path):
        return load_table(completions, by_trial=True).rows
    if isinstance(completions, pl.DataFrame):
        return load_rows(completions, name="completions", by_trial=True).rows
    rows = [one if isinstance(one, Mapping) else {"completion": one} for one in completions]
    return load_rows(rows, name="completions", by_trial=True).rows


def _take_completions(
    completions: Rows | None, task: Task, dataset: Dataset, *, options: Options
) -> Recorded | None:
    if completions is None:
        return _find_own(task, dataset, options)
    named, column = name_completions(task, completions, dataset), options.completion_column
    return match_completions(named, dataset, column=column, num_trials=task.num_trials)


def _find_own(task: Task, dataset: Dataset, options: Options) -> Recorded | None:
    """Return the completions among the samples; with a solver they stand in for asking a model."""
    if task.solver is None or options.model is not None or not task.solver.needs_model:
        return find_completions(task, dataset, options)
    own = find_own_completions(dataset.rows, column=options.completion_column)
    if own is None:
        raise SpecError(
            "E119",
            f"task `{task.key}` asks a model, and there are neither completions nor a model",
            hint="pass `completions`, `model`, or samples with a column `completion`",
        )
    refuse_unordered(task)
    if task.num_trials > 1:
        raise refuse_single(task.num_trials)
    return own


@dataclass(frozen=True)
class CheckedTask:
    """What `check` looked at: rows, and how each template will be evaluated."""

    key: str
    dataset: str
    rows: int
    templates: tuple[PlannedTemplate, ...]


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    errors: tuple[AnswerkeyError, ...]
    notices: tuple[Notice, ...]
    tasks: tuple[CheckedTask, ...]


def check(path: str | Path, *, progress: Progress | None = None, **options: object) -> Checked:
    """Return every mistake in a task or run file that can be found without asking a model; asks nothing."""
    chosen = read_options("check", options)
    loaded = load_plan(path, chosen.overrides())
    errors, notices = list(loaded.errors), list(loaded.notices)
    errors += loaded.value.find_baseline_errors() if loaded.value else []
    tasks: list[CheckedTask] = []
    for specification in loaded.value.specifications if loaded.value else ():
        opened, troubles = open_specification(specification, chosen, is_check=True)
        errors.extend(troubles)
        if opened is None:
            continue
        findings = check_rows(opened.prepared, progress or stay_silent, open_engine())
        errors.extend(findings.errors())
        notices.extend([*opened.prepared.dataset.notices, *findings.notices])
        tasks.append(_describe(specification, opened))
    return Checked(tuple(sort_errors(_unique(errors))), tuple(dict.fromkeys(notices)), tuple(tasks))


def _describe(specification: Specification, opened: Opened) -> CheckedTask:
    dataset = opened.prepared.dataset
    templates = plan_templates(specification, dataset.rows.slice(0, 1).load())
    return CheckedTask(specification.key, dataset.name, len(dataset), templates)


def _unique(errors: Sequence[AnswerkeyError]) -> list[AnswerkeyError]:
    return list({str(error): error for error in errors}.values())


#: A rule of thumb for English text; the exact number is the provider's to say.
CHARACTERS_PER_TOKEN = 4
Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class PlannedTask:
    """What one task would ask; `calls` are those that neither the cache nor a call before them answers.

    Tokens are estimated by characters; `completion_tokens` is the most that `max_tokens` allows, None without
    such a limit. `cost` in USD is None when it is not known, and 0 for a built-in model. A judge's prompts
    depend on completions, so only its calls are counted, in `judge_calls`. `prompts` are the samples in every
    order, trial and repetition.
    """

    key: str
    model: str | None
    samples: int
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int | None
    cost: float | None
    first_prompt: Messages | None
    judge_calls: int = 0
    prompts: int = 0


@dataclass(frozen=True)
class DryRun:
    """What a run would ask, task by task."""

    tasks: tuple[PlannedTask, ...]


def plan_calls(path: str | Path, **options: object) -> DryRun:
    """Return what `run` would ask of the model; checks everything as `run` does, and asks nothing."""
    chosen = read_options("plan_calls", options)
    plan, _ = read_plan(path, chosen)
    policy = chosen.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    opened, _ = check_plan(
        open_plan(plan, chosen), chosen, stay_silent, open_engine(chosen.engine, chosen.ray_address)
    )
    with closing(CallCache(policy or "reuse")) as cache:
        return DryRun(tuple(_plan_task(one, chosen, cache) for one in opened))


@dataclass(frozen=True)
class _Demand:
    """Prompts that would be sent, counted."""

    calls: int = 0
    cached: int = 0
    characters: int = 0


def _plan_task(opened: Opened, options: Options, cache: CallCache) -> PlannedTask:
    prepared, num_runs = opened.prepared, opened.specification.num_runs
    model, demand, first = prepared.model, _Demand(), None
    seen: set[str] = set()
    for prompts in _build_all(prepared) if model is not None else ():
        first = first or next(iter(prompts), None)
        for number in range(num_runs):
            demand = _count(opened.prepare_repetition(number), prompts, demand, cache, seen)
    prompt_tokens = -(-demand.characters // CHARACTERS_PER_TOKEN)
    limit = _limit_tokens(model) if isinstance(model, LiveModel) else None
    most = None if limit is None else limit * demand.calls
    return PlannedTask(
        key=prepared.key,
        model=model.name if model else None,
        samples=prepared.dataset.num_samples,
        prompts=(len(prepared.dataset) - len(prepared.failed)) * len(list_trials(prepared)) * num_runs,
        calls=demand.calls,
        cached=demand.cached,
        prompt_tokens=prompt_tokens,
        completion_tokens=most,
        cost=_estimate_cost(prepared, options, prompt_tokens, most),
        first_prompt=first,
        judge_calls=count_calls(prepared) * _count_judges(prepared) * num_runs,
    )


def _limit_tokens(model: LiveModel) -> int | None:
    """Return how many tokens a completion has at most; of an echoed text nothing is to be said."""
    generation = model.connection.generation
    return 1 if generation.max_tokens is None and generation.echo else generation.max_tokens


def _build_all(prepared: Prepared) -> Iterator[list[Messages]]:
    """Yield the prompts of each shard; rows that the dataset has wrong are not asked."""
    solver = prepared.task.solver
    if solver is None:
        return
    for shard in cut_shards(prepared.dataset, SHARD_ROWS, failed=prepared.failed):
        samples, wrong = shard.samples.load(prepared.columns), set(shard.failed)
        if isinstance(solver, ChoiceRankingSolver):
            listed = enumerate(solver.list_calls(samples, prepared.examples))
            yield [prompt for row, prompts in listed if row not in wrong for prompt in prompts]
            continue
        found = solver.build_prompts(samples, prepared.examples)
        yield [
            prompt
            for row, prompt in enumerate(found)
            if row not in wrong and not isinstance(prompt, RowTrouble)
        ]


def _count(
    prepared: Prepared, prompts: Sequence[Messages], demand: _Demand, cache: CallCache, seen: set[str]
) -> _Demand:
    """Return the demand with these prompts added, each trial a call of its own."""
    model, trials = prepared.model, list_trials(prepared)
    if not isinstance(model, LiveModel | SnippetModel):
        calls = len(prompts) * len(trials)
        characters = sum(map(_measure, prompts)) * len(trials)
        return replace(demand, calls=demand.calls + calls, characters=demand.characters + characters)
    sizes = {
        key: _measure(prompt)
        for prompt in prompts
        for trial in trials
        if (key := call_key(model, prompt, trial)) not in seen
    }
    seen.update(sizes)
    known = cache.list_known(list(sizes))
    return _Demand(
        demand.calls + len(sizes) - len(known),
        demand.cached + len(known),
        demand.characters + sum(size for key, size in sizes.items() if key not in known),
    )


def _measure(prompt: Messages) -> int:
    return sum(len(str(message.get("content"))) for message in prompt)


def _estimate_cost(
    prepared: Prepared, options: Options, prompt_tokens: int, completion_tokens: int | None
) -> float | None:
    """Return what the calls may cost at most; None when the price or the longest completion is not known."""
    model = prepared.model
    if not isinstance(model, LiveModel):
        return 0.0
    price = choose_price(model, options)
    if price is None or completion_tokens is None:
        return None
    return price.charge(prompt_tokens, completion_tokens)


def _count_judges(prepared: Prepared) -> int:
    return sum(isinstance(step.scorer, AskingScorer) for step in prepared.task.scoring)
