"""One row of a task as the page and the viewer show it: its line of the table, and all of it.

The fields of these classes are the keys that the front end reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from answerkey.dataset_audit.questions import AuditedQuestion, read_questions, strip_labels
from answerkey.errors import Place
from answerkey.exporters import describe_verdict
from answerkey.metrics.base import read_number
from answerkey.models import images
from answerkey.reader import EXTRACTORS
from answerkey.reader.characters import LONGEST_CHARACTER, WHITE_SPACE, measure_character
from answerkey.reader.markup import find_thoughts
from answerkey.reader.stated_answer import list_statements
from answerkey.reports.messages import write_value
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
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.question import Labels
from answerkey.scorers.rereading import (
    FIRST,
    LITERAL,
    Passage,
    list_labels,
    list_passages,
    list_texts,
)
from answerkey.types import (
    RULE_NAMES,
    Completion,
    Sample,
    Samples,
    Score,
    Scores,
    ScoreStatus,
    Validity,
)

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


@dataclass(frozen=True, slots=True)
class SampleRow:
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
    head: str


@dataclass(frozen=True, slots=True)
class RuleView:
    """What the run's own rule, another rule or another harness reads, and where."""

    name: str
    kind: str
    choice: str | None
    is_right: bool | None
    part: str | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class NamedText:
    """A field of the sample."""

    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the prompt."""

    role: str
    text: str | None


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """A choice with the text of its option."""

    label: str
    text: str | None
    is_truth: bool
    is_predicted: bool


@dataclass(frozen=True, slots=True)
class CompletionView:
    """What came back."""

    text: str | None = None
    status: str = UNKNOWN
    finish_reason: str | None = None
    reasoning: str | None = None
    error: str | None = None
    latency: float | None = None
    tokens: Mapping[str, int | None] | None = None


@dataclass(frozen=True, slots=True)
class StatementView:
    """A passage that states an answer, and the choices it names."""

    choices: Sequence[str]
    span: Span


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The verdict of one scorer, and why."""

    scorer: str
    rule: str | None
    status: str
    validity: str | None
    reason: str | None
    value: float | None
    why: str | None


@dataclass(frozen=True, slots=True)
class ImageView:
    """An image of the prompt; no data where it is gone or too large."""

    name: str
    data: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    """All there is to say of one row."""

    p: int
    id: str
    trial: int | None
    where: str | None = None
    fields: Sequence[NamedText] = ()
    question: str | None
    choices: Sequence[ChoiceView]
    prompt: Sequence[Message] | None = None
    completion: CompletionView = field(default_factory=CompletionView)
    span: Span | None = None
    stated: Sequence[StatementView] = ()
    folded: Sequence[Span] = ()
    readings: Sequence[RuleView] = ()
    verdicts: Sequence[VerdictView]
    missing: str | None
    images: Sequence[ImageView] = ()


def view_rows(table: SampleTable, positions: Iterable[int]) -> list[SampleRow]:
    """Return the lines of the table for some rows, in the order given."""
    order = list(positions)
    rows: dict[int, SampleRow] = {}
    for part in table.source.read(set(order)):
        readings = read_rows(table.source, part, only_rules=True)
        for row in _build_rows(table.source, part, readings):
            rows[row.p] = row
    return [rows[position] for position in order]


def view_sample(table: SampleTable, position: int) -> SampleView:
    """Return all there is to say of one row."""
    part = next(table.source.read([position]))
    return view_samples(table.source, part)[0][1]


def view_samples(
    source: SampleSource, part: Excerpt, room: int = ROOM
) -> list[tuple[SampleRow, SampleView]]:
    """Return for each row its line of the table, and all there is to say of it.

    Images have at most `room` bytes together.
    """
    completions: Sequence[Completion | None] = [None] * len(part)
    if part.completions is not None:
        completions = list(part.completions.rows())
    questions: Sequence[AuditedQuestion | None] = [None] * len(part)
    if part.samples is not None and source.fields is not None:
        questions = list(read_questions(part.samples, source.fields))
    readings = read_rows(source, part)
    rows = _build_rows(source, part, readings)
    scores = _decode_scores(source, part)
    pictures = _list_pictures(source, part, completions, room)
    views = []
    for number, row in enumerate(rows):
        completion, question = completions[number], questions[number]
        verdicts = {key: column[number] for key, column in scores.items()}
        facts: dict[str, Any] = {}
        if completion is not None:
            facts = _describe_completion(completion, readings[number])
        if part.samples is not None:
            sample = part.samples.items[number]
            facts |= {"where": _name_place(sample), "fields": _list_fields(sample)}
        view = SampleView(
            p=row.p,
            id=row.id,
            trial=row.trial,
            question=None if question is None else cut(question.text),
            choices=_list_choices(_choose_metadata(verdicts), question),
            verdicts=_build_verdicts(source, part, number, verdicts, completion, row),
            missing=source.missing,
            images=pictures[number],
            **facts,
        )
        views.append((row, view))
    return views


