"""The other side of `isolation`: a process that renders templates, and can do nothing else.

It is sent recipes with rows, as pickles of our own, and answers with outcomes as JSON. When it begins with
the first of them it has opened its last file: it can take no more memory, computing time, files or
connections than are set here, and neither can anything that it would start.
"""

from __future__ import annotations

import codecs
import json
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from answerkey.sandbox.worker import Channel
from answerkey.templates.environment import open_environment
from answerkey.templates.limits import MOST_STEPS
from answerkey.templates.recipes import Recipe
from answerkey.templates.rows import Rows
from answerkey.templates.transport import Stopped, encode
from answerkey.templates.trouble import Excess

#: On one row.
CPU_SECONDS: Final = 1.0
#: Beside what the process has when it begins.
MEMORY_BYTES: Final = 128 * 2**20
#: A template that does too much on so many rows is stopped.
MOST_EXCESSES: Final = 5
#: Outcomes are sent when so much time has passed since the last ones, or when there are so many of them.
_SEND_SECONDS: Final = 0.25
_SEND_CHARACTERS: Final = 200_000
_OUTCOME_CHARACTERS: Final = 1_000
#: What the standard library, Jinja and our filters load when they are first used.
_NEEDED: Final = (
    "regex",
    "pprint",
    "textwrap",
    "html.entities",
    "urllib.parse",
    "unicodedata",
    "jinja2.debug",
)
_ENCODINGS: Final = ("ascii", "latin-1", "cp1252", "utf-8", "utf-16", "utf-32", "unicode_escape")


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
    excesses: Counter[Recipe] = Counter()
    while True:
        recipe, rows = pickle.loads(channel.receive_bytes())  # noqa: S301 - from our own process
        _answer(channel, recipe, rows, excesses)


def _limit_process() -> None:
    """Lower what this process may take; a limit that the system does not know is left as it is."""
    import resource

    pages = int(_read_own("/proc/self/statm").split()[0] or 0)
    limits = {
        "RLIMIT_AS": pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES if pages else resource.RLIM_INFINITY,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        # Those that are open stay open, and no other can be opened: no file, no pipe, no connection.
        "RLIMIT_NOFILE": 1,
        "RLIMIT_NPROC": 0,
    }
    for name, value in limits.items():
        with suppress(OSError, ValueError, AttributeError):
            resource.setrlimit(getattr(resource, name), (value, value))


def _read_own(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - nothing more is loaded here than is needed
            return file.read()
    except OSError:
        return "0"


def _answer(channel: Channel, recipe: Recipe, rows: Rows, excesses: Counter[Recipe]) -> None:
    pending: list[object] = []
    size, due = 0, time.monotonic() + _SEND_SECONDS
    for outcome in _render(recipe, rows, excesses):
        pending.append(outcome)
        size += len(outcome) if type(outcome) is str else _OUTCOME_CHARACTERS
        if size > _SEND_CHARACTERS or time.monotonic() > due:
            _send(channel, pending)
            pending.clear()
            size, due = 0, time.monotonic() + _SEND_SECONDS
    _send(channel, pending)


def _render(recipe: Recipe, rows: Rows, excesses: Counter[Recipe]) -> Iterator[object]:
    """Yield the outcomes, each within its time, up to the one that is one too many."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    for outcome in recipe.render(rows, MOST_STEPS):
        yield outcome
        if type(outcome) is Excess:
            excesses[recipe] += 1
            if excesses[recipe] >= MOST_EXCESSES:
                yield Stopped(f"on {MOST_EXCESSES} rows it does too much: {outcome.message}")
                break
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, 0)


def _send(channel: Channel, outcomes: Sequence[object]) -> None:
    if not outcomes:
        return
    try:
        message = json.dumps([encode(one) for one in outcomes])
    except (ValueError, RecursionError, MemoryError):
        message = f"[{','.join(map(_write, outcomes))}]"
    channel.send(message.encode())


def _write(outcome: object) -> str:
    """Return one outcome as JSON, its trouble if that cannot be."""
    try:
        return json.dumps(encode(outcome))
    except (ValueError, RecursionError, MemoryError) as error:
        return json.dumps(encode(Excess(f"the value cannot be handed on: {error or type(error).__name__}")))
