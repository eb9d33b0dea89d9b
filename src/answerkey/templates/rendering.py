"""Rendering a template on rows: in this process, or in a worker if it is not known to be cheap.

The worker has an empty environment and limits on memory, CPU time and files, and gets only the
recipe and the rows. Exceeding a limit stops the template, and nothing else. Recipes and rows are
sent to it as our own pickles; outcomes come back as JSON: the worker renders untrusted templates,
so its answers must be mere data.
"""

from __future__ import annotations

import codecs
import json
import os
import pickle
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import jinja2
from jinja2 import nodes

from answerkey.errors import Place, SpecError
from answerkey.sandbox.process import START_SECONDS, SnippetError, WorkerProcess
from answerkey.sandbox.worker import Channel, limit_process
from answerkey.templates.environment import (
    find_lone_expression,
    open_environment,
    translate_syntax_errors,
)
from answerkey.templates.limits import (
    MAX_ELEMENTS,
    MAX_LOCAL_STEPS,
    MAX_STEPS,
    RowContext,
    StepBudget,
    count_size,
    measure,
)
from answerkey.templates.values import (
    FOREIGN,
    ExcessError,
    RowError,
    RowExcessError,
    make_plain,
    translate_error,
)

#: The values that a template sees for one row, by name.
Context = Mapping[str, Any]
#: The variable in which a compiled lone expression stores its value.
_VALUE = "value"
#: The CPU time of one row in the worker.
CPU_SECONDS = 1.0
#: The memory that the worker may use in addition to what it has at the start.
MEMORY_BYTES = 128 * 2**20
#: The maximum size of a message to the worker, in bytes and in rows.
_BATCH_BYTES = 4 * 2**20
_BATCH_ROWS = 128
#: A template that exceeds the limits on this many rows is stopped.
MAX_EXCESSES = 5
#: Larger rows are rendered in a worker process, and larger outcomes must be in proportion to the
#: size of the template and of its input.
LARGE_SIZE = 16_384
MAX_GROWTH = 32
#: Modules that the standard library, Jinja and our filters would import later, when no file can be
#: opened.
_NEEDED_MODULES = (
    "datetime",
    "decimal",
    "html.entities",
    "jinja2.debug",
    "pprint",
    "textwrap",
    "unicodedata",
    "urllib.parse",
)
#: The worker's program; the paths to modules, the socket and the folder are its arguments.
_BOOT = """
import sys
folder, socket = sys.argv.pop(), sys.argv.pop()
sys.path[:] = sys.argv[1:]
from answerkey.templates.rendering import serve
serve(int(socket), folder)
"""

_idle: list[WorkerProcess] = []
#: The number of rows on which each template exceeded the limits. A stopped template is not tried
#: again.
_excesses: Counter[Recipe] = Counter()
_stopped: dict[Recipe, str] = {}


class Recipe(NamedTuple):
    """Everything needed to render a template in any process.

    With `keeps_value` the outcome is the value of its lone expression, not the printed text.
    """

    source: str
    is_bounded: bool = False
    keeps_value: bool = False


@lru_cache(maxsize=1024)
def compile_recipe(recipe: Recipe) -> jinja2.Template:
    """Return the compiled template; if it keeps its value, it prints nothing.

    Raise SpecError E112.
    """
    environment = open_environment()
    with translate_syntax_errors(recipe.source):
        expression = None
        if recipe.keeps_value:
            expression = find_lone_expression(environment.parse(recipe.source))
        if expression is None:
            return environment.from_string(recipe.source)
        target = nodes.Name(_VALUE, "store")
        assignment = nodes.Assign(target, expression, lineno=expression.lineno)
        tree = nodes.Template([assignment], lineno=1)
        tree.set_environment(environment)
        return environment.from_string(tree)


def render_row(recipe: Recipe, context: Context, steps: int) -> object:
    """Return the outcome for one row, which is a RowError if rendering fails."""
    template = compile_recipe(recipe)
    frame = cast("RowContext", template.new_context(dict(context)))
    frame.row = context
    frame.budget = StepBudget(steps)
    try:
        outcome: object = "".join(template.root_render_func(frame))
        if recipe.keeps_value:
            outcome = frame.vars[_VALUE]
        _limit_growth(recipe, outcome, context)
        return make_plain(outcome)
    except FOREIGN as error:
        line = None
        if "\n" in recipe.source and not recipe.keeps_value:
            line = _find_line(template, error)
        return translate_error(error, line)


def _limit_growth(recipe: Recipe, outcome: object, context: Context) -> None:
    """Raise ExcessError for an outcome that is out of proportion to the row and the template."""
    size = measure(outcome)
    if size <= LARGE_SIZE:
        return
    read = len(recipe.source) + count_size(dict(context), MAX_ELEMENTS)
    most = LARGE_SIZE + MAX_GROWTH * read
    if size > most:
        raise ExcessError(
            f"the template makes {size:,} characters out of {read:,}, "
            f"its own and those that it reads; {most:,} are allowed"
        )


def _find_line(template: jinja2.Template, error: BaseException) -> int | None:
    """Return the line of the template where an exception was raised."""
    line = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


class TemplateStopped(SpecError):  # noqa: N818 - named for what happened
    """A template exceeded the limits for all templates.

    `source` is its text, used to find its place.
    """

    def __init__(
        self,
        source: str,
        reason: str,
        where: Place | None = None,
    ) -> None:
        hint = "a template may read a row, loop over it and print it; the docs list the limits"
        super().__init__("E120", f"the template was stopped: {reason}", where=where, hint=hint)
        self.source = source
        self.reason = reason

    def at(self, place: Place | None) -> TemplateStopped:
        """Return the error with this place."""
        return TemplateStopped(self.source, self.reason, place)

    def __reduce__(self) -> tuple[object, ...]:
        return TemplateStopped, (self.source, self.reason, self.where)


