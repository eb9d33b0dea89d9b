"""Laws of rendering many rows in one context: no row sees anything of the one before."""

from __future__ import annotations

import polars as pl
import pytest

from answerkey.templates import RowTrouble, Template
from answerkey.types import Samples


def make_samples(*encoded: str, **columns: object) -> Samples:
    """Return a table of these columns."""
    frame = pl.DataFrame(columns, strict=False)
    return Samples(frame, pl.Series([str(n) for n in range(frame.height)]), encoded=frozenset(encoded))


def values(source: str, samples: Samples) -> list[object]:
    """Return the value of every row, its message where it is in trouble."""
    found = Template.compile(source).values(samples)
    return [one.message if isinstance(one, RowTrouble) else one for one in found]


def test_what_a_row_sets_is_gone_in_the_next() -> None:
    """Names, macros and namespaces are made anew."""
    samples = make_samples(x=[1, 0, 2])
    source = "{% macro m() %}{{ sample.x }}{% endmacro %}{% set y = m() %}{{ y ~ m() }}"
    assert values(source, samples) == ["11", "00", "22"]
    source = "{% set n = namespace(v=0) %}{% set n.v = n.v + sample.x %}{{ n.v }}"
    assert values(source, samples) == ["1", "0", "2"]


def test_a_row_that_fails_leaves_nothing_behind() -> None:
    """Not even where it failed inside a block that changes how text is printed."""
    samples = make_samples(x=[1, 0, 1], t=["<", "<<", "<<<"])
    source = "{{ sample.t }}{% autoescape true %}{{ 1 // sample.x }}{{ sample.t }}{% endautoescape %}"
    assert values(source, samples) == ["<1&lt;", "division by zero", "<<<1&lt;&lt;&lt;"]


def test_leaving_a_block_early_leaves_nothing_behind() -> None:
    """A loop that is broken off inside a block."""
    samples = make_samples(t=["<", ">"])
    source = "{{ sample.t }}{% for x in [1] %}{% autoescape true %}{% break %}{% endautoescape %}{% endfor %}"
    assert values(source, samples) == ["<", ">"]


def test_each_row_has_all_of_its_steps() -> None:
    """The limits are for one row."""
    samples = make_samples(x=list(range(30)))
    source = "{% for i in range(60000) %}{% endfor %}{{ sample.x }}"
    assert values(source, samples) == [str(number) for number in range(30)]


def test_lazy_values_are_read_before_the_next_row() -> None:
    """What a generator would see later is the row it belongs to."""
    samples = make_samples(x=[["a"], ["b", "c"]])
    assert values("{{ sample.x | map('upper') }}", samples) == [["A"], ["B", "C"]]
    assert values("{{ sample | map('upper') }}", samples) == [["X"], ["X"]]
    assert values("{{ sample }}", samples) == [{"x": ["a"]}, {"x": ["b", "c"]}]


def test_values_of_a_row_cannot_be_changed() -> None:
    """In any row."""
    samples = make_samples(x=[["a"], ["b"]])
    message = "not allowed in a template: `append` would change a value of the row"
    assert values("{% do sample.x.append('c') %}{{ sample.x }}", samples) == [message, message]


def test_trouble_in_a_long_template_names_the_line() -> None:
    """In texts as in values."""
    samples = make_samples(x=[0, 1])
    assert values("a\n{{ 1 // sample.x }}\nb", samples) == [
        "division by zero (line 2 of the template)",
        "a\n1\nb",
    ]


def test_a_text_that_is_too_long_is_the_rows_trouble() -> None:
    """Longer than a template may print; the row after it is not."""
    samples = make_samples(x=["y" * 6_000_000, "z"])
    message = "the template prints 12,000,000 characters; 10,000,000 are allowed"
    assert values("{{ sample.x }}{{ sample.x }}", samples) == [message, "zz"]
    assert values("{{ sample.x ~ sample.x }}", samples) == [
        "the template makes a value of 12,000,000 elements; 10,000,000 are allowed",
        "zz",
    ]


def test_a_lone_path_is_followed_without_jinja() -> None:
    """Through encoded cells, with the values and the troubles that Jinja has."""
    samples = make_samples("x", x=['{"k": [1, 2]}', '{"k": null}', '{"j": 1}', "null", None, "3"])
    assert values("{{ sample.x.k }}", samples) == [
        [1, 2],
        None,
        "there is no field `k`",
        "null has no field `k`",
        "null has no field `k`",
        "a number has no field `k`",
    ]
    assert values("{{ sample.x.k[-1] }}", samples)[:2] == [2, "null has no element -1"]
    assert values("{{ sample.x.items }}", samples)[0] == "there is no field `items`"


@pytest.mark.parametrize("source", ["{{ 1 / 0 }}", "{{ sample.x }}{{ 1 / 0 }}"])
def test_tables_without_columns_have_rows_all_the_same(source: str) -> None:
    """Each is in the same trouble."""
    samples = Samples(pl.DataFrame(), pl.Series(["1", "2"]))
    found = values(source, samples)
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_template_may_read_two_tables() -> None:
    """Row for row; a missing key of the other table is a missing field."""
    samples, scores = make_samples(x=["a", "b", "a"]), make_samples(s=[{"v": 1}, {"v": 1}, {"v": 2}])
    template = Template.compile("{{ sample.x ~ (scores.s.v + 1) }}", names=("sample", "scores"))
    assert template.values(samples, scores=scores) == ["a2", "b2", "a3"]
    whole = Template.compile("{{ sample }}{{ scores }}", names=("sample", "scores"))
    assert whole.values(samples, scores=scores)[1] == "{'x': 'b'}{'s': {'v': 1}}"
    missing = Template.compile("{{ sample.x ~ scores.t }}", names=("sample", "scores"))
    (trouble, *_) = missing.values(samples, scores=scores)
    assert isinstance(trouble, RowTrouble)
    assert (trouble.message, trouble.hint) == ("there is no field `t`", "fields: `s`")


def test_a_name_without_a_table_is_undefined() -> None:
    """In every row."""
    template = Template.compile("{{ scores.s }}{{ sample.x }}", names=("sample", "scores"))
    first, second = template.values(make_samples(x=["a", "b"]))
    assert isinstance(first, RowTrouble)
    assert isinstance(second, RowTrouble)
    assert first.message == second.message == "`scores` is not defined in this row"
