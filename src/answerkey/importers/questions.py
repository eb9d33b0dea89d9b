"""What readers share: labels, options in prompts, columns by their names, replies by log-probability."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile

from answerkey.datasets.recorded import get_inside
from answerkey.errors import SpecError, listing, suggest
from answerkey.importers.logs import DamagedError, Json, Log, LogFile, Question, Record, Verdict, parse_json
from answerkey.models.responses import mend_text, to_json_values
from answerkey.types import Completion, CompletionStatus

Texts = tuple[str, ...]
Messages = list[dict[str, object]]

# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────

#: The labels of options that have none: letters, then digits, as other tools go on after `Z`.
LABELS = (*string.ascii_uppercase, *"123456789", *string.ascii_lowercase)
#: Marks around a label: `(B)`, `B.`, `**B**`.
_WRAPPED = re.compile(r"[\s(\[{*_\"'`]*(?P<label>[^\W_])[\s)\]}*_\"'`.:]*", re.ASCII)
_LONGEST_LIST = 20_000


def label_options(count: int) -> Texts | None:
    """Return a label for each of `count` options; None for more than there are labels, and for none."""
    return LABELS[:count] if 0 < count <= len(LABELS) else None


def take_labels(texts: Sequence[str]) -> Texts | None:
    """Return texts that are themselves labels: distinct single characters; None when they are not."""
    found = tuple(text.strip() for text in texts)
    is_labels = bool(found) and all(len(one) == 1 for one in found) and len(set(found)) == len(found)
    return found if is_labels else None


def take_counting(texts: Sequence[str]) -> Texts | None:
    """Return texts that count: `A`, `B`, …, or `a`, `1` or `0`, …; other single characters are options."""
    found = take_labels(texts)
    rows = (LABELS, string.ascii_lowercase, "123456789", string.digits)
    return found if found and any(found == tuple(row[: len(found)]) for row in rows) else None


def find_label(
    value: object, choices: Sequence[str] | None, options: Sequence[str] | None, *, by_index: bool = False
) -> str | None:
    """Return the label that a value means: a label, also in brackets; a place; or the text of one option.

    A whole number, also as text, is a place from 0 on with `by_index`; otherwise only where it is no label.
    None when nothing fits, or more than one option does.
    """
    if choices is None or value is None or isinstance(value, bool):
        return None
    digits = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    is_place = digits.isascii() and digits.isdigit() and len(digits) <= len(str(len(choices)))
    at_place = choices[int(digits)] if is_place and int(digits) < len(choices) else None
    if at_place is not None and by_index:
        return at_place
    text = str(value).strip()
    if text in choices:
        return text
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped and wrapped["label"] in choices:
        return wrapped["label"]
    same = [at for at, option in enumerate(options or ()) if option.strip() == text]
    return choices[same[0]] if len(same) == 1 and same[0] < len(choices) else at_place


def find_truth(target: object, choices: Sequence[str] | None, options: Sequence[str] | None) -> str | None:
    """Return the truth of a log, or several joined by commas: labels where they are some."""
    wanted = target if isinstance(target, list) else [target]
    found = [find_label(one, choices, options) or Json(one).text() for one in wanted]
    return ",".join(one for one in found if one) or None


def read_texts(value: object) -> Texts | None:
    """Return a list of texts: a list, a mapping's values, or JSON or a Python literal of either."""
    if isinstance(value, str):
        text = value.strip()
        if text[:1] not in {"[", "("} or len(value) > _LONGEST_LIST:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple) or not value:
        return None
    return tuple(map(str, value)) if all(isinstance(one, str | int | float) for one in value) else None


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────

#: A line that shows an option: `A) one`, `(B) two`, `C. three`; also with the wide marks of East Asia.
_OPTION = re.compile(
    r"^[ \t]*[(\[\uff08]?(?P<label>[A-Z])[)\].:\uff09\uff0e\uff1a\u3001][ \t]*(?=\S)", re.MULTILINE
)
#: Options stand at the end of a prompt; no more of it is searched.
_SEARCHED = 100_000
_FEWEST = 2
#: How tools call those who speak, where they do not say `user`.
_SPEAKERS = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system", "human": "user", "bot": "assistant"}


