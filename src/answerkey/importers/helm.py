"""HELM: the folder of a run with `scenario_state.json`, or a folder with those of one model.

A state is one question as it was asked. Where a question was asked once for each reference, its
states follow each other, and the likeliest reference stands for the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import PurePosixPath

from answerkey.importers import prompts
from answerkey.importers import questions as ask
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import (
    Log,
    LogFile,
    LogReader,
    Record,
    Verdict,
    group_files,
)
from answerkey.models.responses import mend_text
from answerkey.types import Completion, CompletionStatus

_STATES, _STATS, _SPEC, _TOTALS = "scenario_state", "per_instance_stats", "run_spec", "stats"
_FILE = re.compile(
    rf"(?P<name>.*/)?(?P<part>{_STATES}|{_STATS}|{_SPEC}|{_TOTALS})\.json(\.gz|\.zst)?"
)
#: Statistics that say whether an answer is right, the usual first.
_METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_MODEL = re.compile(r"[:,]model=([^,]+)")


class HelmReader(LogReader):
    """Reads what `helm-run` writes."""

    kind = "helm"
    title = "HELM run"
    file_name = re.compile(rf"(.*/)?{_STATES}\.json(\.gz|\.zst)?")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each choice of worked examples."""
        runs = _find_runs(log)
        models = {_find_model(log, folder, files) for folder, files in runs}
        log.name_model(filter(None, models))
        for folder, files in runs:
            name = _MODEL.sub("", PurePosixPath(folder).name or folder)
            title = name.partition(",model")[0] or "HELM"
            if log.begin_task(title):
                yield from _read_run(log, title, files)


def _find_runs(log: Log) -> list[tuple[str, dict[str, LogFile]]]:
    """Return the folders of the runs with their files, by what they are."""
    groups, _ = group_files(log.files(), _FILE)
    folder = log.path.parent if log.path.is_file() and len(groups) <= 1 else log.path
    runs = []
    for name, files in groups.items():
        if _STATES in files:
            runs.append((name.rstrip("/") or folder.resolve().name, files))
    if not runs:
        message = f"`{log.path}` holds no file `scenario_state.json`"
        raise log.make_error("E201", message, "name the folder of a run")
    return runs


def _find_model(log: Log, folder: str, files: dict[str, LogFile]) -> str | None:
    """Return the model that the run's description names, or its folder."""
    if _SPEC in files:
        model = log.read_whole(files[_SPEC]).text("adapter_spec", "model")
        if model:
            return model
    match = _MODEL.search(folder)
    return match[1].rstrip("/") if match else None


def _read_run(log: Log, title: str, files: dict[str, LogFile]) -> Iterator[Record]:
    """Yield the records of a run, and compare their number with what its other files state."""
    verdicts: dict[str, float | None] = {}
    judged = 0
    if _STATS in files:
        judged = _keep_verdicts(log, files[_STATS], verdicts)
    else:
        log.notice(f"`{title}` has no `{_STATS}.json`: their verdicts are not known")
    total = _count_instances(log, files[_TOTALS]) if _TOTALS in files else None
    document = log.read_whole(files[_STATES])
    adapter = document.at("adapter_spec")
    log.description.model = log.description.model or adapter.text("model")
    method = adapter.text("method") or ""
    present = altered = 0
    states = enumerate(log.elements(document.get("request_states")))
    for _, group in groupby(states, _identify):
        states_of_question = [state for _, state in group]
        first = states_of_question[0]
        if first.get("instance", "perturbation") is not None:
            altered += len(states_of_question)
            continue
        present += _is_counted(first)
        value = verdicts.get(_name_state(first, first.text("instance", "id")))
        yield from log.convert(
            files[_STATES],
            [first],
            lambda _: _read_question(states_of_question, method, value),  # noqa: B023 - called at once
        )
    if altered:
        log.notice(f"`{title}`: {altered} questions with altered wording are left aside")
    if total is not None:
        log.compare_count(present, total, f"`{_TOTALS}.json`")
    elif judged > present:
        log.compare_count(present, judged, f"`{_STATS}.json`")


def _name_state(value: Json, identity: str | None) -> str:
    """Return what a question and its statistics have in common: id, worked examples, alteration."""
    altered = value.text("perturbation", "name") or value.text("instance", "perturbation", "name")
    return f"{identity}\n{value.count('train_trial_index') or 0}\n{altered or ''}"


def _count_instances(log: Log, file: LogFile) -> int | None:
    """Return how many questions as they are, in all splits, a run states.

    None where it states none.
    """
    counts = []
    for row in log.read_whole(file).list():
        is_altered = row.get("name", "perturbation") is not None
        if row.text("name", "name") == "num_instances" and not is_altered:
            counts.append(row.number("mean") or 0.0)
    return round(sum(counts)) if counts else None


def _keep_verdicts(log: Log, file: LogFile, verdicts: dict[str, float | None]) -> int:
    """Keep the statistic that the caller names, or the first usual one, of each question.

    Return their number.
    """
    description = log.description
    judged = 0
    for row in log.read_whole(file).list():
        judged += _is_counted(row)
        means = {stat.text("name", "name"): stat.number("mean") for stat in row.list("stats")}
        if description.score is None:
            usual = next((name for name in _METRICS if name in means), None)
            description.score = log.options.score or usual
        if description.score in means:
            name = _name_state(row, row.text("instance_id"))
            verdicts[name] = means[description.score]
    return judged


def _is_counted(row: Json) -> bool:
    """Return whether a question is one as it is, with the first choice of worked examples."""
    return row.get("perturbation") is None and not row.count("train_trial_index")


