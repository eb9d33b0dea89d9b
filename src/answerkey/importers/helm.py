"""HELM: the folder of a run with `scenario_state.json`, or a folder with the runs of one model.

A state is one request for a question. If there was one request per reference, the states of a
question are consecutive, and the likeliest reference serves as the reply.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import groupby
from pathlib import PurePosixPath

from answerkey.datasets.options import Texts, label_options, take_labels
from answerkey.importers.json_values import DamagedError, Json
from answerkey.importers.logs import Log, LogFile, LogReader, Parts, Record, Records
from answerkey.importers.prompts import rank_choices, read_messages
from answerkey.importers.questions import Question
from answerkey.models.responses import fail, read_message
from answerkey.types import Completion

_STATES, _STATS = "scenario_state", "per_instance_stats"
_FILE = re.compile(rf"(?P<name>.*/)?(?P<part>{_STATES}|{_STATS})\.json(\.gz|\.zst)?")
#: Statistics that measure whether an answer is right, the most usual first.
_METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_MODEL = re.compile(r"[:,]model=[^,]+")
#: The id of a question, and the number of its set of worked examples.
Name = tuple[str | None, int]


class HelmReader(LogReader):
    """Reads what `helm-run` writes."""

    kind = "helm"
    title = "HELM run"
    file_name = re.compile(rf"(.*/)?{_STATES}\.json(\.gz|\.zst)?")

    def read(self, log: Log) -> Records:
        """Yield a record for each question and each set of worked examples."""
        for folder, files in _find_runs(log):
            name = _MODEL.sub("", PurePosixPath(folder).name)
            title = name.partition(",model")[0] or "HELM"
            if log.begin_task(title):
                yield from _read_run(log, title, files)


def _find_runs(log: Log) -> list[tuple[str, Parts]]:
    """Return the folders of the runs, with their files."""
    groups = log.group_files(_FILE)
    folder = log.path
    if folder.is_file() and len(groups) <= 1:
        folder = folder.parent
    runs = []
    for path, files in groups.items():
        if _STATES in files:
            name = path.rstrip("/") or folder.resolve().name
            runs.append((name, files))
    if not runs:
        message = f"`{log.path}` contains no file `scenario_state.json`"
        raise log.make_error("E201", message, "name the folder of a run")
    return runs


def _read_run(
    log: Log,
    title: str,
    files: Parts,
) -> Records:
    """Yield the records of a run; compare their number with its statistics."""
    verdicts: dict[Name, float | None] = {}
    if _STATS in files:
        verdicts = _read_verdicts(log, files[_STATS])
    else:
        log.notice(f"`{title}` has no `{_STATS}.json`: HELM's verdicts are unknown")
    document = log.read_whole(files[_STATES])
    adapter = document.at("adapter_spec")
    models = {log.description.model, adapter.text("model")}
    log.name_model(filter(None, models))
    method = adapter.text("method") or ""
    states = []
    for state in log.elements(document.get("request_states")):
        if state.get("instance", "perturbation") is None:
            states.append(state)
    present = 0
    for _, group in groupby(enumerate(states), _identify):
        states_of_question = [state for _, state in group]
        first = states_of_question[0]
        name = _name_state(first, first.text("instance", "id"))
        present += _is_counted(name)
        read = partial(
            _read_question,
            states_of_question,
            method,
            verdicts.get(name),
        )
        yield from log.convert(files[_STATES], [first], read)
    altered = log.present - len(states)
    if altered:
        log.notice(f"`{title}`: {altered} questions with altered wording are skipped")
    judged = sum(map(_is_counted, verdicts))
    if judged > present:
        log.compare_count(present, judged, f"`{_STATS}.json`")


def _name_state(value: Json, identity: str | None) -> Name:
    """Return what a question and its statistics have in common: the id and the set of examples."""
    return identity, value.count("train_trial_index") or 0


def _is_counted(name: Name) -> bool:
    """Return whether a question has the first set of worked examples."""
    return name[1] == 0


def _read_verdicts(log: Log, file: LogFile) -> dict[Name, float | None]:
    """Return one statistic of each question: the one that the caller names, or the most usual."""
    description = log.description
    verdicts = {}
    for row in log.read_whole(file).list():
        if row.get("perturbation") is not None:
            continue
        means = {}
        for stat in row.list("stats"):
            metric = stat.text("name", "name")
            means[metric] = stat.number("mean")
        if description.score is None:
            usual = filter(means.__contains__, _METRICS)
            description.score = log.options.score or next(usual, None)
        name = _name_state(row, row.text("instance_id"))
        verdicts[name] = means.get(description.score)
    return verdicts


def _identify(numbered: tuple[int, Json]) -> object:
    """Return a key that the states of one question share."""
    number, state = numbered
    if state.count("reference_index") is None:
        return number
    return _name_state(state, state.text("instance", "id"))


def _read_question(
    states: list[Json],
    method: str,
    value: float | None,
    state: Json,
) -> list[Record]:
    """Return the record of a question, which is named by its id; `state` is its first state."""
    instance = state.at("instance")
    texts, right = _list_references(state)
    question = Question(
        question=instance.text("input", "text"),
        category=instance.text("sub_split"),
        original=instance.pick("id", "split", "sub_split"),
    )
    if state.count("reference_index") is None:
        truths = _show_references(
            question,
            state,
            texts,
            right,
        )
        completion = _read_reply(state)
        reply = (completion.text or "").strip()
        answer = reply if reply in (question.choices or ()) else None
    else:
        choices = label_options(len(texts))
        if choices is None:
            raise DamagedError("the state has no references")
        question.choices = choices
        question.options = texts
        truths = [choices[place] for place in right]
        completion = _rank_references(
            states,
            method,
            texts,
            choices,
        )
        answer = completion.text
    question.truth = ",".join(truths) or None
    completion = completion.with_fields(
        trial=state.count("train_trial_index") or 0,
        imported_score=value,
        imported_answer=answer,
    )
    sample_id = state.require("state", "instance", "id")
    return [Record(sample_id, question, completion)]


def _show_references(
    question: Question,
    state: Json,
    texts: Texts,
    right: list[int],
) -> list[str]:
    """Give a question the options that were shown together; return the right labels."""
    mapping = state.object("output_mapping")
    labels = tuple(map(str, mapping))
    if not labels:
        return [texts[place] for place in right[:1]]
    shown = tuple(map(str, mapping.values()))
    question.choices = take_labels(labels)
    if question.choices:
        question.options = shown
    truths = []
    for place in right:
        text = texts[place]
        is_in_place = shown[place : place + 1] == (text,)
        if text in shown and not is_in_place:
            place = shown.index(text)  # noqa: PLW2901 - its place shows another text
        if place >= len(labels):
            raise DamagedError("the right reference is not among the options")
        truths.append(labels[place])
    return truths


def _list_references(state: Json) -> tuple[Texts, list[int]]:
    """Return the texts of the references, and the positions of the right ones."""
    texts = []
    right = []
    references = state.list("instance", "references")
    for place, reference in enumerate(references):
        text = reference.text("output", "text")
        texts.append(text or "")
        tags = reference.get("tags")
        if isinstance(tags, list) and "correct" in tags:
            right.append(place)
    return tuple(texts), right


def _rank_references(
    states: list[Json],
    method: str,
    options: Texts,
    choices: Texts,
) -> Completion:
    """Return the label of the reference that HELM finds likeliest; an error if a call failed."""
    for state in states:
        error = _find_error(state)
        if error is not None:
            return fail(error)
    #: The log-probability and the number of tokens of each reference, with and without the
    #: question.
    conditional: dict[int, tuple[float, int]] = {}
    unconditional: dict[int, tuple[float, int]] = {}
    for state in states:
        place = state.count("reference_index")
        if place is None or place >= len(options):
            raise DamagedError("a `reference_index` is beyond the references")
        target = conditional
        if state.text("request_mode") == "calibration":
            target = unconditional
        target[place] = _sum_logprobs(state, options[place])
    count = len(conditional)
    if count != len(options):
        raise DamagedError(f"it has states of only {count} of {len(options)} references")
    is_calibrated = "calibrated" in method and len(unconditional) == count
    logprobs = []
    shares = []
    for place in range(count):
        logprob, length = conditional[place]
        share = logprob / length
        if is_calibrated:
            share = logprob - unconditional[place][0]
        logprobs.append(logprob)
        shares.append(share)
    prompt = states[0].get("request", "prompt")
    texts = [f" {text}" for text in options]
    return rank_choices(
        choices,
        texts,
        logprobs,
        read_messages(prompt),
        by=shares,
    )


def _find_error(state: Json) -> str | None:
    """Return why there is no reply; None if there is one."""
    result = state.at("result")
    error = result.text("error")
    if error is not None or result.get("success") is False:
        return error or "the request failed"
    return None if result.list("completions") else "the log has no completion"


def _read_reply(state: Json) -> Completion:
    request = state.at("request")
    messages = request.get("messages") or request.get("prompt")
    first = state.element(0, "result", "completions")
    reply = read_message(first.text("text"))
    error = _find_error(state)
    if error is not None:
        reply = fail(error)
    return reply.with_fields(
        prompt=read_messages(messages),
        finish_reason=first.text("finish_reason", "reason"),
        latency=state.number("result", "request_time"),
        reasoning=first.text("thinking", "text"),
    )


def _sum_logprobs(state: Json, reference: str) -> tuple[float, int]:
    """Return the log-probability and the number of tokens of a reference, the end of the text."""
    first = state.element(0, "result", "completions")
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