def _describe_completion(completion: Completion, readings: RowReadings | None) -> dict[str, Any]:
    """Return the prompt, the completion, and the passages in it that rules look at."""
    text, offset = cut_reply(completion.text)
    rules: Sequence[RuleView] = ()
    stated = []
    if readings is not None:
        rules = readings.rules
        if offset:
            rules = [replace(rule, span=_move(rule.span, offset)) for rule in rules]
        for labels, passage in readings.stated:
            span = _move(passage, offset)
            if span is not None:
                stated.append(StatementView(labels, span))
    folded = []
    for begin, end in find_thoughts(text or ""):
        if end - begin >= MIN_FOLDED:
            folded.append((begin, end))
    prompt = None
    if completion.prompt is not None:
        prompt = []
        for message in completion.prompt:
            content = cut(write_value(message.get("content")))
            prompt.append(Message(str(message.get("role", "?")), content))
    return {
        "prompt": prompt,
        "completion": _view_completion(completion, text),
        "span": rules[0].span if rules else None,
        "stated": stated,
        "folded": folded,
        "readings": rules,
    }


def _view_completion(completion: Completion, text: str | None) -> CompletionView:
    tokens = {
        "prompt": completion.prompt_tokens,
        "completion": completion.completion_tokens,
        "reasoning": completion.reasoning_tokens,
        "cached": completion.cached_tokens,
    }
    return CompletionView(
        text=text,
        status=completion.status.value,
        finish_reason=completion.finish_reason,
        reasoning=cut(completion.reasoning),
        error=cut(completion.error),
        latency=completion.latency,
        tokens=tokens,
    )


def _name_place(sample: Sample) -> str | None:
    """Return where a row stands; the file without its folder, for a page travels."""
    file = sample.file and Path(sample.file).name
    return str(Place(file=file, line=sample.line)) or None


def _list_fields(sample: Sample) -> list[NamedText]:
    fields = []
    for name, value in sample.fields.items():
        fields.append(NamedText(name, cut(write_value(value))))
    return fields


def _list_pictures(
    source: SampleSource, part: Excerpt, completions: Iterable[Completion | None], room: int
) -> list[Sequence[ImageView]]:
    """Return the images in the prompt of each row, as far as there is room."""
    stored = []
    for completion in completions:
        prompt = (completion and completion.prompt) or ()
        stored.append(images.find_stored(prompt))
    pictures: Mapping[str, images.Image] = {}
    if part.samples is not None and any(stored):
        pictures = source.find_images(part.samples)
    limit = room // IMAGE_PART
    views: list[Sequence[ImageView]] = []
    for entries in stored:
        shown = []
        for entry in entries:
            image, data = pictures.get(str(entry.get("sha256"))), None
            if image is not None and int(str(image["size"])) <= min(limit, room):
                data = image.address
                room -= int(str(image["size"]))
            shown.append(ImageView(images.describe_image(entry), data))
        views.append(shown)
    return views


# ── the lines of the table


def _build_rows(
    source: SampleSource, part: Excerpt, readings: Sequence[RowReadings | None]
) -> list[SampleRow]:
    questions: Sequence[str | None] = [None] * len(part)
    if source.fields is not None and part.samples is not None:
        questions = list(map(show_value, source.fields.questions[-1].values(part.samples)))
    texts: Sequence[str | None] = [None] * len(part)
    if part.completions is not None:
        texts = part.completions.frame["completion"].to_list()
    categories = source.label_categories(part).to_list()
    ids, trials = part.scores["sample_id"].to_list(), part.scores["trial"].to_list()
    rows = []
    for number, verdict in enumerate(source.tabulate(part).iter_rows(named=True)):
        reading, is_flipped, span = readings[number], None, None
        if reading is not None:
            is_flipped, span = reading.is_flipped, reading.rules[0].span
        rows.append(
            SampleRow(
                p=part.positions[number],
                id=str(ids[number]),
                trial=trials[number] if source.num_trials > 1 else None,
                category=categories[number],
                truth=_shorten(verdict["truth"]),
                predicted=_shorten(verdict["predicted"]),
                status=verdict["status"],
                value=verdict["value"],
                validity=verdict["validity"],
                reason=verdict["reason"],
                flipped=is_flipped,
                said=show_decision(texts[number], span),
                head=(questions[number] or "")[:MAX_QUESTION],
            )
        )
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
        beginning, end = text[:MAX_BEFORE], text[MAX_BEFORE:]
        if len(end) > MAX_END:
            end = f" … {end[-MAX_END:]}"
        return [_join_lines(beginning + end).strip(), "", ""]
    begin, end_of_passage = span
    before = _join_lines(text[max(0, begin - MAX_BEFORE) : begin]).lstrip()
    if begin > MAX_BEFORE:
        before = f"… {before}"
    decided = _shorten(_join_lines(text[begin:end_of_passage])) or ""
    after = text[end_of_passage : end_of_passage + MAX_COMPLETION]
    if len(text) > end_of_passage + MAX_COMPLETION:
        after += "…"
    return [before, decided, _join_lines(after).rstrip()]


