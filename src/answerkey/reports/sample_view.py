"""One row of a task as the page and the viewer show it: its line of the table, and all of it.

The fields of these classes are the keys that the front end reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict

import polars as pl

from answerkey.dataset_audit.questions import AuditedQuestion, read_questions, strip_labels
from answerkey.errors import Place
from answerkey.exporters import describe_verdict, to_json
from answerkey.metrics.base import read_number
from answerkey.models import images
from answerkey.reader.characters import Reading, find_first_label
from answerkey.reader.markup import find_thoughts
from answerkey.reader.stated_answer import list_statements
from answerkey.reports.preview import write_value
from answerkey.reports.samples import (
    PREDICTIONS,
    TRUTHS,
    UNKNOWN,
    Excerpt,
    SampleSource,
    SampleTable,
    show_value,
)
from answerkey.scorers import Scorer, StringEqualsMcqa, explain_verdict, reads_choices
from answerkey.scorers.extraction import RULES
from answerkey.scorers.question import Labels
from answerkey.scorers.rereading import FIRST, LITERAL, Passage, read_by_extractors
from answerkey.types import RULE_NAMES, Completion, Score, ScoreStatus, Validity

#: How much of a question, a completion, and a truth or an answer stands in the table.
MAX_QUESTION, MAX_COMPLETION, MAX_LABEL = 160, 160, 80
#: How much of a completion stands in the table before what decided, so that this is in sight; and
#: how much of its end where nothing did.
MAX_BEFORE, MAX_END = 28, 48
#: Shorter thoughts are not folded.
MIN_FOLDED = 200
#: Longer texts are cut; of a completion the end stays, for that is where answers stand.
MAX_CHARACTERS, MAX_REPLY = 20_000, 60_000
#: How many bytes of images are shown together; no image may have more than this part of them.
ROOM, IMAGE_PART = 200_000_000, 100

Span = Sequence[int]
Fields = Mapping[str, Any]


class SampleRow(TypedDict):
    """A line of the table; `said` is the completion before, at and after what decided."""

    p: int
    id: str
    trial: int | None
    category: str | None
    truth: str | None
    predicted: str | None
    status: str
    value: float | None
    validity: str | None
    reason: str | None
    flipped: bool | None
    said: Sequence[str] | None
    question: str


class RuleView(TypedDict):
    """What the run's own rule or another rule reads, and where."""

    name: str
    choice: str | None
    part: str | None
    span: Span | None


class NamedText(TypedDict):
    """A field of the sample."""

    name: str
    text: str | None


class Message(TypedDict):
    """A message of the prompt."""

    role: str
    text: str | None


class ChoiceView(TypedDict):
    """A choice with the text of its option."""

    label: str
    text: str | None
    is_truth: bool
    is_predicted: bool


class CompletionView(TypedDict):
    """What came back."""

    text: str | None
    status: str
    finish_reason: str | None
    reasoning: str | None
    error: str | None
    latency: float | None
    tokens: Mapping[str, int]


class StatementView(TypedDict):
    """A passage that states an answer, and the choices it names."""

    choices: Sequence[str]
    span: Span


class VerdictView(TypedDict):
    """The verdict of one scorer, and why."""

    scorer: str
    rule: str | None
    status: str
    validity: str | None
    reason: str | None
    value: float | None
    why: str | None


class ImageView(TypedDict):
    """An image of the prompt; no data where it is gone or too large."""

    name: str
    data: str | None


class SampleView(TypedDict):
    """Everything about one row, with the passages of its completion that the rules read."""

    p: int
    id: str
    trial: int | None
    where: str | None
    fields: Sequence[NamedText]
    question: str | None
    choices: Sequence[ChoiceView]
    prompt: Sequence[Message] | None
    completion: CompletionView
    span: Span | None
    stated: Sequence[StatementView]
    folded: Sequence[Span]
    truth: str | None
    readings: Sequence[RuleView]
    extractors: Mapping[str, str | None]
    verdicts: Sequence[VerdictView]
    missing: str | None
    images: Sequence[ImageView]


@dataclass(frozen=True, slots=True)
class RowReadings:
    """What every rule reads in a completion, the run's own first, and all answers it states.

    `is_flipped` is whether not all rules read it alike; None for a row that no metric counts.
    `extractors` are the choices that other harnesses read.
    """

    is_flipped: bool | None
    rules: list[RuleView]
    truth: str | None = None
    extractors: Mapping[str, str | None] = field(default_factory=dict)
    stated: Sequence[tuple[Sequence[str], Span]] = ()


