"""A user's own Python function: what its text shows, whether it is trusted, and the process that calls it."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import symtable
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Self, cast

from answerkey.errors import Place, SpecError
from answerkey.text import parse_syntax

if TYPE_CHECKING:
    from answerkey.types import Notice

SnippetErrorKind = Literal["load", "raised", "timeout", "memory", "died", "bad_value"]
Function = ast.FunctionDef | ast.AsyncFunctionDef

#: How the functions that we call look, in words, and the fewest and most arguments they may take.
CALLS: dict[str, tuple[str, int, int]] = {
    "compute_scores": ("compute_scores(sample) or compute_scores(sample, solver_output)", 1, 2),
    "compute_metrics": ("compute_metrics(scores)", 1, 1),
    "infer": ("infer(messages) or infer(messages, environment)", 1, 2),
    "run_inference": ("run_inference(model_input) or run_inference(model_input, environment)", 1, 2),
}
#: Functions that may need the network: those that stand for a model.
NETWORK_FUNCTIONS = frozenset({"infer", "run_inference"})
SECONDS = 10.0
MEMORY_BYTES = 4 * 1024**3
FILE_BYTES = 16 * 1024**2
BATCH_SIZE = 100
TRUST_VERSION = 1
DIGEST_CHARACTERS = 12

RUN_SNIPPET = (str(Path(__file__).with_name("worker.py")),)
#: Nothing of the caller's Python settings, no compiled files left behind.
ISOLATED = ("-I", "-B", "-X", "utf8")
#: A starting interpreter may be slow on a busy machine; this is not the snippet's own time.
START_SECONDS = 60.0
POLL_SECONDS = 0.1
OUTPUT_CHARACTERS = 4000
FRAME_BYTES = 64 * 1024 * 1024
#: Some Python builds do not start without it; it holds no secret.
KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
#: Libraries that start a thread for each core would fill the address space on large machines.
SET_VARIABLES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
#: Time that the worker is given to read a message, beside the snippet's own.
BYTES_PER_SECOND = 10_000_000


@dataclass(frozen=True)
class Snippet:
    """Python source that defines `function`; `label` is how reports and tracebacks name it."""

    function: str
    source: str
    place: Place | None = None
    label: str = "snippet"

    @property
    def digest(self) -> str:
        """The SHA-256 of what would run: the function's name and the source."""
        return hashlib.sha256(f"{self.function}\0{self.source}".encode()).hexdigest()


class SnippetError(Exception):
    """A call that gave no value.

    `traceback` shows the user's own lines, `output` the end of what the snippet printed.
    """

    def __init__(
        self, kind: SnippetErrorKind, message: str, *, traceback: str = "", output: str = ""
    ) -> None:
        super().__init__(message)
        self.kind: SnippetErrorKind = kind
        self.message = message
        self.traceback = traceback
        self.output = output

    def __str__(self) -> str:
        return f"{self.message}\n{self.traceback}" if self.traceback else self.message


def check_snippet(snippet: Snippet) -> SpecError | None:
    """Return what is wrong with a snippet as far as its text shows; nothing of it is run."""
    reason = _find_mistake(snippet)
    if reason is None:
        return None
    form = CALLS.get(snippet.function, (f"{snippet.function}(…)", 0, 0))[0]
    message = f"Python snippet of `{snippet.label}`: {reason}"
    hint = f"write a function `{form}`, with `def` or `async def`"
    return SpecError("E108", message, where=snippet.place, hint=hint)


def _find_mistake(snippet: Snippet) -> str | None:
    name, file_name = snippet.function, f"<{snippet.label}>"
    try:
        tree = parse_syntax(snippet.source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(snippet.source, file_name, "exec", dont_inherit=True)
            symbols = symtable.symtable(snippet.source, file_name, "exec").get_symbols()
    except SyntaxError as error:
        return f"line {error.lineno or 1} is not Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not Python that can be read: {error}"
    bound = [one for one in symbols if one.get_name() == name and (one.is_assigned() or one.is_imported())]
    if not bound and not any(isinstance(one, ast.alias) and one.name == "*" for one in ast.walk(tree)):
        return f"defines no function `{name}`"
    defined = [one for one in tree.body if isinstance(one, Function) and one.name == name]
    is_stored = any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
        for one in ast.walk(tree)
    )
    if len(defined) != 1 or len(bound[0].get_namespaces()) != 1 or is_stored or defined[0].decorator_list:
        return None  # what is called is known when it is loaded
    arguments, (_, fewest, most) = defined[0].args, CALLS.get(name, ("", 0, sys.maxsize))
    takes = len(arguments.posonlyargs) + len(arguments.args)
    is_fit = takes - len(arguments.defaults) <= most and None not in arguments.kw_defaults
    if not is_fit or (takes < fewest and arguments.vararg is None):
        return f"`{name}` cannot be called with the arguments it is given"
    return None


