"""HELM: the folder of a run with `scenario_state.json`, or a folder with those of one model.

A state is one question as it was asked. Where a question was asked once for each reference, its states follow
each other, and the likeliest reference stands for the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from answerkey.importers.logs import (
    DamagedError,
    JsonStream,
    Log,
    LogFile,
    LogPreview,
    LookupTable,
    Question,
    Record,
    Row,
    Verdict,
    get,
    get_count,
    get_list,
    get_number,
    get_text,
    iterate_files,
)
from answerkey.importers.questions import (
    Texts,
    fail,
    find_largest,
    label_options,
    rank_choices,
    read_messages,
    require_one_model,
    take_labels,
)
from answerkey.models.responses import mend_text
from answerkey.types import Completion, CompletionStatus

_FILE = re.compile(r"(?P<run>.*/)?(?P<file>scenario_state|per_instance_stats|run_spec)\.json(\.gz|\.zst)?")
_STATES, _STATS, _SPEC = "scenario_state", "per_instance_stats", "run_spec"
#: Statistics that say whether an answer is right, the usual first.
_METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_MODEL = re.compile(r"[:,]model=([^,]+)")
#: A run's own description is small.
_SPEC_BYTES = 16 * 2**20


class HelmReader:
    """Reads what `helm-run` writes."""

    kind: ClassVar[str] = "helm"
    title: ClassVar[str] = "HELM run"

    @classmethod
    def recognises(cls, preview: LogPreview) -> bool:
        """Return whether there is a file `scenario_state.json`."""
        found = (_FILE.fullmatch(name) for name in preview.names)
        return any(one is not None and one["file"] == _STATES for one in found)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each choice of worked examples."""
        runs = _find_runs(log)
        models = {model for run in runs if (model := run.find_model()) is not None}
        hint = "name the folder of one run, or of one model"
        log.description.model = require_one_model(log, models, "runs", hint)
        log.description.task = runs[0].title if len(runs) == 1 else f"{len(runs)} runs of HELM"
        for run in runs:
            with LookupTable() as verdicts:
                _keep_verdicts(log, run, verdicts)
                yield from _read_states(log, run, verdicts, None if len(runs) == 1 else run.title)


@dataclass(frozen=True)
class _Run:
    """The files of one run by what they are."""

    folder: str
    files: dict[str, LogFile]

    @property
    def title(self) -> str:
        """What was run, without the model."""
        name = PurePosixPath(self.folder).name or self.folder
        return _MODEL.sub("", name).partition(",model")[0] or "HELM"

    def find_model(self) -> str | None:
        """Return the model that the run's description names, or its folder."""
        found = None
        if _SPEC in self.files:
            with suppress(DamagedError, OSError):
                found = get_text(self.files[_SPEC].read_json(_SPEC_BYTES), "adapter_spec", "model")
        match = _MODEL.search(self.folder)
        return found or (match[1].rstrip("/") if match else None)


def _find_runs(log: Log) -> list[_Run]:
    found: dict[str, dict[str, LogFile]] = {}
    files = list(log.files()) if log.path.is_file() and _FILE.fullmatch(log.path.name) else log.files()
    if isinstance(files, list):  # the states alone: the files beside them belong to them
        for beside in sorted(log.path.parent.iterdir()):
            if beside != log.path and beside.is_file() and _FILE.fullmatch(beside.name):
                files.extend(iterate_files(beside))
    for file in files:
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.setdefault(match["run"] or "", {}).setdefault(match["file"], file)
    own = log.path.parent if log.path.is_file() and len(found) <= 1 else log.path
    runs = [
        _Run(folder.rstrip("/") or own.resolve().name, files)
        for folder, files in found.items()
        if _STATES in files
    ]
    if not runs:
        message = f"`{log.path}` holds no file `scenario_state.json`"
        raise log.make_error("E201", message, "name the folder of a run")
    return runs


