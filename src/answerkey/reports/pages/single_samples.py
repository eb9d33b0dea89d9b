"""One sample's whole way, as a page shows it: row, question, choices, prompt, completion, verdicts, readings.

Excerpt ──► list_rows (a line of the table for each row), describe_samples (all there is to say)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answerkey.dataset_audit.questions import Question, read_questions, strip_labels
from answerkey.errors import Place
from answerkey.exporters import to_json
from answerkey.reports.pages.cutting import CutText, cut, cut_middle
from answerkey.reports.pages.excerpts import Excerpt
from answerkey.reports.pages.row_index import label_categories
from answerkey.reports.pages.rule_readings import RowReadings, read_rows
from answerkey.reports.pages.sample_source import SampleSource
from answerkey.reports.pages.verdict_columns import PREDICTIONS, TRUTHS
from answerkey.reports.pages.verdicts import SampleVerdict, describe_verdicts
from answerkey.templates import RowTrouble
from answerkey.text import clean_numbers
from answerkey.types import Completion, Samples

#: How much of a question stands in the table, and how much of a truth or an answer.
HEAD, LABEL = 160, 80

Plain = dict[str, Any]


def list_rows(source: SampleSource, part: Excerpt, readings: Sequence[RowReadings | None]) -> list[Plain]:
    """Return the lines of the table for some rows."""
    ids, trials = part.scores["sample_id"].to_list(), part.scores["trial"].to_list()
    positions, heads = part.positions.to_list(), _list_heads(source, part)
    categories = label_categories(source, part).to_list()
    return [
        {
            "p": positions[at],
            "id": str(ids[at]),
            "trial": trials[at] if source.has_trials else None,
            "category": categories[at],
            "truth": shorten_label(verdict["truth"]),
            "predicted": shorten_label(verdict["predicted"]),
            "status": verdict["status"],
            "value": verdict["value"],
            "validity": verdict["validity"],
            "reason": verdict["reason"],
            "flipped": None if (reading := readings[at]) is None else reading.is_flipped,
            "head": heads[at],
        }
        for at, verdict in enumerate(source.tabulate(part).iter_rows(named=True))
    ]


def shorten_label(text: str | None) -> str | None:
    """Return what names a truth or an answer in the table."""
    return text if text is None or len(text) <= LABEL else f"{text[:LABEL]}…"


def _list_heads(source: SampleSource, part: Excerpt) -> list[str]:
    """Return how the questions begin; where there is none, how the completions do."""
    texts: list[str | None] = [None] * len(part)
    if source.fields is not None and part.samples is not None:
        texts = [_write(one) for one in source.fields.questions[-1].values(part.samples)]
    if part.completions is not None and any(text is None for text in texts):
        said = part.completions.frame["completion"].str.head(HEAD).to_list()
        texts = [own if text is None else text for text, own in zip(texts, said, strict=True)]
    return [(text or "")[:HEAD] for text in texts]


def _write(value: object) -> str | None:
    return None if value is None or isinstance(value, RowTrouble) else str(value)


def describe_samples(source: SampleSource, part: Excerpt) -> list[tuple[Plain, Plain]]:
    """Return for each row its line of the table, and all there is to say of it."""
    readings = read_rows(source, part)
    rows = list_rows(source, part, readings)
    questions = _read_questions(source, part.samples, len(part))
    fields = _list_fields(part.samples, len(part))
    completions = [None] * len(part) if part.completions is None else list(part.completions.rows())
    verdicts = describe_verdicts(source, part, completions)
    return [
        (
            row,
            {
                **{name: row[name] for name in ("p", "id", "trial")},
                "where": _find_place(part.samples, at),
                "fields": fields[at],
                "question": None if (asked := questions[at]) is None else cut(asked.text),
                "choices": list_choices(_find_choosing(verdicts[at], source.main.key), asked),
                "prompt": _describe_prompt(completions[at]),
                **_describe_said(completions[at], readings[at]),
                "verdicts": [_describe_verdict(one, row, source.main.key) for one in verdicts[at]],
                "missing": source.rows.missing,
                "note": None,
            },
        )
        for at, row in enumerate(rows)
    ]


def _read_questions(source: SampleSource, samples: Samples | None, length: int) -> Sequence[Question | None]:
    if samples is None or source.fields is None:
        return [None] * length
    return read_questions(samples, source.fields)


def _list_fields(samples: Samples | None, length: int) -> list[list[Plain]]:
    """Return the columns of the dataset in each row; text as it is, other values as JSON."""
    if samples is None:
        return [[] for _ in range(length)]
    return [
        [{"name": name, "text": cut(_write_value(value))} for name, value in row.items()]
        for row in samples.rows()
    ]


def _write_value(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _find_place(samples: Samples | None, at: int) -> str | None:
    """Return where the row stands: the file's name without its folder, for a page travels."""
    if samples is None:
        return None
    place = samples.place(at)
    name = None if place.file is None else Path(place.file).name
    return str(Place(file=name, line=place.line)) or None


