"""Rendering in a worker process: for templates that are not tame, and for rows that are large.

The process has an empty environment, limits on memory, computing time and files, and knows nothing but the
recipe and the rows. What goes beyond its limits stops the template, and nothing else.
"""

from __future__ import annotations

import copyreg
import datetime as dt
import io
import pickle
import sys
from typing import Any, Final

from answerkey.errors import Place, SpecError
from answerkey.sandbox.snippet import SnippetTrouble
from answerkey.sandbox.worker_process import START_SECONDS, WorkerProcess
from answerkey.templates.isolated import CPU_SECONDS, MEMORY_BYTES
from answerkey.templates.recipes import Recipe
from answerkey.templates.rows import Rows
from answerkey.templates.transport import Stopped, decode
from answerkey.templates.trouble import Excess

#: The modules that render, without all that the rooms around them collect: the column library alone takes
#: longer to load than the rest. Of these rooms the names are there, and where to find their modules.
_BOOT: Final = """
import sys
from types import ModuleType
folder, socket = sys.argv.pop(), sys.argv.pop()
sys.path[:], sys.argv[1:] = sys.argv[1:], [socket, folder]
import answerkey
for room in ("templates", "sandbox"):
    package = sys.modules[f"answerkey.{room}"] = ModuleType(f"answerkey.{room}")
    package.__path__ = [f"{answerkey.__path__[0]}/{room}"]
from answerkey.templates.isolated import serve
serve()
"""
#: More than the computing time of a row and the time between two answers, on a machine that does much else.
_WALL_SECONDS: Final = 20.0
_BATCH_ROWS: Final = 512
_BATCH_BYTES: Final = 4 * 2**20
_ROW_BYTES: Final = 32 * 2**20
_MEGABYTE: Final = 2**20

_idle: list[WorkerProcess] = []
#: Templates that were stopped are not tried again on other rows.
_stopped: dict[Recipe, str] = {}


class TemplateStopped(SpecError):  # noqa: N818 - named for what happened
    """A template went beyond what any template may do; `source` is its text, by which its place is found."""

    source: str = ""

    @classmethod
    def of(cls, recipe: Recipe, reason: str) -> TemplateStopped:
        """Return the error for a recipe."""
        hint = "a template may read a row, go through it and print it; the docs have its limits"
        stopped = cls("E120", f"the template was stopped: {reason}", hint=hint)
        stopped.source = recipe.source
        return stopped

    def at(self, place: Place | None) -> TemplateStopped:
        """Return the error with its place."""
        placed = type(self)(self.code, self.message, where=place, hint=self.hint)
        placed.source = self.source
        return placed

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"source": self.source})


def render_isolated(recipe: Recipe, rows: Rows) -> list[object]:
    """Return the outcome of every row; that of a failing row is its RowTrouble. Raise TemplateStopped."""
    if recipe in _stopped:
        raise TemplateStopped.of(recipe, _stopped[recipe])
    outcomes: list[object] = []
    for part in rows.cut(_BATCH_ROWS):
        outcomes += _render_part(recipe, part)
    return outcomes


def _render_part(recipe: Recipe, rows: Rows) -> list[object]:
    """Render rows, in halves where they are large."""
    payload = _pack(recipe, rows)
    if len(payload) > _BATCH_BYTES and rows.height > 1:
        middle = rows.height // 2
        halves = rows.slice(0, middle), rows.slice(middle, rows.height)
        return [outcome for half in halves for outcome in _render_part(recipe, half)]
    if len(payload) > _ROW_BYTES:
        return [Excess(f"a row of {len(payload) // _MEGABYTE} MB is too large for this template")]
    found = _converse(payload, rows.height)
    if isinstance(found, Stopped):
        _stopped[recipe] = found.reason
        raise TemplateStopped.of(recipe, found.reason)
    return found


def _pack(recipe: Recipe, rows: Rows) -> bytes:
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed)
    pickler.dispatch_table = copyreg.dispatch_table | {dt.datetime: _reduce_datetime}
    pickler.dump((recipe, rows))
    return packed.getvalue()


def _reduce_datetime(value: dt.datetime) -> Any:  # noqa: ANN401 - as pickle has it
    """Return a time with its distance to UTC: the worker can open no file of time zones."""
    offset = value.utcoffset()
    if offset is not None:
        value = value.replace(tzinfo=dt.timezone(offset, value.tzname() or ""))
    return value.__reduce__()


def _converse(payload: bytes, height: int) -> list[object] | Stopped:
    """Return what a worker makes of a message, or why it was stopped; then the worker is not kept."""
    worker = _idle.pop() if _idle else _start_worker()
    try:
        found = _exchange(worker, payload, height)
    except SnippetTrouble as trouble:
        found = Stopped(_explain(trouble))
    except ValueError:
        found = Stopped("its process broke its connection")
    except BaseException:
        worker.close()
        raise
    if isinstance(found, Stopped):
        worker.close()
    else:
        _idle.append(worker)
    return found


def _exchange(worker: WorkerProcess, payload: bytes, height: int) -> list[object] | Stopped:
    reading = worker.send_bytes(payload)
    outcomes: list[object] = []
    while len(outcomes) < height:
        outcomes += decode(worker.receive_bytes(seconds=_WALL_SECONDS + reading))
        if outcomes and isinstance(outcomes[-1], Stopped):
            return outcomes[-1]
    return outcomes


def _explain(trouble: SnippetTrouble) -> str:
    if trouble.kind == "timeout":
        return f"it takes more than {CPU_SECONDS:g} s of computing time on one row"
    return f"its process ended ({trouble.message}); it may have {MEMORY_BYTES // _MEGABYTE} MB of memory"


def _start_worker() -> WorkerProcess:
    worker = WorkerProcess("-c", _BOOT, *filter(None, sys.path))
    try:
        worker.receive_bytes(seconds=START_SECONDS)
    except SnippetTrouble as trouble:
        worker.close()
        raise SpecError("E120", f"the process for templates does not start: {trouble.message}") from None
    return worker