#: Stands for a completion that is gone.
GONE = Completion(None)
#: Stands for what rules read where nothing is read again.
NOT_READ = RowReadings(None, [])


def view_rows(table: SampleTable, positions: Iterable[int]) -> list[SampleRow]:
    """Return the lines of the table for some rows, in the order given."""
    source = table.source
    order = list(positions)
    rows: dict[int, SampleRow] = {}
    for part in source.read(set(order)):
        verdicts = _decode_verdicts(source, part)
        readings = _read_rows(source, part, verdicts, only_rules=True)
        for row in _build_rows(source, part, readings):
            rows[row["p"]] = row
    return [rows[position] for position in order]


def view_sample(table: SampleTable, position: int) -> SampleView:
    """Return everything about one row."""
    part = next(table.source.read([position]))
    return view_samples(table.source, part)[0][1]


def view_samples(
    source: SampleSource,
    part: Excerpt,
    room: int = ROOM,
) -> list[tuple[SampleRow, SampleView]]:
    """Return for each row its line of the table, and everything about it.

    Images have at most `room` bytes together.
    """
    completions: Sequence[Completion] = [GONE] * len(part)
    if part.completions is not None:
        completions = part.completions.items
    questions: Sequence[AuditedQuestion | None] = [None] * len(part)
    if part.samples is not None and source.fields is not None:
        questions = read_questions(part.samples, source.fields)
    verdicts = _decode_verdicts(source, part)
    readings = _read_rows(source, part, verdicts)
    pictures = _list_pictures(source, part, completions, room)
    views = []
    for number, row in enumerate(_build_rows(source, part, readings)):
        completion = completions[number]
        reading = readings[number] or NOT_READ
        question = questions[number]
        where, texts = _describe_sample(part, number)
        text, offset = cut_reply(completion.text)
        rules: list[RuleView] = []
        for rule in reading.rules:
            span = _move(rule["span"], offset)
            rules.append({**rule, "span": span})
        statements: list[StatementView] = []
        for choices, passage in reading.stated:
            span = _move(passage, offset)
            if span is not None:
                statements.append({"choices": choices, "span": span})
        view: SampleView = {
            "p": row["p"],
            "id": row["id"],
            "trial": row["trial"],
            "where": where,
            "fields": texts,
            "question": None if question is None else cut(question.text),
            "choices": _list_choices(_choose_metadata(verdicts, number), question),
            "prompt": _view_prompt(completion),
            "completion": _view_completion(completion, text),
            "span": rules[0]["span"] if rules else None,
            "stated": statements,
            "folded": _list_folded(text or ""),
            "truth": reading.truth,
            "readings": rules,
            "extractors": reading.extractors,
            "verdicts": _list_verdicts(source, part, number, verdicts, row),
            "missing": source.missing,
            "images": pictures[number],
        }
        views.append((row, view))
    return views


def _describe_sample(
    part: Excerpt,
    number: int,
) -> tuple[str | None, list[NamedText]]:
    """Return where a row stands, and its fields; nothing without the dataset."""
    texts: list[NamedText] = []
    if part.samples is None:
        return None, texts
    sample = part.samples.items[number]
    for name, value in sample.fields.items():
        text = value if isinstance(value, str) else to_json(value)
        shown = cut(images.hide_images(text))
        texts.append({"name": name, "text": shown})
    file = sample.file and Path(sample.file).name  # without its folder, for a page travels
    place = Place(file=file, line=sample.line)
    return str(place) or None, texts


def _view_completion(completion: Completion, text: str | None) -> CompletionView:
    tokens = {}
    for name in ("prompt", "completion", "reasoning", "cached"):
        count = getattr(completion, f"{name}_tokens")
        if count is not None:
            tokens[name] = count
    return {
        "text": text,
        "status": UNKNOWN if completion is GONE else completion.status.value,
        "finish_reason": completion.finish_reason,
        "reasoning": cut(completion.reasoning),
        "error": cut(completion.error),
        "latency": completion.latency,
        "tokens": tokens,
    }


def _list_folded(text: str) -> list[Span]:
    """Return the thoughts in a completion that are long."""
    folded: list[Span] = []
    for begin, end in find_thoughts(text):
        if end - begin >= MIN_FOLDED:
            folded.append((begin, end))
    return folded


