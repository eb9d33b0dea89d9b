"""Laws of the planner: which way a template goes, in words, and what comes of it."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.templates import Plan, RowTrouble, Template
from answerkey.types import Samples


def make_samples(*encoded: str, **columns: object) -> Samples:
    """Return a table of these columns."""
    frame = pl.DataFrame(columns, strict=False)
    return Samples(frame, pl.Series([str(n) for n in range(frame.height)]), encoded=frozenset(encoded))


TABLE = make_samples(
    "mixed",
    a=["x", None],
    n=[1, 2],
    f=[0.5, None],
    choices=[["A"], None],
    meta=[{"k": "x", "items": 1}, None],
    mixed=["1", '"1"'],
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("A", "constant"),
        ("{{ ['A'] }}", "constant"),
        ("{{ sample.a }}", "column `a`"),
        ("{{ sample.meta.k }}", "column `meta.k`"),
        ("{{ sample.meta.items }}", "column `meta.items`"),
        ("{{ sample.a | upper }}", "column expression `a`"),
        ("{{ sample.a }}) {{ sample.n }}", "column expression `a`, `n`"),
        ("{{ sample.choices[sample.n] }}", "column expression `choices`, `n`"),
        ("{{ sample.choices[0] }}", "column expression `choices.0`"),
        ("{{ sample.mixed }}", "once per distinct value of `mixed`"),
        ("{{ sample.mixed }}{{ sample.a }}", "once per distinct tuple of `a`, `mixed`"),
        ("{{ sample.a | length }}", "once per distinct value of `a`"),
        ("{{ sample.meta.k | length }}{{ sample.meta }}", "once per distinct value of `meta`"),
        ("{{ sample.choices['k'] }}", "once per distinct value of `choices.k`"),
        ("{{ range(3) }}", "once for all rows"),
        ("{{ sample.missing }}", "once per distinct value of `missing`"),
        ("{{ sample | tojson }}", "row by row: it uses the row as a whole"),
        ("{{ sample[sample.a] }}", "row by row: it uses the row as a whole"),
        (
            "{{ sample.keys | list }}",
            "row by row: there is no column `keys`, which leaves the method of the row",
        ),
        ("{{ sample.keys }}", "once per distinct value of `keys`"),
    ],
)
def test_the_plan_of_a_template_in_words(source: str, words: str) -> None:
    """A column where that is exact, each distinct tuple once where not, rows where nothing else is left."""
    assert str(Template.compile(source).plan(TABLE)) == words


def test_the_plan_of_a_text_is_that_of_what_is_printed() -> None:
    """A column that is printed is an expression."""
    assert Template.compile("{{ sample.a }}").plan(TABLE, as_text=True).kind == "column expression"
    assert Template.compile("{{ sample.a }}").plan(TABLE).kind == "column"


def test_a_template_that_reads_another_name_goes_row_by_row_unless_its_table_comes_later() -> None:
    """The reason names it."""
    template = Template.compile("{{ scores.s }}{{ sample.a }}", names=("sample", "scores"))
    assert template.plan(TABLE) == Plan(
        "rows", ("a", "scores.s"), "it reads `scores`, which the dataset does not have"
    )
    assert template.plan(TABLE, later=["scores"]) == Plan("distinct", ("a", "scores.s"))
    whole = Template.compile("{{ scores | length }}", names=("sample", "scores"))
    assert whole.plan(TABLE, later=["scores"]) == Plan("rows", ("scores",), "it uses `scores` as a whole")


def test_a_plan_looks_at_no_values() -> None:
    """An empty table has the same plan."""
    empty = TABLE.slice(0, 0)
    for source in ("{{ sample.a | upper }}", "{{ sample.mixed }}", "{{ sample | tojson }}"):
        assert Template.compile(source).plan(empty) == Template.compile(source).plan(TABLE)


def test_rows_that_columns_cannot_decide_are_rendered() -> None:
    """The others keep what the column has."""
    samples = make_samples(a=["b", "ß", None, "b", "ß"])
    template = Template.compile("{{ sample.a.upper() }}")
    first, second, third, *rest = template.values(samples)
    assert (first, second, rest) == ("B", "SS", ["B", "SS"])
    assert isinstance(third, RowTrouble)
    distinct = template.distinct(samples)
    assert distinct.codes.to_list() == [0, 1, 2, 0, 1]
    assert template.series(samples) is None


def test_a_column_has_no_row_in_trouble() -> None:
    """Rows that are rendered take their place in it if they are text."""
    template = Template.compile("{{ sample.a | upper }}")
    series = template.series(make_samples(a=["b", "ß", None]))
    assert series is not None
    assert series.to_list() == ["B", "SS", "NONE"]
    assert Template.compile("{{ sample.a[0] }}").series(make_samples(a=[[1], []])) is None
    assert Template.compile("{{ sample.a | length }}").series(make_samples(a=["x"])) is None
    assert Template.compile("A").series(make_samples(a=["x"])) is None


def test_a_column_of_the_table_is_left_as_it_is() -> None:
    """What is put in place of undecided rows is put into a copy."""
    samples = make_samples(meta=[{"k": "x"}, {"k": "y" * 3}, None])
    template = Template.compile("{{ sample.meta.k | trim }}")
    assert template.series(samples) is None
    assert samples.frame["meta"].to_list() == [{"k": "x"}, {"k": "yyy"}, None]


def test_distinct_values_of_a_column_are_found_by_columns() -> None:
    """Lists too; and values that columns cannot tell apart by Python."""
    lists = make_samples(a=[["A", "B"], ["A"], ["A", "B"], None])
    distinct = Template.compile("{{ sample.a }}").distinct(lists)
    assert (distinct.values, distinct.codes.to_list()) == ([["A", "B"], ["A"], None], [0, 1, 0, 2])
    zeros = Template.compile("{{ sample.a }}").distinct(make_samples(a=[[0.0], [-0.0], [0.0]]))
    assert (repr(zeros.values), zeros.codes.to_list()) == ("[[0.0], [-0.0]]", [0, 1, 0])


def test_a_constant_is_one_distinct_value() -> None:
    """Whatever the table has."""
    distinct = Template.compile(["A", "B"]).distinct(TABLE)
    assert (distinct.values, distinct.codes.to_list()) == ([["A", "B"]], [0, 0])


def test_distinct_values_are_rendered_once_per_tuple_and_told_once() -> None:
    """Two tuples with the same value share one number."""
    samples = make_samples(a=["x", "yy", "zz", "x"])
    distinct = Template.compile("{{ sample.a | length }}").distinct(samples)
    assert (distinct.values, distinct.codes.to_list()) == ([1, 2], [0, 1, 1, 0])
    rows = Template.compile("{{ sample | length }}").distinct(samples)
    assert (rows.values, rows.codes.to_list()) == ([1], [0, 0, 0, 0])


def test_texts_print_the_white_space_around_a_lone_expression() -> None:
    """As `render` does for one row."""
    samples = make_samples(a=["x", None])
    assert Template.compile(" {{ sample.a }}\n\n").texts(samples) == [" x\n", " None\n"]
    assert Template.compile("A\n").texts(samples) == ["A", "A"]
    assert Template.compile("{{ ['A'] }} ").texts(samples) == ["['A'] ", "['A'] "]
    assert Template.compile(["A"]).texts(samples) == ["['A']", "['A']"]
    (trouble, *_) = Template.compile("{{ sample.b }}").texts(samples)
    assert isinstance(trouble, RowTrouble)
