"""The planner against Jinja: whatever columns compute, each row has the value or the trouble it has alone."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import pytest

from answerkey.datasets.tables import load_rows
from answerkey.errors import SpecError
from answerkey.templates import RowError, Template, TemplateStopped, planner
from answerkey.types import Row, Samples

#: Rows per template, over three kinds of table; the long series has 20,000.
ROWS = 20_000 if os.environ.get("ANSWERKEY_LONG") else 96

TEXTS = [
    *["", " ", "A", "b", "a b", "None", "True", "1", "03", "1.0", "{{ 7*7 }}", "[1, 2]", "A", "B", "C", "D"],
    *["straße", "İstanbul", "ǆ", "ﬁne", "ΑΣ", "ΑΣ ", "é", "e\u0301", "😀x", "日本語", "ÿ", "ŉ", "ß"],
    *[" a\t", "\x1ca\x1f", "\x85a\x85", "\xa0a\xa0", "\u2003a", "\u200ba", "\ufeffa", "a\x00", "\r\nx\n"],
    *["Question of some length, with a comma", "two\nlines", "<&>'\"", '["A", "B"]', '{"k": "v"}', "\\d+"],
]
WHOLE = [0, 0, 1, 1, 2, 3, -1, -4, -5, 4, 9, 2**31, 2**40, -(2**62), 7]
FLOATS = [0.0, -0.0, 1.0, 0.1, 1e16, 1e-7, 123456789.123, float("inf"), float("nan"), 3.0]
JSON_FLOATS = [0.0, -0.0, 1.0, 0.1, 1e16, 1e-7, 3.0]

TEMPLATES = [
    "A",
    "{{ ['A', 'B'] }}",
    "{{ 3 }}",
    "a{{ 3 }}{{ none }}{{ 1.50 }}",
    "{{ sample.answer }}",
    "{{ sample['answer'] }}",
    "{{ sample['answer key'] }}",
    "{{ sample.choices }}",
    "{{ sample.options }}",
    "{{ sample.meta }}",
    "{{ sample.meta.level }}",
    "{{ sample.meta['deep'].key }}",
    "{{ sample.meta.kex }}",
    "{{ sample.meta.items }}",
    "{{ sample.meta['items'] }}",
    "{{ sample.score }}",
    "{{ sample.flag }}",
    "{{ sample.items }}",
    "{{ sample.keys }}",
    "{{ sample.keys.x }}",
    "{{ sample.missing }}",
    "{{ sample.answer.x }}",
    "{{ sample.choices[0] }}",
    "{{ sample.choices[-1] }}",
    "{{ sample.choices[99999999999999999999] }}",
    "{{ sample.choices['0'] }}",
    "{{ sample.choices[sample.index] }}",
    "{{ sample.choices[sample.answer] }}",
    "{{ sample.choices[sample.flag] }}",
    "{{ sample.choices[sample.score] }}",
    "{{ sample.options[sample.index].text }}",
    "{{ sample.options[0].key | lower }}",
    "{{ sample.meta.tags[sample.index] }}",
    "{{ sample.numbers[sample.index] }}",
    "{{ sample.answer[0] }}",
    "{{ sample.answer[-1] | upper }}",
    "{{ sample.answer[sample.index] }}",
    "{{ sample.meta[sample.answer] }}",
    "{{ sample.answer | upper }}",
    "{{ sample.answer | lower }}",
    "{{ sample.answer | trim }}",
    "{{ sample.answer | trim | upper }}",
    "{{ sample.answer.upper() }}",
    "{{ sample.answer.strip().lower() }}",
    "{{ sample.choices.upper() }}",
    "{{ sample.score | upper }}",
    "{{ sample.flag | upper }}",
    "{{ sample.choices | lower }}",
    "{{ sample.index | trim }}",
    "{{ sample.answer | string }}{{ sample.index | string }}",
    "{{ sample.answer ~ ') ' ~ sample.index }}",
    "{{ (sample.answer ~ sample.flag) | trim }}",
    "{{ sample.answer }}) {{ sample.index }}",
    "{{ sample.flag }}/{{ sample.index }}/{{ sample.score }}",
    "{{ sample.choices }}: {{ sample.meta.deep }} {{ sample.numbers }}",
    "Q: {{ sample.question }}\nA: {{ sample.meta.deep.key }}\n{{ sample.choices[sample.index] }}",
    "  {{ sample.answer }}\n\n",
    "{# note #}{{ sample.answer -}}  \n {{- sample.index }}",
    "{{ sample.answer | replace('A', 'B') }}",
    "{{ sample.answer | length }}",
    "{{ sample.index + 1 }}",
    "{{ 10 / sample.index }}",
    "{{ sample.score * 2 }}",
    "{{ sample.score == 0 }}",
    "{{ sample.answer == sample['answer key'] }}",
    "{{ sample.index in [0, 1] }}",
    "{{ 'yes' if sample.flag else sample.answer }}",
    "{{ sample.answer if sample.flag }}",
    "x{{ sample.answer if sample.flag }}",
    "{{ sample.choices | first }}{{ sample.choices | last }}",
    "{{ sample.choices | join(', ') }}",
    "{{ sample.options | map(attribute='key') }}",
    "{{ sample.options | map(attribute='key') | list | tojson }}",
    "{{ sample.meta.items() | list }}",
    "{{ sample.meta.get('level', 3) }}",
    "{{ sample.meta | tojson }}{{ sample.meta.level }}",
    "{{ sample.text_list | fromjson }}",
    "{{ (sample.text_list | fromjson)[sample.index] }}",
    "{{ sample.index | int }}{{ sample.answer | int(default=-1) }}",
    "{{ sample.missing | default(sample.answer) }}",
    "{{ sample.answer | default('none', true) }}",
    "{{ sample.answer is string and sample.choices is iterable }}",
    "{{ sample.answer | regex_replace('[a-c]', '.') }}",
    "{{ [sample.index, sample.flag, sample.score, sample.answer] }}",
    "{{ {'a': sample.index, 'b': [sample.meta.deep]} }}",
    "{{ sample.numbers | sum }}",
    "{{ sample.numbers | sort }}",
    "{% for c in sample.choices %}{{ loop.index }}{{ c }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for k, v in sample.meta.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for sample in sample.options %}{{ sample.key }}{% endfor %}",
    "{% for d, c in sample.choices | zip(sample.options) %}{{ d }}. {{ c.text }}\n{% endfor %}",
    "{% for c, d, e in 'ABCDEFGH' | zip(sample.choices, sample.numbers) %}{{ c }}{{ d }}{{ e }};{% endfor %}",
    "{% set x = sample.answer %}{% set x = x ~ sample.index %}{{ x }}",
    "{% if sample.flag is none %}null{% elif sample.flag %}yes{% else %}{{ 1 // sample.index }}{% endif %}",
    "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(sample.answer) }}{{ m(sample.meta.level) }}",
    "{% do sample.choices.append('X') %}{{ sample.choices }}",
    "{{ sample | length }}",
    "{{ sample.get('answer') }}",
    "{{ sample[sample.answer] }}",
    "{{ sample.items() | list | length }}",
    "{% for name in sample %}{{ name }}{% endfor %}",
    "{% autoescape true %}{{ sample.answer }}{{ 1 / sample.index }}{% endautoescape %}",
    "{% set f = sample.meta.values %}{{ f() | list }}",
    "{% set f = sample.values %}{{ f() | list }}{{ sample.answer }}",
]


@pytest.fixture(autouse=True)
def compute_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let columns compute what takes Jinja less time."""
    monkeypatch.setattr(planner, "_FEW_ROWS", 0)


