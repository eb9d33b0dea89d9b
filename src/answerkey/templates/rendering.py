"""Rendering a template on rows: here, or in a worker process if it is not bounded or the rows are large.

The worker has an empty environment, limits on memory, computing time and files, and knows nothing but the
recipe and the rows. What goes beyond its limits stops the template, and nothing else. Recipes and rows go to
it as pickles of our own; outcomes come back as JSON, in which every object is marked for what it is: it
renders what a stranger wrote, so nothing that it says is more than a value.
"""

from __future__ import annotations

import codecs
import copyreg
import datetime as dt
import decimal
import io
import json
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast

import jinja2
from jinja2 import nodes

from answerkey.errors import Place, SpecError
from answerkey.sandbox.snippet import START_SECONDS, SnippetError, WorkerProcess
from answerkey.sandbox.worker import Channel, limit_process
from answerkey.templates.analysis import find_lone_expression, parse_template, translate_syntax_errors
from answerkey.templates.environment import open_environment
from answerkey.templates.values import (
    FEW_STEPS,
    FOREIGN,
    FREE_OUTPUT,
    MOST_ELEMENTS,
    MOST_GROWTH,
    MOST_STEPS,
    SCALARS,
    Budget,
    ExcessError,
    RowContext,
    RowError,
    RowExcessError,
    count_within,
    describe_type,
    is_flat,
    make_plain,
    measure,
    translate_error,
)

#: Where a compiled lone expression leaves its value.
_VALUE: Final = "value"
#: Of computing time, on one row.
CPU_SECONDS: Final = 1.0
#: Beside what the worker has when it begins.
MEMORY_BYTES: Final = 128 * 2**20
#: A template that does too much on so many rows is stopped.
MOST_EXCESSES: Final = 5
#: More than the computing time of a row and the time between two answers, on a machine that does much else.
_WALL_SECONDS: Final = 20.0
#: Rows with more characters and parts than this are rendered in a worker process, whatever the template.
LARGE_ROW: Final = 16_384
_BATCH_ROWS: Final = 512
_BATCH_BYTES: Final = 4 * 2**20
_ROW_BYTES: Final = 32 * 2**20
_MEGABYTE: Final = 2**20
#: Outcomes are sent when so much time has passed since the last ones, or when there are so many of them.
_SEND_SECONDS: Final = 0.25
_SEND_CHARACTERS: Final = 200_000
_OUTCOME_CHARACTERS: Final = 1_000
#: What the standard library, Jinja and our filters load when they are first used.
_NEEDED: Final = [
    "regex",
    "pprint",
    "textwrap",
    "html.entities",
    "urllib.parse",
    "unicodedata",
    "jinja2.debug",
]
_ENCODINGS: Final = ("ascii", "latin-1", "cp1252", "utf-8", "utf-16", "utf-32", "unicode_escape")
#: The worker's program. It loads the modules that render, without what their packages collect: the column
#: library alone takes longer to load than the rest. Of these packages it knows where their modules are.
_BOOT: Final = """
import sys
from types import ModuleType
folder, socket = sys.argv.pop(), sys.argv.pop()
sys.path[:], sys.argv[1:] = sys.argv[1:], [socket, folder]
import answerkey
for name in ("templates", "sandbox"):
    package = sys.modules[f"answerkey.{name}"] = ModuleType(f"answerkey.{name}")
    package.__path__ = [f"{answerkey.__path__[0]}/{name}"]
from answerkey.templates.rendering import serve
serve()
"""

_idle: list[WorkerProcess] = []
#: On how many rows a template did too much. Those that were stopped are not tried again on other rows.
_excesses: Counter[Recipe] = Counter()
_stopped: dict[Recipe, str] = {}


#: What a template sees of one row: values by name.
Context = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """All that is needed to render a template anywhere: its text, the names it sees, what is wanted of it.

    `keeps_value`: the value of its lone expression, rather than what it prints. `columns` are those of
    `sample` that it reads; None: any.
    """

    source: str
    names: tuple[str, ...]
    keeps_value: bool
    columns: frozenset[str] | None
    is_bounded: bool


