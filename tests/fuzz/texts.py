"""Laws of texts: templates, choices, and the verdict on every completion by every rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import get_args
from xml.etree import ElementTree as ET

import polars as pl
from tests.samples import record, samples_from_frame, score_table

from answerkey.exporters.rows import guard_column
from answerkey.reader import PART_REASONS, PARTS, REASONS
from answerkey.reports.markdown import clean_xml
from answerkey.scorers import StringEqualsMcqa, judge
from answerkey.scorers.base import RowFault
from answerkey.scorers.extraction import RULES, find_rule
from answerkey.scorers.model_judge import UnreadableVerdict, read_verdict
from answerkey.scorers.question import check_characters, parse_choices, parse_labels, read_options
from answerkey.templates import ConfigValue, FilterOp, RowError, RowFilter, Template, embed_config
from answerkey.text import escape_json, make_visible, shorten
from answerkey.types import Completion, CompletionStatus, Samples, ScoreStatus

from .law import (
    ENTRY,
    HERE,
    PART,
    Law,
    decode,
    list_stored,
    list_words,
    read_value,
    refusing,
    split,
)

TESTS = HERE.parent
FIRST_CELL = re.compile(r"^\| *`([^|]*)` *\|.*\|.*\|", re.MULTILINE)
#: Controls, ends of lines, halves of characters, and marks that turn text.
HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
LISTS = (
    *("ABCD", "ABCDEFGHIJ", "A", "1234", "YN", "aAbB", "+-", "IVX", "①②③", "АБВГ", "أبجد"),
    *("甲乙丙丁", "ÄÖ", "İıIi", "ßẞ", "*_"),
    *(("1\ufe0f\u20e3", "2\ufe0f\u20e3", "3"), ("\u1100", "\uac00")),
)
OPS: tuple[FilterOp, ...] = get_args(FilterOp)
NESTED = '{"a": ["x", {"k": "y"}], "b c": null}'
ROWS = ('{"a": "x", "b c": 1}', NESTED, '{"a": {"k": 2.5}, "b c": "{{ 7 }}"}')


def check_judge(extraction: str | dict[str, str], raw: bytes) -> None:
    """Require a verdict on every completion, the same row by row and for all rows together."""
    choices = list(LISTS[raw[0] % len(LISTS)]) if raw else ["A", "B"]
    head, *parts = decode(raw[1:]).split(PART, 8)
    options = head.split(ENTRY)
    texts = parts or [head]
    expected = [judge(text, choices, choices[0], extraction, options) for text in texts]
    rule = find_rule(extraction)
    for score in expected:
        assert score.status is ScoreStatus.SCORED
        choice, reason = score.metadata["predicted_choice"], score.metadata["validity_reason"]
        assert (choice is None) != (reason is None)
        assert reason is None or reason in {**REASONS, **PART_REASONS}
        assert choice is None or choice in parse_choices(choices, check_characters)[0]
    frame = pl.DataFrame({"truth": [choices[0]] * len(texts), "options": [options] * len(texts)})
    samples = samples_from_frame(frame, range(len(texts)))
    field = "{{ sample.options }}" if rule.reads_options else None
    scorer = StringEqualsMcqa(
        "{{ sample.truth }}", [*choices], extraction=extraction, options=field
    )
    assert list(score_table(scorer, samples, record(samples, texts)).rows()) == expected
    _check_reading(rule.name, raw, choices, extraction)


def _check_reading(
    name: str, raw: bytes, choices: Sequence[str], extraction: str | dict[str, str]
) -> None:
    """Require that a text that no file can hold is read as well, and that passages lie within
    texts.
    """
    text = raw[1:].decode("utf-8", "surrogateescape")
    assert judge(text, choices, choices[0], extraction).status is ScoreStatus.SCORED
    reading = find_rule(extraction).read(text, parse_choices(choices, check_characters)[0])
    begin, end = reading.span or (0, 0)
    assert 0 <= begin <= end <= len(text)
    assert reading.part is None or reading.part in PARTS[name]
    for status in CompletionStatus:
        judge(Completion(None, status), choices, choices[0], extraction)


def check_pattern(raw: bytes) -> None:
    """Require that a pattern is refused, or gives every text a verdict."""
    pattern, text = split(raw, 2)
    with refusing():
        StringEqualsMcqa("A", ["A", "B"], extraction={"pattern": pattern})
        find_rule({"pattern": pattern})
        check_judge({"pattern": pattern}, b"\0" + ENTRY.encode() + PART.encode() + text.encode())


def check_choices(raw: bytes) -> None:
    """Require that choices and truths are read or a fault; what was read is read again as it is."""
    text = decode(raw)
    broken = raw.decode("utf-8", "surrogateescape")
    for value in (text, read_value(text), [text], text.split(ENTRY), broken):
        with suppress(RowFault):
            names = parse_choices(value, check_characters)[0]
            assert names
            assert parse_choices(list(names), check_characters)[0] == names
            assert len(set(names)) == len(names)
        with suppress(RowFault):
            assert parse_labels([value], "BAD_TRUTH", check_characters)[0]
        read_options(value)
        score = judge("A", value, "A")  # type: ignore[arg-type]  # this is the point
        assert score.status in {ScoreStatus.SCORED, ScoreStatus.FAILED}


def check_verdict(raw: bytes) -> None:
    """Require that what a judge says is one score on the scale, or unreadable."""
    for low, high in ((0, 1), (1, 10)):
        try:
            score, reasoning, confidence = read_verdict(decode(raw), (low, high))
        except UnreadableVerdict:
            continue
        assert low <= score <= high
        assert confidence is None or 0 <= confidence <= 1
        assert reasoning is None or isinstance(reasoning, str)


def check_template(raw: bytes) -> None:
    """Require that a template is refused, or the same row by row and for all rows together."""
    source, *cells = split(raw, 3)
    rows = []
    for cell in cells:
        value = read_value(cell)
        fields = value if isinstance(value, dict) else {"a": cell, "b c": 1}
        rows.append({"a": fields.get("a"), "b c": fields.get("b c")})
    with refusing("E110", "E112", "E120"):
        template = Template.compile(source)
        by_row = [_attempt(partial(template.evaluate, sample=row)) for row in rows]
        for row in rows:
            _attempt(partial(template.render, sample=row))
        assert [_describe(value) for value in template.values(_make_samples(rows))] == by_row


def check_filter(raw: bytes) -> None:
    """Require that a row filter says of each row what it says of all, or is refused."""
    op = OPS[raw[0] % len(OPS)] if raw else OPS[0]
    expression, value, *cells = split(raw[1:], 4)
    held = read_value(value)
    rows = [{"a": read_value(cell), "b c": held} for cell in cells]
    values = (*held,) if isinstance(held, list) and op in {"in", "not_in"} else None
    with refusing("E108", "E110", "E112", "E120"):
        row_filter = RowFilter(op, expression or "sample.a", held, values)
        by_row = [_attempt(partial(row_filter.matches, sample=row)) for row in rows]
        assert [_describe(verdict) for verdict in row_filter.sift(_make_samples(rows))] == by_row


def _attempt(evaluate: Callable[[], object]) -> str:
    try:
        return _describe(evaluate())
    except RowError as problem:
        return _describe(problem)


def _describe(value: object) -> str:
    """Return a value as text that tells types apart, and a trouble with what it says."""
    if isinstance(value, RowError):
        # A row of which only some columns were handed out has a class of its own.
        message = value.message.replace("Partial", "")
        return f"trouble: {message} / {value.column} / {value.is_undefined}"
    return f"{type(value).__name__} {value!r}"


def _make_samples(rows: Sequence[dict[str, object]]) -> Samples:
    """Return rows as a table whose columns are all encoded."""
    cells = [
        {key: None if cell is None else json.dumps(cell) for key, cell in row.items()}
        for row in rows
    ]
    frame = pl.DataFrame(cells, schema={"a": pl.String, "b c": pl.String})
    return samples_from_frame(frame, range(len(rows)), encoded=frame.columns)


def check_config(raw: bytes) -> None:
    """Require that a value of the config comes out as it went in, wherever it stands."""
    value = decode(raw)

    for text, expected in {
        "<< config.x >>": value,
        "{<< config.x >>{ {{ 1 }}": f"{{{value}{{ 1",
        "{{ 'a<< config.x >>' }}": f"a{value}",
        "{% raw %}{<< config.x >>%}{% endraw %}.": f"{{{value}%}}.",
        "{{ sample.<< config.x >> }}": "cell",
    }.items():
        written = embed_config(text, lambda _: ConfigValue(value), is_template=True)
        assert Template.compile(written).evaluate(sample={value: "cell"}) == expected


def check_shown(raw: bytes) -> None:
    """Require that what is printed has no control, no mark that turns text, no formula, no
    markup.
    """
    text = raw.decode("utf-8", "surrogateescape")
    for shown in (make_visible(text), shorten(text, 40)):
        assert HARMFUL.search(shown) is None
    assert make_visible(make_visible(text)) == make_visible(text)
    assert json.loads(escape_json(json.dumps(decode(raw), ensure_ascii=False))) == decode(raw)
    (guarded,) = guard_column(pl.Series("x", [decode(raw)]))
    assert guarded.replace("'", "") == decode(raw).replace("'", "")
    assert not guarded.lstrip().startswith(("=", "@"))
    element = ET.Element("x")
    element.text = clean_xml(decode(raw))
    assert ET.fromstring(ET.tostring(element)).text == (element.text or None)  # noqa: S314 - written just now


def list_completions() -> list[bytes]:
    """Return the completions of the decided cases, as they stand in their tables."""
    texts: dict[str, None] = {}
    for path in sorted((TESTS / "cases").glob("*.md")):
        for cell in FIRST_CELL.findall(path.read_text(encoding="utf-8")):
            texts[cell.replace("\\n", "\n")] = None
    return [b"\0Sydney\x1dCanberra\x1e" + text.encode() for text in list(texts)[::3]]


def list_templates() -> list[bytes]:
    """Return the hostile templates, but for those that only take time, and some honest ones, with
    rows.
    """
    honest = [
        "{{ sample.a }}",
        "A {{ sample['b c'] }}",
        "{% for x in sample.a %}{{ loop.index }}. {{ x }}\n{% endfor %}",
        "{{ sample.a | upper | tojson }}",
        "{{ sample.missing | default(sample.a) }}",
        "{{ 1 / sample['b c'] }}",
        "{% if sample.a is string %}{{ sample.a[:3] }}{% else %}none{% endif %}",
        "{{ sample.a ~ sample['b c'] }}",
    ]
    corpus = (TESTS / "hostile" / "corpora" / "attacks.md").read_text(encoding="utf-8")
    hostile = [part.partition("\n```")[0] for part in corpus.split("```jinja\n")[1:]]
    return [PART.join((source, *ROWS[:2])).encode() for source in (*honest, *hostile)]


def list_filters() -> list[bytes]:
    """Return a filter of each kind with two rows."""
    plain, many = ("sample.a", "3", "2", '"x"'), ("{{ sample.a }}", '["x", 1, null]', "1", '"x"')
    results = [many if op in {"in", "not_in"} else plain for op in OPS]
    return [bytes([number]) + PART.join(parts).encode() for number, parts in enumerate(results)]


#: Laws whose seeds and words are stored under their names, and how often they are tried.
STORED: dict[str, tuple[Callable[[bytes], None], int]] = {
    "pattern": (check_pattern, 40),
    "choices": (check_choices, 200),
    "judges_verdict": (check_verdict, 200),
    "shown_text": (check_shown, 200),
}


def make_laws() -> dict[str, Law]:
    """Return the laws of this module by name."""
    words, template_words = list_words("completion"), list_words("template")
    rules: dict[str, str | dict[str, str]] = {name: name for name in RULES}
    rules["pattern"] = {"pattern": r"(?i)answer is \(?(\w)"}
    filter_words = [*template_words, b"in", b"exists", b"1e999", b"9" * 400]
    return {
        **{
            f"judge_{name}": Law(partial(check_judge, rule), list_completions, words, 80)
            for name, rule in rules.items()
        },
        **{
            name: Law(check, partial(list_stored, name), list_words(name), examples)
            for name, (check, examples) in STORED.items()
        },
        "row_filter": Law(check_filter, list_filters, filter_words, 80),
        "template": Law(check_template, list_templates, template_words, 60),
        "config_value": Law(check_config, lambda: template_words, template_words, 100),
    }
