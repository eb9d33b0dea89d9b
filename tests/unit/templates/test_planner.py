"""Laws of the planner: which way a template goes, and what columns compute exactly."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest

from answerkey.templates import Plan, RowError, Template, planner
from answerkey.templates import values as template_values
from answerkey.templates.analysis import Path, Step
from answerkey.templates.columns import (
    Computed,
    bound_total,
    find_value_keys,
    group_rows,
    print_cells,
    weigh_cells,
)
from answerkey.templates.planner import find_keys, number_values
from answerkey.templates.values import measure
from answerkey.types import Samples


@pytest.fixture(autouse=True)
def compute_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let columns compute what takes Jinja less time."""
    monkeypatch.setattr(planner, "_FEW_ROWS", 0)


def make_samples(*encoded: str, **columns: object) -> Samples:
    """Return a table of these columns."""
    frame = pl.DataFrame(columns, strict=False)
    ids = pl.Series([str(n) for n in range(frame.height)], dtype=pl.String)
    return Samples(frame, ids, encoded=frozenset(encoded))


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
        ("{{ sample.a | title }}", "once per distinct value of `a`"),
        ("{{ sample.meta.k | title }}{{ sample.meta }}", "once per distinct value of `meta`"),
        ("{% for c in sample.choices %}{{ c }}{% endfor %}", "column expression `choices`"),
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
    assert isinstance(third, RowError)
    distinct = template.distinct(samples)
    assert distinct.codes.to_list() == [0, 1, 2, 0, 1]
    assert template.series(samples) is None


def test_a_column_has_no_row_in_error() -> None:
    """Rows that are rendered take their place in it if they are text."""
    template = Template.compile("{{ sample.a | upper }}")
    series = template.series(make_samples(a=["b", "ß", None]))
    assert series is not None
    assert series.to_list() == ["B", "SS", "NONE"]
    assert Template.compile("{{ sample.a[0] }}").series(make_samples(a=[[1], []])) is None
    assert Template.compile("{{ sample.a | title }}").series(make_samples(a=["x"])) is None
    assert Template.compile("A").series(make_samples(a=["x"])) is None


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
    (problem, *_) = Template.compile("{{ sample.b }}").texts(samples)
    assert isinstance(problem, RowError)


X = ...  # in place of a value: this row is left to Jinja

LISTS = [["x", "y"], ["x"], [], None, [None, None]]

BLANKS = "".join(chr(code) for code in range(128) if chr(code).isspace())


def compute(source: str, samples: Samples) -> list[object] | None:
    """Return what columns compute for a template: a value per row, `...` where it is not exact."""
    computed = Template.compile(source)._programs[0]._compute({"sample": samples})
    if computed is None:
        return None
    good = computed.good
    return [
        value if good is None or good[row] else ... for row, value in enumerate(computed.series.to_list())
    ]