# Which snippets the user has allowed to run, by the hash of their text.


def require_trust(snippets: Sequence[Snippet], *, trust_code: bool) -> list[Notice]:
    """Return when all snippets may run; raise SpecError E118 with a list of those that may not yet.

    With `trust_code` they are trusted from now on; a notice says so when that could not be remembered.
    """
    if not snippets:
        return []
    known = _read_trusted()
    untrusted = list({one.digest: one for one in snippets if one.digest not in known}.values())
    if not untrusted:
        return []
    if not trust_code:
        count = "one Python snippet" if len(untrusted) == 1 else f"{len(untrusted)} Python snippets"
        lines = [f"{count} would run that you have not trusted yet:"]
        for one in untrusted:
            place = f" ({one.place})" if one.place and str(one.place) else ""
            digest = one.digest[:DIGEST_CHARACTERS]
            first = next((line.strip() for line in one.source.splitlines() if line.strip()), "")
            lines.append(f"  - `{one.label}`{place}, {one.function}, sha256 {digest}…: {first!r}")
        hint = "read them, then run again with `--trust-code`; it is remembered until their text changes"
        raise SpecError("E118", "\n".join(lines), where=untrusted[0].place, hint=hint)
    trusted = known | {one.digest: {"function": one.function, "label": one.label} for one in untrusted}
    try:
        path = _trust_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            json.dump({"version": TRUST_VERSION, "trusted": trusted}, file, indent=1, sort_keys=True)
        Path(file.name).replace(path)
    except OSError as error:
        from answerkey.types import Notice

        return [Notice(f"the trust in these snippets could not be remembered: {error}")]
    return []


