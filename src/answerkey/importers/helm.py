"""HELM: the folder of a run with `scenario_state.json`, or a folder with those of one model.

A state is one question as it was asked. Where a question was asked once for each reference, its states follow
each other, and the likeliest reference stands for the reply.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import PurePosixPath

from answerkey.datasets import questions as ask
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    LookupTable,
    Record,
    Row,
    Verdict,
    group_files,
    iterate_files,
)
from answerkey.models.responses import mend_text
from answerkey.types import Completion, CompletionStatus

_STATES, _STATS, _SPEC, _TOTALS = "scenario_state", "per_instance_stats", "run_spec", "stats"
_FILE = re.compile(rf"(?P<name>.*/)?(?P<part>{_STATES}|{_STATS}|{_SPEC}|{_TOTALS})\.json(\.gz|\.zst)?")
#: Statistics that say whether an answer is right, the usual first.
_METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_MODEL = re.compile(r"[:,]model=([^,]+)")


class HelmReader(KnownReader):
    """Reads what `helm-run` writes."""

    kind = "helm"
    title = "HELM run"
    file_name = re.compile(rf"(.*/)?{_STATES}\.json(\.gz|\.zst)?")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each choice of worked examples."""
        runs = _find_runs(log)
        models = {model for folder, files in runs if (model := _find_model(folder, files))}
        log.name_model(models, "runs", "name the folder of one run, or of one model")
        titles = [
            _MODEL.sub("", PurePosixPath(folder).name or folder).partition(",model")[0] or "HELM"
            for folder, _ in runs
        ]
        for (_, files), title in zip(runs, titles, strict=True):
            if not log.begin_task(title):
                continue
            with LookupTable() as verdicts:
                judged = 0
                if _STATS not in files:
                    log.notice(f"`{title}` has no `{_STATS}.json`: their verdicts are not known")
                else:
                    judged = _keep_verdicts(log, files[_STATS], verdicts)
                stated = _count_instances(log, files[_TOTALS]) if _TOTALS in files else None
                present = yield from _read_states(log, title, files[_STATES], verdicts)
                if stated is not None:
                    log.compare_count(present, stated, f"`{_TOTALS}.json`")
                elif judged > present:
                    log.compare_count(present, judged, f"`{_STATS}.json`")
                if _STATS in files and judged < present:
                    log.notice(f"`{title}`: `{_STATS}.json` judges {judged} of {present} samples")


def _find_runs(log: Log) -> list[tuple[str, dict[str, LogFile]]]:
    """Return the folders of the runs with their files, by what they are."""
    files = log.files()
    if log.path.is_file() and _FILE.fullmatch(log.path.name):
        # The states alone: the files beside them belong to them.
        beside = [one for one in sorted(log.path.parent.iterdir()) if one.is_file() and one != log.path]
        paths = [log.path, *(one for one in beside if _FILE.fullmatch(one.name))]
        files = (file for path in paths for file in iterate_files(path))
    found, _ = group_files(files, _FILE)
    own = log.path.parent if log.path.is_file() and len(found) <= 1 else log.path
    runs = [
        (folder.rstrip("/") or own.resolve().name, one) for folder, one in found.items() if _STATES in one
    ]
    if not runs:
        message = f"`{log.path}` holds no file `scenario_state.json`"
        raise log.make_error("E201", message, "name the folder of a run")
    return runs


def _find_model(folder: str, files: dict[str, LogFile]) -> str | None:
    """Return the model that the run's description names, or its folder."""
    found = None
    if _SPEC in files:
        with suppress(DamagedError, OSError):
            found = files[_SPEC].read_json().text("adapter_spec", "model")
    match = _MODEL.search(folder)
    return found or (match[1].rstrip("/") if match else None)


def _name_state(value: Json, identity: str | None) -> str:
    """Return what a question and its statistics have in common: id, worked examples, alteration."""
    altered = value.text("perturbation", "name") or value.text("instance", "perturbation", "name") or ""
    return f"{identity}\n{value.count('train_trial_index') or 0}\n{altered}"


def _count_instances(log: Log, file: LogFile) -> int | None:
    """Return how many questions as they are, in all splits, a run states; None where it states none."""
    counts = [
        row.number("mean") or 0.0
        for row in log.values(file)
        if row.text("name", "name") == "num_instances" and row.get("name", "perturbation") is None
    ]
    return round(sum(counts)) if counts else None


def _keep_verdicts(log: Log, file: LogFile, verdicts: LookupTable) -> int:
    """Keep the statistic that is wanted, or the first usual one, of each question; return their number."""
    told = log.description
    judged = 0
    for row in log.values(file):
        judged += _is_counted(row)
        named = {one.text("name", "name"): one for one in row.list("stats")}
        if told.score is None:
            told.score = log.options.score or next((one for one in _METRICS if one in named), None)
        if told.score in named and told.score is not None:
            verdicts.put(_name_state(row, row.text("instance_id")), named[told.score].number("mean"))
    return judged


def _is_counted(row: Json) -> bool:
    """Return whether a question is one as it is, with the first choice of worked examples."""
    return row.get("perturbation") is None and not row.count("train_trial_index")