def make_tidy(draw: random.Random) -> dict[str, object]:
    """Return a row in which each column has one type, or is null."""

    def sometimes(value: object) -> object:
        return None if draw.random() < 0.08 else value

    def text() -> str:
        return draw.choice(TEXTS)

    def option() -> dict[str, object]:
        return {"key": text(), "text": sometimes(text())}

    level = sometimes(draw.choice(WHOLE))
    tags = sometimes([sometimes(text()) for _ in range(draw.randrange(3))])
    meta = {"level": level, "tags": tags, "deep": sometimes({"key": sometimes(text())})}
    return {
        "question": sometimes(f"{text()} {draw.random()}"),
        "answer": sometimes(text()),
        "answer key": sometimes(text()),
        "choices": sometimes([sometimes(text()) for _ in range(draw.randrange(5))]),
        "options": sometimes([sometimes(option()) for _ in range(draw.randrange(4))]),
        "index": sometimes(draw.choice(WHOLE)),
        "numbers": sometimes([sometimes(draw.choice(FLOATS)) for _ in range(draw.randrange(3))]),
        "score": sometimes(draw.choice(FLOATS)),
        "flag": sometimes(draw.random() < 0.5),
        "items": sometimes(text()),
        "meta": sometimes(meta),
        "text_list": sometimes('["A", "B"]' if draw.random() < 0.8 else text()),
    }