def find_shown(prompt: str | None) -> Question:
    """Return the question of a prompt with its last options that are lettered from A on.

    Options before them belong to worked examples. A prompt without any is the question as a whole.
    """
    whole = prompt or ""
    text = whole[-_SEARCHED:]
    found: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for match in _OPTION.finditer(text):
        if match["label"] != LABELS[len(run)]:
            run = []
        if match["label"] == LABELS[len(run)]:
            run.append(match)
        found = run if len(run) >= _FEWEST else found
    if not found:
        return Question(prompt)
    last = text.find("\n", found[-1].end())
    ends = [*(one.start() for one in found[1:]), len(text) if last < 0 else last]
    options = tuple(text[one.end() : end].strip() for one, end in zip(found, ends, strict=True))
    before = whole[: len(whole) - len(text) + found[0].start()]
    return Question(before.strip(), LABELS[: len(found)], options)


def read_messages(prompt: object) -> Messages | None:
    """Return a prompt as messages: a text, or messages with `content` or, in OpenCompass, `prompt`."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": mend_text(prompt)}]
    found: Messages = []
    for one in prompt if isinstance(prompt, list) else ():
        if isinstance(one, dict):
            role = str(one.get("role"))
            content = join_parts(one.get("content") or one.get("prompt"))
            found.append({"role": _SPEAKERS.get(role, role), "content": content})
    return found or None


def parse_chat(text: str | None) -> Messages | None:
    """Return a prompt as messages; a chat is logged as their JSON text."""
    if text is not None and text.lstrip().startswith("["):
        with suppress(DamagedError):
            found = parse_json(text)
            if isinstance(found, list) and all(isinstance(one, dict) and "role" in one for one in found):
                return read_messages(found)
    return read_messages(text)


def join_parts(content: object, name: str = "text", *, kind: str | None = None) -> str | None:
    """Return the text of a message: a text, or that of its parts (of a kind) under a name, by newlines."""
    if isinstance(content, str):
        return mend_text(content)
    parts = content if isinstance(content, list) else []
    parts = [part for part in parts if kind is None or Json(part).get("type") == kind]
    texts = [part if isinstance(part, str) else Json(part).get(name) for part in parts]
    found = [mend_text(text) for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def find_question(messages: Sequence[Mapping[str, object]] | None) -> str | None:
    """Return what the user says last."""
    for message in reversed(messages or ()):
        if message["role"] == "user" and isinstance(message["content"], str):
            return message["content"]
    return None


# ── replies ─────────────────────────────────────────────────────────────────────────────────────────────────

#: How tools name the ends of a completion, where others have other words.
FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
_LONGEST_ERROR = 500


def fail(error: str, prompt: Messages | None = None) -> Completion:
    """Return the completion of a call that failed."""
    return Completion(None, CompletionStatus.ERROR, prompt, error=mend_text(error)[:_LONGEST_ERROR])


def rank_choices(
    texts: Sequence[str], logprobs: Sequence[float], label: str, prompt: Messages | None
) -> Completion:
    """Return the label of the likeliest choice as a completion, with the log-probability of each text."""
    ranking = [
        {"continuation": text, "logprob": logprob, "bytes": len(text.encode(errors="replace"))}
        for text, logprob in zip(texts, logprobs, strict=False)
    ]
    return Completion(label, prompt=prompt, logprobs={"ranking": ranking})


def find_largest(numbers: Sequence[float]) -> int:
    """Return the place of the largest number; of equal ones the first, as other harnesses do."""
    return max(range(len(numbers)), key=lambda place: (numbers[place], -place))


def add_usage(said: Completion, output: Json) -> Completion:
    """Return a completion with what Inspect and evalscope tell of its first choice, and of the call."""
    choice = next(iter(output.list("choices")), Json(None))
    end, logprobs = choice.text("stop_reason"), choice.get("logprobs")
    return replace(
        said,
        finish_reason=FINISH_REASONS.get(end, end) if end else None,
        prompt_tokens=output.count("usage", "input_tokens"),
        completion_tokens=output.count("usage", "output_tokens"),
        latency=output.number("time"),
        logprobs=to_json_values(logprobs) if isinstance(logprobs, dict) else None,
    )


def list_trials(
    name: str, question: Question, replies: Sequence[Completion], verdict: Verdict, first: int = 0
) -> list[Record]:
    """Return a record for each reply to a question; their verdict on all is shown with the first."""
    return [
        Record(name, question, one, Verdict() if place else verdict, first + place)
        for place, one in enumerate(replies)
    ]


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def choose_newest(
    log: Log, pattern: re.Pattern[str], *, wanted: str, option: str
) -> list[tuple[str, LogFile]]:
    """Return the files of the newest run by task; a file of any name, when it is all there is.

    The pattern has the groups `task` and `time`. A folder without such files is an error that names what is
    `wanted` and the option by which the tool writes it.
    """
    found: dict[str, tuple[str, LogFile]] = {}
    older = 0
    for file in log.files():
        match = pattern.fullmatch(file.name)
        if match is not None:
            known = found.get(match["task"])
            older += known is not None
            if known is None or known[0] < (match["time"] or ""):
                found[match["task"]] = (match["time"] or "", file)
    if older:
        log.notice(f"{older} files of earlier runs are left aside", "name one file, or one folder of a run")
    if found:
        return [(task, file) for task, (_, file) in sorted(found.items())]
    if log.path.is_file():
        return [(file.stem, file) for file in log.files()][:1]
    raise log.make_error("E201", f"the folder `{log.path}` holds no file `{wanted}`", option)


def say_repeats(log: Log, task: str, repeats: int) -> None:
    """Tell that several replies to a question were judged together, if they were."""
    if repeats > 1:
        log.notice(
            f"task `{task}`: each question was asked {repeats} times and judged once; "
            "the verdict is that of the first trial"
        )


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────────────

#: What a column may be, and the names by which it is known, the likeliest first.
ROLES: dict[str, tuple[str, ...]] = {
    "id": ("sample_id", "custom_id", "question_id", "id", "qid", "doc_id", "index", "idx"),
    "question": ("question", "question_stem", "query", "problem", "prompt", "input", "text"),
    "options": ("options", "choices", "endings", "candidates"),
    "choices": ("choice_labels", "labels", "letters"),
    "answer": (
        *("answer", "answerkey", "answer_key", "correct_answer", "ground_truth", "groundtruth", "label"),
        *("target", "gold", "correct_option", "cop"),
    ),
    "index": ("answer_index", "correct_index", "label_index", "answer_idx", "groundtruth_answer"),
    "completion": (
        *("completion", "output", "response", "model_output", "model_outputs", "generated_text", "reply"),
        *("raw_output", "model_response", "generation", "prediction_text"),
    ),
    "category": ("category", "subject", "topic", "domain", "subset", "task"),
    "trial": ("trial", "epoch", "repeat"),
    "score": ("their_score", "score", "is_correct", "correct", "acc", "exact_match"),
    "predicted": (
        *("their_answer", "pred", "prediction", "predicted", "predicted_answer", "extracted_answer"),
        *("extracted", "parsed_answer", "model_answer"),
    ),
}
#: What a row says of the question alone.
QUESTION_ROLES = ("question", "options", "choices", "answer", "index", "category")
#: Options in columns of their own: `A`, `B`, …; `option_a`, …; `choice1`, …
_SPREAD = (
    *("{upper}", "option_{lower}", "option{upper}", "option_{upper}", "choice_{lower}", "choice_{upper}"),
    *("option{number}", "option_{number}", "choice{number}", "choice_{number}"),
)
_RIGHT = {"true": 1.0, "yes": 1.0, "correct": 1.0, "c": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are; `spread` are those that hold one option each."""

    columns: Mapping[str, str]
    spread: Texts = ()

    def cell(self, row: Mapping[str, object], role: str) -> object:
        """Return what a row has in a role; None where there is nothing."""
        name = self.columns.get(role)
        return None if name is None else row[name] if name in row else get_inside(row, name)

    def text(self, row: Mapping[str, object], role: str) -> str | None:
        """Return the text, or the number as text, that a row has in a role."""
        return Json(self.cell(row, role)).text()

    def read_question(self, row: Mapping[str, object]) -> Question:
        """Return what a row asks."""
        options, choices = self._find_choices(row)
        truth = find_label(self.cell(row, "answer"), choices, options)
        if truth is None and "index" in self.columns:
            truth = find_label(self.cell(row, "index"), choices, options, by_index=True)
        taken = {*self.columns.values(), *self.spread}
        return Question(
            question=self.text(row, "question"),
            choices=choices,
            options=options,
            truth=truth or self.text(row, "answer") or self.text(row, "index"),
            category=self.text(row, "category"),
            original={name: cell for name, cell in row.items() if name not in taken and cell is not None},
        )

    def _find_choices(self, row: Mapping[str, object]) -> tuple[Texts | None, Texts | None]:
        """Return the texts of the options, and their labels."""
        cell, stated = self.cell(row, "options"), read_texts(self.cell(row, "choices"))
        options = read_texts(cell)
        if isinstance(cell, dict) and "text" in cell:
            options, stated = read_texts(cell["text"]), stated or read_texts(cell.get("label"))
        elif isinstance(cell, dict):
            stated = stated or read_texts(list(cell))
        if options is None:  # columns of their own, up to the first that is empty
            texts = (Json(row.get(name)).text() or "" for name in self.spread)
            options = tuple(takewhile(str.strip, texts)) or None
        labels = take_labels(stated) if stated else None
        if options is None:
            return None, labels
        if labels is not None and len(labels) == len(options):
            return options, labels
        if take_labels(options) == LABELS[: len(options)]:  # a list of letters says what may be answered
            return None, LABELS[: len(options)]
        return options, label_options(len(options))

    def read_verdict(self, row: Mapping[str, object], question: Question) -> Verdict:
        """Return the verdict that stands in a row."""
        read = self.text(row, "predicted")
        label = find_label(read, question.choices, question.options)
        cell = self.cell(row, "score")
        value = _RIGHT.get(cell.strip().lower()) if isinstance(cell, str) else None
        value = Json(cell).number() if value is None else value
        if value is None and "score" not in self.columns and label is not None:
            value = float(label == question.truth)
        return Verdict(value, label or read)