def _name_state(value: object, identity: str | None) -> str:
    """Return what a question and its statistics have in common: id, worked examples, alteration."""
    altered = get(value, "perturbation") or get(value, "instance", "perturbation")
    trial = get_count(value, "train_trial_index") or 0
    return f"{identity}\n{trial}\n{get_text(altered, 'name') or ''}"


def _keep_verdicts(log: Log, run: _Run, verdicts: LookupTable) -> None:
    """Keep the statistic that is wanted, or the first usual one, of each question."""
    file, told = run.files.get(_STATS), log.description
    if file is None:
        log.notice(f"`{run.title}` has no `{_STATS}.json`: their verdicts are not known")
        return
    with log.guard(file), file.open_text() as text:
        for _, value in JsonStream(text).elements():
            named = {get_text(one, "name", "name"): one for one in get_list(value, "stats")}
            if told.score is None:
                told.score = log.options.score or next((one for one in _METRICS if one in named), None)
            if told.score in named and told.score is not None:
                number = get_number(named[told.score], "mean")
                verdicts.put(_name_state(value, get_text(value, "instance_id")), number)


def _read_states(log: Log, run: _Run, verdicts: LookupTable, title: str | None) -> Iterator[Record]:
    """Yield the records of a run; states of one question are read together."""
    file = run.files[_STATES]
    perturbed, line = 0, 1
    method: str | None = None
    states: list[Row] = []

    def finish() -> Iterator[Record]:
        if not states:
            return
        verdict = verdicts.get(_name_state(states[0], get_text(states[0], "instance", "id")))
        number = verdict if isinstance(verdict, float | int) else None
        rows = [(line, states[0])]
        yield from log.convert(rows, lambda _: [_read_question(states, method, title, number)], file)

    with log.guard(file), file.open_text() as text:
        stream = JsonStream(text)
        for _, value in stream.elements("request_states", kept=("adapter_spec",)):
            log.seen += 1
            state = value if isinstance(value, dict) else {}
            if get(state, "instance", "perturbation") is not None:
                perturbed += 1
                continue
            adapter = stream.rest.get("adapter_spec")
            log.description.model = log.description.model or get_text(adapter, "model")
            is_apart = get_count(state, "reference_index") is not None
            if not (states and is_apart and _identify(states[0]) == _identify(state)):
                yield from finish()
                states, line, method = [], stream.line, get_text(adapter, "method")
            states.append(state)
    yield from finish()
    if perturbed:
        log.notice(f"`{run.title}`: {perturbed} questions with altered wording are left aside")


def _identify(state: Row) -> tuple[str | None, int | None]:
    return get_text(state, "instance", "id"), get_count(state, "train_trial_index")


def _read_question(states: list[Row], method: str | None, run: str | None, verdict: float | None) -> Record:
    """Return the record of a question, which is called by its id, and by the run where there are several."""
    state = states[0]
    identity, instance = get_text(state, "instance", "id"), get(state, "instance")
    if identity is None:
        raise DamagedError("the state has no `instance.id`")
    references = get_list(instance, "references")
    texts = tuple(get_text(one, "output", "text") or "" for one in references)
    right = [place for place, one in enumerate(references) if "correct" in get_list(one, "tags")]
    choices: Texts | None
    options: Texts | None
    if get_count(state, "reference_index") is not None:  # the references were asked one by one
        choices, options = label_options(len(texts)), texts
        if choices is None:
            raise DamagedError("the state has no references")
        truths = [choices[place] for place in right]
        said = _rank_references(states, method, texts, choices)
        answer = said.text
    else:
        shown = get(state, "output_mapping")
        labels = tuple(str(label) for label in shown) if isinstance(shown, dict) else ()
        shown_texts = tuple(str(text) for text in shown.values()) if isinstance(shown, dict) else ()
        choices = take_labels(labels) if labels else None
        options = shown_texts if choices else None
        if labels:
            truths = [_find_label(labels, shown_texts, texts[place], place) for place in right]
        else:
            truths = [texts[place] for place in right[:1]]
        said = _read_reply(state)
        reply = (said.text or "").strip()
        answer = reply if reply in labels else None
    rest = {name: get(instance, name) for name in ("id", "split", "sub_split")}
    question = Question(
        question=get_text(instance, "input", "text"),
        choices=choices,
        options=options,
        truth=",".join(truths) or None,
        category=run or get_text(instance, "sub_split"),
        original={name: value for name, value in rest.items() if value is not None},
    )
    name = identity if run is None else f"{run}/{identity}"
    trial = get_count(state, "train_trial_index") or 0
    return Record(name, question, said, Verdict(verdict, answer), trial)