class Renderer:
    """Renders one template on one row after another; a row may take `steps`."""

    def __init__(self, recipe: Recipe, steps: int) -> None:
        self.recipe = recipe
        self._steps = steps
        self._template = compile_recipe(recipe)
        self._frame: RowContext | None = None

    def render(self, context: Context) -> object:
        """Return the outcome for one row; the outcome of a row that fails is a RowError."""
        if self._frame is None:  # at first, and after a row that failed
            self._frame = cast("RowContext", self._template.new_context({}))
            self._frame.budget = Budget(self._steps)
        self._frame.renew(context)
        try:
            return self._make_outcome(self._frame)
        except FOREIGN as error:
            self._frame = None
            has_lines = not self.recipe.keeps_value and "\n" in self.recipe.source
            line = _find_line(self._template, error) if has_lines else None
            return translate_error(error, line)

    def _make_outcome(self, frame: RowContext) -> object:
        """Return the value or the text of the row in a frame. Raise whatever the template raises."""
        text = "".join(self._template.root_render_func(frame))
        outcome: object = frame.vars[_VALUE] if self.recipe.keeps_value else text
        if len(text) > MOST_ELEMENTS:
            made = f"the template prints {len(text):,} characters"
            raise ExcessError(f"{made}; {MOST_ELEMENTS:,} are allowed")
        is_short_text = type(outcome) is str and len(outcome) <= FREE_OUTPUT
        if is_short_text or (type(outcome) is not str and type(outcome) in SCALARS):
            return outcome
        self._limit_growth(measure(outcome), frame.given)
        return make_plain(outcome)

    def _limit_growth(self, size: int, given: Mapping[str, Any]) -> None:
        """Raise ExcessError for an outcome that is out of proportion to the row and the template."""
        if size <= FREE_OUTPUT:
            return
        read = len(self.recipe.source)
        columns = self.recipe.columns
        for name, value in given.items():
            if name == "sample" and isinstance(value, dict) and columns is not None:
                value = {key: value[key] for key in columns if key in value}  # noqa: PLW2901 - what counts of it
            read += min(count_within(value, MOST_ELEMENTS), MOST_ELEMENTS)
        most = FREE_OUTPUT + MOST_GROWTH * read
        if size > most:
            made = f"the template makes {size:,} characters out of {read:,}, its own and those that it reads"
            raise ExcessError(f"{made}; {most:,} are allowed")


