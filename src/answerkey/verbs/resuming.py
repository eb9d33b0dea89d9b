"""A run that stopped, gone on with: what was answered is in its journal, the rest is asked.

Everything is scored anew from the journal, so that the tables are those of a run that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from answerkey.datasets import Selection
from answerkey.engines import open_engine
from answerkey.errors import DataError, Place, RunError, SpecError, listing
from answerkey.models.config import Generation, ModelConfig
from answerkey.pipeline import Progress
from answerkey.runs import (
    Run,
    RunPlace,
    RunWriter,
    StoredFolder,
    find_place,
    forget_journal,
    has_only_begun,
    load_manifest,
    load_run,
    reopen_run,
)
from answerkey.sandbox import require_trust
from answerkey.spec import (
    DatasetSpec,
    Plan,
    Specification,
    load_judges,
    load_model,
    source_from,
    task_from_source,
)
from answerkey.verbs.binding import require_askable
from answerkey.verbs.observing import Onlooker
from answerkey.verbs.opening import Opened
from answerkey.verbs.options import STORED, Options, read_options, stay_silent
from answerkey.verbs.reopening import gone
from answerkey.verbs.rescoring import mark_unasked, reopen_rescored
from answerkey.verbs.running import (
    check_plan,
    describe_sources,
    describe_system,
    describe_task,
    open_plan,
    work,
)

#: What the run was started with; the rest may be given anew.
FIXED = frozenset(
    {"config", "model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed"}
    | {"policies", "baseline"}
)
#: What may stop a run, and ends with that.
LIMITS = frozenset({"max_calls", "max_cost"})


def resume(
    path: str | Path | StoredFolder,
    *,
    progress: Progress | None = None,
    onlooker: Onlooker | None = None,
    **options: object,
) -> Run:
    """Go on with a run where it stopped and return it finished; a complete run is returned as it is.

    Options as in `Options`; those that the run was started with hold unless they are given again. A limit
    that stopped the run holds no more.
    """
    place = find_place(path)
    require_started(place)
    if load_manifest(place)["status"] == "complete":
        forget_journal(place)  # a disk that had failed may have kept it
        return load_run(place)
    report = progress or stay_silent
    with reopen_run(place) as writer:
        if writer.manifest["status"] == "complete":  # the process that held it has just finished
            forget_journal(place)
            return load_run(place)
        _refuse_rescored(writer.manifest)
        chosen = _take_options(writer.manifest, options)
        engine = open_engine(chosen.engine, chosen.ray_address)
        opened, _ = check_plan(_open_again(writer, chosen), chosen, report, engine)
        opened = [mark_unasked(one) for one in opened]
        require_askable(opened, chosen)
        writer.restart(describe_system())
        for one in opened:
            for number in range(one.specification.num_runs):
                writer.task(one.prepared.key).repetition(number).clear()
        return work(opened, writer, engine, report, options=chosen, onlooker=onlooker)


def require_started(folder: RunPlace) -> None:
    """Raise E507 for a run that stopped before `run.json` was written."""
    if has_only_begun(folder):
        raise RunError(
            "E507",
            f"`{folder}` stopped before its `run.json` was written: there is nothing to go on from",
            where=Place(file=str(folder)),
            hint="start again with `answerkey run`; nothing had been asked",
        )


def _refuse_rescored(manifest: Mapping[str, Any]) -> None:
    if "rescored_from" in manifest and not _has_judges(manifest):
        raise RunError(
            "E507",
            "a run that scores an old one again asks nothing, so there is nothing to go on with",
            hint=f"start again: `answerkey rescore {manifest['rescored_from']['path']}`",
        )


def _has_judges(manifest: Mapping[str, Any]) -> bool:
    return any("model" in scorer for entry in manifest["tasks"] for scorer in entry["scorers"])


def _take_options(manifest: Mapping[str, Any], given: Mapping[str, object]) -> Options:
    for name in given.keys() & FIXED:
        if given[name] is not None:
            raise SpecError(
                "E119",
                f"`{name}` cannot be chosen: a run goes on with what it was started with",
                hint="leave it out, or start a new run with `answerkey run`",
            )
    stored = manifest.get("options")
    if not isinstance(stored, Mapping):
        raise _refuse("it does not say which options it was started with")
    unknown = stored.keys() - set(STORED)
    if unknown:
        raise _refuse(f"its folder states options that it cannot decide: {listing(sorted(unknown))}")
    given = {name: value for name, value in given.items() if value is not None}
    ended = LIMITS if _has_hit_limit(manifest) else frozenset[str]()
    if "engine" in given:
        ended |= {"ray_address"}  # the cluster of before belongs to the engine of before
    held = {name: value for name, value in stored.items() if name not in ended}
    return read_options("resume", {**held, **given})


def _has_hit_limit(manifest: Mapping[str, Any]) -> bool:
    """Return whether a limit stopped the run: who resumes it has seen that, and wants it to go on."""
    return bool((manifest.get("stopped") or {}).get("code") == "E305")


def _open_again(writer: RunWriter, options: Options) -> list[Opened]:
    entries: Sequence[Mapping[str, Any]] = writer.manifest["tasks"]
    sources = {entry["key"]: writer.read_source(entry["key"]) for entry in entries}
    if "rescored_from" in writer.manifest:
        return _open_rescored(writer.manifest, sources, options)
    specifications = [specify(entry, sources[entry["key"]], writer.manifest, options) for entry in entries]
    require_trust([one for each in specifications for one in each.snippets], trust_code=options.trust_code)
    plan = Plan(writer.manifest["key"], tuple(specifications), project=writer.store.home or Path(), file="")
    try:
        opened = open_plan(plan, options)
    except DataError as error:
        raise gone("dataset", error.where.file if error.where else None, error.message) from error
    for entry, one in zip(entries, opened, strict=True):
        _compare(entry, sources[entry["key"]], one)
    return opened


def _open_rescored(
    manifest: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]], options: Options
) -> list[Opened]:
    tasks = {key: task_from_source(source["task"]) for key, source in sources.items()}
    opened = reopen_rescored(manifest, options, tasks=tasks)
    require_trust(
        [one for each in opened for one in each.specification.snippets], trust_code=options.trust_code
    )
    for entry, one in zip(manifest["tasks"], opened, strict=True):
        compare_judges(entry, describe_task(one))
    return opened


def specify(
    entry: Mapping[str, Any], source: Mapping[str, Any], manifest: Mapping[str, Any], options: Options
) -> Specification:
    """Return what a task of a run was to do, from its entry in `run.json` and its `task.json`."""
    dataset, examples = entry["dataset"], source["examples"]
    task = task_from_source(source["task"])
    return Specification(
        key=entry["key"],
        task=task,
        dataset=DatasetSpec(dataset["key"], source_from(source["dataset"]), dataset["display_name"]),
        display_name=entry["display_name"],
        model=_find_model(source, manifest, options) if entry["model"] else None,
        model_key=source.get("model_key"),
        model_name=entry["completions"].get("model"),
        selection=Selection(**entry["selection"]),
        examples=DatasetSpec("examples", source_from(examples)) if examples else None,
        num_runs=source.get("num_runs", 1),
        judges=load_judges(task, run_file=manifest.get("file"), overrides=options.overrides()),
        completions=_find_recorded(entry),
    )


def _find_recorded(entry: Mapping[str, Any]) -> str | None:
    told = entry["completions"]
    return str(told["file"]) if told["source"] == "recorded" and told["file"] else None


def _find_model(
    source: Mapping[str, Any], manifest: Mapping[str, Any], options: Options
) -> str | ModelConfig:
    """Return the model as it was named; what is secret, and what its file defines, is looked up again."""
    reference, stated = source.get("model_key"), dict(source.get("generation") or {})
    if reference is None:
        raise _refuse("it does not say how its model was named")
    if "stop" in stated:
        stated["stop"] = tuple(stated["stop"])
    return load_model(
        reference, manifest["file"], generation=Generation(**stated), overrides=options.overrides()
    )


def _compare(entry: Mapping[str, Any], source: Mapping[str, Any], opened: Opened) -> None:
    """Raise E505 or E507 when anything that decides the numbers is not as it was."""
    found = describe_task(opened)
    changed = "its content has changed since the run"
    if found["dataset"]["fingerprint"] != entry["dataset"]["fingerprint"]:
        raise gone("dataset", entry["dataset"]["file"], changed)
    if found["completions"]["sha256"] != entry["completions"]["sha256"]:
        raise gone("completions", entry["completions"]["file"], changed)
    if describe_sources(opened)["examples_fingerprint"] != source.get("examples_fingerprint"):
        raise gone("examples", (source["examples"] or {}).get("file_path"), changed)
    if found["model"] != entry["model"]:
        raise _refuse(f"its model `{entry['model']['name']}` is not the same any more")
    compare_judges(entry, found)


def compare_judges(entry: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise E507 when a scorer would ask another model than before; both are entries in `run.json`."""
    for before, now in zip(entry["scorers"], found["scorers"], strict=True):
        if now.get("model") != before.get("model"):
            raise _refuse(f"the model of its scorer `{before['key']}` is not the same any more")


def _refuse(why: str) -> RunError:
    return RunError(
        "E507",
        f"the run cannot be resumed: {why}",
        hint="start again with `answerkey run`; what was answered already comes from the call cache",
    )