def _rank_references(states: list[Row], method: str | None, options: Texts, choices: Texts) -> Completion:
    """Return the label of the reference that HELM finds likeliest; an error where a call failed."""
    errors = [text for one in states if (text := _find_error(one)) is not None]
    if errors:
        return fail(errors[0])
    own: dict[int, tuple[float, int]] = {}
    without: dict[int, tuple[float, int]] = {}
    for state in states:
        place = get_count(state, "reference_index")
        if place is None or place >= len(options):
            raise DamagedError("a `reference_index` is beyond the references")
        kept = without if get_text(state, "request_mode") == "calibration" else own
        kept[place] = _sum_logprobs(state, options[place])
    if len(own) != len(options):
        raise DamagedError(f"the states of {len(own)} of {len(options)} references are there")
    is_calibrated = "calibrated" in (method or "") and len(without) == len(own)
    shares = [
        own[place][0] - without[place][0] if is_calibrated else own[place][0] / own[place][1]
        for place in range(len(options))
    ]
    prompt = read_messages(get(states[0], "request", "prompt"))
    continuations, logprobs = (
        [f" {text}" for text in options],
        [own[place][0] for place in range(len(options))],
    )
    return rank_choices(continuations, logprobs, choices[find_largest(shares)], prompt)


def _find_label(labels: Texts, shown: Texts, text: str, place: int) -> str:
    """Return the label of a reference: that in its place, unless another text stands there."""
    if text in shown and not (place < len(shown) and shown[place] == text):
        place = shown.index(text)
    if place >= len(labels):
        raise DamagedError("the right reference is not among the options")
    return labels[place]


def _find_error(state: Row) -> str | None:
    """Return why there is no reply; None when there is one."""
    error = get_text(state, "result", "error")
    if get(state, "result", "success") is False or error is not None:
        return mend_text(error or "the request failed")
    return None if get_list(state, "result", "completions") else "the log has no completion"


def _read_reply(state: Row) -> Completion:
    prompt = read_messages(get(state, "request", "messages") or get(state, "request", "prompt"))
    error = _find_error(state)
    if error is not None:
        return fail(error, prompt)
    first = get_list(state, "result", "completions")[0]
    text, reasoning = get_text(first, "text"), get_text(first, "thinking", "text")
    return Completion(
        None if text is None else mend_text(text),
        CompletionStatus.NO_TEXT if text is None else CompletionStatus.OK,
        prompt,
        finish_reason=get_text(first, "finish_reason", "reason"),
        latency=get_number(state, "result", "request_time"),
        reasoning=None if reasoning is None else mend_text(reasoning),
    )


def _sum_logprobs(state: Row, reference: str) -> tuple[float, int]:
    """Return the log-probability of a reference, and its number of tokens: the last ones of what was said."""
    first = next(iter(get_list(state, "result", "completions")), None)
    total, count, length = 0.0, 0, 0
    for token in reversed(get_list(first, "tokens")):
        if length >= len(reference):
            break
        total += get_number(token, "logprob") or 0.0
        length += len(get_text(token, "text") or "")
        count += 1
    if count:
        return total, count
    stated = get_number(first, "logprob")
    if stated is None:
        raise DamagedError("a reference has no log-probability")
    return stated, 1