def find_roles(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    """Return which column is what; `chosen` is said by the caller, and E119 when it cannot be."""
    for role, name in chosen.items():
        if role not in ROLES:
            hint = suggest(role, ROLES) or f"what a column can be: {listing(ROLES)}"
            raise SpecError("E119", f"`--column {role}={name}`: nothing is called `{role}`", hint=hint)
        if name not in names and not any(name.startswith(f"{one}.") for one in names):
            hint = suggest(name, names) or f"columns: {listing(names)}"
            raise SpecError("E119", f"`--column {role}={name}`: there is no column `{name}`", hint=hint)
    lowered = {name.lower().strip(): name for name in reversed(names)}
    columns = dict(chosen)
    for role, known in ROLES.items():
        taken = set(columns.values())
        found = next((lowered[one] for one in known if one in lowered and lowered[one] not in taken), None)
        if role not in columns and found is not None:
            columns[role] = found
    if "options" in columns:
        return Roles(columns)
    for form in _SPREAD:
        labels = enumerate(LABELS[:26], 1)
        wanted = (form.format(upper=one, lower=one.lower(), number=number).lower() for number, one in labels)
        spread = tuple(lowered[one] for one in takewhile(lowered.__contains__, wanted))
        if len(spread) >= _FEWEST:
            return Roles(columns, spread)
    return Roles(columns)


class QuestionColumns:
    """Reads questions from rows that may differ in their columns; most have the same."""

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        self._chosen = chosen or {}
        self._names: frozenset[str] | None = None
        self._roles = Roles({})

    def read(self, row: Mapping[str, object]) -> Question:
        """Return what a row asks; columns that were chosen and are not there are passed over."""
        if self._names != frozenset(row):
            self._names = frozenset(row)
            fit = {role: column for role, column in self._chosen.items() if column in row}
            found = find_roles(list(row), fit)
            kept = {role: name for role, name in found.columns.items() if role in QUESTION_ROLES}
            self._roles = replace(found, columns=kept)
        return self._roles.read_question(row)