def _trust_file() -> Path:
    """Return the record's path; as the XDG rules say, a relative XDG_CONFIG_HOME counts as unset."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path("~/.config").expanduser()
    return base / "answerkey" / "trust.json"


def _read_trusted() -> dict[str, object]:
    """Return what is trusted; a record that cannot be read trusts nothing."""
    try:
        content = json.loads(_trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    trusted = content.get("trusted") if isinstance(content, dict) else None
    return trusted if isinstance(trusted, dict) else {}


class SnippetProcess:
    """A snippet that is ready to be called; a context manager.

    `seconds` is the wall-clock time of one call (and of loading the snippet), `memory_bytes` the address
    space of its process. Entering it loads the snippet: SnippetError of kind `load` when that fails.
    """

    def __init__(
        self, snippet: Snippet, *, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.snippet = snippet
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and what it has started; a later call starts a new one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def call(self, arguments: Sequence[object]) -> object:
        """Return what the function gives for these arguments, or raise SnippetError."""
        outcome = next(self.call_all([arguments]))
        if isinstance(outcome, SnippetError):
            raise outcome
        return outcome

    def call_all(self, calls: Iterable[Sequence[object]]) -> Iterator[object | SnippetError]:
        """Yield the value or the error of each call, in order; only an error of loading is raised."""
        pending = iter(calls)
        while batch := list(islice(pending, BATCH_SIZE)):
            while batch:
                worker = self._start()
                reading = worker.send(json.dumps([list(one) for one in batch], default=str).encode())
                outcomes: list[object | SnippetError] = []
                try:
                    for position in range(len(batch)):
                        seconds = self.seconds if position else self.seconds + reading
                        outcomes.append(self._receive(worker, seconds))
                except SnippetError as problem:  # the calls after it have a new process
                    self.close()
                    outcomes.append(problem)
                batch = batch[len(outcomes) :]
                yield from outcomes

    def _start(self) -> WorkerProcess:
        if self._worker is not None:
            return self._worker
        self._worker = worker = WorkerProcess()
        function = self.snippet.function
        try:
            worker.receive(seconds=START_SECONDS)
            setting = {
                "source": self.snippet.source,
                "function": function,
                "label": self.snippet.label,
                "most": CALLS[function][2] if function in CALLS else 1,
                "seconds": self.seconds,
                "memory_bytes": self.memory_bytes,
                "file_bytes": FILE_BYTES,
                "has_network": function in NETWORK_FUNCTIONS,
            }
            worker.send(json.dumps(setting).encode())
            outcome = self._receive(worker, self.seconds)
        except SnippetError as problem:
            self.close()
            message = f"{problem.message} while it was loaded"
            raise SnippetError("load", message, output=problem.output) from None
        if isinstance(outcome, SnippetError):
            self.close()
            raise outcome
        return worker

    def _receive(self, worker: WorkerProcess, seconds: float) -> object | SnippetError:
        """Return what a call gave, its error too; raise the error that ends the process.

        An error about a limit says which limit.
        """
        try:
            message = json.loads(worker.receive(seconds=seconds))
        except (ValueError, RecursionError):
            message = None
        except SnippetError as problem:
            problem.message = self._name_limit(problem.kind, problem.message)
            raise
        if not isinstance(message, dict) or message.keys().isdisjoint({"state", "value", "kind"}):
            raise SnippetError("died", "the snippet broke its connection", output=worker.output)
        if "kind" not in message:
            return message.get("value")
        kind, text = message["kind"], self._name_limit(message["kind"], message["message"])
        return SnippetError(kind, text, traceback=message["traceback"], output=worker.output)

    def _name_limit(self, kind: SnippetErrorKind, message: str) -> str:
        if kind == "timeout":
            return f"the snippet took longer than its limit of {self.seconds:g} s"
        size, unit = (1024**3, "GiB") if self.memory_bytes >= 1024**3 else (1024**2, "MiB")
        limit = f"; its limit is {self.memory_bytes / size:g} {unit}"
        return message + limit if kind == "memory" else message


class WorkerProcess:
    """A process for code that is not ours; `receive` raises SnippetError, after which it must be closed.

    It has an almost empty environment, a working folder of its own and a process group of its own, so that
    closing it also ends what the snippet has started. `program` is what the interpreter runs; it is told the
    number of its socket and its folder.
    """

    def __init__(self, *program: str) -> None:
        folder = tempfile.mkdtemp(prefix="answerkey-snippet-")
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own worker file and our own interpreter
                [sys.executable, *ISOLATED, *(program or RUN_SNIPPET), str(theirs.fileno()), folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                cwd=folder,
                env={**kept, **SET_VARIABLES, "HOME": folder, "TMPDIR": folder},
                start_new_session=True,
            )
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._socket = ours
        self._buffer = bytearray()
        self._output = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(ours, selectors.EVENT_READ)
        os.set_blocking(self._stdout.fileno(), False)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self.close = weakref.finalize(self, _end_process, self._process, ours, self._selector, folder)

    @property
    def output(self) -> str:
        """The end of what the snippet has printed so far."""
        return self._output.decode(errors="replace")[-OUTPUT_CHARACTERS:]

    def send(self, payload: bytes) -> float:
        """Hand a message over; return how many seconds reading it may take.

        A worker that is gone, or does not listen, is noticed by `receive`.
        """
        self._socket.settimeout(START_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.sendall(struct.pack(">Q", len(payload)) + payload)
        return len(payload) / BYTES_PER_SECOND

    def receive(self, *, seconds: float) -> bytes:
        """Return the worker's next message."""
        deadline = time.monotonic() + seconds
        (length,) = struct.unpack(">Q", self._take(8, deadline))
        if length > FRAME_BYTES:
            raise SnippetError("bad_value", f"the snippet returned more than {FRAME_BYTES >> 20} MiB")
        return self._take(length, deadline)

    def _take(self, length: int, deadline: float) -> bytes:
        while len(self._buffer) < length:
            left = deadline - time.monotonic()
            if left <= 0:
                raise SnippetError("timeout", "the snippet took too long", output=self.output)
            ready = [key.fileobj for key, _ in self._selector.select(min(left, POLL_SECONDS))]
            if self._stdout in ready:
                self._read_output()
            if self._socket in ready:
                part = b""
                with contextlib.suppress(OSError):
                    part = self._socket.recv(1 << 20)
                if not part:
                    raise self._describe_death()
                self._buffer += part
            if not ready and self._process.poll() is not None:
                raise self._describe_death()
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def _read_output(self) -> None:
        part = os.read(self._stdout.fileno(), 1 << 16)
        if not part and self._stdout.fileno() in self._selector.get_map():
            self._selector.unregister(self._stdout)
        self._output = (self._output + part)[-4 * OUTPUT_CHARACTERS :]

    def _describe_death(self) -> SnippetError:
        from answerkey.sandbox.worker import MEMORY_EXIT_CODE

        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        with contextlib.suppress(OSError):
            self._read_output()
        code = self._process.returncode
        if code in {-signal.SIGXCPU, -signal.SIGPROF}:
            return SnippetError("timeout", "the snippet took too much CPU time", output=self.output)
        if code == MEMORY_EXIT_CODE:
            return SnippetError("memory", "the snippet's arguments need too much memory")
        end = "it closed its connection" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            end = f"signal {-code}"
            with contextlib.suppress(ValueError):
                end = f"signal {signal.Signals(-code).name}"
        return SnippetError("died", f"the snippet's process ended: {end}", output=self.output)


def _end_process(
    process: subprocess.Popen[bytes], connection: socket.socket, selector: selectors.BaseSelector, folder: str
) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    selector.close()
    connection.close()
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)