def _find_line(template: jinja2.Template, error: BaseException) -> int | None:
    """Return the line of the template where an exception was raised."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == (template.filename or "<template>"):
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


@lru_cache(maxsize=1024)
def compile_recipe(recipe: Recipe) -> jinja2.Template:
    """Return what prints, or what keeps its value and prints nothing. Raise SpecError E112."""
    environment = open_environment()
    expression = None
    if recipe.keeps_value:
        expression = find_lone_expression(parse_template(recipe.source, recipe.names))
    with translate_syntax_errors(recipe.source):
        if expression is None:
            return environment.from_string(recipe.source)
        store = nodes.Assign(nodes.Name(_VALUE, "store"), expression, lineno=expression.lineno)
        tree = nodes.Template([store], lineno=1)
        tree.set_environment(environment)
        return environment.from_string(tree)


class TemplateStopped(SpecError):  # noqa: N818 - named for what happened
    """A template went beyond what any template may do; `source` is its text, by which its place is found."""

    def __init__(self, source: str, reason: str, where: Place | None = None) -> None:
        hint = "a template may read a row, go through it and print it; the docs have its limits"
        super().__init__("E120", f"the template was stopped: {reason}", where=where, hint=hint)
        self.source, self.reason = source, reason

    def at(self, place: Place | None) -> TemplateStopped:
        """Return the error with its place."""
        return TemplateStopped(self.source, self.reason, place)

    def __reduce__(self) -> tuple[object, ...]:
        return TemplateStopped, (self.source, self.reason, self.where)


def render_rows(recipe: Recipe, contexts: Iterable[Context]) -> list[object]:
    """Return the outcome of every row; the outcome of a failing row is a RowError. Raise TemplateStopped.

    A bounded template is rendered here. Every other template goes to a worker process, and so do large rows
    and rows that turn out to take many steps.
    """
    renderer = Renderer(recipe, FEW_STEPS)
    outcomes: list[object] = []
    waiting: dict[int, Context] = {}
    for context in contexts:
        outcome: object = None
        is_here = recipe.is_bounded and count_within(list(context.values()), LARGE_ROW) <= LARGE_ROW
        if is_here:
            outcome = renderer.render(context)
        if not is_here or type(outcome) is RowExcessError:
            waiting[len(outcomes)] = context
        outcomes.append(outcome)
        if len(waiting) == _BATCH_ROWS:
            _render_waiting(recipe, waiting, outcomes)
    if waiting:
        _render_waiting(recipe, waiting, outcomes)
    return outcomes


def _render_waiting(recipe: Recipe, waiting: dict[int, Context], outcomes: list[object]) -> None:
    """Render the waiting rows in a worker, and put their outcomes in place."""
    if recipe in _stopped:
        raise TemplateStopped(recipe.source, _stopped[recipe])
    rendered = _render_part(recipe, list(waiting.values()))
    for position, outcome in zip(waiting, rendered, strict=True):
        outcomes[position] = outcome
    waiting.clear()


def _render_part(recipe: Recipe, contexts: Sequence[Context]) -> list[object]:
    """Render rows in a worker, in halves if they are large; a worker that was stopped is not used again."""
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed)
    pickler.dispatch_table = copyreg.dispatch_table | {dt.datetime: _reduce_datetime}
    pickler.dump((recipe, contexts))
    payload = packed.getvalue()
    if len(payload) > _BATCH_BYTES and len(contexts) > 1:
        middle = len(contexts) // 2
        first_half = _render_part(recipe, contexts[:middle])
        return first_half + _render_part(recipe, contexts[middle:])
    if len(payload) > _ROW_BYTES:
        return [RowExcessError(f"a row of {len(payload) // _MEGABYTE} MB is too large for this template")]
    worker = _idle.pop() if _idle else _start_worker()
    outcomes: list[object] = []
    reason = None
    try:
        reading_seconds = worker.send(payload)
        while reason is None and len(outcomes) < len(contexts):
            received = decode(worker.receive(seconds=_WALL_SECONDS + reading_seconds))
            outcomes += received
            reason = _count_excesses(recipe, received)
    except SnippetError as problem:
        if problem.kind == "timeout":
            reason = f"it takes more than {CPU_SECONDS:g} s of computing time on one row"
        else:
            memory = f"it may have {MEMORY_BYTES // _MEGABYTE} MB of memory"
            reason = f"its process ended ({problem.message}); {memory}"
    except ValueError:
        reason = "its process broke its connection"
    except BaseException:
        worker.close()
        raise
    if reason is not None:
        worker.close()
        _stopped[recipe] = reason
        raise TemplateStopped(recipe.source, reason)
    _idle.append(worker)
    return outcomes


def _count_excesses(recipe: Recipe, outcomes: Sequence[object]) -> str | None:
    """Count the rows on which a template did too much; return why it must stop when there are too many."""
    for outcome in outcomes:
        if isinstance(outcome, RowExcessError):
            _excesses[recipe] += 1
            if _excesses[recipe] == MOST_EXCESSES:
                return f"on {MOST_EXCESSES} rows it does too much: {outcome.message}"
    return None


def _reduce_datetime(value: dt.datetime) -> Any:  # noqa: ANN401 - as pickle has it
    """Return a time with its distance to UTC: the worker can open no file of time zones."""
    offset = value.utcoffset()
    if offset is not None:
        value = value.replace(tzinfo=dt.timezone(offset, value.tzname() or ""))
    return value.__reduce__()


def _start_worker() -> WorkerProcess:
    worker = WorkerProcess("-c", _BOOT, *filter(None, sys.path))
    try:
        worker.receive(seconds=START_SECONDS)
    except SnippetError as problem:
        worker.close()
        raise SpecError("E120", f"the process for templates does not start: {problem.message}") from None
    return worker


#: What cells can hold beside texts, numbers, lists and mappings: its mark, how it is written and read.
_CELLS: Final[dict[type, tuple[str, Callable[[Any], object], Callable[[Any], object]]]] = {
    dt.datetime: ("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ("time", dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: dt.timedelta(*parts),
    ),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
}
_ROW_ERRORS: Final = {kind.__name__: kind for kind in (RowError, RowExcessError)}
_READERS: Final[dict[str, Callable[[Any], object]]] = {
    "mapping": dict,
    **{mark: read for mark, _, read in _CELLS.values()},
}


def encode(outcome: object) -> object:
    """Return an outcome, a value or a RowError, as what JSON can hold.

    What is no list and no scalar becomes an object with one key, which says what it is.
    """
    if type(outcome) in SCALARS or is_flat(outcome):
        return outcome
    if isinstance(outcome, list):
        return [encode(one) for one in outcome]
    if isinstance(outcome, Mapping):
        return {"mapping": [[encode(key), encode(one)] for key, one in outcome.items()]}
    if type(outcome) in _CELLS:
        mark, write, _ = _CELLS[type(outcome)]
        return {mark: write(outcome)}
    if not isinstance(outcome, RowError):
        outcome = RowError(f"the template yields {describe_type(outcome)}, which is no value")
    parts = [outcome.message, outcome.hint, outcome.column, outcome.is_undefined]
    return {type(outcome).__name__: parts}


def decode(message: bytes) -> list[object]:
    """Return the outcomes in a message. Raise ValueError for anything else."""

    def read_object(found: dict[str, Any]) -> object:
        [(mark, content)] = found.items()
        if mark not in _ROW_ERRORS:
            return _READERS[mark](content)
        message, hint, column, is_undefined = content
        return _ROW_ERRORS[mark](message, hint=hint, column=column, is_undefined=is_undefined)

    try:
        outcomes = json.loads(message, object_hook=read_object)
    except (KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None
    if not isinstance(outcomes, list):
        raise ValueError("no outcomes")  # noqa: TRY004 - what a process says is data
    return outcomes


# The worker's side: a process that renders templates, and can do nothing else. When it begins with the first
# of them it has opened its last file: it can take no more memory, computing time, files or connections than
# are set here, and neither can anything that it would start.


def serve() -> None:
    """Render what comes, until the parent hangs up."""
    folder = sys.argv.pop()
    channel = Channel(int(sys.argv.pop()), folder)
    open_environment()
    for name in _NEEDED:
        import_module(name)
    for name in _ENCODINGS:
        codecs.lookup(name)
    _limit_process()
    channel.send(b"[]")
    while True:
        recipe, contexts = pickle.loads(channel.receive())  # noqa: S301 - from our own process
        for message in render_messages(recipe, contexts):
            channel.send(message)


def _limit_process(memory_file: str = "/proc/self/statm") -> None:
    """Lower what this process may take; a limit that the system does not know is left as it is."""
    limits = {}
    with suppress(OSError), open(memory_file, encoding="ascii") as file:  # noqa: PTH123 - nothing more is loaded here than is needed
        limits["AS"] = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    # The files that are open stay open, and no other can be opened: no file, no pipe, no connection.
    limit_process(FSIZE=0, CORE=0, NOFILE=1, NPROC=0, **limits)


def render_messages(recipe: Recipe, contexts: Sequence[Context]) -> Iterator[bytes]:
    """Yield the outcomes as messages, each rendered within its time."""
    pending: list[object] = []
    size, due = 0, time.monotonic() + _SEND_SECONDS
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    renderer = Renderer(recipe, MOST_STEPS)
    for context in contexts:
        outcome = renderer.render(context)
        pending.append(outcome)
        size += len(outcome) if type(outcome) is str else _OUTCOME_CHARACTERS
        if size > _SEND_CHARACTERS or time.monotonic() > due:
            yield _write(pending)
            pending.clear()
            size, due = 0, time.monotonic() + _SEND_SECONDS
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, 0)
    if pending:
        yield _write(pending)


def _write(outcomes: Sequence[object]) -> bytes:
    """Return outcomes as JSON; in place of one that cannot be written stands why."""
    written: list[str] = []
    for outcome in outcomes:
        try:
            written.append(json.dumps(encode(outcome)))
        except (ValueError, RecursionError, MemoryError) as error:
            excess = RowExcessError(f"the value cannot be handed on: {error or type(error).__name__}")
            written.append(json.dumps(encode(excess)))
    return f"[{','.join(written)}]".encode()
