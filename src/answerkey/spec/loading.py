"""The front door of spec: a path, or a mapping, becomes a Task or a Plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from answerkey.errors import Place, SpecError
from answerkey.models import Generation, ModelConfig
from answerkey.models.config import is_url
from answerkey.spec.config import given_by_caller
from answerkey.spec.definitions import Definitions, read_definitions
from answerkey.spec.environment import load_environment
from answerkey.spec.findings import Findings, sort_errors
from answerkey.spec.model_choice import Choice
from answerkey.spec.nodes import MapNode, Node
from answerkey.spec.opening import Project, find_file, open_project
from answerkey.spec.plan_building import plan_ready_made, plan_run, plan_task
from answerkey.spec.plans import Loaded, Overrides, Plan
from answerkey.spec.policies import Policy
from answerkey.spec.policy_building import Stated, read_policies
from answerkey.spec.policy_checking import check_policies
from answerkey.spec.ready_made import find_ready_made, load_ready_made
from answerkey.spec.shapes import RunFields
from answerkey.spec.task_building import build_task
from answerkey.spec.tasks import Task

#: `tasks` is a key of task files too: the kinds of model they are for.
_RUN_ONLY = frozenset(RunFields.model_fields) - {"tasks"}


def load_task(
    task: str | Path | Mapping[str, object],
    *,
    config: Mapping[str, object] | None = None,
    overrides: Overrides | None = None,
) -> Loaded[Task]:
    """Return the Task of a task file, or of a mapping of the same form, with everything found on the way."""
    overrides, findings = overrides or Overrides(), Findings()
    given = given_by_caller({**overrides.config, **(config or {})})
    try:
        _, node = _open(task, overrides, findings)
        _require_task(node)
        built = build_task(node, given, findings)
    except SpecError as error:
        findings.report(error)
        built = None
    return Loaded(built, sort_errors(findings.errors), findings.notices)


def _require_task(node: Node) -> None:
    if isinstance(node, MapNode) and not node.is_broken and not _is_task(node):
        message = "this is not a task file: it has no `definition`"
        hint = "give the task file itself, or use `load_plan`"
        raise SpecError("E108", message, where=node.place, hint=hint)


def is_task_file(path: str | Path) -> bool:
    """Return whether a path leads to a task file; a run file, a folder and what cannot be read do not."""
    try:
        _, node = _open(path, Overrides(), Findings())
    except SpecError:
        return False
    return isinstance(node, MapNode) and _is_task(node)


def load_model(
    reference: str, path: str | Path, *, generation: Generation, overrides: Overrides
) -> str | ModelConfig:
    """Return the model that a reference means in the project of a file, for `open_model`; raises SpecError.

    The file counts as having named it, not the caller. It is only read for a model that it defines itself.
    """
    findings = Findings()
    file = Path(path)
    project = open_project(file if file.is_dir() else file.parent, overrides, findings)
    if is_url(reference):
        # Whoever stored the reference chose the host; the keys of this project are not theirs to send there.
        env_file = Path(overrides.env_file) if overrides.env_file is not None else None
        project.environment = load_environment(None, env_file, overrides.environment)
    known = Definitions(project)
    if "/" not in reference:
        node = project.read(find_file(file))
        if isinstance(node, MapNode):
            read_definitions(node, known)
    if reference in known.broken_models:
        raise findings.errors[0]
    return known.offer_models().choose(Choice(reference, Place(file=str(file)), generation=generation))


def load_plan(path: str | Path | Mapping[str, object], overrides: Overrides | None = None) -> Loaded[Plan]:
    """Return what a run file, a folder with `run.yaml`, a task file or a ready-made task is to do."""
    overrides, findings = overrides or Overrides(), Findings()
    ready = find_ready_made(path)
    try:
        if ready is not None:
            plan = plan_ready_made(open_project(Path(), overrides, findings), load_ready_made(ready))
        else:
            project, node = _open(path, overrides, findings)
            plan = _make_plan(project, node)
    except SpecError as error:
        findings.report(error)
        plan = None
    return Loaded(plan, sort_errors(findings.errors), findings.notices)


def load_policies(stated: Stated, overrides: Overrides) -> Loaded[tuple[Policy, ...]]:
    """Return the policies of a file, or of plain values of the same form."""
    findings = Findings()
    folder = Path(stated).parent if isinstance(stated, str | Path) else Path()
    policies = read_policies(stated, open_project(folder, overrides, findings))
    return Loaded(policies, sort_errors(findings.errors), findings.notices)


def hold_policies(
    policies: Sequence[Policy], tasks: Mapping[str, Task], evaluation: str
) -> Loaded[tuple[Policy, ...]]:
    """Return policies with what they name and the tasks, by specification key, do not have."""
    findings = Findings()
    check_policies(policies, tasks, evaluation, findings)
    return Loaded(tuple(policies), sort_errors(findings.errors), findings.notices)


def _open(
    path: str | Path | Mapping[str, object], overrides: Overrides, findings: Findings
) -> tuple[Project, Node]:
    if isinstance(path, Mapping):
        project = open_project(Path(), overrides, findings)
        return project, project.take(path)
    if (name := find_ready_made(path)) is not None:
        return open_project(Path(), overrides, findings), load_ready_made(name).task
    file = find_file(Path(path))
    project = open_project(file.parent, overrides, findings)
    return project, project.read(file)


def _make_plan(project: Project, node: Node) -> Plan | None:
    if not isinstance(node, MapNode):
        hint = "a run file has `tasks` and `evaluation`, a task file has `key` and `definition`"
        raise SpecError("E108", "the file must be a mapping", where=node.place, hint=hint)
    _refuse_other_files(node)
    if _is_task(node):
        return plan_task(project, node)
    if node.entries.keys() & {"source", "file_path"} and not node.entries.keys() & _RUN_ONLY:
        hint = "name a task file and give this file with `--dataset`"
        raise SpecError(
            "E108", "this is a dataset file, not a task or run file", where=_start(node), hint=hint
        )
    return plan_run(project, node)


def _refuse_other_files(node: MapNode) -> None:
    """Raise for files of the original platform that are run in another way there."""
    keys = node.entries.keys()
    if "evaluations" in keys:
        hint = "run each entry of `evaluations` as a run file of its own"
        message = "evaluation plans of the original platform are not done"
        raise SpecError("E116", message, where=node.key_place("evaluations"), hint=hint)
    if "task_specifications" in keys and "definition" not in keys:
        hint = "write a run file with `evaluation: {$ref: …}`, beside its `tasks` and `datasets`"
        where = node.key_place("task_specifications")
        raise SpecError("E108", "this is an evaluation, not a run file", where=where, hint=hint)


def _is_task(node: MapNode) -> bool:
    keys = node.entries.keys()
    return "definition" in keys or ("key" in keys and not keys & {*_RUN_ONLY, "source", "file_path"})


def _start(node: MapNode) -> Place:
    return node.place