def _read_states(log: Log, title: str, file: LogFile, verdicts: LookupTable) -> Generator[Record, None, int]:
    """Yield the records of a run, and return the number of questions; states of one are read together."""
    perturbed = present = 0
    head: Row = {}

    def iterate() -> Iterator[Json]:
        nonlocal perturbed
        for state in log.elements(file, "request_states", head=head, kept=("adapter_spec",)):
            if state.get("instance", "perturbation") is not None:
                perturbed += 1
            else:
                yield state

    def identify(numbered: tuple[int, Json]) -> tuple[object, ...]:
        """Return what states of one question have in common; others are each of their own."""
        number, state = numbered
        is_apart = state.count("reference_index") is not None
        return (state.text("instance", "id"), state.count("train_trial_index")) if is_apart else (number,)

    for _, group in groupby(enumerate(iterate()), identify):
        states = [state for _, state in group]
        present += _is_counted(states[0])
        adapter = Json(head.get("adapter_spec"))
        log.description.model = log.description.model or adapter.text("model")
        verdict = verdicts.get(_name_state(states[0], states[0].text("instance", "id")))
        value = verdict if isinstance(verdict, float | int) else None
        method = adapter.text("method") or ""
        yield from log.convert(file, states[:1], lambda _: _read_question(states, method, value))  # noqa: B023 - called at once
    if perturbed:
        log.notice(f"`{title}`: {perturbed} questions with altered wording are left aside")
    return present


def _read_question(states: list[Json], method: str, value: float | None) -> Record:
    """Return the record of a question, which is called by its id."""
    state, instance = states[0], states[0].at("instance")
    identity = state.require("state", "instance", "id")
    references = instance.list("references")
    texts = tuple(one.text("output", "text") or "" for one in references)
    tags = [one.get("tags") for one in references]
    right = [place for place, one in enumerate(tags) if isinstance(one, list) and "correct" in one]
    choices: ask.Texts | None
    options: ask.Texts | None
    if state.count("reference_index") is not None:  # the references were asked one by one
        choices, options = ask.label_options(len(texts)), texts
        if choices is None:
            raise DamagedError("the state has no references")
        truths = [choices[place] for place in right]
        said = _rank_references(states, method, texts, choices)
        answer = said.text
    else:
        mapping = state.object("output_mapping")
        labels, shown = tuple(map(str, mapping)), tuple(map(str, mapping.values()))
        choices = ask.take_labels(labels)
        options = shown if choices else None
        if labels:
            truths = [_find_label(labels, shown, texts[place], place) for place in right]
        else:
            truths = [texts[place] for place in right[:1]]
        said = _read_reply(state)
        reply = (said.text or "").strip()
        answer = reply if reply in labels else None
    rest = {name: instance.get(name) for name in ("id", "split", "sub_split")}
    question = ask.Question(
        question=instance.text("input", "text"),
        choices=choices,
        options=options,
        truth=",".join(truths) or None,
        category=instance.text("sub_split"),
        original={name: value for name, value in rest.items() if value is not None},
    )
    return Record(identity, question, said, Verdict(value, answer), state.count("train_trial_index") or 0)


def _rank_references(states: list[Json], method: str, options: ask.Texts, choices: ask.Texts) -> Completion:
    """Return the label of the reference that HELM finds likeliest; an error where a call failed."""
    error = next((text for one in states if (text := _find_error(one)) is not None), None)
    if error is not None:
        return prompts.fail(error)
    own: dict[int, tuple[float, int]] = {}
    without: dict[int, tuple[float, int]] = {}
    for state in states:
        place = state.count("reference_index")
        if place is None or place >= len(options):
            raise DamagedError("a `reference_index` is beyond the references")
        kept = without if state.text("request_mode") == "calibration" else own
        kept[place] = _sum_logprobs(state, options[place])
    if len(own) != len(options):
        raise DamagedError(f"the states of {len(own)} of {len(options)} references are there")
    is_calibrated = "calibrated" in method and len(without) == len(own)
    places = range(len(options))
    shares = [
        own[place][0] - without[place][0] if is_calibrated else own[place][0] / own[place][1]
        for place in places
    ]
    prompt = prompts.read_messages(states[0].get("request", "prompt"))
    texts, logprobs = [f" {text}" for text in options], [own[place][0] for place in places]
    return prompts.rank_choices(choices, texts, logprobs, prompt, by=shares)


def _find_label(labels: ask.Texts, shown: ask.Texts, text: str, place: int) -> str:
    """Return the label of a reference: that in its place, unless another text stands there."""
    if text in shown and not (place < len(shown) and shown[place] == text):
        place = shown.index(text)
    if place >= len(labels):
        raise DamagedError("the right reference is not among the options")
    return labels[place]


def _find_error(state: Json) -> str | None:
    """Return why there is no reply; None when there is one."""
    error = state.text("result", "error")
    if state.get("result", "success") is False or error is not None:
        return mend_text(error or "the request failed")
    return None if state.list("result", "completions") else "the log has no completion"


def _read_reply(state: Json) -> Completion:
    prompt = prompts.read_messages(state.get("request", "messages") or state.get("request", "prompt"))
    error = _find_error(state)
    if error is not None:
        return prompts.fail(error, prompt)
    first = state.list("result", "completions")[0]
    text, reasoning = first.text("text"), first.text("thinking", "text")
    return Completion(
        None if text is None else mend_text(text),
        CompletionStatus.NO_TEXT if text is None else CompletionStatus.OK,
        prompt,
        finish_reason=first.text("finish_reason", "reason"),
        latency=state.number("result", "request_time"),
        reasoning=None if reasoning is None else mend_text(reasoning),
    )


def _sum_logprobs(state: Json, reference: str) -> tuple[float, int]:
    """Return the log-probability of a reference, and its number of tokens: the last ones of what was said."""
    first = next(iter(state.list("result", "completions")), Json(None))
    total, count, length = 0.0, 0, 0
    for token in reversed(first.list("tokens")):
        if length >= len(reference):
            break
        total += token.number("logprob") or 0.0
        length += len(token.text("text") or "")
        count += 1
    if count:
        return total, count
    stated = first.number("logprob")
    if stated is None:
        raise DamagedError("a reference has no log-probability")
    return stated, 1
