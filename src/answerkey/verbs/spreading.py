"""How the work on a task may be spread, over threads, processes or not at all, and how much is one shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from answerkey.datasets import Recorded, Rows
from answerkey.engines import Spread
from answerkey.pipeline import SHARD_ROWS, Prepared
from answerkey.scorers import StringEqualsMcqa, compile_templates
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.model_judge import AskingScorer
from answerkey.templates import Template
from answerkey.types import Samples
from answerkey.verbs.columns import BY_TEMPLATE

#: Starting worker processes takes as long as rendering so many rows.
WORKER_ROWS = 50_000
#: What is rendered once per distinct value is rendered for most rows, if it is for most of the first ones.
LOOKED_AT = 2_000
MOST = 0.5
#: A shard of at most so many bytes of cells is worked on at a time, on each core.
SHARD_BYTES = 32 * 2**20
FEWEST_ROWS = 1_000
#: Rows that are slow are handed out in smaller shards, so that no core waits long for another.
PROCESS_ROWS = 16_384


def choose_shard_rows(prepared: Prepared, spread: Spread) -> int:
    """Return how many rows one shard has: fewer where rows are long, or take long."""
    most = fit_rows(prepared.dataset.rows, prepared.columns, prepared.recorded)
    return min(most, PROCESS_ROWS) if spread in ("apart", "processes") else most


def fit_rows(rows: Rows, columns: Collection[str] | None, recorded: Recorded | None) -> int:
    """Return how many rows can well be in memory together, as the first and the middle ones tell."""
    if len(rows) <= FEWEST_ROWS:
        return SHARD_ROWS
    size, looked_at = 0, 0
    for offset in (0, len(rows) // 2):
        samples = rows.slice(offset, FEWEST_ROWS).load(columns)
        size += int(samples.frame.estimated_size())
        looked_at += len(samples)
        if recorded is not None and not recorded.columns:  # they are not among the columns of the samples
            said = recorded.slice(offset, len(samples)).read(samples)
            size += int(said.frame["completion"].estimated_size())
    return min(SHARD_ROWS, max(FEWEST_ROWS, SHARD_BYTES * looked_at // max(size, 1)))


def choose_spread(prepared: Prepared) -> Spread:
    """Return how a task's shards may be worked on.

    Whatever asks a model does so from here, shard after shard. A snippet, which has a process of its own, and
    a scorer that is not ours, for nobody told it of threads, want a process with nothing beside them.
    """
    scorers = [step.scorer for step in prepared.task.scoring]
    if prepared.model is not None or any(isinstance(one, AskingScorer) for one in scorers):
        return "alone"
    if prepared.task.snippets or not all(type(one) in BY_TEMPLATE for one in scorers):
        return "apart"
    if len(prepared.dataset) < WORKER_ROWS:
        return "threads"
    first = prepared.dataset.rows.slice(0, LOOKED_AT).load(prepared.columns)
    is_solved = prepared.recorded is None  # a solver reads traces one by one
    is_slow = is_solved or _needs_python(prepared, first) or _reads_one_by_one(prepared, first)
    return "processes" if is_slow else "threads"


def choose_check_spread(prepared: Prepared) -> Spread:
    """Return how the rows of a task may be checked: nobody is asked, but prompts are rendered."""
    solver = prepared.task.solver if prepared.recorded is None else None
    parts = [step.scorer for step in prepared.task.scoring] + ([solver] if solver else [])
    if not all(type(one).__module__.startswith("answerkey.") for one in parts):
        return "apart"
    if len(prepared.dataset) < WORKER_ROWS:
        return "threads"
    if solver is not None and solver.needs_model:
        return "processes"
    first = prepared.dataset.rows.slice(0, LOOKED_AT).load(prepared.columns)
    return "processes" if _needs_python(prepared, first) else "threads"


def _needs_python(prepared: Prepared, samples: Samples) -> bool:
    """Return whether some template is rendered for most rows."""
    return any(_is_rendered(template, samples) for template in _list_templates(prepared))


def _reads_one_by_one(prepared: Prepared, samples: Samples) -> bool:
    """Return whether a rule that has no column form reads completions of which most are different."""
    scorers = [step.scorer for step in prepared.task.scoring]
    is_read = any(
        isinstance(one, StringEqualsMcqa) and find_rule(one.extraction).has_parts for one in scorers
    )
    if not is_read or prepared.recorded is None:
        return False
    said = prepared.recorded.slice(0, len(samples)).read(samples).frame["completion"]
    return said.n_unique() > MOST * len(said)


def _list_templates(prepared: Prepared) -> Iterator[Template]:
    for step in prepared.task.scoring:
        yield from compile_templates(step.scorer)[0].values()


def _is_rendered(template: Template, samples: Samples) -> bool:
    kind = template.plan(samples).kind
    if kind != "distinct":
        return kind == "rows"
    columns = sorted(template.columns or samples.columns)
    return samples.frame.select(columns).n_unique() > MOST * len(samples)
