"""Calling a snippet: in batches, each call with its own outcome, with a new process after a death."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Self, cast

from answerkey.sandbox.snippet import CALLS, Snippet, SnippetTrouble, TroubleKind
from answerkey.sandbox.worker_process import START_SECONDS, WorkerProcess

SECONDS = 10.0
MEMORY_BYTES = 4 * 1024**3
FILE_BYTES = 16 * 1024**2
BATCH_SIZE = 100
#: Functions that may need the network: those that stand for a model.
ASKING = frozenset({"infer", "run_inference"})


class SnippetProcess:
    """A snippet that is ready to be called; a context manager.

    `seconds` is the wall-clock time of one call (and of loading the snippet), `memory_bytes` the address
    space of its process. Entering it loads the snippet: SnippetTrouble of kind `load` when that fails.
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
        """Return what the function gives for these arguments, or raise SnippetTrouble."""
        outcome = next(self.call_all([arguments]))
        if isinstance(outcome, SnippetTrouble):
            raise outcome
        return outcome

    def call_all(self, calls: Iterable[Sequence[object]]) -> Iterator[object | SnippetTrouble]:
        """Yield the value or the trouble of each call, in order; only trouble with loading is raised."""
        pending = iter(calls)
        while batch := list(islice(pending, BATCH_SIZE)):
            while batch:
                outcomes = self._run_batch(batch)
                batch = batch[len(outcomes) :]
                yield from outcomes

    def _run_batch(self, batch: Sequence[Sequence[object]]) -> list[object | SnippetTrouble]:
        """Return the outcomes of the calls up to and including the first that ends the process."""
        worker = self._start()
        reading = worker.send([list(arguments) for arguments in batch])
        outcomes: list[object | SnippetTrouble] = []
        for position in range(len(batch)):
            seconds = self.seconds if position else self.seconds + reading
            try:
                outcomes.append(self._read_outcome(worker.receive(seconds=seconds), worker))
            except SnippetTrouble as trouble:
                self.close()
                return [*outcomes, self._name_limit(trouble)]
        return outcomes

    def _start(self) -> WorkerProcess:
        if self._worker is not None:
            return self._worker
        self._worker = worker = WorkerProcess()
        try:
            worker.receive(seconds=START_SECONDS)
            worker.send(self._setting())
            outcome = self._read_outcome(worker.receive(seconds=self.seconds), worker)
        except SnippetTrouble as trouble:
            self.close()
            message = f"{self._name_limit(trouble).message} while it was loaded"
            raise SnippetTrouble("load", message, output=trouble.output) from None
        if isinstance(outcome, SnippetTrouble):
            self.close()
            raise outcome
        return worker

    def _setting(self) -> dict[str, object]:
        return {
            "source": self.snippet.source,
            "function": self.snippet.function,
            "label": self.snippet.label,
            "most": CALLS[self.snippet.function][2] if self.snippet.function in CALLS else 1,
            "seconds": self.seconds,
            "memory_bytes": self.memory_bytes,
            "file_bytes": FILE_BYTES,
            "has_network": self.snippet.function in ASKING,
        }

    def _read_outcome(self, message: dict[str, object], worker: WorkerProcess) -> object | SnippetTrouble:
        if "kind" not in message:
            return message.get("value")
        trouble = SnippetTrouble(
            cast("TroubleKind", message["kind"]),
            str(message["message"]),
            traceback=str(message["traceback"]),
            output=worker.output,
        )
        return self._name_limit(trouble)

    def _name_limit(self, trouble: SnippetTrouble) -> SnippetTrouble:
        """Return the trouble; one with a limit says which limit."""
        message = trouble.message
        if trouble.kind == "timeout":
            message = f"the snippet took longer than its limit of {self.seconds:g} s"
        elif trouble.kind == "memory":
            message = f"{trouble.message}; its limit is {show_bytes(self.memory_bytes)}"
        return SnippetTrouble(trouble.kind, message, traceback=trouble.traceback, output=trouble.output)


def show_bytes(count: int) -> str:
    """Return an amount of memory as people read it: `4 GiB`, `256 MiB`."""
    return f"{count / 1024**3:g} GiB" if count >= 1024**3 else f"{count / 1024**2:g} MiB"
