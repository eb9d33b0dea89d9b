"""`run`, `score`, `check` and the dry run: from a file, or from tables in memory, to a finished
run.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.dataset import Dataset, Recorded, open_dataset
from answerkey.datasets.recorded import find_own_completions, refuse_single
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.datasets.sources import MemorySource, Source
from answerkey.datasets.storage import hide_query, name_lasting
from answerkey.datasets.tables import SAMPLE_COLUMN, Tabular, load_rows, load_table
from answerkey.engines import Engine, open_engine
from answerkey.errors import (
    AnswerkeyError,
    EngineError,
    InternalError,
    Place,
    RunError,
    SpecError,
    Stop,
    distinct,
    is_url,
    listing,
    raise_all,
)
from answerkey.evaluate.checks import find_odd_options
from answerkey.evaluate.choice_order import order_dataset, refuse_unordered
from answerkey.evaluate.pipeline import FIRST, Outcome, check_task, compare_outcomes, run_task
from answerkey.evaluate.prepare import (
    Opened,
    Options,
    Prepared,
    Progress,
    RunOptions,
    ScoreOptions,
    find_completions,
    ignore_progress,
    prepare_opened,
    prepare_specification,
    read_options,
    split_recorded,
    take_policies,
)
from answerkey.metrics import find_category_column
from answerkey.models.config import CachePolicy, FunctionConfig, Model, ModelConfig
from answerkey.models.images import IMAGE_TOKENS, expand_images, list_images
from answerkey.models.responses import read_text
from answerkey.runs import NewFolder, Run, RunPlace, RunWriter, choose_place, start_run
from answerkey.sandbox import require_trust
from answerkey.scorers import (
    Scorer,
    asks_model,
    find_role,
    find_unread,
    reads_choices,
    score_rows,
)
from answerkey.solvers import SingleTurnSolver
from answerkey.solvers.solver import Prompt
from answerkey.spec import (
    DatasetSpec,
    Plan,
    Specification,
    Task,
    is_data_file,
    load_dataset,
    load_feature,
    load_judges,
    load_plan,
    load_task,
    sort_errors,
)
from answerkey.types import Notice, Request, Samples

if TYPE_CHECKING:
    from answerkey.evaluate.session import Listener, Session
    from answerkey.models.cache import CallCache


#: A key that is refused, or a model that cannot be reached.
GIVEN_UP = frozenset({"E304", "E306"})
#: A task or run file, a folder, the name of a ready-made task, a Task, or a mapping as a file has
#: it.
TaskSource = Task | Mapping[str, object] | str | Path


def run(
    path: TaskSource,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    listener: Listener | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Check everything, solve, score, write the run folder, and return the run.

    Options as in `Options`. `listener` hears of live models being called.
    """
    chosen = read_options("run", options)
    plan, notices = read_plan(path, chosen)
    if len(plan.matrix) > 1:
        message = (
            f"the matrix of `{plan.file}` has {len(plan.matrix)} models, and `run` makes one run"
        )
        raise SpecError("E119", message, hint="use `ak.run_matrix`, or name one with `model=`")
    engine = open_engine(chosen.engine, chosen.ray_address)
    place = choose_place(out, plan.key)
    tasks, manifest, chosen = prepare_run(path, plan, notices, chosen)
    return run_new(
        tasks,
        place,
        manifest,
        engine,
        progress or ignore_progress,
        options=chosen,
        listener=listener,
    )


def prepare_run(
    path: TaskSource,
    plan: Plan,
    notices: Sequence[Notice],
    options: Options,
    opened: Opened | None = None,
) -> tuple[Sequence[Prepared], dict[str, Any], Options]:
    """Open everything that a plan of one run names.

    Return what `run.json` will say, too, and all options.
    """
    policy = options.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    options = replace(options, cache_policy=policy)
    tasks = prepare_all(plan.specifications, options, opened)
    file = None
    if isinstance(path, str | Path):
        file = hide_query(str(path)) if is_url(str(path)) else name_lasting(path)
    source = {"file": file, "options": options.stored()}
    manifest = describe_run(plan.key, plan.display_name, tasks, notices, plan.policies, **source)
    return tasks, manifest, options


