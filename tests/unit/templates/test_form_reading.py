"""Laws of the reading of forms: which templates whole columns can compute."""

from __future__ import annotations

import pytest

from answerkey.templates.analysis import find_lone_expression
from answerkey.templates.compiling import parse_template
from answerkey.templates.form_reading import read_form, read_text_form
from answerkey.templates.forms import Column, Element, Field, Form, Letters, Text

A, B = Column("sample", "a"), Column("sample", "b")


def read(source: str) -> Form | None:
    """Return the form of a lone expression."""
    names = ("sample", "scores")
    return read_form(find_lone_expression(parse_template(f"{{{{ {source} }}}}", names)), names)


def read_text(source: str) -> Form | None:
    """Return the form of what a template prints."""
    return read_text_form(parse_template(source, ("sample",)), ("sample",))


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("sample.a", A),
        ("sample['a']", A),
        ("sample['a b']", Column("sample", "a b")),
        ("scores.s.x", Field(Column("scores", "s"), "x")),
        ("sample.a.k", Field(A, "k")),
        ("sample.a['k'].l", Field(Field(A, "k"), "l")),
        ("sample.a[0]", Element(A, 0)),
        ("sample.a[-1].k", Field(Element(A, -1), "k")),
        ("sample.a[sample.b]", Element(A, B)),
        ("sample.a[sample.b[0]]", Element(A, Element(B, 0))),
        ("sample.a | upper", Letters(A, "upper")),
        ("sample.a | trim | lower", Letters(Letters(A, "trim"), "lower")),
        ("sample.a | string", Text((A,))),
        ("sample.a.upper()", Letters(A, "upper", is_method=True)),
        ("sample.a.lower()", Letters(A, "lower", is_method=True)),
        ("sample.a.strip()", Letters(A, "trim", is_method=True)),
        ("sample.a ~ ') ' ~ 1", Text((A, ") ", "1"))),
        ("(sample.a ~ sample.b) | trim", Letters(Text((A, B)), "trim")),
    ],
)
def test_expressions_that_columns_compute(source: str, form: Form) -> None:
    """Columns, their parts, letters changed, text joined."""
    assert read(source) == form


@pytest.mark.parametrize(
    "source",
    [
        "sample",
        "sample[0]",
        "sample[sample.a]",
        "sample.a[1:]",
        "sample.a[true]",
        "sample.a[1.0]",
        "sample.a[sample.b | int]",
        "(sample.a | first).k",
        "sample.a | trim('x')",
        "sample.a | replace('a', 'b')",
        "(sample.a | first) | upper",
        "sample.upper()",
        "sample.a.strip('x')",
        "sample.a.title()",
        "(sample.a | first).upper()",
        "sample.a + 1",
        "sample.a ~ [1]",
        "sample.a ~ (sample.b | int)",
        "range(3)",
        "'a' ~ 'b'",
    ],
)
def test_expressions_that_only_jinja_computes(source: str) -> None:
    """Whatever else there is."""
    assert read(source) is None


@pytest.mark.parametrize(
    ("source", "form"),
    [
        ("<{{ sample.a }}>", Text(("<", A, ">"))),
        ("{{ sample.a }}{{ sample.b }}\n", Text((A, B))),
        (
            "{{ 1 }}{{ none }}{{ true }}{{ 1.50 }}{{ 'x' }}{{ sample.a }}",
            Text(("1", "None", "True", "1.5", "x", A)),
        ),
        ("a{# c #}{% raw %}{{{% endraw %}{{ sample.a }}", Text(("a", "{{", A))),
    ],
)
def test_text_around_columns(source: str, form: Form) -> None:
    """Literal text stays, values are printed in between."""
    assert read_text(source) == form


@pytest.mark.parametrize(
    "source",
    [
        "x",
        "{{ 3 }}",
        "{% if sample.a %}{{ sample.a }}{% endif %}",
        "{{ sample.a | int }}{{ sample.b }}",
        "{{ [1] }}{{ sample.a }}",
    ],
)
def test_text_that_only_jinja_prints(source: str) -> None:
    """Statements, other expressions, and text that needs no column."""
    assert read_text(source) is None