def render_rows(recipe: Recipe, contexts: Iterable[Context]) -> list[object]:
    """Return the outcome of every row, which is a RowError for a failing row.

    A bounded template is rendered in this process. Every other template is rendered in a worker,
    and so are large rows and rows that turn out to need many steps. Raise TemplateStopped.
    """
    outcomes: list[object] = []
    waiting: dict[int, bytes] = {}
    for context in contexts:
        outcome: object = None
        is_here = recipe.is_bounded and count_size(dict(context), LARGE_SIZE) <= LARGE_SIZE
        if is_here:
            outcome = render_row(recipe, context, MAX_LOCAL_STEPS)
        outcomes.append(outcome)
        if not is_here or type(outcome) is RowExcessError:
            waiting[len(outcomes) - 1] = pickle.dumps(context)
        if sum(map(len, waiting.values())) > _BATCH_BYTES or len(waiting) == _BATCH_ROWS:
            _render_in_worker(recipe, waiting, outcomes)
    if waiting:
        _render_in_worker(recipe, waiting, outcomes)
    return outcomes


def _render_in_worker(recipe: Recipe, rows: dict[int, bytes], outcomes: list[object]) -> None:
    """Render pickled rows, keyed by position, in a worker; store their outcomes and clear the rows.

    A stopped worker is not used again. Raise TemplateStopped.
    """
    if recipe in _stopped:
        raise TemplateStopped(recipe.source, _stopped[recipe])
    worker = _idle.pop() if _idle else _start_worker()
    try:
        # On a busy machine a row takes far more time than its CPU time.
        seconds = 20.0 + worker.send(pickle.dumps((recipe, list(rows.values()))))
        for position in rows:
            outcomes[position] = decode_outcome(worker.receive(seconds=seconds))
            _count_excess(recipe, outcomes[position])
    except SnippetError as problem:
        worker.close()
        reason = (
            f"its process ended ({problem.message}); it may have {MEMORY_BYTES >> 20} MB of memory"
        )
        if problem.kind == "timeout":
            reason = f"it takes more than {CPU_SECONDS:g} s of computing time on one row"
        raise _stop(recipe, reason) from None
    except ValueError:
        worker.close()
        raise _stop(recipe, "its process corrupted its connection") from None
    except BaseException:
        worker.close()
        raise
    _idle.append(worker)
    rows.clear()


def _stop(recipe: Recipe, reason: str) -> TemplateStopped:
    _stopped[recipe] = reason
    return TemplateStopped(recipe.source, reason)


def _count_excess(recipe: Recipe, outcome: object) -> None:
    """Count a row on which a template exceeded the limits; raise TemplateStopped after too many."""
    if isinstance(outcome, RowExcessError):
        _excesses[recipe] += 1
        if _excesses[recipe] == MAX_EXCESSES:
            raise _stop(recipe, f"on {MAX_EXCESSES} rows it exceeds a limit: {outcome.message}")


def _start_worker() -> WorkerProcess:
    worker = WorkerProcess("-c", _BOOT, *filter(None, sys.path))
    try:
        worker.receive(seconds=START_SECONDS)
    except SnippetError as problem:
        worker.close()
        message = f"the process for templates does not start: {problem.message}"
        raise SpecError("E120", message) from None
    return worker


_ERROR_TYPES = {kind.__name__: kind for kind in (RowError, RowExcessError)}


def encode_outcome(outcome: object) -> str:
    """Return an outcome, a value or a RowError, as JSON: its kind and its content."""
    if isinstance(outcome, RowError):
        return json.dumps([type(outcome).__name__, vars(outcome)])
    try:
        # JSON has no dates; values without a JSON type become text.
        return json.dumps(["value", outcome], default=str)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        return encode_outcome(RowExcessError(f"the value cannot be sent back: {reason}"))


def decode_outcome(message: bytes) -> object:
    """Return the outcome in a message from the worker. Raise ValueError for anything else."""
    try:
        kind, content = json.loads(message)
        if kind == "value":
            return content
        return _ERROR_TYPES[kind](**content)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None


# The worker's side: a process that renders templates and can do nothing else. Before the first
# template it has opened its last file: from then on, neither it nor any child can exceed the limits
# on memory, CPU time, files and connections set here.


def serve(descriptor: int, folder: str) -> None:
    """Render incoming rows until the parent closes the connection."""
    channel = Channel(descriptor, folder)
    open_environment()
    for name in _NEEDED_MODULES:
        import_module(name)
    for name in ("ascii", "latin-1", "unicode_escape"):
        codecs.lookup(name)
    _limit_worker()
    channel.send(b"[]")
    while True:
        recipe, rows = pickle.loads(channel.receive())  # noqa: S301 - from our own process
        for message in render_messages(recipe, rows):
            channel.send(message)


def _limit_worker(memory_file: str = "/proc/self/statm") -> None:
    """Lower the limits of this process, skipping limits that the system does not have."""
    limits = {}
    with suppress(OSError), open(memory_file, encoding="ascii") as file:  # noqa: PTH123 - pathlib is not loaded here
        pages = int(file.read().split()[0])
        limits["AS"] = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    # Open files stay open, but nothing else can be opened: no file, no pipe, no connection.
    limit_process(
        FSIZE=0,
        CORE=0,
        NOFILE=1,
        NPROC=0,
        **limits,
    )


def render_messages(recipe: Recipe, rows: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the outcome of each row as a message, rendered within its CPU time."""
    for row in rows:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        outcome = render_row(recipe, pickle.loads(row), MAX_STEPS)  # noqa: S301 - from our own process
        yield encode_outcome(outcome).encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