def make_mixed(draw: random.Random) -> dict[str, object]:
    """Return a row in which cells have wandered off to other columns; such columns hold JSON text."""
    row = make_tidy(draw)
    names = list(row)
    for name in names:
        if draw.random() < 0.25:
            row[name] = row[draw.choice(names)]
    row["score"] = draw.choice([None, "x", *JSON_FLOATS, 0, 1, True])
    row["numbers"] = [draw.choice([1, 1.0, True, "1", None, -0.0]) for _ in range(draw.randrange(3))]
    return row


def make_text(draw: random.Random) -> dict[str, object]:
    """Return a row as a CSV file has it."""
    return {name: None if value is None else str(value) for name, value in make_tidy(draw).items()}


def build_samples(rows: list[dict[str, object]]) -> Samples:
    """Return the table of some rows, stored as a dataset would be."""
    return load_rows(rows, name="rows").samples


@cache
def make_tables() -> tuple[tuple[Samples, list[Row]], ...]:
    """Return tables of three kinds and of very different sizes, each with its rows as templates see them."""
    draw = random.Random(20_000)
    tables = []
    for size, make in (
        (1, make_tidy),
        (7, make_mixed),
        (ROWS // 2, make_tidy),
        (ROWS // 4, make_mixed),
        (ROWS - ROWS // 2 - ROWS // 4, make_text),
    ):
        samples = build_samples([make(draw) for _ in range(size)])
        tables.append((samples, list(samples.rows())))
    return tuple(tables)


def describe(value: object) -> str:
    """Return a value as text that tells types apart, and a trouble with all its parts."""
    if isinstance(value, RowError):
        return f"trouble: {value.message} / {value.hint} / {value.column} / {value.is_undefined}"
    return f"{type(value).__name__} {value!r}"


def evaluate_rows(template: Template, rows: list[Row]) -> Iterator[str]:
    """Yield what one row after the other yields on its own."""
    for row in rows:
        try:
            yield describe(template.evaluate(sample=row))
        except RowError as problem:
            yield describe(problem)


def render_rows(template: Template, rows: list[Row]) -> Iterator[str]:
    """Yield what is printed for one row after the other."""
    for row in rows:
        try:
            yield describe(template.render(sample=row))
        except RowError as problem:
            yield describe(problem)


def test_there_are_enough_templates() -> None:
    """Sixty at least, all different."""
    assert len(set(TEMPLATES)) == len(TEMPLATES) >= 60


@pytest.mark.parametrize("source", TEMPLATES)
def test_whole_tables_give_what_each_row_gives(source: str) -> None:
    """Values, distinct values and columns: the same values of the same types, the same troubles."""
    template = Template.compile(source)
    for samples, rows in make_tables():
        expected = list(evaluate_rows(template, rows))
        distinct = template.distinct(samples)
        assert list(map(describe, template.values(samples))) == expected
        assert list(map(describe, distinct.spread())) == expected
        assert len(set(map(describe, distinct.values))) == len(distinct.values)
        series = template.series(samples)
        assert series is None or list(map(describe, series.to_list())) == expected


@pytest.mark.parametrize("source", TEMPLATES)
def test_texts_are_what_render_prints(source: str) -> None:
    """The same text for each row, the same troubles with the same lines."""
    template = Template.compile(source)
    for samples, rows in make_tables():
        assert list(map(describe, template.texts(samples))) == list(render_rows(template, rows))


# Random templates of what columns compute -------------------------------------------------------------------

#: How many, and on how many rows each; the long series has 4,000 on 400.
RANDOM_TEMPLATES, RANDOM_ROWS = (4_000, 400) if os.environ.get("ANSWERKEY_LONG") else (60, 48)
PLACES = [
    *[
        "answer",
        "index",
        "flag",
        "choices",
        "options",
        "score",
        "numbers",
        "items",
        "meta.level",
        "meta.tags",
    ],
    *["meta.deep.key", "missing", "text_list", "answer", "index", "choices", "choices"],
]
CONSTANTS = [
    "'ABCD'",
    "'B'",
    "''",
    "'é😀'",
    "1",
    "0",
    "-1",
    "true",
    "2.5",
    "['A', 'b', 'A']",
    "none",
    "[1, 'A']",
]
FILTERS = [
    *["first", "last", "length", "int", "upper", "lower", "trim", "string", "list", "join(', ')", "join"],
    *["map('first') | list", "map('upper') | list", "map('first') | join('/')", "map('string') | list"],
    *["map(attribute='key') | list", "map(attribute='text') | join(', ')", "map('lower') | first"],
]
TESTS = ["is none", "is not none", "is defined"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


def make_expression(draw: random.Random, names: list[str], depth: int = 3) -> str:
    """Return an expression over the columns, and over names that a loop brings."""

    def inner() -> str:
        return make_expression(draw, names, depth - 1)

    if depth == 0 or draw.random() < 0.2:
        return draw.choice([draw.choice(CONSTANTS), *[f"sample.{draw.choice(PLACES)}"] * 3, *names * 2])
    whole = f"sample.{draw.choice(['index', 'index', 'meta.level', 'score'])}"
    place = draw.choice([whole, whole, f"({whole} - 1)", f"{inner()}", "0", "-1", "loop.index0"])
    makers = [
        lambda: f"'ABCD'[{place}]",
        lambda: f"['A', 'é', 'C'][{place}]",
        lambda: f"({inner()})[{place}]",
        lambda: f"({inner()}) | {draw.choice(FILTERS)}",
        lambda: f"(sample.choices | {draw.choice(FILTERS)})",
        lambda: f"(sample.options | {draw.choice(FILTERS)})",
        lambda: f"sample.choices.index({draw.choice(['sample.answer', inner()])})",
        lambda: (
            f"{draw.choice(['sample.meta.tags', repr('ABCD'), repr(['A', 'b']), inner()])}.index({inner()})"
        ),
        lambda: f"({inner()}).{draw.choice(['upper', 'lower', 'strip'])}()",
        lambda: f"({inner()} ~ {inner()})",
        lambda: f"({inner()} {draw.choice('+-')} {inner()})",
        lambda: f"({inner()} if {make_condition(draw, names, depth - 1)} else {inner()})",
        lambda: f"({make_condition(draw, names, depth - 1)})",
        lambda: f"[{inner()}, sample.answer, {inner()}]",
        lambda: f"[sample.answer, {draw.choice(['sample.items', repr('x')])}, sample['answer key']]",
    ]
    return draw.choice(makers)()


def make_condition(draw: random.Random, names: list[str], depth: int) -> str:
    """Return what is true or false, or counts as such."""
    if depth <= 0 or draw.random() < 0.4:
        first, second = (make_expression(draw, names, 0) for _ in range(2))
        kinds = [first, f"{first} {draw.choice(TESTS)}", f"{first} {draw.choice(COMPARISONS)} {second}"]
        return draw.choice(kinds)
    first, second = (make_condition(draw, names, depth - 1) for _ in range(2))
    value = make_expression(draw, names, depth - 1)
    compared = f"{value} {draw.choice(COMPARISONS)} {make_expression(draw, names, depth - 1)}"
    return draw.choice([f"not ({first})", f"({first}) and ({second})", f"({first}) or ({second})", compared])


LOOP_NAMES = [
    f"loop.{one}" for one in ("index", "index0", "first", "last", "length", "revindex", "revindex0")
]


def make_body(draw: random.Random, names: list[str], depth: int = 2) -> str:
    """Return text with expressions, conditions and loops in between."""
    pieces = []
    for _ in range(draw.randrange(1, 4)):
        kind = draw.randrange(5) if depth else draw.randrange(2)
        inside = make_body(draw, names, depth - 1) if kind in (2, 3) else ""
        if kind == 0:
            pieces.append(draw.choice(["A) ", "\n", " é ", ", "]))
        elif kind == 1:
            pieces.append(f"{{{{ {make_expression(draw, names, 2)} }}}}")
        elif kind in (2, 3):
            other = f"{{% else %}}{make_body(draw, names, 0)}" if draw.random() < 0.5 else ""
            if draw.random() < 0.3:
                other = f"{{% elif {make_condition(draw, names, 0)} %}}{make_body(draw, names, 0)}{other}"
            pieces.append(f"{{% if {make_condition(draw, names, 1)} %}}{inside}{other}{{% endif %}}")
        else:
            lists = ["sample.choices", "sample.choices", "sample.options", "sample.numbers", "sample.answer"]
            lists += ["'ABC'", "['x', 'y']", "sample.meta.tags", "sample.choices | map('first')"]
            name, source = draw.choice(["c", "c", "c", "sample"]), draw.choice(lists)
            if draw.random() < 0.3:
                name = draw.choice(["d, c", "d, c", "c, d", "c, c", "c, sample"])
                source = f"{source} | zip({draw.choice(lists)})"
            inner = [*names, "c", "d", "c.key", "c[0]", "'ABCD'[loop.index0]", *LOOP_NAMES]
            body = make_body(draw, inner, depth - 1)
            pieces.append(f"{{% for {name} in {source} %}}{body}{{% endfor %}}")
    return "".join(pieces)


def test_random_templates_give_what_each_row_gives() -> None:
    """The same values and texts of the same types, the same troubles; and many are computed by columns."""
    draw = random.Random(31)
    tables = []
    for size, make in (
        (RANDOM_ROWS, make_tidy),
        (RANDOM_ROWS // 4, make_text),
        (RANDOM_ROWS // 4, make_mixed),
    ):
        samples = build_samples([make(draw) for _ in range(size)])
        tables.append((samples, list(samples.rows())))
    computed = checked = 0
    for number in range(RANDOM_TEMPLATES):
        is_value = number % 2 == 0
        source = f"{{{{ {make_expression(draw, [])} }}}}" if is_value else make_body(draw, [])
        try:
            template = Template.compile(source)
        except SpecError:  # such as `none[0]`, which fails on every row
            continue
        computed += template.plan(tables[0][0], as_text=not is_value).kind.startswith("column")
        for samples, rows in tables:
            with suppress(TemplateStopped):  # it does too much on some rows
                expected, printed = list(evaluate_rows(template, rows)), list(render_rows(template, rows))
                assert list(map(describe, template.values(samples))) == expected, source
                assert list(map(describe, template.distinct(samples).spread())) == expected, source
                assert list(map(describe, template.texts(samples))) == printed, source
                checked += len(rows)
    assert computed >= RANDOM_TEMPLATES // 4
    assert checked >= RANDOM_TEMPLATES * RANDOM_ROWS  # three tables, of which hardly any is stopped