async def arun(
    path: TaskSource,
    *,
    out: str | RunPlace | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Run in a thread, so that the event loop stays free; cancelling stops the run as Ctrl-C does.

    An async function is called in this event loop.
    """
    import asyncio

    loop, given = asyncio.get_running_loop(), dict[str, Any](options)
    if callable(model := given.get("model")):
        config = FunctionConfig(model, loop)
        given["model"] = ModelConfig(config.name, config)
    stop = Stop()

    def work() -> Run:
        with stop.followed():
            return run(path, out=out, progress=progress, **given)

    pool = ThreadPoolExecutor(1, thread_name_prefix="answerkey-run")
    running = loop.run_in_executor(pool, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.message = "interrupted"
        with suppress(AnswerkeyError, KeyboardInterrupt):
            await running
        raise
    finally:
        pool.shutdown(wait=False)


def read_plan(path: TaskSource, options: Options) -> tuple[Plan, list[Notice]]:
    """Load a run or task file.

    Raise all its errors at once, and E118 for code that is not trusted.
    """
    given: object = path
    if not isinstance(given, Task | Mapping | str | Path):
        message = f"a task, a task file or a data file is needed, not a {type(given).__name__}"
        hint = "for a table: `ak.score(ak.mcqa(question=…, options=…, truth=…), table, model=…)`"
        raise SpecError("E119", message, hint=hint)
    loaded = load_plan(path, options)
    raise_all(loaded.errors)
    if loaded.value is None or not loaded.value.specifications:
        named = str(path) if isinstance(path, str | Path) else "the mapping"
        message = f"`{named}` names nothing to run"
        hint = (
            "a run file needs an `evaluation` with `task_specifications`, or `tasks` and a dataset"
        )
        raise SpecError("E119", message, where=Place(file=named), hint=hint)
    trust_snippets((one for plan in loaded.value.split() for one in plan.specifications), options)
    raise_all(loaded.value.find_baseline_errors())
    return loaded.value, list(loaded.notices)


def trust_snippets(specifications: Iterable[Specification], options: Options) -> None:
    """Raise E118 for code that is not trusted."""
    snippets = [one for each in specifications for one in each.snippets]
    require_trust(snippets, trust_code=options.trust_code)


def prepare_all(
    specifications: Iterable[Specification], options: Options, opened: Opened | None = None
) -> list[Prepared]:
    """Open everything that specifications name, but for what is `opened`; raise all errors at
    once.
    """
    tasks: list[Prepared] = []
    errors: list[AnswerkeyError] = []
    for specification in specifications:
        one, problems = prepare_specification(specification, options, opened)
        errors.extend(problems)
        tasks.extend([one] if one else [])
    raise_all(errors)
    return tasks


def run_new(
    tasks: Sequence[Prepared],
    place: RunPlace | NewFolder | None,
    manifest: Mapping[str, Any],
    engine: Engine,
    progress: Progress,
    *,
    options: Options,
    listener: Listener | None = None,
) -> Run:
    """Start a run, take every task along its path, and return the run.

    Without a place it is in memory. `manifest` is what `run.json` says before the work begins.
    """
    tasks, heard = check_beforehand(tasks, options, engine, progress)
    return start_new(tasks, place, manifest, engine, options, heard).finish(progress, listener)


@dataclass(frozen=True)
class Started:
    """A run whose folder is there and locked, with everything opened and checked."""

    writer: RunWriter
    tasks: Sequence[Prepared]
    engine: Engine
    options: Options

    def finish(self, progress: Progress, listener: Listener | None, num_beside: int = 0) -> Run:
        """Take every task along its path, and return the run."""
        with self.writer:
            return self._run_tasks(progress, listener, num_beside)

    def _run_tasks(self, progress: Progress, listener: Listener | None, num_beside: int) -> Run:
        """Run every task and close the run; `num_beside` other runs call models at the same time.

        It is incomplete when a call failed for good, or more samples could not be scored than
        `allow_failed` says. A model that cannot be called ends the tasks that need it, and no
        others. What stops the run before its end leaves it incomplete, too, with its journal; but
        rows that are wrong leave nothing of a run that calls no model, so that it can be started
        again once they are mended.
        """
        writer, tasks, options = self.writer, self.tasks, self.options
        changes: dict[str, Mapping[str, Any]] = {}
        heard: list[Notice] = []
        refused: list[AnswerkeyError] = []
        failures: list[AnswerkeyError] = []
        is_incomplete = is_stopped = False
        is_kept = writer.is_resumed or any(one.calls_models for one in tasks)
        session: Session | None = None

        def describe_calls(key: str) -> dict[str, Any]:
            return {} if session is None else session.describe(key)

        def say_stopped(key: str, stop: KeyboardInterrupt) -> None:
            try:
                writer.stop({**changes, key: describe_calls(key)}, stop)
            except (
                AnswerkeyError
            ) as error:  # storage that cannot be reached is told of, and no more
                if listener is not None:
                    listener.warn(Notice(error.message, hint=error.hint))

        with ExitStack() as stack:
            if any(one.calls_models for one in tasks):
                from answerkey.evaluate.session import open_session

                opened = open_session(tasks, writer, options, listener, num_beside=num_beside)
                session = stack.enter_context(opened)
            for one in tasks:
                if session is not None and session.has_given_up(one):
                    continue  # it would fail as the task before did
                limit = options.failed_limit(one.dataset.num_samples)
                try:
                    outcomes = self._run_repetitions(one, session, progress, is_stopped=is_stopped)
                except KeyboardInterrupt as stop:
                    # Whoever sends a signal may not wait long: what there is first, then what still
                    # comes.
                    say_stopped(one.key, stop)
                    if session is not None:
                        session.stack.close()
                        say_stopped(one.key, stop)
                    raise
                except AnswerkeyError as stop:
                    if isinstance(
                        stop, RunError
                    ):  # a folder that cannot be written takes no more words
                        raise
                    if session is not None and stop.code in GIVEN_UP:
                        failures.append(stop)  # other models may be called all the same
                        changes[one.key] = describe_calls(one.key)
                        session.give_up(one.key)
                        continue
                    if is_kept or isinstance(stop, EngineError | InternalError):
                        writer.stop({**changes, one.key: describe_calls(one.key)}, stop)
                    else:
                        writer.discard()
                    raise
                if not one.is_checked:
                    heard.extend([*one.dataset.notices, *outcomes[0].notices])
                refused.extend(outcomes[-1].refused)
                failures.extend([outcomes[-1].failure] if outcomes[-1].failure else [])
                if outcomes[-1].refused or outcomes[-1].failure:
                    continue
                found = {"counts": outcomes[0].totals["counts"], "encoded": outcomes[0].encoded}
                changes[one.key] = found | describe_calls(one.key)
                is_stopped |= outcomes[-1].is_stopped
                is_incomplete |= any(
                    each.errors or each.totals["unscored"] > limit for each in outcomes
                )
                if session is not None:
                    session.close_models(one.key)
            if errors := refused or failures:
                if is_kept:
                    writer.stop(changes, errors[0])
                else:
                    writer.discard()
                raise_all(distinct(errors))
            told = writer.manifest["notices"]
            more = [one for one in dict.fromkeys(map(str, heard)) if one not in told]
            writer.manifest["notices"] = [*told, *more]

        def decide_gates(run: Run) -> dict[str, Any]:
            return {"gates": load_feature("policies").decide_gates(run, run.manifest["policies"])}

        conclude = decide_gates if writer.manifest.get("policies") else None
        return writer.finish("incomplete" if is_incomplete else "complete", changes, conclude)

    def _run_repetitions(
        self, prepared: Prepared, session: Session | None, progress: Progress, *, is_stopped: bool
    ) -> list[Outcome]:
        """Run a task as often as its specification says and return every outcome.

        Most are run once. Where calls or the user's code cost something, the first samples are
        tried first, and nothing more is done once these have failed.
        """
        limit = self.options.failed_limit(prepared.dataset.num_samples)
        # A batch may take a day, so it is handed in whole.
        is_tried = (
            prepared.spread in ("alone", "apart") and limit < FIRST and not self.options.batch
        )
        tables, outcomes = self.writer.task(prepared.key), list[Outcome]()
        for number in range(prepared.specification.num_runs):
            repeated = prepared.repeat(number)
            outcome = run_task(
                repeated if session is None else session.bind(repeated),
                tables.repetition(number),
                self.engine,
                progress,
                allowed=self.options.failed_limit(len(prepared.dataset)),
                first=FIRST if is_tried else 0,
                is_stopped=is_stopped or any(one.is_stopped for one in outcomes),
            )
            outcomes.append(outcome)
            if outcome.refused or outcome.failure:
                return outcomes
        if len(outcomes) > 1:
            compare_outcomes(prepared.task, tables, outcomes)
        return outcomes


def start_new(
    tasks: Sequence[Prepared],
    place: RunPlace | NewFolder | None,
    manifest: Mapping[str, Any],
    engine: Engine,
    options: Options,
    heard: Sequence[Notice],
) -> Started:
    """Write what `run.json` says before the work begins, and what was `heard` when rows were
    checked.
    """
    beginning, samples = describe_beginning(tasks, manifest, heard)
    writer = start_run(place, beginning["manifest"], beginning["tasks"], samples)
    return Started(writer, tasks, engine, options)


def describe_beginning(
    tasks: Sequence[Prepared], manifest: Mapping[str, Any], heard: Sequence[Notice]
) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Return what a run folder says before the work begins, and the samples that are in no file."""
    sources = {one.key: describe_sources(one) for one in tasks}
    manifest = {**manifest, "notices": [*manifest["notices"], *map(str, heard)]}
    memory = ((one.key, one.specification.dataset.source) for one in tasks)
    samples = {
        key: write_samples(source.table.samples)
        for key, source in memory
        if isinstance(source, MemorySource)
    }
    return {"manifest": manifest, "tasks": sources}, samples


def write_samples(samples: Samples) -> pl.DataFrame:
    """Return samples as a run keeps them: the fields of each as JSON text."""
    texts = [json.dumps(fields, ensure_ascii=False) for fields in samples.rows()]
    return pl.DataFrame({SAMPLE_COLUMN: pl.Series(texts, dtype=pl.String)})


def check_beforehand(
    tasks: Sequence[Prepared],
    options: Options,
    engine: Engine,
    progress: Progress,
    opened: Opened | None = None,
) -> tuple[Sequence[Prepared], list[Notice]]:
    """Return the tasks, checked on all rows if any of them calls a model.

    Raise what would keep it from that. Not one call is paid for as long as a row of any task is
    wrong. Rows that another run checked (`opened`) are not checked again.
    """
    if not any(one.calls_models for one in tasks):
        return tasks, []
    from answerkey.evaluate.session import require_askable

    checked, heard = check_tasks(tasks, options, engine, progress, opened)
    require_askable(checked, options)
    return checked, heard


def check_tasks(
    tasks: Sequence[Prepared],
    options: Options,
    engine: Engine,
    progress: Progress,
    opened: Opened | None = None,
) -> tuple[list[Prepared], list[Notice]]:
    """Check the rows to be used; refuse when more are wrong than `allow_failed` says."""
    checked: list[Prepared] = []
    errors: list[AnswerkeyError] = []
    notices: list[Notice] = []
    for one in tasks:
        problems = check_task(one, engine, progress, opened)
        notices.extend([*one.dataset.notices, *problems.notices])
        if problems.fatal or len(problems.failed) > options.failed_limit(len(one.dataset)):
            errors.extend(problems.errors(one))
        files = problems.image_files
        checked.append(replace(one, failed=problems.failed, image_files=files, is_checked=True))
    raise_all(errors)
    return checked, list(dict.fromkeys(notices))


# What the run folder says of a run and its tasks.


def describe_run(
    key: str,
    display_name: str | None,
    tasks: Sequence[Prepared],
    notices: Sequence[Notice],
    policies: Sequence[Mapping[str, Any]],
    **more: object,
) -> dict[str, Any]:
    """Return what `run.json` says before the work begins."""
    return {
        **describe_system(),
        "key": key,
        "display_name": display_name or key,
        "notices": [str(notice) for notice in notices],
        "tasks": [describe_task(one) for one in tasks],
        **more,
        **({"policies": list(policies)} if policies else {}),
    }


def describe_system() -> dict[str, str]:
    """Return what a run runs on."""
    return {
        "answerkey_version": __version__,
        "python": platform.python_version(),
        "platform": platform.system().lower(),
    }


def describe_task(prepared: Prepared) -> dict[str, Any]:
    """Return a task's entry in `run.json`; what is done once, as usual, is not said."""
    specification, task, dataset = prepared.specification, prepared.task, prepared.dataset
    described = {
        "key": prepared.key,
        "display_name": specification.display_name or task.display_name,
        "task": {
            "key": task.key,
            "display_name": task.display_name,
            "fingerprint": task.fingerprint,
            "file": task.file,
        },
        "dataset": {
            "key": specification.dataset.key,
            "display_name": specification.dataset.display_name,
            "file": getattr(specification.dataset.source, "origin", None),
            "fingerprint": dataset.fingerprint,
            "rows_read": dataset.rows_read,
            "rows_filtered": dataset.rows_filtered,
            "samples": dataset.num_samples,
            "category": find_category_column(dataset.columns),
        },
        "model": _describe_model(prepared.model),
        "completions": prepared.completions,
        "config": task.config,
        "scorers": [
            {
                "key": step.key,
                "type": step.scorer.type,
                "title": step.scorer.title,
                "purpose": step.purpose,
                "display_name": step.display_name,
                "validity": "completion_validity" in (step.scorer.metadata_names or ()),
                **_describe_judge(step.scorer, prepared.judges.get(step.key)),
            }
            for step in task.scoring
        ],
        "selection": asdict(specification.selection),
    }
    settings = {
        "trials": task.trials,
        "variant": specification.variant,
        "choice_order": task.choice_order,
    }
    described |= {name: asdict(one) for name, one in settings.items() if one is not None}
    if specification.num_runs > 1:
        described["repeatability"] = {"num_runs": specification.num_runs}
    return described | {"counts": None}


def _describe_model(model: Model | None) -> dict[str, object] | None:
    if model is None:
        return None
    # What decides a live model's answers, without secrets; of a function nothing but its name is
    # known.
    beside = {
        name: one for name in ("identity", "is_function") if (one := getattr(model, name, None))
    }
    connection: Any = getattr(model, "connection", None)
    forced = {} if connection is None else connection.generation.forced()
    return {"name": model.name, "simulated": model.is_simulated, **beside, **forced}


def _describe_judge(scorer: Scorer, model: Model | None) -> dict[str, object]:
    """Return what is said of the model that a scorer asks.

    A fallback is asked by a prompt of ours.
    """
    if model is None:
        return {}
    if find_role(scorer) == "judge":
        return {"model": _describe_model(model)}
    prompt = hashlib.sha256(str(getattr(scorer, "model_prompt", "")).encode()).hexdigest()
    return {
        "model": {**(_describe_model(model) or {}), "role": find_role(scorer), "prompt": prompt}
    }


def describe_sources(prepared: Prepared) -> dict[str, Any]:
    """Return `task.json`: the task as resolved and where its samples come from, enough to open it
    again.
    """
    specification, shown = prepared.specification, prepared.examples
    examples = specification.examples and specification.examples.source
    model = specification.model
    return {
        "task": specification.task.source,
        "dataset": _describe_source(specification.dataset.source),
        "examples": _describe_source(examples) if examples else None,
        "examples_fingerprint": None
        if shown is None
        else Dataset.of(shown, name="examples").fingerprint,
        "model_key": specification.model_key,
        "generation": model.generation.given() if isinstance(model, ModelConfig) else None,
        "num_runs": specification.num_runs,
        "image_files": prepared.image_files,
    }


def _describe_source(source: Source) -> dict[str, Any]:
    if isinstance(source, MemorySource):
        return {"type": source.type, "digest": source.table.digest}
    return asdict(cast("Any", source))


# `score`: tables in, a run out, nothing written.


def score(
    task: TaskSource,
    samples: Tabular | str | Path | None = None,
    completions: Tabular | Iterable[str | None] | str | Path | None = None,
    **options: Unpack[ScoreOptions],
) -> Run:
    """Score completions against samples in memory and return the run; options as in `Options`.

    Tables are those of any library. `completions` is a table, a file, or texts in the order of the
    samples; without it the samples' own completion column is scored, or a model that is given is
    called. A data file in place of the task brings its samples: its columns are recognised. A
    scorer that asks a model must name it by provider or URL; it is asked.
    """
    chosen = read_options("score", options, ScoreOptions)
    is_callers, ready = isinstance(task, Mapping), task
    if is_data_file(task) == (samples is not None):
        message = "a data file in place of a task brings its samples; a task needs some"
        raise SpecError("E119", message, hint="pass a task and `samples`, or a data file alone")
    if samples is None:
        said = replace(
            chosen, completions="given" if completions is not None else chosen.completions
        )
        planned = read_plan(str(task), said)[0].specifications[0]
        ready, given = planned.task, planned.dataset
    elif isinstance(samples, str | Path):
        is_yaml = Path(samples).suffix.lower() in {".yaml", ".yml"}
        given = (load_dataset(samples, chosen) if is_yaml else None) or DatasetSpec.of_path(samples)
    else:
        given = DatasetSpec("samples", MemorySource(load_rows(samples, name="samples")))
    if not isinstance(ready, Task):
        loaded = load_task(ready, config=chosen.config, overrides=chosen)
        raise_all(loaded.errors)
        if loaded.value is None:
            hint = "give a task file, a mapping or a Task"
            raise SpecError("E119", "there is no task to score with", hint=hint)
        ready = loaded.value
    engine = open_engine(chosen.engine, chosen.ray_address)
    judges = load_judges(ready, run_file=None, overrides=chosen, is_callers=is_callers)
    require_trust(ready.snippets, trust_code=chosen.trust_code)
    table: Rows | None = None
    if isinstance(completions, str | Path):
        table = load_table(completions, by_trial=True).rows
    elif completions is not None:
        table = load_rows(completions, name="completions", by_trial=True, lone="completion").rows
    selection = chosen.select_rows()
    dataset = order_dataset(
        ready, open_dataset(given.source, selection=selection, name=given.key), table
    )
    column, calls_model = chosen.completion_column, bool(ready.solver and ready.solver.needs_model)
    recorded: Recorded | None
    if table is not None or not calls_model or chosen.model is not None:
        asks = calls_model and column is None
        recorded = find_completions(ready, dataset, table, column, calls_model=asks)
    else:  # the samples' own completions stand in for calling a model
        recorded = find_own_completions(dataset.rows, column=column)
        if recorded is None:
            message = (
                f"task `{ready.key}` calls a model, and there are neither completions nor a model"
            )
            hint = "pass `completions`, `model`, or samples with a column `completion`"
            raise SpecError("E119", message, hint=hint)
        refuse_unordered(ready)
        if ready.num_trials > 1:
            raise refuse_single(ready.num_trials)
    if chosen.split_thinking:
        is_asked = chosen.model is not None and recorded is None
        recorded = split_recorded(ready, dataset, recorded, calls_model=is_asked)
    source = "recorded" if completions is not None else "builtin" if recorded is None else "dataset"
    model = None
    if chosen.model:
        from answerkey.models.model import open_model

        model = open_model(chosen.model)
    asked = Specification(
        ready.key, ready, given, model=chosen.model, selection=selection, judges=judges
    )
    prepared = prepare_opened(
        replace(asked, model_key=chosen.model_name),
        dataset,
        model=model,
        recorded=recorded,
        completions={"source": source, "file": None, "sha256": None, "column": None}
        | ({"split_thinking": True} if chosen.split_thinking else {}),
    )
    policies, heard = take_policies({ready.key: ready}, ready.key, chosen)
    manifest = describe_run(ready.key, ready.display_name, [prepared], heard, policies)
    return run_new([prepared], None, manifest, engine, ignore_progress, options=chosen)


# `check`: everything that can be found without calling a model.


@dataclass(frozen=True)
class CheckedTask:
    """What `check` looked at."""

    key: str
    dataset: str
    rows: int


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    errors: tuple[AnswerkeyError, ...]
    notices: tuple[Notice, ...]
    tasks: tuple[CheckedTask, ...]


def check(
    path: TaskSource, *, progress: Progress | None = None, **options: Unpack[RunOptions]
) -> Checked:
    """Return every mistake in a task or run file that can be found without asking a model.

    Asks nothing.
    """
    chosen = read_options("check", options)
    loaded = load_plan(path, chosen)
    errors, notices = list(loaded.errors), list(loaded.notices)
    errors += loaded.value.find_baseline_errors() if loaded.value else []
    tasks: list[CheckedTask] = []
    opened, plans = Opened(), loaded.value.split() if loaded.value else []
    for number, specification in (
        (n, one) for n, plan in enumerate(plans) for one in plan.specifications
    ):
        prepared, problems = prepare_specification(specification, chosen, opened, is_check=True)
        errors.extend(problems)
        if prepared is None:
            continue
        found = check_task(prepared, open_engine(), progress or ignore_progress, opened)
        dataset = prepared.dataset
        errors.extend(found.errors(prepared))
        notices.extend([*dataset.notices, *found.notices, *find_odd_options(prepared)])
        if number == 0:  # the others are the same tasks with another model
            tasks.append(CheckedTask(specification.key, dataset.name, len(dataset)))
    unique = distinct(errors)
    return Checked(tuple(sort_errors(unique)), tuple(dict.fromkeys(notices)), tuple(tasks))


# `--dry-run`: what a run would ask, without asking.

#: Prompts that are in memory together: each may be a long text, as Python objects.
PROMPT_ROWS = 8_192
#: A rule of thumb for English text; the exact number is the provider's to say.
CHARACTERS_PER_TOKEN = 4
Messages = Sequence[Mapping[str, object]]
_MESSAGES = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))


