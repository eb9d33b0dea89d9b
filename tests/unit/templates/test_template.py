"""Laws of `Template`: what it is, what it yields for a row and for a table."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame

from answerkey.errors import SpecError
from answerkey.templates import JsonText, RowError, Template, UnresolvedConfig
from answerkey.types import Completion, Row, Samples


def make_samples(columns: dict[str, list[object]], *, encoded: tuple[str, ...] = ()) -> Samples:
    """Return a table with numbered rows."""
    frame = pl.DataFrame(columns)
    ids = pl.Series([f"{number:06d}" for number in range(1, frame.height + 1)], dtype=pl.String)
    return samples_from_frame(frame, ids, encoded=frozenset(encoded))


def evaluate(source: object, **row: object) -> object:
    """Return the value of a template for a row with these columns."""
    return Template.compile(source).evaluate(sample=row)


def error_of(source: str, **row: object) -> RowError:
    """Return the error of a template with a row."""
    with pytest.raises(RowError) as caught:
        evaluate(source, **row)
    return caught.value


CASES = read_cases(__file__)
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("source", "row", "value"),
    [
        *CASES["values"],
        (DIGITS, {}, DIGITS),
        ("{{ sample.x['a'][0] ~ sample.x[0] }}", {"x": JsonText('{"a": [1]}')}, "1{"),
    ],
)
def test_a_template_yields_a_value(source: str, row: dict[str, object], value: object) -> None:
    """With its type: text is text, a lone expression what it is."""
    result = evaluate(source, **row)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize("value", CASES["texts"])
def test_text_is_never_retyped_and_never_run(value: str) -> None:
    """A text cell stays the very same text, alone and inside other text."""
    assert evaluate("{{ sample.x }}", x=value) == value
    assert evaluate("<{{ sample.x }}>", x=value) == f"<{value}>"


@pytest.mark.parametrize(("source", "value"), CASES["literals"])
def test_literals_are_constants(source: str, value: object) -> None:
    """What needs no row is known at once, delimiters inside quotes included."""
    template = Template.compile(source)
    assert template.kind == "constant"
    assert template.evaluate() == value


@pytest.mark.parametrize("source", [["A", "{{ sample.x }}"], 3, 1.5, True, None, {"a": 1}])
def test_a_value_other_than_text_is_a_constant(source: object) -> None:
    """A hard-coded list is the list; nothing in it is a template."""
    template = Template.compile(source)
    assert (template.kind, template.source, template.evaluate()) == ("constant", source, source)
    assert template.render() == str(source)
    assert template.paths_from("sample") == frozenset()


def test_a_template_may_loop_over_other_rows() -> None:
    """Names beside `sample` are those the caller gives."""
    template = Template.compile(
        "{% for e in examples %}{{ e.q }};{% endfor %}{{ sample.q }}", names=("sample", "examples")
    )
    assert template.evaluate(sample={"q": "c"}, examples=[Row(q="a"), {"q": "b"}]) == "a;b;c"


def test_a_missing_name_is_reported_with_the_existing_ones() -> None:
    """The error names the column, the nearest one and all of them; of a method how it is called."""
    problem = error_of("{{ sample.anser }}", answer="A", choices=[])
    assert problem.message == "`anser` is not a column"
    assert problem.hint == "did you mean `answer`? columns: `answer`, `choices`"
    assert problem.column == "anser"
    assert problem.is_undefined
    problem = error_of("{{ sample.meta.items | upper }}", meta={"a": 1})
    assert (problem.message, problem.hint) == ("there is no field `items`", "fields: `a`")


@pytest.mark.parametrize("source", CASES["missing_columns"])
def test_a_missing_column_fails_however_it_is_used(source: str) -> None:
    """Nothing turns a missing column into an empty text."""
    assert error_of(source, answer="A", choices=["A"]).column == "anser"


@pytest.mark.parametrize("source", CASES["uncalled_methods"])
def test_a_method_that_is_not_called_is_a_missing_column(source: str) -> None:
    """`sample.keys` without such a column is no value, and never the text of an address in
    memory.
    """
    assert error_of(source, key=1).column == "keys"


@pytest.mark.parametrize(("source", "message"), CASES["missing_parts"])
def test_a_missing_value_is_an_error_of_the_row(source: str, message: str) -> None:
    """An index out of range, a null on the way or a missing field is undefined, and says so."""
    row = {"choices": ["A", "B"], "null": None, "text": "1", "meta": {"key": 1}, "number": 3}
    problem = error_of(source, **row)
    assert problem.message == message
    assert problem.is_undefined
    assert problem.column is None


@pytest.mark.parametrize(("source", "kind", "columns", "path"), CASES["reads"])
def test_a_template_knows_what_it_reads(
    source: str, kind: str, columns: list[str], path: list[str | int] | None
) -> None:
    """Kind, columns and path follow from the syntax tree."""
    template = Template.compile(source)
    assert (template.kind, template.columns) == (kind, frozenset(columns))
    assert template.path == (path and tuple(path))


@pytest.mark.parametrize("source", CASES["reads_anything"])
def test_a_template_that_may_read_any_column_says_so(source: str) -> None:
    """Dynamic access, the row as a whole, and another thing named `sample` leave the columns
    open.
    """
    assert Template.compile(source).columns is None


NESTED = "{% for a in [1] %}" * 25 + "{% endfor %}" * 25
TOO_DEEP = "template does not parse: it is nested too deeply"


@pytest.mark.parametrize(
    ("source", "line", "message", "hint"),
    [*CASES["refused"], (NESTED, None, TOO_DEEP, "nest fewer blocks")],
)
def test_an_invalid_template_is_refused_when_compiled(
    source: str, line: int | None, message: str, hint: str | None
) -> None:
    """Syntax, unknown filters, tests and names are errors before any row is read."""
    with pytest.raises(SpecError) as caught:
        Template.compile(source)
    error = caught.value
    assert (error.code, error.message, error.hint) == ("E112", message, hint)
    assert error.where is not None
    assert error.where.line == line


@pytest.mark.parametrize(
    "source", ["{{ " + "9" * 5000 + " }}", "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"]
)
def test_a_monstrous_template_is_refused_too(source: str) -> None:
    """No exception of Jinja or Python escapes from compiling."""
    with pytest.raises(SpecError, match=r"template does not parse|of 5,000 digits is too long"):
        Template.compile(source)


def test_config_that_was_not_filled_in_is_an_error_of_its_own() -> None:
    """A template with `<< config.x >>` left in it is not compiled."""
    with pytest.raises(UnresolvedConfig) as caught:
        Template.compile("{{ sample.<< config.col >> }} << config.b >>")
    assert (caught.value.code, caught.value.names) == ("E110", ("col", "b"))


def test_a_template_can_be_sent_to_another_process() -> None:
    """A pickled template is compiled again from its source."""
    template = pickle.loads(  # noqa: S301 - our own bytes
        pickle.dumps(Template.compile("{{ examples[0] }}", names=("sample", "examples")))
    )
    assert template.evaluate(sample={}, examples=["a"]) == "a"


def test_error_can_be_sent_to_another_process() -> None:
    """Every part of an error survives pickling."""
    problem = pickle.loads(pickle.dumps(RowError("m", hint="h", column="c", is_undefined=True)))  # noqa: S301 - our own bytes
    assert (problem.message, problem.hint, problem.column, problem.is_undefined) == (
        "m",
        "h",
        "c",
        True,
    )


def test_a_long_message_is_cut() -> None:
    """A message may quote what a template made; more of it says no more."""
    assert len(RowError("m" * 9999).message) == 2001


def test_values_of_a_missing_column_fail_in_every_row_and_list_all_columns() -> None:
    """The hint knows the whole table, not only the columns that are read."""
    samples = make_samples({"answer": ["A"], "choices": ["AB"]})
    several = "x {{ sample.anser }} {{ sample.choices }}"
    for source in ("{{ sample.anser }}", "{{ sample.anser | upper }}", several):
        (problem,) = Template.compile(source).values(samples)
        assert isinstance(problem, RowError)
        assert problem.column == "anser"
        assert problem.hint == "did you mean `answer`? columns: `answer`, `choices`"


def test_values_of_an_uncalled_method_may_be_called_later() -> None:
    """`{% set f = sample.items %}` reads the whole row when no column has that name."""
    samples = make_samples({"a": [1, 2], "b": [3, 4]})
    template = Template.compile("{% set f = sample.values %}{{ f() | list }}{{ sample.a }}")
    assert template.values(samples) == ["[1, 3]1", "[2, 4]2"]


@pytest.mark.parametrize(
    "source",
    ["{{ ''.f ~ 'x' }}", "a {{ 1 if ''.f else 2 }}", "{{ ''.f and 1 }}", "{{ 'x' ~ [''.f] }}"],
)
def test_a_constant_that_has_no_value_is_an_error_on_every_row(source: str) -> None:
    """Nothing is computed while a template is compiled."""
    assert error_of(source).message == "text has no field `f`"


def test_a_trace_has_its_methods() -> None:
    """A mapping that is an exchange answers to the methods of one.

    Any other mapping has no such name.
    """
    trace = Completion("B", prompt=[{"role": "user", "content": "Q"}]).solver_output()["trace"]
    assert evaluate("{{ sample.x.get_last_assistant_text() }}", x=trace) == "B"
    with pytest.raises(RowError, match="there is no field `get_last_assistant_text`"):
        evaluate("{{ sample.x.get_last_assistant_text() }}", x={"items": 1})


@pytest.mark.parametrize(("source", "text"), [(3, "3"), ("plain", "plain"), (" {{ 'a' }}!", " a!")])
def test_the_text_of_a_constant_is_the_same_in_every_row(source: object, text: str) -> None:
    """A number stands for itself; white space around an expression is printed."""
    samples = make_samples({"x": ["a", "b"]})
    assert list(map(str, Template.compile(source).values(samples))) == [text, text]


@pytest.mark.parametrize("source", CASES["sandbox"])
def test_a_template_cannot_reach_out_or_change_a_value(source: str) -> None:
    """The sandbox holds."""
    choices = ["B", "A"]
    assert not error_of(source, choices=choices).is_undefined
    assert choices == ["B", "A"]
