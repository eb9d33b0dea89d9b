"""HELM: the folder of a run with `scenario_state.json`, or a folder with those of one model.

A state is one question as it was asked. Where a question was asked once for each reference, its states follow
each other, and the likeliest reference stands for the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_number, get_text
from answerkey.exchange.helm_states import Group, Naming, name_state
from answerkey.exchange.json_streams import JsonStream, parse_json
from answerkey.exchange.lines import Line
from answerkey.exchange.logs import Glimpse, Log, Row
from answerkey.exchange.pieces import Piece, iterate_pieces
from answerkey.exchange.shelves import Shelf

_FILE = re.compile(r"(?P<run>.*/)?(?P<file>scenario_state|per_instance_stats|run_spec)\.json(\.gz|\.zst)?")
STATES, STATS, SPEC = "scenario_state", "per_instance_stats", "run_spec"
#: Statistics that say whether an answer is right, the usual first.
METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_MODEL = re.compile(r"[:,]model=([^,]+)")
#: A run's own description is small.
_SPEC_BYTES = 16 * 2**20


class HelmReader:
    """Reads what `helm-run` writes."""

    kind: ClassVar[str] = "helm"
    title: ClassVar[str] = "HELM run"

    @classmethod
    def recognises(cls, glimpse: Glimpse) -> bool:
        """Return whether there is a file `scenario_state.json`."""
        found = (_FILE.fullmatch(name) for name in glimpse.names)
        return any(one is not None and one["file"] == STATES for one in found)

    def read(self, log: Log) -> Iterator[Line]:
        """Yield a line for each question and each choice of worked examples."""
        runs = _find_runs(log)
        models = sorted({model for run in runs if (model := run.name_model()) is not None})
        if len(models) > 1:
            hint = "name the folder of one run, or of one model"
            message = f"`{log.path}` holds runs of several models: {listing(models)}"
            raise DataError("E201", message, where=Place(file=str(log.path)), hint=hint)
        log.told.model = models[0] if models else None
        log.told.task = runs[0].title if len(runs) == 1 else f"{len(runs)} runs of HELM"
        for run in runs:
            with Shelf() as verdicts:
                _keep_verdicts(log, run, verdicts)
                yield from _read_states(log, run, Naming(None if len(runs) == 1 else run.title), verdicts)


@dataclass(frozen=True)
class _Run:
    """The files of one run by what they are."""

    folder: str
    files: dict[str, Piece]

    @property
    def title(self) -> str:
        """What was run, without the model."""
        name = PurePosixPath(self.folder).name or self.folder
        return _MODEL.sub("", name).partition(",model")[0] or "HELM"

    def name_model(self) -> str | None:
        """Return the model that the run's description names, or its folder."""
        spec = self.files.get(SPEC)
        if spec is not None:
            try:
                found = get_text(parse_json(spec.read_text(_SPEC_BYTES)), "adapter_spec", "model")
            except (DamagedError, OSError):
                found = None
            if found:
                return found
        match = _MODEL.search(self.folder)
        return match[1].rstrip("/") if match else None


def _find_runs(log: Log) -> list[_Run]:
    found: dict[str, dict[str, Piece]] = {}
    for piece in _list_pieces(log):
        match = _FILE.fullmatch(piece.name)
        if match is not None:
            found.setdefault(match["run"] or "", {}).setdefault(match["file"], piece)
    own = log.path.parent if log.path.is_file() and len(found) <= 1 else log.path
    runs = [
        _Run(folder.rstrip("/") or own.resolve().name, files)
        for folder, files in found.items()
        if STATES in files
    ]
    if runs:
        return runs
    message = f"`{log.path}` holds no file `scenario_state.json`"
    raise DataError("E201", message, where=Place(file=str(log.path)), hint="name the folder of a run")


def _list_pieces(log: Log) -> Iterator[Piece]:
    """Yield the files of the log; of one that is the states alone, those beside it too."""
    yield from log.pieces()
    if not log.path.is_file() or _FILE.fullmatch(log.path.name) is None:
        return
    for beside in sorted(log.path.parent.iterdir()):
        if beside != log.path and beside.is_file() and _FILE.fullmatch(beside.name):
            yield from iterate_pieces(beside)


def _keep_verdicts(log: Log, run: _Run, verdicts: Shelf) -> None:
    piece = run.files.get(STATS)
    if piece is None:
        log.notice(f"`{run.title}` has no `{STATS}.json`: their verdicts are not known")
        return
    with log.guard(piece), piece.open_text() as text:
        for _, value in JsonStream(text).elements():
            listed = get(value, "stats")
            names = {get_text(one, "name", "name"): one for one in listed} if isinstance(listed, list) else {}
            metric = _choose_metric(log, names)
            if metric is not None:
                number = get_number(names[metric], "mean")
                verdicts.put(name_state(value, get_text(value, "instance_id")), number)


def _choose_metric(log: Log, names: dict[str | None, object]) -> str | None:
    """Return the statistic that is looked at: the one that is wanted, or the first that is there."""
    if log.told.score is None:
        log.told.score = log.wishes.score or next((one for one in METRICS if one in names), None)
    return log.told.score if log.told.score in names else None


def _read_states(log: Log, run: _Run, naming: Naming, verdicts: Shelf) -> Iterator[Line]:
    """Yield the lines of a run; states of one question are read together."""
    piece = run.files[STATES]
    perturbed = 0
    group: Group | None = None
    with log.guard(piece), piece.open_text() as text:
        stream = JsonStream(text)
        for _, value in stream.elements("request_states", kept=("adapter_spec",)):
            log.seen += 1
            state = value if isinstance(value, dict) else {}
            if get(state, "instance", "perturbation") is not None:
                perturbed += 1
                continue
            log.told.model = log.told.model or get_text(stream.rest.get("adapter_spec"), "model")
            if group is not None and not group.takes(state):
                yield from _finish(log, group, naming, verdicts, piece)
                group = None
            group = group or Group(get_text(stream.rest.get("adapter_spec"), "method"), stream.line)
            group.states.append(state)
    if group is not None:
        yield from _finish(log, group, naming, verdicts, piece)
    if perturbed:
        log.notice(f"`{run.title}`: {perturbed} questions with altered wording are left aside")


def _finish(log: Log, group: Group, naming: Naming, verdicts: Shelf, piece: Piece) -> Iterator[Line]:
    state: Row = group.states[0]
    kept = verdicts.get(name_state(state, get_text(state, "instance", "id")))
    verdict = kept if isinstance(kept, float | int) else None
    line = log.take(lambda _: group.read(naming, verdict), state, piece, group.line)
    if line is not None:
        yield line