@dataclass(frozen=True)
class PlannedTask:
    """What one task would ask.

    `calls` are those that neither the cache nor a call before them answers. Tokens are estimated by
    characters; `completion_tokens` is the most that `max_tokens` allows, None without such a limit.
    `cost` in USD is None when it is not known, and 0 for a built-in model. A judge's prompts depend
    on completions, so only its calls are counted, in `judge_calls`; `fallback_calls` are at most so
    many: recorded completions that the rule cannot read, or all that a model is yet to write.
    `prompts` are the samples in every order, trial and repetition.
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
    fallback_calls: int = 0
    prompts: int = 0


@dataclass(frozen=True)
class DryRun:
    """What a run would ask, task by task."""

    tasks: tuple[PlannedTask, ...]


def plan_calls(path: TaskSource, **options: Unpack[RunOptions]) -> DryRun:
    """Return the calls that `run` would make.

    Checks everything as `run` does, and calls nothing.
    """
    from answerkey.models.cache import CallCache

    chosen = read_options("plan_calls", options)
    plan, _ = read_plan(path, chosen)
    policy = chosen.cache_policy or cast("CachePolicy | None", plan.cache_policy)
    engine, opened = open_engine(chosen.engine, chosen.ray_address), Opened()
    every = [one for each in plan.split() for one in each.specifications]
    tasks, _ = check_tasks(
        prepare_all(every, chosen, opened), chosen, engine, ignore_progress, opened
    )
    with closing(CallCache(policy or "no-cache")) as cache:
        return DryRun(tuple(_plan_task(one, chosen, cache) for one in tasks))


def _plan_task(prepared: Prepared, options: Options, cache: CallCache) -> PlannedTask:
    from answerkey.evaluate.session import choose_price
    from answerkey.models.calls import charge
    from answerkey.models.model import build_calls, calls_endpoint, is_identified, stores_calls

    num_runs, model, first = prepared.specification.num_runs, prepared.model, None
    calls = cached = characters = 0
    seen: set[str] = set()
    for samples, found in _build_prompts(prepared) if model is not None else ():
        facts = prepared.task.sample_facts(samples) if getattr(model, "needs", None) else None
        choices = [None] * len(found) if facts is None else facts.choices
        questions = [
            Request("", one, choices[row]) for row, each in enumerate(found) for one in each
        ]
        first = first or next((one.messages for one in questions), None)
        sizes = [
            sum(len(str(one.get("content"))) for one in question.messages) for question in questions
        ]
        images = (len(list_images(question.messages)) for question in questions)
        images = (CHARACTERS_PER_TOKEN * IMAGE_TOKENS * number for number in images)
        sizes = list(map(sum, zip(sizes, images, strict=True)))
        for trials in (prepared.repeat(number).trials for number in range(num_runs)):
            if not is_identified(model):  # each trial is a call of its own
                calls += len(questions) * len(trials)
                characters += sum(sizes) * len(trials)
                continue
            keys = {
                call.key: size
                for trial in trials
                for call, size in zip(build_calls(model, questions, trial), sizes, strict=True)
                if call.key not in seen
            }
            seen.update(keys)
            known = cache.list_known(list(keys))
            calls += len(keys) - len(known)
            cached += len(known)
            characters += sum(size for key, size in keys.items() if key not in known)
    prompt_tokens = -(-characters // CHARACTERS_PER_TOKEN)
    most: int | None = None
    # What a function or a package's model costs is not known.
    cost: float | None = None if stores_calls(model) and not is_identified(model) else 0.0
    if calls_endpoint(model):
        cost = None
        generation, price = model.connection.generation, choose_price(model, options)
        # Of an echoed text nothing is to be said.
        limit = 1 if generation.max_tokens is None and generation.echo else generation.max_tokens
        most = None if limit is None else limit * calls
        if price is not None and most is not None:
            cost = charge(price, prompt_tokens, most, is_batch=bool(options.batch))
    roles = [find_role(step.scorer) for step in prepared.task.scoring if asks_model(step.scorer)]
    return PlannedTask(
        key=prepared.key,
        model=model.name if model else None,
        samples=prepared.dataset.num_samples,
        prompts=prepared.num_calls * num_runs,
        calls=calls,
        cached=cached,
        prompt_tokens=prompt_tokens,
        completion_tokens=most,
        cost=cost,
        first_prompt=first,
        judge_calls=prepared.num_calls * roles.count("judge") * num_runs,
        fallback_calls=_count_unread(prepared) if "fallback" in roles else 0,
    )


def _count_unread(prepared: Prepared) -> int:
    """Return how many completions fallbacks would be asked about: all of those that are not there
    yet.
    """
    size, steps = prepared.task.num_trials, prepared.task.scoring
    scorers = [
        step.scorer for step in steps if reads_choices(step.scorer) and step.scorer.model_key
    ]
    if prepared.recorded is None:
        return prepared.num_calls * len(scorers) * prepared.specification.num_runs
    found = 0
    for shard in prepared.shards():
        asked = shard.samples.load(prepared.columns)
        said = prepared.recorded.slice(shard.offset, len(asked)).read(asked)
        wrong = [row * size + trial for row in shard.failed for trial in range(size)]
        scores = [score_rows(one, asked.repeat(size), said, wrong) for one in scorers]
        found += sum(len(find_unread(one.rows())) for one in scores)
    return found


def _build_prompts(prepared: Prepared) -> Iterator[tuple[Samples, list[list[Prompt]]]]:
    """Yield many rows at a time, each with its prompts.

    A row that the dataset has wrong has none.
    """
    solver, wrong = prepared.task.solver, set(prepared.failed)
    if solver is None:
        return
    for offset, samples in iterate_blocks(
        prepared.dataset.rows, prepared.columns, size=PROMPT_ROWS
    ):
        calls = solver.list_calls(samples, prepared.examples)
        for row in range(len(calls)):
            if offset + row in wrong:
                calls[row] = []
        yield samples, calls


def build_prompts(
    path: TaskSource, key: str | None, progress: Progress, **options: Unpack[RunOptions]
) -> tuple[int, Iterator[pl.DataFrame]]:
    """Return the prompts of one task, and how many; all rows are checked, and no model is called.

    A row for each sample and trial, with what recorded completions are joined by: `sample_id`;
    where there are several, `base_sample_id` and `option_order`, and `trial`. Then `messages`, and
    `prompt`, the text of them that `api: completions` sends. The content of a message with images
    is its parts as JSON.
    """
    chosen = read_options("build_prompts", options)
    loaded = load_plan(path, chosen)
    raise_all(loaded.errors)
    every = {one.key: one for one in loaded.value.specifications} if loaded.value else {}
    named = [one for one in every.values() if key in {None, one.key}]
    solver = named[0].task.solver if len(named) == 1 else None
    if solver is None or not solver.sends_prompts:
        message = f"`{key or path}` is not one task with a `{SingleTurnSolver.type}`"
        raise SpecError("E119", message, hint=f"name one with `--task`: {listing(every)}")
    bare = replace(named[0], model=None, judges={})
    found, errors = prepare_specification(bare, chosen, needs_model=False)
    raise_all(errors)
    (prepared,), _ = check_tasks([found] if found else [], chosen, open_engine(), progress)

    def write(message: Mapping[str, object]) -> str:
        """Return the text of a message; of one with images, its parts as JSON."""
        parts = expand_images([message])[0]["content"] if list_images([message]) else None
        return read_text(message) if parts is None else json.dumps(parts, ensure_ascii=False)

    def build_frame(samples: Samples, prompts: Sequence[Sequence[Messages]]) -> pl.DataFrame:
        size = prepared.task.num_trials
        said = [
            [{"role": str(one["role"]), "content": write(one)} for one in own] for (own,) in prompts
        ]
        texts = ["\n\n".join(one["content"] for one in own) for own in said]
        orders: Mapping[str, pl.Series] = {}
        if (told := samples.orders) is not None:
            orders = {"base_sample_id": told["base_sample_id"], "option_order": told["order"]}
        messages = pl.Series(said, dtype=_MESSAGES)
        rows = pl.DataFrame(
            {"sample_id": samples.ids, **orders, "messages": messages, "prompt": texts}
        )
        if size > 1:
            rows = rows.select(pl.all().repeat_by(size).explode())
            rows = rows.with_columns(trial=pl.int_range(pl.len()) % size)
        return rows

    return prepared.num_calls, starmap(build_frame, _build_prompts(prepared))
