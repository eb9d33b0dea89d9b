"""Properties of options in other orders."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from answerkey.solvers.choice_order import ChoiceOrder, plan_row
from answerkey.types import Row

LABELS = "ABCDEFGH"
Texts = st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=8, unique=True)


def read_list(cell: object) -> list[object]:
    """Return the options of a cell that holds a list, or the JSON text of one."""
    result: list[object] = json.loads(cell) if isinstance(cell, str) else list(cell)  # type: ignore[call-overload]  # a list
    return result


@given(Texts, st.data())
def test_the_right_option_is_where_the_truth_says(texts: list[str], data: st.DataObject) -> None:
    """In every order, the option behind the moved label is the one that was right in the file."""
    labels = tuple(LABELS[: len(texts)])
    truth = data.draw(st.sampled_from(labels))
    row = Row(options=json.dumps(texts) if data.draw(st.booleans()) else texts, question="q")
    setting = ChoiceOrder(
        "{{ sample.options }}", data.draw(st.sampled_from(("rotations", "shuffled")))
    )
    planned = plan_row(setting, row, labels)
    for order in planned.orders:
        shown = read_list(setting.arrange(row, labels, order)["options"])
        moved = labels[list(order).index(labels.index(truth))]
        if not any(_has_label(text, label) for text, label in zip(texts, labels, strict=True)):
            assert shown[labels.index(moved)] == texts[labels.index(truth)]


def _has_label(text: str, label: str) -> bool:
    return label in text


@given(Texts, st.integers(0, 5))
def test_every_rotation_holds_every_option_once(texts: Sequence[str], seed: int) -> None:
    """Nothing is lost and nothing is shown twice; a shuffle is one of the permutations."""
    labels = tuple(LABELS[: len(texts)])
    row = Row(options=list(texts))
    for orders in ("rotations", "shuffled"):
        planned = plan_row(ChoiceOrder("{{ sample.options }}", orders, seed), row, labels)
        assert all(sorted(order) == list(range(len(texts))) for order in planned.orders)
        if orders == "rotations" and planned.left_in_place is None:
            places = zip(*planned.orders, strict=True)
            assert all(sorted(place) == list(range(len(texts))) for place in places)