def _describe_verdict(verdict: SampleVerdict, row: Plain, main: str) -> Plain:
    """Return a verdict; what the main one leaves open is told as in the table."""
    described = verdict.describe()
    if verdict.key == main and described["validity"] is None:
        described |= {"validity": row["validity"], "reason": row["reason"]}
    return described


def _find_choosing(verdicts: Sequence[SampleVerdict], main: str) -> SampleVerdict | None:
    """Return the verdict that says what the choices are: the main one, else the first that does."""
    ordered = sorted(verdicts, key=lambda one: one.key != main)
    return next((one for one in ordered if one.choices), ordered[0] if ordered else None)


def list_choices(verdict: SampleVerdict | None, question: Question | None) -> list[Plain]:
    """Return the choices with their texts, which of them is the truth, and which was predicted."""
    options = () if question is None else question.options
    labels = verdict.choices if verdict is not None else []
    labels = labels or ([] if question is None else list(question.labels))
    texts = _name_options(options, labels)
    truth = None if verdict is None else verdict.find_text(*TRUTHS)
    predicted = None if verdict is None else verdict.find_text(*PREDICTIONS)
    if truth is None and question is not None and question.truth is not None:
        truth = labels[question.truth] if question.truth < len(labels) else None
    return [
        {
            "label": label,
            "text": cut(text),
            "is_truth": truth is not None and truth in {label, text},
            "is_predicted": predicted is not None and predicted in {label, text},
        }
        for label, text in zip(labels, texts, strict=True)
    ]


def _name_options(options: Sequence[str | None], labels: Sequence[str]) -> Sequence[str | None]:
    """Return the texts of the choices without their labels; None where the texts are no more than these."""
    if len(options) != len(labels) or list(options) == list(labels):
        return [None] * len(labels)
    return strip_labels(options, labels)


def _describe_prompt(completion: Completion | None) -> list[Plain] | None:
    if completion is None or completion.prompt is None:
        return None
    return [
        {"role": str(one.get("role", "?")), "text": cut(_write_value(one.get("content")))}
        for one in completion.prompt
    ]


def _describe_said(completion: Completion | None, readings: RowReadings | None) -> Plain:
    """Return the completion, the passage that decided, and what every rule reads in it."""
    if completion is None:
        return {"completion": _BLANK, "span": None, "readings": _describe_readings(readings, CutText(None))}
    shown = cut_middle(completion.text)
    span = None if readings is None else shown.move(readings.readings[0].span)
    usage = (completion.prompt_tokens, completion.completion_tokens)
    described = {
        "text": shown.text,
        "status": completion.status.value,
        "finish_reason": completion.finish_reason,
        "reasoning": cut(completion.reasoning),
        "error": cut(completion.error),
        "latency": completion.latency,
        "tokens": None if usage == (None, None) else {"prompt": usage[0], "completion": usage[1]},
    }
    return {
        "completion": clean_numbers(described),
        "span": None if span is None else list(span),
        "readings": _describe_readings(readings, shown),
    }


#: A completion that nobody can read any more.
_BLANK: Plain = {
    "text": None,
    "status": "UNKNOWN",
    "finish_reason": None,
    "reasoning": None,
    "error": None,
    "latency": None,
    "tokens": None,
}


def _describe_readings(readings: RowReadings | None, shown: CutText) -> list[Plain]:
    if readings is None:
        return []
    return [
        {
            "name": one.name,
            "kind": one.kind,
            "choice": one.choice,
            "is_right": None if one.choice is None else one.choice == readings.truth,
            "part": one.part,
            "span": None if (span := shown.move(one.span)) is None else list(span),
        }
        for one in readings.readings
    ]