def _view_prompt(completion: Completion) -> list[Message] | None:
    if completion.prompt is None:
        return None
    messages: list[Message] = []
    for message in completion.prompt:
        role = str(message.get("role", "?"))
        text = write_value(message.get("content"))
        messages.append({"role": role, "text": cut(text)})
    return messages


def _list_pictures(
    source: SampleSource,
    part: Excerpt,
    completions: Iterable[Completion],
    room: int,
) -> list[Sequence[ImageView]]:
    """Return the images in the prompt of each row, as far as there is room."""
    stored = []
    for completion in completions:
        prompt = completion.prompt or ()
        stored.append(images.list_image_parts(prompt))
    pictures: Mapping[str, images.Image] = {}
    if part.samples is not None and any(stored):
        pictures = source.find_images(part.samples)
    limit = room // IMAGE_PART
    views: list[Sequence[ImageView]] = []
    for entries in stored:
        shown: list[ImageView] = []
        for entry in entries:
            image = pictures.get(str(entry.get("sha256")))
            data = None
            if image is not None:
                size = int(str(image["size"]))
                if size <= min(limit, room):
                    data = image.address
                    room -= size
            name = images.describe_image(entry)
            shown.append({"name": name, "data": data})
        views.append(shown)
    return views


# ── the lines of the table


def _build_rows(
    source: SampleSource,
    part: Excerpt,
    readings: Sequence[RowReadings | None],
) -> list[SampleRow]:
    questions: Sequence[str | None] = [None] * len(part)
    if source.fields is not None and part.samples is not None:
        template = source.fields.questions[-1]
        questions = list(map(show_value, template.values(part.samples)))
    texts: Sequence[str | None] = [None] * len(part)
    if part.completions is not None:
        texts = part.completions.frame["completion"].to_list()
    table = source.tabulate(part).with_columns(
        id=part.scores["sample_id"].cast(pl.String),
        trial=part.scores["trial"],
        category=source.label_categories(part),
    )
    rows = []
    for number, line in enumerate(table.iter_rows(named=True)):
        is_flipped, span = None, None
        reading = readings[number]
        if reading is not None:
            is_flipped = reading.is_flipped
            span = reading.rules[0]["span"]
        row = SampleRow(
            p=part.positions[number],
            id=line["id"],
            trial=line["trial"] if source.num_trials > 1 else None,
            category=line["category"],
            truth=_shorten(line["truth"]),
            predicted=_shorten(line["predicted"]),
            status=line["status"],
            value=line["value"],
            validity=line["validity"],
            reason=line["reason"],
            flipped=is_flipped,
            said=show_decision(texts[number], span),
            question=(questions[number] or "")[:MAX_QUESTION],
        )
        rows.append(row)
    return rows


def _shorten(text: str | None) -> str | None:
    return f"{text[:MAX_LABEL]}…" if text and len(text) > MAX_LABEL else text


def show_decision(text: str | None, span: Span | None) -> Sequence[str] | None:
    """Return a completion on one line: before the passage that decided, the passage, after it.

    What is too long is cut so that the passage stays in sight. Where nothing decided, the first is
    all of it, and beginning and end stay, for answers stand there.
    """
    if text is None:
        return None
    if span is None:
        beginning = text[:MAX_BEFORE]
        end = text[MAX_BEFORE:]
        if len(end) > MAX_END:
            end = f" … {end[-MAX_END:]}"
        return [_join_lines(beginning + end).strip(), "", ""]
    begin, end_of_passage = span
    start = max(0, begin - MAX_BEFORE)
    before = _join_lines(text[start:begin]).lstrip()
    if start:
        before = f"… {before}"
    decided = _join_lines(text[begin:end_of_passage])
    limit = end_of_passage + MAX_COMPLETION
    after = text[end_of_passage:limit]
    if len(text) > limit:
        after += "…"
    return [before, _shorten(decided) or "", _join_lines(after).rstrip()]