def _join_lines(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# ── what every rule reads


@dataclass(frozen=True, slots=True)
class RowReadings:
    """What every rule reads in a completion, the run's own first, and all answers it states.

    `is_flipped` is whether not all rules read it alike; None for a row that no metric counts.
    """

    is_flipped: bool | None
    rules: Sequence[RuleView]
    stated: Sequence[tuple[Sequence[str], Span]]


def read_rows(
    source: SampleSource, part: Excerpt, *, only_rules: bool = False
) -> list[RowReadings | None]:
    """Return what every rule, and the extractors of other harnesses, read in each row.

    With `only_rules` neither extractors nor stated answers are among them. None where there is no
    verdict on a choice, or no text to read. Without the dataset nothing is read if the scorer is
    given the texts of the options.
    """
    readings: list[RowReadings | None] = [None] * len(part)
    scorer, completions, samples = source.reader, part.completions, part.samples
    if scorer is None or completions is None:
        return readings
    scores = Scores(part.scores[source.reading].struct.unnest(), source.encoded[source.reading])
    choices = scores.column("choices")
    if choices is None or (samples is None and scorer.options is not None):
        return readings
    rows = choices.is_not_null().arg_true()
    scores, completions = scores.take(rows), completions.take(rows)
    passages: Iterable[Passage]
    if samples is not None:
        passages = list_passages(scorer, samples.take(rows), completions, scores)
    else:
        nothing = [None] * len(rows)
        passages = zip(list_texts(completions), list_labels(scores), nothing, strict=True)
    table = zip(rows, passages, scores.rows(), scores.counted(), strict=True)
    for number, passage, score, is_counted in table:
        row = _read_row(scorer, passage, score, only_rules=only_rules)
        if not is_counted:
            row = replace(row, is_flipped=None)
        readings[number] = row
    return readings


def _read_row(
    scorer: StringEqualsMcqa, passage: Passage, score: Score, *, only_rules: bool
) -> RowReadings:
    text, labels, options = passage
    truth = score.metadata.get("ground_truth_choice")
    shown = None if scorer.options is None else options
    rules = [_view_own(scorer.rule_name, text, score)]
    for name in RULE_NAMES:
        if name != scorer.rule_name:
            rules.append(_read_rule(name, text, labels, shown, truth))
    # A user's own pattern is no rule that others could be compared with.
    compared = rules if scorer.rule_name in RULE_NAMES else rules[1:]
    is_flipped = len({rule.choice for rule in compared}) > 1
    if only_rules or text is None:
        stated: Sequence[tuple[Labels, Span]] = ()
    else:
        stated = list_statements(text, labels, options)
    if not only_rules:
        rules += _read_extractors(text, labels, options, truth)
    return RowReadings(is_flipped, rules, stated)


def _judge(choice: str | None, truth: object) -> bool | None:
    return None if choice is None else choice == truth


def _view_own(name: str, text: str | None, score: Score) -> RuleView:
    metadata = score.metadata
    choice: Any = metadata.get("predicted_choice")
    span: Any = metadata.get("answer_span")
    rule = str(metadata.get("extraction_rule") or name)
    if span is None:
        span = find_first(rule, text)
    part = None if rule == name else rule.partition("/")[2] or None
    return RuleView(
        name, "own", choice, _judge(choice, metadata.get("ground_truth_choice")), part, span
    )


def _read_rule(
    name: str,
    text: str | None,
    labels: Labels,
    options: Labels | None,
    truth: object,
) -> RuleView:
    if text is None:
        return RuleView(name, "rule", None, None)
    reading = find_rule(name).read(text, labels, options)
    span = reading.span or find_first(name, text)
    return RuleView(name, "rule", reading.choice, _judge(reading.choice, truth), reading.part, span)


def _read_extractors(
    text: str | None,
    labels: Labels,
    options: Labels | None,
    truth: object,
) -> Iterator[RuleView]:
    for name, extractor in EXTRACTORS.items():
        choice = None
        if text is not None:
            choice = extractor.read(text, labels, options if extractor.reads_options else None)
        yield RuleView(name, "lens", choice, _judge(choice, truth))


def find_first(rule: str, text: str | None) -> Span | None:
    """Return where the character stands that a rule of the first character looks at."""
    if not text or rule not in {FIRST, LITERAL}:
        return None
    if rule == LITERAL:
        return 0, 1
    begin = len(text) - len(text.lstrip(WHITE_SPACE))
    size = min(measure_character(text, begin), LONGEST_CHARACTER)
    return (begin, begin + size) if size else None


# ── choices and verdicts


def _decode_scores(source: SampleSource, part: Excerpt) -> dict[str, list[Fields]]:
    """Return the verdicts of each scorer, row for row, the main scorer first."""
    scores: dict[str, list[Fields]] = {}
    for step in (source.main, *source.task.scoring):
        if step.key in part.scores.columns and step.key not in scores:
            encoded = source.encoded[step.key]
            verdicts = part.scores[step.key].to_list()
            scores[step.key] = [describe_verdict(verdict, encoded) for verdict in verdicts]
    return scores


def _choose_metadata(verdicts: Mapping[str, Fields]) -> Fields:
    """Return the metadata of the scorer that says what the choices are."""
    metadata: list[Fields] = [verdict["metadata"] for verdict in verdicts.values()]
    for fields in metadata:
        if isinstance(fields.get("choices"), list):
            return fields
    return metadata[0]


def _list_choices(metadata: Fields, question: AuditedQuestion | None) -> list[ChoiceView]:
    """Return the choices with their texts, which of them is the truth, and which was predicted."""
    labels = list(map(str, metadata.get("choices") or ()))
    truth, predicted = _find_name(metadata, TRUTHS), _find_name(metadata, PREDICTIONS)
    texts: Sequence[str | None] = [None] * len(labels)
    if question is not None:
        labels = labels or list(question.labels)
        texts = [None] * len(labels)
        # Options that fit no label are not guessed at, nor are labels shown twice.
        if len(question.options) == len(labels) and list(question.options) != labels:
            texts = strip_labels(question.options, labels)
        if truth is None and question.truth is not None and question.truth < len(labels):
            truth = labels[question.truth]
    choices = []
    for label, text in zip(labels, texts, strict=True):
        names = {label, text} - {None}
        choices.append(ChoiceView(label, cut(text), truth in names, predicted in names))
    return choices


def _find_name(metadata: Fields, names: Sequence[str]) -> str | None:
    for name in names:
        if metadata.get(name) is not None:
            return str(metadata[name])
    return None


def _build_verdicts(
    source: SampleSource,
    part: Excerpt,
    number: int,
    verdicts: Mapping[str, Fields],
    completion: Completion | None,
    row: SampleRow,
) -> list[VerdictView]:
    """Return the verdicts of all scorers; what the main one leaves open is as in the table."""
    views = []
    for step in source.task.scoring:
        if step.key not in verdicts:
            continue
        verdict = verdicts[step.key]
        metadata = verdict["metadata"]
        samples = part.samples and part.samples.take([number])
        reasons = [explain_score(step.scorer, verdict, completion, samples)]
        if verdict.get("excluded_by"):
            reasons.append(f"kept out of the metrics by action `{verdict['excluded_by']}`")
        view = VerdictView(
            scorer=step.display_name or step.key,
            rule=metadata.get("extraction_rule"),
            status=verdict["status"],
            validity=metadata.get("completion_validity"),
            reason=verdict["reason"] or metadata.get("validity_reason"),
            value=read_number(verdict["values"].get(source.values[step.key])),
            why="; ".join(filter(None, reasons)) or None,
        )
        if step.key == source.main.key and view.validity is None:
            view = replace(view, validity=row.validity, reason=row.reason)
        views.append(view)
    return views


def explain_score(
    scorer: Scorer, verdict: Fields, completion: Completion | None, samples: Samples | None
) -> str | None:
    """Return why a verdict is what it is, in a sentence; `samples` is the one row."""
    metadata, values = verdict["metadata"], verdict["values"]
    if verdict["status"] == ScoreStatus.FAILED.value and samples is not None:
        problems, _ = scorer.check_rows(samples)
        if problems:
            return problems[0].error.message
    if verdict["status"] != ScoreStatus.SCORED.value:
        return _find_name(metadata, ("judge_error", "fallback_error"))
    if reads_choices(scorer):
        if completion is None and metadata["completion_validity"] != Validity.VALID.value:
            return None
        score = Score(ScoreStatus.SCORED, verdict["reason"], values, metadata)
        return explain_verdict(completion, metadata["choices"], score)
    answer, truth = _find_name(metadata, PREDICTIONS), _find_name(metadata, TRUTHS)
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
    begin, end = span[0] + offset, span[1] + offset
    return None if begin < 0 else (begin, end)
