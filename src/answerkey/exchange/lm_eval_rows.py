"""One row of lm-eval's samples: what was asked, what may be answered, and what was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from answerkey.exchange.archives import DamagedError
from answerkey.exchange.fields import get, get_text, read_number
from answerkey.exchange.json_streams import parse_json
from answerkey.exchange.labels import find_label, label_options, read_texts, take_counting, take_labels
from answerkey.exchange.lines import Asked
from answerkey.exchange.logs import Row
from answerkey.models.responses import read_message
from answerkey.types import Completion

_QUESTIONS = ("question", "query", "ctx", "question_stem", "input", "text", "problem", "premise")
_OPTIONS = ("choices", "options", "endings", "mc1_targets")
_CATEGORIES = ("subject", "category", "subset", "topic", "domain")
_CONDITIONS = "acc_mutual_info"
#: By how much of a continuation these metrics divide its log-probability.
_LENGTHS: dict[str, Callable[[str], int]] = {
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode(errors="replace")),
}
#: What a filter says that found nothing.
_INVALID = "[invalid]"


class Question:
    """One row: what was asked, what may be answered, and what was."""

    def __init__(self, row: Row, metric: str) -> None:
        self.row = row
        self._metric = metric
        self.arguments = _list_arguments(row.get("arguments"))
        self.likelihoods = _read_likelihoods(row)
        self.options, self.choices = self._find_choices()
        if self.likelihoods and self.choices is None:
            raise DamagedError(
                "the line has log-probabilities and no choices: this task is no multiple choice"
            )

    def _find_choices(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Return the texts of the options, and their labels."""
        listed = get(self.row, "doc")
        options, labels = _find_options(listed)
        if not self.likelihoods:
            found = labels or (None if options is None else label_options(len(options)))
            return options, found
        said = [text for _, text in self.arguments][: len(self.likelihoods)]
        if len(said) < len(self.likelihoods) or len(self.likelihoods) == 1:
            return options, None
        if options is None or len(options) != len(said):
            options, labels = tuple(text.strip() for text in said), None
        return options, take_counting(said) or labels or label_options(len(options))

    def describe(self, category: str | None) -> Asked:
        """Return what was asked."""
        original = get(self.row, "doc")
        original = original if isinstance(original, dict) else {}
        found = next((text for name in _QUESTIONS if (text := get_text(original, name))), None)
        return Asked(
            question=found or (self.arguments[0][0] if self.arguments else None),
            choices=self.choices,
            options=self.options,
            truth=self._find_truth(),
            category=category
            or next((one for name in _CATEGORIES if (one := get_text(original, name))), None),
            original=original,
        )

    def _find_truth(self) -> str | None:
        target = self.row.get("target")
        if isinstance(target, str) and target.startswith("["):
            several = read_texts(target)
            target = several[0] if several and len(several) == 1 else target
        if isinstance(target, list):
            target = target[0] if len(target) == 1 else str(target)
        found = find_label(target, self.choices, self.options, by_index=bool(self.likelihoods))
        return found or (None if target is None else str(target).strip())

    def find_their_answer(self) -> str | None:
        """Return what their filter read: a label where it is one."""
        if self.likelihoods and self.choices:
            return self.choices[self._find_best()]
        read = self.row.get("filtered_resps")
        first = read[0] if isinstance(read, list) and read else read
        first = first[0] if isinstance(first, list) and first else first
        text = get_text({"": first}, "")
        return None if text == _INVALID else find_label(first, self.choices, self.options) or text

    def list_completions(self) -> list[Completion]:
        """Return what was said, one for each repeat; by log-probability, the likeliest choice's label."""
        prompt = _read_prompt(self.arguments[0][0]) if self.arguments else None
        if self.likelihoods and self.choices:
            return [self._rank(prompt)]
        said = self.row.get("resps")
        first = said[0] if isinstance(said, list) and said else said
        texts = first if isinstance(first, list) else [first]
        if not texts:
            raise DamagedError("the line has no reply in `resps`")
        found = [read_message(text) for text in texts]
        return [Completion(one.text, one.status, prompt) for one in found]

    def _find_best(self) -> int:
        """Return the place of the likeliest choice by the metric; of equal ones the first, as in lm-eval."""
        measure = _LENGTHS.get(self._metric)
        # A continuation is a choice after a space.
        texts = [text.removeprefix(" ") for _, text in self.arguments]
        lengths = [max(1, measure(text)) for text in texts] if measure else [1] * len(self.likelihoods)
        shares = [logprob / length for logprob, length in zip(self.likelihoods, lengths, strict=False)]
        return max(range(len(shares)), key=lambda place: (shares[place], -place))

    def _rank(self, prompt: list[dict[str, object]] | None) -> Completion:
        texts = [text for _, text in self.arguments]
        ranking = [
            {"continuation": text, "logprob": logprob, "bytes": len(text.encode(errors="replace"))}
            for text, logprob in zip(texts, self.likelihoods, strict=False)
        ]
        label = (self.choices or ())[self._find_best()]
        return Completion(label, prompt=prompt, logprobs={"ranking": ranking})


def _read_prompt(text: str) -> list[dict[str, object]]:
    """Return a prompt as messages; a chat is logged as their JSON text."""
    if text.startswith("[{"):
        with suppress(DamagedError):
            found = parse_json(text)
            if isinstance(found, list) and all(isinstance(one, dict) and "role" in one for one in found):
                return found
    return [{"role": "user", "content": text}]


def _list_arguments(arguments: object) -> list[tuple[str, str]]:
    """Return prompt and continuation of each request; what is no text is empty."""
    if isinstance(arguments, dict):
        pairs = [(get(one, "arg_0"), get(one, "arg_1")) for one in arguments.values()]
    else:
        listed = arguments if isinstance(arguments, list) else []
        pairs = [
            (one[0], one[1] if len(one) > 1 else None) for one in listed if isinstance(one, list) and one
        ]
    return [(_text(first), _text(second)) for first, second in pairs]


def _text(value: object) -> str:
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, str) else ""


def _read_likelihoods(row: Row) -> list[float]:
    """Return the log-probability of each continuation; none for a task that generates."""
    listed = row.get("filtered_resps")
    if not isinstance(listed, list) or not listed or not all(map(_is_likelihood, listed)):
        return []
    found = [_read_logprob(one[0]) for one in listed if isinstance(one, list)]
    # Half of the requests may ask how likely the continuations are without the question.
    return found[: len(found) // 2] if _CONDITIONS in row and len(found) % 2 == 0 else found


def _is_likelihood(value: object) -> bool:
    """Return whether a value is a log-probability and whether it was the greedy choice."""
    if not isinstance(value, list) or len(value) != 2 or str(value[1]) not in {"True", "False"}:  # noqa: PLR2004 - a pair
        return False
    return read_number(value[0]) is not None or str(value[0]) in {"-inf", "-Infinity"}


def _read_logprob(value: object) -> float:
    """Return a log-probability; minus infinity, which no JSON has, as one of no probability either."""
    found = read_number(value)
    return -1e30 if found is None else found


def _find_options(original: object) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return the options of a row of a dataset, and their labels where it has them."""
    for name in _OPTIONS:
        found = get(original, name)
        if isinstance(found, dict):
            texts = read_texts(found.get("text", found.get("choices")))
            labels = read_texts(found.get("label"))
            if texts:
                return texts, take_labels(labels) if labels and len(labels) == len(texts) else None
        texts = read_texts(found)
        if texts:
            return texts, None
    return None, None
