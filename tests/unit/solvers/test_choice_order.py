"""Laws of the orders in which options are shown."""

from __future__ import annotations

from collections import Counter

import pytest

from answerkey.errors import SpecError
from answerkey.solvers import ChoiceOrder, plan_row
from answerkey.solvers.choice_order import Orders, list_orders, shuffle
from answerkey.solvers.contents import digest_row
from answerkey.types import Row

LABELS = ("A", "B", "C", "D")
ROW = Row(question="q", options=["w", "x", "y", "z"], answer="B")


def make(orders: Orders, seed: int = 0, options: str | None = None) -> ChoiceOrder:
    """Return a setting."""
    return ChoiceOrder(options or "{{ sample.options }}", orders, seed)


def test_rotations_show_every_option_at_every_place_once() -> None:
    """There are as many rotations as options, the order of the file first."""
    assert plan_row(make("rotations"), ROW, LABELS).orders == (
        (0, 1, 2, 3),
        (1, 2, 3, 0),
        (2, 3, 0, 1),
        (3, 0, 1, 2),
    )


def test_all_orders_are_all_permutations() -> None:
    """Three options have six orders, the order of the file first."""
    orders = list_orders("all", 3)
    assert len(set(orders)) == 6
    assert orders[0] == (0, 1, 2)


def test_all_is_refused_for_more_orders_than_it_may_ask() -> None:
    """Six options have 720 orders: such a row is not asked, and says so."""
    row = Row(options=["a", "b", "c", "d", "e", "f"])
    found = plan_row(make("all"), row, tuple("ABCDEF"))
    assert found.left_in_place == "UNSUITABLE"
    assert found.trouble == "its 6 options have 720 orders, and `all` asks at most 120"
    assert len(plan_row(make("all"), Row(options=list("abcde")), tuple("ABCDE")).orders) == 120


def test_the_original_order_is_that_of_the_file() -> None:
    """`original` moves nothing, also not options that speak of others."""
    row = Row(options=["a", "all of the above"])
    found = plan_row(make("original"), row, ("A", "B"))
    assert (found.orders, found.left_in_place) == (((0, 1),), None)


def test_a_shuffle_depends_on_seed_and_content_alone() -> None:
    """The same row has the same order wherever it stands; another seed, or another row, may have another."""
    again = Row({**ROW, "sample_id": "elsewhere"})
    one = plan_row(make("shuffled"), ROW, LABELS).orders
    assert plan_row(make("shuffled"), again, LABELS).orders == one
    drawn = {shuffle(4, seed, "row") for seed in range(200)}
    assert len(drawn) == 24


def test_shuffles_show_every_option_at_every_place_about_as_often() -> None:
    """Over many rows each place has each option in about a quarter of them."""
    first = Counter(shuffle(4, 0, digest_row({"question": number}))[0] for number in range(2000))
    assert all(430 < count < 570 for count in first.values())


def test_a_row_whose_options_refer_to_others_is_left_in_place() -> None:
    """It has the order of the file alone, and says why."""
    found = plan_row(make("rotations"), Row(options=["w", "x", "y", "Both A and B"]), LABELS)
    assert (found.orders, found.left_in_place) == (((0, 1, 2, 3),), "REFERS_TO_LABELS")


def test_content_is_the_same_in_every_file_format() -> None:
    """Text cells say the same as the numbers and lists that they spell; ids and blanks do not count."""
    typed = {"a": 1, "b": [1, "x"], "c": True, "d": None, "e": 2.50}
    texts = {"e": "2.5", "c": "True", "b": "[1, 'x']", "a": "1", "d": "", "sample_id": "7"}
    assert digest_row(typed) == digest_row(texts)
    assert digest_row(typed) != digest_row({**typed, "a": 2})


def test_options_must_simply_read_a_column() -> None:
    """A computed list could not be put back where the prompt reads it."""
    with pytest.raises(SpecError) as caught:
        make("all", options="{{ [sample.a, sample.b] }}")
    assert caught.value.code == "E108"


def test_fields_within_a_column_are_moved_where_they_stand() -> None:
    """What is beside the options in the same cell stays."""
    setting = make("all", options="{{ sample.choices.text }}")
    row = Row(choices={"text": ["x", "y"], "label": ["A", "B"]})
    assert setting.arrange(row, ("A", "B"), (1, 0)) == {"choices": {"text": ["y", "x"], "label": ["A", "B"]}}


def test_options_in_columns_of_their_own_trade_places() -> None:
    """With a list of templates each option has its own column."""
    setting = ChoiceOrder(["{{ sample.opa }}", "{{ sample.opb }}"], "rotations")
    assert setting.columns == {"opa", "opb"}
    assert setting.arrange(Row(opa="x", opb="y"), ("A", "B"), (1, 0)) == {"opa": "y", "opb": "x"}