def _join_lines(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# ── what every rule reads


def _read_rows(
    source: SampleSource,
    part: Excerpt,
    verdicts: Verdicts,
    *,
    only_rules: bool = False,
) -> list[RowReadings | None]:
    """Return what every rule, and the extractors of other harnesses, read in each row.

    With `only_rules` neither extractors nor stated answers are among them. None where there is no
    verdict on a choice, or no text to read. Without the dataset nothing is read if the scorer is
    given the texts of the options.
    """
    readings: list[RowReadings | None] = [None] * len(part)
    scorer = source.reader
    samples = part.samples
    if scorer is None or part.completions is None:
        return readings
    if samples is None and scorer.options is not None:
        return readings
    rows = []
    for number, verdict in enumerate(verdicts[source.reading]):
        if verdict["metadata"].get("choices") is not None:
            rows.append(number)
    options: Sequence[Labels | None] = [None] * len(rows)
    if samples is not None:
        options = scorer.option_texts(samples.take(rows))
    for number, row_options in zip(rows, options, strict=True):
        verdict = verdicts[source.reading][number]
        labels = tuple(verdict["metadata"]["choices"])
        text = part.completions.items[number].text
        readings[number] = _read_row(
            scorer,
            (text, labels, row_options),
            verdict,
            only_rules=only_rules,
        )
    return readings


def _read_row(
    scorer: StringEqualsMcqa,
    passage: Passage,
    verdict: Fields,
    *,
    only_rules: bool,
) -> RowReadings:
    """Return what is read in one completion; rules see the options if the scorer does."""
    text, labels, options = passage
    metadata = verdict["metadata"]
    own_rule = scorer.rule_name
    shown_options = None if scorer.options is None else options
    rules = _read_rules((text, labels, shown_options), own_rule, metadata)
    # A user's own pattern is no rule that others could be compared with.
    compared = rules if own_rule in RULE_NAMES else rules[1:]
    is_flipped = None
    is_scored = verdict["status"] == ScoreStatus.SCORED.value
    if is_scored and "excluded_by" not in verdict:
        choices = {rule["choice"] for rule in compared}
        is_flipped = len(choices) > 1
    if only_rules:
        return RowReadings(is_flipped, rules)
    return RowReadings(
        is_flipped,
        rules,
        truth=metadata.get("ground_truth_choice"),
        extractors=read_by_extractors(passage),
        stated=list_statements(text or "", labels, options),
    )


def _read_rules(
    passage: Passage,
    own_rule: str,
    metadata: Fields,
) -> list[RuleView]:
    """Return what every rule reads in a completion, the run's own as it is stored."""
    text, labels, options = passage
    span: Any = metadata.get("answer_span")
    rule = str(metadata.get("extraction_rule") or own_rule)
    if span is None:
        span = find_first(rule, text)
    part = None
    if rule != own_rule:
        part = rule.partition("/")[2] or None
    own_view = RuleView(
        name=own_rule,
        choice=metadata.get("predicted_choice"),
        part=part,
        span=span,
    )
    rules = [own_view]
    for name in RULE_NAMES:
        if name == own_rule:
            continue
        reading = Reading(None)
        if text is not None:
            reading = RULES[name].read(text, labels, options)
        view = RuleView(
            name=name,
            choice=reading.choice,
            part=reading.part,
            span=reading.span or find_first(name, text),
        )
        rules.append(view)
    return rules


def find_first(rule: str, text: str | None) -> Span | None:
    """Return where the character stands that a rule of the first character looks at."""
    if not text or rule not in {FIRST, LITERAL}:
        return None
    if rule == LITERAL:
        return 0, 1
    begin, end = find_first_label(text)
    return (begin, end) if begin < end else None


# ── choices and verdicts

#: The verdicts by scorer, row for row.
Verdicts = Mapping[str, Sequence[Fields]]


def _decode_verdicts(source: SampleSource, part: Excerpt) -> Verdicts:
    """Return the verdicts of each scorer, the main scorer first."""
    verdicts: dict[str, Sequence[Fields]] = {}
    for step in (source.main, *source.task.scoring):
        if step.key not in part.scores.columns or step.key in verdicts:
            continue
        encoded = source.encoded[step.key]
        described = []
        for verdict in part.scores[step.key].to_list():
            described.append(describe_verdict(verdict, encoded))
        verdicts[step.key] = described
    return verdicts


def _choose_metadata(verdicts: Verdicts, number: int) -> Fields:
    """Return the metadata of the scorer that says what the choices are, or of the main one."""
    metadata: list[Fields] = []
    for column in verdicts.values():
        metadata.append(column[number]["metadata"])
        if isinstance(metadata[-1].get("choices"), list):
            return metadata[-1]
    return metadata[0]


def _list_choices(metadata: Fields, question: AuditedQuestion | None) -> list[ChoiceView]:
    """Return the choices with their texts, which of them is the truth, and which was predicted."""
    labels = list(map(str, metadata.get("choices") or ()))
    truth = _find_name(metadata, TRUTHS)
    predicted = _find_name(metadata, PREDICTIONS)
    texts: Sequence[str | None] = ()
    if question is not None:
        labels = labels or list(question.labels)
        if truth is None and question.truth is not None:
            truth = dict(enumerate(labels)).get(question.truth)
        # Options that fit no label are not guessed at, nor are labels shown twice.
        is_fitting = len(question.options) == len(labels)
        if is_fitting and list(question.options) != labels:
            texts = strip_labels(question.options, labels)
    choices: list[ChoiceView] = []
    for label, text in zip_longest(labels, texts):
        names = {label, text} - {None}
        choice = ChoiceView(
            label=label,
            text=cut(text),
            is_truth=truth in names,
            is_predicted=predicted in names,
        )
        choices.append(choice)
    return choices


def _find_name(metadata: Fields, names: Sequence[str]) -> str | None:
    for name in names:
        if metadata.get(name) is not None:
            return str(metadata[name])
    return None


def _list_verdicts(
    source: SampleSource,
    part: Excerpt,
    number: int,
    verdicts: Verdicts,
    row: SampleRow,
) -> list[VerdictView]:
    """Return the verdicts of all scorers; what the main one leaves open is as in the table."""
    views = []
    for step in source.task.scoring:
        if step.key not in verdicts:
            continue
        verdict = verdicts[step.key][number]
        metadata = verdict["metadata"]
        reasons = [explain_score(step.scorer, verdict, part, number)]
        if "excluded_by" in verdict:
            reasons.append(f"kept out of the metrics by action `{verdict['excluded_by']}`")
        name = source.values[step.key]
        view = VerdictView(
            scorer=step.display_name or step.key,
            rule=metadata.get("extraction_rule"),
            status=verdict["status"],
            validity=metadata.get("completion_validity"),
            reason=verdict["reason"] or metadata.get("validity_reason"),
            value=read_number(verdict["values"].get(name)),
            why="; ".join(filter(None, reasons)) or None,
        )
        if step.key == source.main.key and view["validity"] is None:
            view["validity"] = row["validity"]
            view["reason"] = row["reason"]
        views.append(view)
    return views


def explain_score(
    scorer: Scorer,
    verdict: Fields,
    part: Excerpt,
    number: int,
) -> str | None:
    """Return why the verdict on one row of the excerpt is what it is, in a sentence."""
    metadata = verdict["metadata"]
    values = verdict["values"]
    status = verdict["status"]
    if status == ScoreStatus.FAILED.value and part.samples is not None:
        sample = part.samples.take([number])
        problems, _ = scorer.check_rows(sample)
        if problems:
            return problems[0].error.message
    if status != ScoreStatus.SCORED.value:
        return _find_name(metadata, ("judge_error", "fallback_error"))
    if reads_choices(scorer):
        score = Score(ScoreStatus.SCORED, verdict["reason"], values, metadata)
        if part.completions is not None:
            completion = part.completions.items[number]
            return explain_verdict(completion, metadata["choices"], score)
        if metadata["completion_validity"] == Validity.VALID.value:
            return explain_verdict(None, metadata["choices"], score)
        return None
    answer = _find_name(metadata, PREDICTIONS)
    truth = _find_name(metadata, TRUTHS)
    if answer is not None and truth is not None:
        return f"the answer is {answer!r}, the ground truth {truth!r}"
    label = _find_name({**values, **metadata}, ("label",))
    return f"the label is {label!r}" if label else _find_name(metadata, ("reasoning",))


# ── texts that are too long


def cut(text: str | None) -> str | None:
    """Return the text, or its beginning and how long the whole is."""
    if text is None or len(text) <= MAX_CHARACTERS:
        return text
    extent = f"the first {MAX_CHARACTERS:,} of {len(text):,} characters"
    return f"{text[:MAX_CHARACTERS]}\n[cut: {extent}]"


def cut_reply(text: str | None) -> tuple[str | None, int]:
    """Return the end of a completion that is too long, and by how much passages in it move."""
    if text is None or len(text) <= MAX_REPLY:
        return text, 0
    mark = f"\n[cut: the last {MAX_REPLY:,} of {len(text):,} characters]"
    return f"{text[-MAX_REPLY:]}{mark}", MAX_REPLY - len(text)


def _move(span: Span | None, offset: int) -> Span | None:
    """Return where a passage stands in the text shown; None if it was cut off."""
    if span is None or not offset:
        return span
    begin = span[0] + offset
    end = span[1] + offset
    return None if begin < 0 else (begin, end)
