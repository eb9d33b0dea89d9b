"""The states of one question in HELM's log: what was asked, and what was said or found likeliest."""

from __future__ import annotations

from dataclasses import dataclass, field

from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_count, get_number, get_text
from answerkey.exchange.labels import label_options, take_labels
from answerkey.exchange.lines import Asked, Line, Theirs
from answerkey.exchange.logs import Row
from answerkey.exchange.prompts import read_messages
from answerkey.models.responses import mend_text
from answerkey.types import Completion, CompletionStatus

CORRECT = "correct"
_CALIBRATED = "calibrated"
_CALIBRATION = "calibration"


def name_state(value: object, identity: str | None) -> str:
    """Return what a question and its statistics have in common: id, worked examples, alteration."""
    altered = get(value, "perturbation") or get(value, "instance", "perturbation")
    trial = get_count(value, "train_trial_index") or 0
    return f"{identity}\n{trial}\n{get_text(altered, 'name') or ''}"


@dataclass(frozen=True)
class Naming:
    """How samples are called: by their id, and by the run where there are several."""

    run: str | None

    def name(self, identity: str) -> str:
        """Return the sample's id."""
        return identity if self.run is None else f"{self.run}/{identity}"


@dataclass
class Group:
    """The states of one question; more than one where each reference was asked for itself."""

    method: str | None
    line: int
    states: list[Row] = field(default_factory=list)

    def takes(self, state: Row) -> bool:
        """Return whether a state belongs to the same question."""
        first = self.states[0]
        is_apart = get_count(state, "reference_index") is not None
        return is_apart and _identify(first) == _identify(state)

    def read(self, naming: Naming, verdict: float | None) -> Line:
        """Return the line of the question; DamagedError when it cannot be read."""
        state = self.states[0]
        identity = get_text(state, "instance", "id")
        if identity is None:
            raise DamagedError("the state has no `instance.id`")
        is_apart = get_count(state, "reference_index") is not None
        asked, said, answer = self._read_apart(naming) if is_apart else _read_joint(state, naming)
        trial = get_count(state, "train_trial_index") or 0
        return Line(naming.name(identity), asked, said, Theirs(verdict, answer), trial)

    def _read_apart(self, naming: Naming) -> tuple[Asked, Completion, str | None]:
        """Return a question whose references were asked one by one; the likeliest one is the reply."""
        state = self.states[0]
        options, right = _read_references(state)
        choices = label_options(len(options))
        if choices is None:
            raise DamagedError("the state has no references")
        asked = _describe(state, naming, choices, options, [choices[place] for place in right])
        errors = [text for one in self.states if (text := _find_error(one)) is not None]
        if errors:
            return asked, Completion(None, CompletionStatus.ERROR, error=errors[0][:500]), None
        shares, ranking = self._rank(options)
        best = max(range(len(options)), key=lambda place: (shares[place], -place))
        prompt = read_messages(get(state, "request", "prompt"))
        said = Completion(choices[best], prompt=prompt, logprobs={"ranking": ranking})
        return asked, said, choices[best]

    def _rank(self, options: tuple[str, ...]) -> tuple[list[float], list[dict[str, object]]]:
        """Return what HELM compares, and the log-probability, of each reference."""
        own: dict[int, tuple[float, int]] = {}
        without: dict[int, tuple[float, int]] = {}
        for state in self.states:
            place = get_count(state, "reference_index")
            if place is None or place >= len(options):
                raise DamagedError("a `reference_index` is beyond the references")
            kept = without if get_text(state, "request_mode") == _CALIBRATION else own
            kept[place] = _sum_logprobs(state, options[place])
        if len(own) != len(options):
            raise DamagedError(f"the states of {len(own)} of {len(options)} references are there")
        is_calibrated = _CALIBRATED in (self.method or "") and len(without) == len(own)
        shares = [
            own[place][0] - without[place][0] if is_calibrated else own[place][0] / own[place][1]
            for place in range(len(options))
        ]
        ranking: list[dict[str, object]] = [
            {
                "continuation": f" {text}",
                "logprob": own[place][0],
                "bytes": len(f" {text}".encode(errors="replace")),
            }
            for place, text in enumerate(options)
        ]
        return shares, ranking


