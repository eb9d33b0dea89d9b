"""The column form of a template is its row form, row by row."""

from __future__ import annotations

import json

import jinja2
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.errors import SpecError
from answerkey.templates import ConfigValue, RowError, Template, embed_config
from answerkey.templates.config import find_placeholders
from answerkey.templates.environment import open_environment
from answerkey.types import Samples

SOURCES = [
    "A",
    "{{ ['A', 'B'] }}",
    "{{ sample.a }}",
    "{{ sample['b c'] }}",
    "{{ sample.items }}",
    "{{ sample.missing }}",
    "{{ sample.a.k }}",
    "{{ sample.a[0] }}",
    "{{ sample.a.items }}",
    "{{ sample.keys }}",
    "{{ sample.keys() | list }}",
    "<{{ sample.a }}>",
    "{{ sample.a }}{{ sample['b c'] }}",
    "{{ sample.a == sample['b c'] }}",
    "{{ sample.a is string }}",
    "{{ sample.a | tojson }}",
    "{{ sample.a | upper }}",
    "{{ 1 / sample.a }}",
    "{{ sample.a[sample['b c']] }}",
    "{{ sample.a | map(attribute='k') }}",
    "{{ sample | tojson }}",
    "{% for x in sample.a %}{{ x }},{% endfor %}",
    "{{ sample.missing | default(sample.a) }}",
    "{{ sample.a if sample.items }}",
    "{{ 1 / 0 }}",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, -1, 0.0, -0.0, 1.0, 2.5]),
    st.sampled_from(["", "1", "0", "None", "a", "{{ 7*7 }}", "007"]),
    st.text(max_size=3),
)
MAPPINGS = st.dictionaries(st.sampled_from(["k", "items", "x"]), SCALARS, max_size=2)
CELLS = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), MAPPINGS)
TOKENS = "{{ }} {{- -}} {% %} {# #} ' \" \\ ( ) [ ] { } . sample sample.a upper tojson 1 0 endif x"
PIECES = [
    *TOKENS.split(), "{% raw %}", "{%- raw -%}", "{% endraw %}", " ", "\n", " | ", " / ", "if ",
    "for x in ", "endfor", *["<< config.x >>"] * 2,
]  # fmt: skip
ROWS = st.lists(st.fixed_dictionaries({"a": CELLS, "b c": CELLS, "items": CELLS}), max_size=8)


def make_samples(rows: list[dict[str, object]]) -> Samples:
    """Return a table whose columns are all encoded."""
    columns = ["a", "b c", "items"]
    texts = [[json.dumps(row[name]) for name in columns] for row in rows]
    frame = pl.DataFrame(texts, dict.fromkeys(columns, pl.String), orient="row")
    frame = frame.with_columns(pl.all().replace("null", None))
    ids = pl.Series([str(n) for n in range(len(rows))], dtype=pl.String)
    return samples_from_frame(frame, ids, encoded=frozenset(columns))


def describe(value: object) -> str:
    """Return a value as text that tells types apart, and a trouble with all its parts."""
    if isinstance(value, RowError):
        return f"trouble: {value.message} / {value.hint} / {value.column} / {value.is_undefined}"
    return f"{type(value).__name__} {value!r}"


def evaluate_row(template: Template, row: dict[str, object]) -> object:
    """Return the value of one row, or its trouble."""
    try:
        return template.evaluate(sample=row)
    except RowError as problem:
        return problem


@given(ROWS, st.sampled_from(SOURCES))
def test_values_are_those_of_each_row(rows: list[dict[str, object]], source: str) -> None:
    """For all tables and templates: the same values, the same types, the same rows in the same
    trouble.
    """
    template = Template.compile(source)
    by_column = [describe(value) for value in template.values(make_samples(rows))]
    by_row = [describe(evaluate_row(template, row)) for row in make_samples(rows).rows()]
    assert by_column == by_row


CHARACTERS = st.sampled_from("{}%#'\"\\<>\n -ax7*cofig.") | st.characters(codec="utf-8")


@given(st.text(CHARACTERS, max_size=20))
def test_a_config_text_is_printed_never_run(value: str) -> None:
    """For all values: in text, in quotes, in a raw block and alone, the value comes out as it went
    in.
    """

    def fill(text: str) -> object:
        source = embed_config(text, lambda _: ConfigValue(value), is_template=True)
        return Template.compile(source).evaluate(sample={value: "found"})

    assert fill("<< config.x >>") == value
    assert fill("{<< config.x >>{ {{ 1 }}") == f"{{{value}{{ 1"
    assert fill("{{ 'a<< config.x >>' }}") == f"a{value}"
    assert fill('{{ "a<< config.x >>" }}') == f"a{value}"
    assert fill("{% raw %}{<< config.x >>%}{% endraw %}.") == f"{{{value}%}}."
    assert fill("{{ sample.<< config.x >> }}") == "found"


def stand_by_lexer(text: str) -> list[str] | None:
    """Return where Jinja's lexer sees the placeholders, names in their place.

    None for what it refuses.
    """
    kinds = {"data": "text", "comment": "comment", "string": "quoted", "name": "code"}
    results: list[str] = []
    is_raw = False
    try:
        for _, kind, value in open_environment().lex(text.replace("<< config.x >>", "\u01c1")):
            is_raw = kind == "raw_begin" or (is_raw and kind != "raw_end")
            region = "raw" if is_raw else kinds.get(kind, "code")
            results.extend([region] * value.count("\u01c1"))
    except jinja2.TemplateSyntaxError:
        return None
    return results


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_placeholders_stand_where_jinjas_lexer_sees_them(text: str) -> None:
    """For all texts that Jinja can read: the scanner and the lexer agree."""
    expected = stand_by_lexer(text)
    if expected is not None:
        regions = {"": "text", "raw": "raw", "{#": "comment", "'": "quoted", '"': "quoted"}
        spots = find_placeholders(text)
        assert [regions.get(spot.opener, "code") for spot in spots] == expected


@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join), CELLS)
def test_only_our_own_errors_leave_a_template(text: str, cell: object) -> None:
    """For all texts: compiling raises nothing but SpecError, a row raises nothing but RowError."""
    try:
        template = Template.compile(text)
    except SpecError:
        return
    try:
        template.evaluate(sample={"a": cell})
        template.render(sample={"a": cell})
    except RowError:
        return
