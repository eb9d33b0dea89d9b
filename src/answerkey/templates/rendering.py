"""Rendering a template on rows: in this process, or in a worker if that is not known to be cheap.

The worker has an empty environment and limits on memory, computing time and files, and knows
nothing but the recipe and the rows. Going beyond its limits stops the template, and nothing else.
Recipes and rows go to it as pickles of our own; outcomes come back as JSON: the worker renders what
a stranger wrote, so nothing that it says is more than a value.
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
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

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
    FEW_STEPS,
    MAX_ELEMENTS,
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

#: What a template sees of one row: values by name.
Context = Mapping[str, Any]
#: Where a compiled lone expression leaves its value.
_VALUE = "value"
#: Computing time of one row in the worker.
CPU_SECONDS = 1.0
#: What the worker may have beside what it has when it begins.
MEMORY_BYTES = 128 * 2**20
#: A message to the worker holds so many rows and bytes.
_BATCH_BYTES = 4 * 2**20
_BATCH_ROWS = 128
#: A template that does too much on so many rows is stopped.
MAX_EXCESSES = 5
#: Larger rows are rendered in a worker process, and larger outcomes must be in proportion to what
#: the template holds and reads.
LARGE_SIZE = 16_384
MAX_GROWTH = 32
#: What the standard library, Jinja and our filters would load later, when no file can be opened.
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
#: On how many rows a template did too much. Those that were stopped are not tried again.
_excesses: Counter[Recipe] = Counter()
_stopped: dict[Recipe, str] = {}


@dataclass(frozen=True)
class Recipe:
    """All that is needed to render a template anywhere.

    With `keeps_value` the outcome is the value of its lone expression, not what it prints.
    """

    source: str
    is_bounded: bool = False
    keeps_value: bool = False


@lru_cache(maxsize=1024)
def compile_recipe(recipe: Recipe) -> jinja2.Template:
    """Return the compiled template; one that keeps its value prints nothing.

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
    """Return the outcome for one row; the outcome of a row that fails is a RowError."""
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
    """A template went beyond what any template may do.

    `source` is its text, by which its place is found.
    """

    def __init__(
        self,
        source: str,
        reason: str,
        where: Place | None = None,
    ) -> None:
        hint = "a template may read a row, go through it and print it; the docs have its limits"
        super().__init__("E120", f"the template was stopped: {reason}", where=where, hint=hint)
        self.source = source
        self.reason = reason

    def at(self, place: Place | None) -> TemplateStopped:
        """Return the error with its place."""
        return TemplateStopped(self.source, self.reason, place)

    def __reduce__(self) -> tuple[object, ...]:
        return TemplateStopped, (self.source, self.reason, self.where)


def render_rows(recipe: Recipe, contexts: Iterable[Context]) -> list[object]:
    """Return the outcome of every row; the outcome of a failing row is a RowError.

    A bounded template is rendered here. Every other template goes to a worker process, and so do
    large rows and rows that turn out to take many steps. Raise TemplateStopped.
    """
    outcomes: list[object] = []
    waiting: dict[int, bytes] = {}
    for context in contexts:
        outcome: object = None
        is_here = recipe.is_bounded and count_size(dict(context), LARGE_SIZE) <= LARGE_SIZE
        if is_here:
            outcome = render_row(recipe, context, FEW_STEPS)
        outcomes.append(outcome)
        if not is_here or type(outcome) is RowExcessError:
            waiting[len(outcomes) - 1] = pickle.dumps(context)
        if sum(map(len, waiting.values())) > _BATCH_BYTES or len(waiting) == _BATCH_ROWS:
            _render_elsewhere(recipe, waiting, outcomes)
    if waiting:
        _render_elsewhere(recipe, waiting, outcomes)
    return outcomes


def _render_elsewhere(recipe: Recipe, rows: dict[int, bytes], outcomes: list[object]) -> None:
    """Put the outcomes of pickled rows, by position, where they belong, and forget the rows.

    They come from a worker; one that was stopped is not used again. Raise TemplateStopped.
    """
    if recipe in _stopped:
        raise TemplateStopped(recipe.source, _stopped[recipe])
    worker = _idle.pop() if _idle else _start_worker()
    try:
        # A machine that does much else needs far more time than the row may compute.
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
        raise _stop(recipe, "its process broke its connection") from None
    except BaseException:
        worker.close()
        raise
    _idle.append(worker)
    rows.clear()


def _stop(recipe: Recipe, reason: str) -> TemplateStopped:
    _stopped[recipe] = reason
    return TemplateStopped(recipe.source, reason)


def _count_excess(recipe: Recipe, outcome: object) -> None:
    """Count a row on which a template did too much; raise TemplateStopped if it is one too many."""
    if isinstance(outcome, RowExcessError):
        _excesses[recipe] += 1
        if _excesses[recipe] == MAX_EXCESSES:
            raise _stop(recipe, f"on {MAX_EXCESSES} rows it does too much: {outcome.message}")


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
        # JSON has no dates; what it has no type for becomes text.
        return json.dumps(["value", outcome], default=str)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        return encode_outcome(RowExcessError(f"the value cannot be handed on: {reason}"))


def decode_outcome(message: bytes) -> object:
    """Return the outcome in a message of the worker. Raise ValueError for anything else."""
    try:
        kind, content = json.loads(message)
        if kind == "value":
            return content
        return _ERROR_TYPES[kind](**content)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None


# The worker's side: a process that renders templates, and can do nothing else. When it begins with
# the first of them it has opened its last file: it can take no more memory, computing time, files
# or connections than are set here, and neither can anything that it would start.


def serve(descriptor: int, folder: str) -> None:
    """Render what comes, until the parent hangs up."""
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
    """Lower what this process may take; a limit that the system does not know is left as it is."""
    limits = {}
    with suppress(OSError), open(memory_file, encoding="ascii") as file:  # noqa: PTH123 - pathlib is not loaded here
        pages = int(file.read().split()[0])
        limits["AS"] = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    # What is open stays open, and nothing else can be opened: no file, no pipe, no connection.
    limit_process(
        FSIZE=0,
        CORE=0,
        NOFILE=1,
        NPROC=0,
        **limits,
    )


def render_messages(recipe: Recipe, rows: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the outcome of each row as a message, rendered within its time."""
    for row in rows:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        outcome = render_row(recipe, pickle.loads(row), MAX_STEPS)  # noqa: S301 - from our own process
        yield encode_outcome(outcome).encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