def _identify(state: Row) -> tuple[str | None, int | None]:
    return get_text(state, "instance", "id"), get_count(state, "train_trial_index")


def _read_references(state: Row) -> tuple[tuple[str, ...], list[int]]:
    """Return the texts of the references, and which of them are right."""
    listed = get(state, "instance", "references")
    references = listed if isinstance(listed, list) else []
    texts = tuple(get_text(one, "output", "text") or "" for one in references)
    tags = [get(one, "tags") for one in references]
    return texts, [place for place, one in enumerate(tags) if isinstance(one, list) and CORRECT in one]


def _read_joint(state: Row, naming: Naming) -> tuple[Asked, Completion, str | None]:
    """Return a question that shows its options together, or one that has none."""
    texts, right = _read_references(state)
    mapping = get(state, "output_mapping")
    said = _read_reply(state)
    if not isinstance(mapping, dict) or not mapping:
        truths = [texts[place] for place in right[:1]]
        return _describe(state, naming, None, None, truths), said, None
    labels = tuple(str(label) for label in mapping)
    shown = tuple(str(text) for text in mapping.values())
    truths = [_find_label(labels, shown, texts[place], place) for place in right]
    choices = take_labels(labels)
    reply = (said.text or "").strip()
    asked = _describe(state, naming, choices, shown if choices else None, truths)
    return asked, said, reply if reply in labels else None


def _find_label(labels: tuple[str, ...], shown: tuple[str, ...], text: str, place: int) -> str:
    """Return the label of a reference: that in its place, unless another text stands there."""
    if place < len(shown) and shown[place] == text:
        return labels[place]
    if text in shown:
        return labels[shown.index(text)]
    if place < len(labels):
        return labels[place]
    raise DamagedError("the right reference is not among the options")


def _describe(
    state: Row,
    naming: Naming,
    choices: tuple[str, ...] | None,
    options: tuple[str, ...] | None,
    truths: list[str],
) -> Asked:
    instance = get(state, "instance")
    rest = {name: get(instance, name) for name in ("id", "split", "sub_split")}
    return Asked(
        question=get_text(instance, "input", "text"),
        choices=choices,
        options=options,
        truth=",".join(truths) or None,
        category=naming.run or get_text(instance, "sub_split"),
        original={name: value for name, value in rest.items() if value is not None},
    )


def _find_error(state: Row) -> str | None:
    """Return why there is no reply; None when there is one."""
    error = get_text(state, "result", "error")
    listed = get(state, "result", "completions")
    if get(state, "result", "success") is False or error is not None:
        return mend_text(error or "the request failed")
    return None if isinstance(listed, list) and listed else "the log has no completion"


def _read_reply(state: Row) -> Completion:
    prompt = read_messages(get(state, "request", "messages") or get(state, "request", "prompt"))
    error = _find_error(state)
    if error is not None:
        return Completion(None, CompletionStatus.ERROR, prompt, error=error[:500])
    listed = get(state, "result", "completions")
    first = listed[0] if isinstance(listed, list) else None
    text, thoughts = get_text(first, "text"), get_text(first, "thinking", "text")
    return Completion(
        None if text is None else mend_text(text),
        CompletionStatus.NO_TEXT if text is None else CompletionStatus.OK,
        prompt,
        finish_reason=get_text(first, "finish_reason", "reason"),
        latency=get_number(state, "result", "request_time"),
        reasoning=None if thoughts is None else mend_text(thoughts),
    )


def _sum_logprobs(state: Row, reference: str) -> tuple[float, int]:
    """Return the log-probability of a reference, and its number of tokens: the last ones of what was said."""
    listed = get(state, "result", "completions")
    first = listed[0] if isinstance(listed, list) and listed else None
    tokens = get(first, "tokens")
    tokens = tokens if isinstance(tokens, list) else []
    total, count, length = 0.0, 0, 0
    for token in reversed(tokens):
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