def _identify(numbered: tuple[int, Json]) -> tuple[object, ...]:
    """Return what states of one question have in common; others are each of their own."""
    number, state = numbered
    if state.count("reference_index") is None:
        return (number,)
    altered = state.text("instance", "perturbation", "name")
    return (state.text("instance", "id"), state.count("train_trial_index"), altered)


def _read_question(states: list[Json], method: str, value: float | None) -> Record:
    """Return the record of a question, which is called by its id."""
    state = states[0]
    identity = state.require("state", "instance", "id")
    if state.count("reference_index") is None:
        question, completion, answer = _read_joint(state)
    else:
        question, completion = _read_separate(states, method)
        answer = completion.text
    trial = state.count("train_trial_index") or 0
    return Record(identity, question, completion, Verdict(value, answer), trial)


def _read_joint(state: Json) -> tuple[ask.Question, Completion, str | None]:
    """Return question, reply and answer where all references were shown together."""
    texts, right = _list_references(state)
    mapping = state.object("output_mapping")
    labels = tuple(map(str, mapping))
    shown = tuple(map(str, mapping.values()))
    choices = ask.take_labels(labels)
    if labels:
        truths = [_find_label(labels, shown, texts[place], place) for place in right]
    else:
        truths = [texts[place] for place in right[:1]]
    completion = _read_reply(state)
    reply = (completion.text or "").strip()
    question = _make_question(state, choices, shown if choices else None, truths)
    return question, completion, reply if reply in labels else None


def _read_separate(states: list[Json], method: str) -> tuple[ask.Question, Completion]:
    """Return question and likeliest reference where the references were asked one by one."""
    texts, right = _list_references(states[0])
    choices = ask.label_options(len(texts))
    if choices is None:
        raise DamagedError("the state has no references")
    truths = [choices[place] for place in right]
    completion = _rank_references(states, method, texts, choices)
    return _make_question(states[0], choices, texts, truths), completion


def _list_references(state: Json) -> tuple[ask.Texts, list[int]]:
    """Return the texts of the references, and the places of the right ones."""
    texts = []
    right = []
    for place, reference in enumerate(state.list("instance", "references")):
        texts.append(reference.text("output", "text") or "")
        tags = reference.get("tags")
        if isinstance(tags, list) and "correct" in tags:
            right.append(place)
    return tuple(texts), right


def _make_question(
    state: Json, choices: ask.Texts | None, options: ask.Texts | None, truths: list[str]
) -> ask.Question:
    instance = state.at("instance")
    return ask.Question(
        question=instance.text("input", "text"),
        choices=choices,
        options=options,
        truth=",".join(truths) or None,
        category=instance.text("sub_split"),
        original=instance.pick("id", "split", "sub_split"),
    )


def _rank_references(
    states: list[Json], method: str, options: ask.Texts, choices: ask.Texts
) -> Completion:
    """Return the label of the reference that HELM finds likeliest; an error where a call failed."""
    for state in states:
        error = _find_error(state)
        if error is not None:
            return prompts.fail(error)
    #: Log-probability and number of tokens of each reference, with the question and without.
    conditional: dict[int, tuple[float, int]] = {}
    unconditional: dict[int, tuple[float, int]] = {}
    for state in states:
        place = state.count("reference_index")
        if place is None or place >= len(options):
            raise DamagedError("a `reference_index` is beyond the references")
        is_calibration = state.text("request_mode") == "calibration"
        target = unconditional if is_calibration else conditional
        target[place] = _sum_logprobs(state, options[place])
    if len(conditional) != len(options):
        count = len(conditional)
        raise DamagedError(f"the states of {count} of {len(options)} references are there")
    is_calibrated = "calibrated" in method and len(unconditional) == len(conditional)
    logprobs = []
    shares = []
    for place in range(len(options)):
        logprob, length = conditional[place]
        logprobs.append(logprob)
        shares.append(logprob - unconditional[place][0] if is_calibrated else logprob / length)
    prompt = prompts.read_messages(states[0].get("request", "prompt"))
    texts = [f" {text}" for text in options]
    return prompts.rank_choices(choices, texts, logprobs, prompt, by=shares)


def _find_label(labels: ask.Texts, shown: ask.Texts, text: str, place: int) -> str:
    """Return the label of a reference: that in its place, unless another text stands there."""
    is_in_place = place < len(shown) and shown[place] == text
    if text in shown and not is_in_place:
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
    messages = state.get("request", "messages") or state.get("request", "prompt")
    prompt = prompts.read_messages(messages)
    error = _find_error(state)
    if error is not None:
        return prompts.fail(error, prompt)
    first = state.first("result", "completions")
    text = prompts.mend(first.text("text"))
    return Completion(
        text,
        CompletionStatus.NO_TEXT if text is None else CompletionStatus.OK,
        prompt,
        finish_reason=first.text("finish_reason", "reason"),
        latency=state.number("result", "request_time"),
        reasoning=prompts.mend(first.text("thinking", "text")),
    )


def _sum_logprobs(state: Json, reference: str) -> tuple[float, int]:
    """Return the log-probability of a reference, and its number of tokens: the last ones of what
    was said.
    """
    first = state.first("result", "completions")
    total, count, length = 0.0, 0, 0
    for token in reversed(first.list("tokens")):
        if length >= len(reference):
            break
        total += token.number("logprob") or 0.0
        length += len(token.text("text") or "")
        count += 1
    if count:
        return total, count
    logprob = first.number("logprob")
    if logprob is None:
        raise DamagedError("a reference has no log-probability")
    return logprob, 1