@pytest.mark.parametrize(
    ("source", "columns", "values"),
    [
        *[
            ("{{ sample.a }}", {"a": cells}, cells)
            for cells in (["x", None], [1, None], [1.5, None], [True], [["x"], None], [{"k": [1]}, None])
        ],
        ("{{ sample['a b'] }}", {"a b": [1]}, [1]),
        ("{{ sample.a.k }}", {"a": [{"k": 1}, {"k": None}]}, [1, None]),
        ("{{ sample.a['k'] }}", {"a": [{"k": 1}, None, {"k": None}]}, [1, X, None]),
        ("{{ sample.a.k.l }}", {"a": [{"k": {"l": 1}}, None, {"k": None}]}, [1, X, X]),
        ("{{ sample.a[1] }}", {"a": LISTS}, ["y", X, X, X, None]),
        ("{{ sample.a[-1] }}", {"a": LISTS}, ["y", "x", X, X, None]),
        ("{{ sample.a[-2] }}", {"a": LISTS}, ["x", X, X, X, None]),
        ("{{ sample.a[-1].k }}", {"a": [[{"k": 1}, {"k": 2}], []]}, [2, X]),
        ("{{ sample.a[0] }}", {"a": [["x"]]}, ["x"]),
        (
            "{{ sample.a[sample.b] }}",
            {"a": [["x", "y"]] * 7, "b": [0, 1, -2, 2, None, 2**62, -(2**40)]},
            ["x", "y", "x", X, X, X, X],
        ),
        ("{{ sample.a[sample.b[0]] }}", {"a": [["x", "y"], ["x"]], "b": [[1], []]}, ["y", X]),
        ("{{ sample.a[1] }}", {"a": ["aé", "e\u0301", "a", "", None]}, ["é", "\u0301", X, X, X]),
        ("{{ sample.a[sample.b] }}", {"a": ["日本", "a"], "b": [-1, 1]}, ["本", X]),
        ("{{ sample.a | upper }}", {"a": ["aB ", None, "ß ", ""]}, ["AB ", "NONE", X, ""]),
        ("{{ sample.a | lower }}", {"a": ["aB ", None, "ß ", ""]}, ["ab ", "none", X, ""]),
        ("{{ sample.a | trim }}", {"a": ["aB ", None, "ß ", ""]}, ["aB", "None", X, ""]),
        ("{{ sample.a | trim | lower }}", {"a": [" A "]}, ["a"]),
        ("{{ sample.a | trim }}", {"a": [f"{BLANKS}a{BLANKS}", "\x00a\x7f"]}, ["a", "\x00a\x7f"]),
        ("{{ sample.a.upper() }}", {"a": ["a", None]}, ["A", X]),
        ("{{ sample.a.lower() }}", {"a": ["A"]}, ["a"]),
        ("{{ sample.a.strip() }}", {"a": [" a "]}, ["a"]),
        ("{{ sample.a | string }}", {"a": [1, None]}, ["1", "None"]),
        ("<{{ sample.a }}>", {"a": ["x", None]}, ["<x>", "<None>"]),
        ("{{ sample.a }}.", {"a": [True, False, None]}, ["True.", "False.", "None."]),
        ("{{ sample.a }}.", {"a": [-1, 2**62, None]}, ["-1.", f"{2**62}.", "None."]),
        ("{{ sample.a }}|", {"a": [1.0, 1e16, 0.0, -0.0]}, ["1.0|", "1e+16|", "0.0|", "-0.0|"]),
        ("{{ sample.a }}.", {"a": [["x", None], [], None]}, ["['x', None].", "[].", "None."]),
        ("{{ sample.a }}.", {"a": [{"k": 0.1}]}, ["{'k': 0.1}."]),
        ("{{ sample.a }}/{{ sample.b }}", {"a": ["x", "y"], "b": [1, None]}, ["x/1", "y/None"]),
        ("{{ sample.a ~ ') ' ~ 1 ~ none }}", {"a": ["x"]}, ["x) 1None"]),
        ("{{ (sample.a ~ sample.b) | trim }}", {"a": [" x"], "b": ["y "]}, ["xy"]),
        ("a{# c #}{% raw %}{{{% endraw %}{{ 1.50 }}{{ sample.a }}", {"a": ["x"]}, ["a{{1.5x"]),
        (
            "{{ sample.a[0] }} {{ sample.b | upper }}",
            {"a": [["x"], [], ["x"]], "b": ["y", "y", "ß"]},
            ["x Y", X, X],
        ),
        ("<{{ sample.a }}>", {"a": pl.Series([], dtype=pl.String)}, []),
        ("{{ sample.a[2147483648] }}", {"a": [["x"]]}, [X]),
        ("{{ 'ABé'[sample.a] }}", {"a": [0, 2, -1, -3, 3, -4, None, 2**40]}, [*"AééA", X, X, X, X]),
        ("{{ ['x', 'yy'][sample.a] }}", {"a": [0, 1, 2]}, ["x", "yy", X]),
        (
            "{{ 'AB'[sample.a | int] }}",
            {"a": ["1", "-2", " 1", "1_0", None, "9" * 19]},
            ["B", "A", X, X, X, X],
        ),
        ("{{ sample.a | int + 1 }}", {"a": [1, None]}, [2, 1]),
        ("{{ 'ABC'[sample.a - 1] }}", {"a": [1, 3, None, -(2**62)]}, ["A", "C", X, X]),
        ("{{ '(' + sample.a + ')' }}", {"a": ["x", None, "y" * 20_000]}, ["(x)", X, X]),
        ("{{ sample.a | first }}", {"a": ["xy", "", None]}, ["x", X, X]),
        ("{{ sample.a | last }}", {"a": [[1, 2], [], None]}, [2, X, X]),
        ("{{ sample.a | length }}", {"a": ["e\u0301", None]}, [2, X]),
        ("{{ sample.a | count }}", {"a": [["x", None], [], None]}, [2, 0, X]),
        (
            "{{ sample.a | map('first') | list }}",
            {"a": [["xy", "😀z"], [""], [None], [], None, ["x"] * 1_001, ["y"]]},
            [["x", "😀"], X, X, [], X, X, ["y"]],
        ),
        ("{{ sample.a | map('first') | list }}", {"a": [["xy", "z"], ["a", "b"]]}, [["x", "z"], ["a", "b"]]),
        ("{{ sample.a | map('upper') | list }}", {"a": [["x", "z"], ["ß"]]}, [["X", "Z"], X]),
        ("{{ sample.a | map('string') | list }}", {"a": [["x"], [None]]}, [["x"], X]),
        (
            "{{ sample.a | map(attribute='k') | list }}",
            {"a": [[{"k": "x"}, {"k": None}], [None], []]},
            [["x", None], X, []],
        ),
        (
            "{{ sample.a | join(', ') }}",
            {"a": [["x", "y"], [], [None], None, ["z" * 20_000]]},
            ["x, y", "", X, X, X],
        ),
        ("{{ sample.a | list | join }}", {"a": [["x", "y"]]}, ["xy"]),
        (
            "{{ sample.a.index(sample.b) }}",
            {
                "a": [["x", "y", "y"], ["x"], [], None, [None, "x"], ["x"]],
                "b": ["y", "y", "x", "x", "x", None],
            },
            [1, X, X, X, 1, X],
        ),
        ("{{ 'ABCB'.index(sample.a) }}", {"a": ["B", "CB", "", "x", None]}, [1, 2, 0, X, X]),
        ("{{ ['A', 'B', 'A'].index(sample.a) }}", {"a": ["A", "B", "AB"]}, [0, 1, X]),
        (
            "{{ sample.a if sample.b else 'none' }}",
            {"a": ["x", "y", None], "b": [True, None, True]},
            ["x", "none", None],
        ),
        ("{{ sample.a[0] if sample.a else 'none' }}", {"a": ["xy", "", None]}, ["x", "none", "none"]),
        ("{{ 'none' if not sample.a else sample.a[0] }}", {"a": [["x"], [], None]}, ["x", "none", "none"]),
        (
            "{{ 'x' if sample.a and sample.b[0] == 'y' else 'z' }}",
            {"a": [0, 1, 1], "b": ["", "y", ""]},
            ["z", "x", X],
        ),
        (
            "{{ 'x' if sample.a or sample.b[0] == 'y' else 'z' }}",
            {"a": [0, 1, 0], "b": ["", "", "y"]},
            [X, "x", "x"],
        ),
        ("{{ sample.a == 'x' }}", {"a": ["x", "y", None]}, [True, False, False]),
        ("{{ sample.a != sample.b }}", {"a": [True, None], "b": [False, None]}, [True, False]),
        *[
            (f"{{{{ sample.a {sign} 1 }}}}", {"a": [0, 1, 2, None]}, [*values, X])
            for sign, values in {
                "<": [True, False, False],
                "<=": [True, True, False],
                ">": [False, False, True],
                ">=": [False, True, True],
            }.items()
        ],
        ("{{ sample.a in ['x', 'y'] }}", {"a": ["x", "z", None]}, [True, False, False]),
        ("{{ sample.a not in 'xyz' }}", {"a": ["yz", "zx", None]}, [False, True, X]),
        ("{{ 'x' in sample.a }}", {"a": ["ax", ".", None]}, [True, False, X]),
        (
            "{{ sample.b in sample.a }}",
            {"a": [["x", None], [], None], "b": ["x", "x", "x"]},
            [True, False, X],
        ),
        ("{{ sample.a is none }}", {"a": ["x", None]}, [False, True]),
        ("{{ sample.a[0] is defined }}", {"a": ["x", None]}, [True, X]),
        (
            "{{ [sample.a, 'y', sample.b] }}",
            {"a": ["x", None, "z" * 20_000], "b": ["u", "v", "w"]},
            [["x", "y", "u"], [None, "y", "v"], X],
        ),
        (
            "{%for c in sample.a%}{{ '' if loop.first else ', ' }}{{ 'AB'[loop.index0] }}){{ c }}{%endfor%}",
            {"a": [["x", "y"], [], ["z"], None, ["1", "2", "3"], [None]]},
            ["A)x, B)y", "", "A)z", X, X, "A)None"],
        ),
        (
            "{% for c in sample.a %}{{ c }}{{ loop.index }}{{ sample.b }}{% endfor %}.",
            {"a": [["x", "y"], ["z", "u"]], "b": ["+", "-"]},
            ["x1+y2+.", "z1-u2-."],
        ),
        (
            "{% for c in 'AB' %}{{ c }}{{ sample.a[loop.index0] }}{% endfor %}",
            {"a": ["xy", "z"]},
            ["AxBy", X],
        ),
        (
            "{% for c in sample.a %}{{ c.k | upper }}{% endfor %}",
            {"a": [[{"k": "x"}], [{"k": "ß"}]]},
            ["X", X],
        ),
        ("{% for c in sample.a %}{{ c | upper }}{% endfor %}", {"a": [["x" * 2_000], ["y"]]}, [X, "Y"]),
        (
            "{% for c, d in 'ABC' | zip(sample.a) %}{{ loop.index }}{{ c }}{{ d }}{% endfor %}.",
            {"a": [["x", "y"], [], None, ["1", "2", "3", "4"]]},
            ["1Ax2By.", ".", X, "1A12B23C3."],
        ),
        (
            "{% for c, d, e in sample.a | zip(sample.b, sample.c) %}{{ c }}{{ d.k }}{{ e }};{% endfor %}",
            {"a": [["x", "y"], ["z"]], "b": [[{"k": "p"}], [{"k": "q"}]], "c": [[1, 2], None]},
            ["xp1;", X],
        ),
        (
            "{% for c in sample.a %}{{ c }}{% endfor %}",
            {"a": [["x"] * 40, ["y"] * 40, ["z"] * 1_001]},
            ["x" * 40, "y" * 40, X],
        ),
        (
            "{% if sample.a == 1 %}one{% elif sample.a == 2 %}two{% else %}{{ sample.b[0] }}{% endif %}",
            {"a": [1, 2, 3, 3], "b": ["", "", "x", ""]},
            ["one", "two", "x", X],
        ),
        ("{{ sample.a }}!", {"a": ["x" * 500_000, "y"]}, [X, "y!"]),
        ("{{ sample.a }}!", {"a": [["x" * 500_001], ["y"]]}, [X, "['y']!"]),
        ("{{ sample.a }}" + "!" * 20_000, {"a": [1]}, [X]),
    ],
)
def test_columns_compute_what_is_exact(source: str, columns: dict[str, object], values: list[object]) -> None:
    """Columns, their parts, letters changed, text around them; where Jinja does otherwise it is asked."""
    assert compute(source, make_samples(**columns)) == values


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        *[
            (f"{{{{ {expression} }}}}", {"a": ["x"], "b": [1]})
            for expression in (
                *("sample", "sample[0]", "sample[sample.a]", "sample.a[1:]", "sample.a[true]"),
                *("sample.a[1.0]", "sample.a[sample.b | abs]", "(sample.a | first).k", "sample.a | list"),
                *("sample.a | trim('x')", "sample.a | replace('a', 'b')", "(sample.a | title) | upper"),
                *("sample.upper()", "sample.a.strip('x')", "sample.a.title()", "(sample.a | title).upper()"),
                *("sample.b + 1.5", "sample.a ~ [1]", "sample.a ~ (sample.b | abs)", "range(3)", "sample.c"),
                *("sample.a - sample.a", "sample.c + 1", "sample.a.index(sample.a)", "sample.a.index(1)"),
                *("('x' * 40).index(sample.a)", "sample.a in 'x' * 40", "sample.a in sample.b", "1 in 'x'"),
                *(f"'{'x' * 40}'.index(sample.a)", f"sample.a in '{'x' * 40}'", "sample.a in sample.c"),
                *(
                    "sample.a == sample.b",
                    "sample.a < 1 < 2",
                    "true < (sample.b == 1)",
                    "sample.a == sample.c",
                ),
                *(
                    "sample.c == 1",
                    "sample.a if sample.c else 'x'",
                    "sample.a if 2.5 else 'x'",
                    "not sample.c",
                ),
                *("sample.a if sample.a and sample.c else 'x'", "sample.a if sample.b else 1"),
                *("sample.c if sample.b else 'x'", "sample.a if sample.b else sample.c", "sample.c is none"),
                *(
                    "sample.a is string",
                    "sample.c | int",
                    "true | int",
                    "true | length",
                    "sample.a | sort(true)",
                ),
                *("sample.a | join(sample.a)", "sample.a | join", "sample.c | list", "sample.c[0] | string"),
                *("[sample.a] | join(1)", "[sample.a] | join(sample.a)", "[sample.b] | list", "[] | list"),
                *("[sample.a] | map('title') | list", "[sample.a] | map(attribute='k') | list"),
                *(
                    "[sample.a] | map('first', 1) | list",
                    "sample.c | map('first') | list",
                    "[sample.a, sample.b]",
                ),
                *("sample.c.k", "sample.c[0]", "sample.c | upper", "sample.c.upper()", "sample.a[sample.c]"),
                *("sample.b.upper()", "sample.b[0]", "sample.a.k", "scores.a", "range(3).upper()"),
            )
        ],
        *[
            (f"{{% {statement} %}}", {"a": ["x"], "l": [["x"]], "b": [1], "n": [[1, 2]]})
            for statement in (
                *("if sample.c %}{% endif", "if sample.a %}{{ sample.c }}{% endif", "set x = sample.a"),
                *("if sample.a %}x{% else %}{{ sample.c }}{% endif", "for x in sample.a %}{{ x }}{% endfor"),
                *("for x in sample.l if x %}{{ x }}{% endfor", "for x in sample.l %}{{ x.k }}{% endfor"),
                *("for x in sample.l %}{% else %}y{% endfor", "for x in sample.l recursive %}{% endfor"),
                *("for x, y in sample.l %}{% endfor", "for sample in sample.l %}{% endfor"),
                *(
                    "for x, y in sample.l | zip %}{% endfor",
                    "for x, y in sample.l | zip(sample.a) %}{% endfor",
                ),
                *(
                    "for x, y in sample.l | zip(*[sample.l]) %}{% endfor",
                    "for x, y in [['a', 'b']] %}{% endfor",
                ),
                *(
                    "for x, x in sample.l | zip(sample.l) %}{% endfor",
                    "for x, y in sample.l | list %}{% endfor",
                ),
                *("for x in sample.c %}{% endfor", "for x in sample.l %}{{ loop.depth }}{% endfor"),
                *("for x in sample.l %}{% for y in sample.l %}{{ y }}{% endfor %}{% endfor",),
                *("for x in sample.l %}{{ [x] }}{% endfor", "for x in sample.l %}{% set y = x %}{% endfor"),
                *("for x in sample.n | map('first') %}{{ x }}{% endfor",),
            )
        ],
        ("{{ sample.a | map('first') | list }}", {"a": [[[1]]]}),
        ("{{ sample.a | map(attribute='l') | list }}", {"a": [[{"k": 1}]]}),
        ("{{ sample.a | join }}", {"a": [[1]]}),
        *[
            (f"{{{{ sample.a | {name} }}}}", {"a": [["x"]]})
            for name in ("list(*[])", "map('first', **{}) | list")
        ],
        *[
            (f"{{{{ sample.a | map({name}) | list }}}}", {"a": [[{"k": 1}]]})
            for name in ("attribute=0", "attribute='k.l'", "default=0", "attribute=sample.a")
        ],
        ("{% for c in '' %}{{ sample.a }}{% endfor %}", {"a": ["x"]}),
        ("{{ sample.a.index('x') }}", {"a": [[1]]}),
        ("{{ 'x' if sample.a else 'y' }}", {"a": [{"k": 1}]}),
        ("{{ sample.a | int }}{{ sample.a }}", {"a": [1.5]}),
        ("{{ [1] }}{{ sample.a }}", {"a": ["x"]}),
        ("{{ sample.a.l }}", {"a": [{"k": 1}]}),
        ("{{ sample.a }}", {"a": pl.Series(["2026-01-02"]).str.to_date()}),
        ("{{ sample.a[99999999999999999999] }}", {"a": [["x"]]}),
        *[("{{ sample.a[sample.b] }}", {"a": [["x"]], "b": other}) for other in (["0"], [True], [0.0])],
        ("{{ sample.a }}.", {"a": [[0.0], [-0.0]]}),
        ("{{ sample.a | upper }}", {"a": [[0.0], [-0.0]]}),
        ("x" * 700_000 + "{{ sample.a }}", {"a": ["y"] * 100}),
    ],
)
def test_what_only_jinja_computes(source: str, columns: dict[str, object]) -> None:
    """Other expressions, statements, other types, and texts that would take much memory."""
    if "scores" in source:
        template = Template.compile(source, names=("sample", "scores"))
        assert template._programs[0]._compute({"sample": make_samples(**columns)}) is None
    else:
        assert compute(source, make_samples(**columns)) is None


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("{{ sample.a | map('first') | list }}", [["x", "y"], ["z"], None]),
        ("{{ sample.a | join('-') }}", ["x1-y", "z", None]),
        ("{% for c in sample.a %}{{ c }};{% endfor %}", ["x1;y;", "z;", None]),
        ("{{ sample.a | map('title') | list }}", [["X1", "Y"], ["Z"], None]),
    ],
)
def test_lists_that_recur_are_gone_through_once(
    source: str, values: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first rows are mostly alike: the same values, the same errors, the same column."""
    monkeypatch.setattr(planner, "_FIRST_ROWS", 4)
    lists: list[list[str | None] | None] = [["x1", "y"], ["z"]]
    grouped = make_samples(a=[*lists * 3, *lists])
    template = Template.compile(source)
    assert template.values(grouped) == values[:2] * 4
    assert template.distinct(grouped).spread() == values[:2] * 4
    series = template.series(grouped)
    assert series is None if "title" in source else series is not None
    assert series is None or series.to_list() == values[:2] * 4
    found = template.values(make_samples(a=[*lists * 3, None]))
    assert found[:6] == values[:2] * 3
    assert isinstance(found[6], RowError)
    assert template.series(make_samples(a=[*lists * 3, None])) is None
    apart = [[str(number)] for number in range(9)]
    assert len(template.distinct(make_samples(a=apart)).values) == 9


def test_lists_that_columns_cannot_tell_apart_are_not_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 0.0 and -0.0 each row has its own."""
    monkeypatch.setattr(planner, "_FIRST_ROWS", 2)
    template = Template.compile("{% for c in sample.a %}{{ c }};{% endfor %}")
    zeros = make_samples(a=[[0.0], [0.0], [0.0], [-0.0]])
    assert template.values(zeros) == ["0.0;", "0.0;", "0.0;", "-0.0;"]


def test_few_lists_are_left_to_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has rendered a few rows before columns begin; what goes through no list is computed all the same."""
    monkeypatch.setattr(planner, "_FEW_ROWS", 1)
    few, more = make_samples(a=[["x"]]), make_samples(a=[["x"]] * 2)
    assert compute("{{ sample.a | join }}", few) is None
    assert compute("{{ sample.a | join }}", more) == ["x", "x"]
    assert compute("{{ sample.a[0] }}", few) == ["x"]


def test_an_encoded_column_is_left_to_jinja() -> None:
    """Its cells are the JSON text of their values."""
    assert compute("{{ sample.a }}", make_samples("a", a=["1"])) is None


def test_a_value_beyond_all_limits_is_neither_printed_nor_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that counts more than a template may make; its neighbour is."""
    for module in (planner, template_values):
        monkeypatch.setattr(module, "MOST_ELEMENTS", 1_000)
    cells = pl.Series([["x"] * 500, ["y"]])
    printed = print_cells(Computed(cells))
    assert printed.good is not None
    assert printed.good.to_list() == [False, True]
    assert compute("{{ sample.a }}", make_samples(a=cells)) == [X, ["y"]]


def path(*keys: str | int) -> Path:
    """Return a path of attributes and, for numbers, of subscripts."""
    return tuple(Step("subscript" if isinstance(key, int) else "attribute", key) for key in keys)


STRUCTS = pl.Series([None, {"k": None}, None, {"k": 1}], dtype=pl.Struct({"k": pl.Int64}))

INSIDE = pl.Series([[None], [{"k": None}], [None]], dtype=pl.List(pl.Struct({"k": pl.Int64})))

META = [{"k": "x", "rest": 1}, {"k": "x", "rest": 2}, {"k": None, "rest": 1}, None]

LONG = [["x", "a"], ["x", "b"], ["x"], [], None, ["x", None], [None, "x"]]


@pytest.mark.parametrize(
    ("way", "cells", "groups"),
    [
        (("a",), ["x", "y", None, "x", None], [0, 1, 2, 0, 2]),
        # A null list is not an empty one, and a null struct is not one of nulls.
        (("a",), [None, [], [None], None, [], ["a"]], [0, 1, 2, 0, 1, 3]),
        (("a",), STRUCTS, [0, 1, 0, 2]),
        (("a",), INSIDE, [0, 1, 0]),
        # Only what is read counts: of a struct a field, of a list an element and how long it is.
        (("a", "k"), META, [0, 0, 1, 2]),
        (("a",), META, [0, 1, 2, 3]),
        (("a", 0), LONG, [0, 0, 1, 2, 3, 0, 4]),
        (("a", -1), LONG, [0, 1, 2, 3, 4, 5, 6]),
        (("a", 2**40), LONG, [0, 1, 2, 3, 4, 5, 6]),
        # A method, a character, a key of a list: the whole value decides.
        (("a", 0), ["xy", "xz", "xy"], [0, 1, 0]),
        (("a", "upper"), ["x", "y", "x"], [0, 1, 0]),
        (("a", "k"), [["x"], ["y"]], [0, 1]),
        # A field that is not there reads whether its struct is; unless it is a method, which reads all of it.
        (("a", "kex"), [{"k": 1}, {"k": 2}, None], [0, 0, 1]),
        (("a", "items"), [{"k": 1}, {"k": 2}, None], [0, 1, 2]),
        # A column that is not there reads nothing.
        (("b",), [1, 2], [0, 0]),
        ((0,), [1, 2], [0, 0]),
        # The two zeros equal each other and print differently.
        (("a",), [0.0, -0.0, 0.0, None, 1.0], [0, 1, 0, 2, 3]),
        (("a",), [float("nan"), 1.0, float("nan")], [0, 1, 0]),
        (("a",), [["A", "B"], ["A", "B"]], [0, 0]),
        (("a",), [["A", "B"], ["A", "C"]], [0, 1]),
        (("a",), [[], []], [0, 0]),
        # Beyond a thousand texts another way is taken, to the same groups.
        (("a",), [str(n % 1_001) for n in range(2_500)], [n % 1_001 for n in range(2_500)]),
    ],
)
def test_rows_are_grouped_by_what_is_read(
    way: tuple[str | int, ...], cells: Iterable[object], groups: list[int]
) -> None:
    """Groups are numbered by their first rows; null is a value like any other."""
    samples = make_samples(a=cells)
    keys = find_keys(path(*way), samples, is_lone=False)
    assert not isinstance(keys, str)
    leaders, codes = group_rows(keys, len(samples))
    assert codes.to_list() == groups
    assert codes.dtype == pl.UInt32
    assert leaders.to_list() == [groups.index(number) for number in range(max(groups) + 1)]


def test_a_lone_path_calls_no_method() -> None:
    """A template that is nothing but the path, and brackets, lead to fields alone."""
    samples = make_samples(meta=[{"k": 1}, {"k": 2}, None])
    for way, is_lone in ((path("meta", "items"), True), ((*path("meta"), Step("subscript", "items")), False)):
        keys = find_keys(way, samples, is_lone=is_lone)
        assert not isinstance(keys, str)
        assert group_rows(keys, 3)[1].to_list() == [0, 0, 1]
    assert find_keys(path("keys"), samples, is_lone=True) == []


@pytest.mark.parametrize(
    "series",
    [
        pl.Series([[0.0], [-0.0]]),
        pl.Series([{"k": 0.0}, {"k": -0.0}]),
        pl.Series([[{"k": [0.0]}], [{"k": [-0.0]}]]),
        pl.Series(["2026-01-02"]).str.to_date(),
        pl.Series([["2026-01-02"]]).list.eval(pl.element().str.to_date()),
    ],
)
def test_values_that_columns_cannot_tell_apart_are_rendered_one_by_one(series: pl.Series) -> None:
    """A negative zero inside a list, and types that datasets do not have."""
    assert find_value_keys(series) is None
    found = find_keys(path("a"), make_samples(a=series), is_lone=False)
    assert found == "the values of column `a` cannot be told apart by the column library"


def test_values_are_numbered_as_they_appear() -> None:
    """Values of different types stay apart, and lists, mappings and errors that differ in any part."""
    values: list[object] = [
        *("b", "a", None, 1, 1.0, True, "1", 0.0, -0.0, [1], [True], [0.0], [-0.0]),
        *({"a": 1}, {"a": 1.0}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        *([], ["a", "b"], ["ab"], ["1"], ["[1]"], [[1]], "[1]", ["texts"], [None], "m"),
        *(RowError("m"), RowError("m", hint="h"), RowError("m", column="c"), RowError("n")),
        RowError("m", is_undefined=True),
    ]
    distinct = number_values([*values, *values])
    assert list(map(repr, distinct.values)) == list(map(repr, values))
    assert distinct.codes.to_list() == [*range(len(values)), *range(len(values))]
    assert distinct.codes.dtype == pl.UInt32


SIZED = [
    pl.Series(["", "ab", None, "日本"]),
    pl.Series([["a", "bc"], [], None, [None, ""]]),
    pl.Series([[1, 2, 3], None, []]),
    pl.Series([[True, False], [None]]),
    pl.Series([{"k": "abc", "n": [1, 2]}, None, {"k": None, "n": None}]),
    pl.Series([[{"k": "abc", "n": [["x"], []]}], [], None]),
]


@pytest.mark.parametrize("series", SIZED)
def test_no_value_counts_less_than_its_measure(series: pl.Series) -> None:
    """Each on its own, and all of them together."""
    sizes = list(map(measure, series.to_list()))
    assert all(size <= weight for size, weight in zip(sizes, weigh_cells(series), strict=True))
    assert bound_total(series) >= sum(sizes)
