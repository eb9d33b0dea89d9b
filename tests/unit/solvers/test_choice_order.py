from __future__ import annotations

from collections import Counter

import pytest

from answerkey.errors import SpecError
from answerkey.solvers.choice_order import (
    MAX_REFERENCE_LENGTH,
    ChoiceOrder,
    OptionError,
    Orders,
    digest_row,
    find_reference,
    list_orders,
    plan_row,
    read_cell,
)
from answerkey.types import Row

LABELS = ("A", "B", "C", "D")
ROW = Row(question="q", options=["w", "x", "y", "z"], answer="B")


def make(orders: Orders, seed: int = 0, options: str | None = None) -> ChoiceOrder:
    """Return a setting."""
    return ChoiceOrder(options or "{{ sample.options }}", orders, seed)


def test_rotations_and_all_orders() -> None:
    """As many rotations as options.

    Three options have six orders; the order of the file comes first.
    """
    rotations = plan_row(make("rotations"), ROW, LABELS).orders
    assert rotations == ((0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2))
    orders = list_orders("all", 3)
    assert (len(set(orders)), orders[0]) == (6, (0, 1, 2))


def test_all_is_refused_for_more_orders_than_it_may_ask() -> None:
    """Six options have 720 orders: such a row is not reordered, with a reason."""
    row = Row(options=["a", "b", "c", "d", "e", "f"])
    result = plan_row(make("all"), row, tuple("ABCDEF"))
    assert result.not_reordered == "UNSUITABLE"
    assert result.problem == "its 6 options have 720 orders, and `all` shows at most 120"
    assert len(plan_row(make("all"), Row(options=list("abcde")), tuple("ABCDE")).orders) == 120


@pytest.mark.parametrize(
    ("orders", "left"), [("original", None), ("rotations", "REFERS_TO_LABELS")]
)
def test_options_that_name_others_are_left_in_place(orders: Orders, left: str | None) -> None:
    """It has the order of the file alone, and says why; `original` moves nothing anyhow."""
    result = plan_row(make(orders), Row(options=["w", "x", "y", "Both A and B"]), LABELS)
    assert (result.orders, result.not_reordered) == (((0, 1, 2, 3),), left)


def test_a_shuffle_depends_on_seed_and_content_alone() -> None:
    """The same row has the same order, whatever its position.

    Each place has each option about as often.
    """
    again = Row({**ROW, "sample_id": "elsewhere"})
    orders = plan_row(make("shuffled"), ROW, LABELS).orders
    assert plan_row(make("shuffled"), again, LABELS).orders == orders
    assert len({plan_row(make("shuffled", seed), ROW, LABELS).orders for seed in range(200)}) == 24
    rows = [Row({**ROW, "question": number}) for number in range(2000)]
    first = Counter(plan_row(make("shuffled"), row, LABELS).orders[0][0] for row in rows)
    assert all(430 < count < 570 for count in first.values())


def test_content_is_the_same_in_every_file_format() -> None:
    """Text cells say the same as the numbers and lists that they spell.

    Ids and blanks do not count.
    """
    typed = {"a": 1, "b": [1, "x"], "c": True, "d": None, "e": 2.50}
    texts = {"e": "2.5", "c": "True", "b": "[1, 'x']", "a": "1", "d": "", "sample_id": "7"}
    assert digest_row(typed) == digest_row(texts)
    assert digest_row(typed) != digest_row({**typed, "a": 2})


def test_options_must_simply_read_a_column() -> None:
    """A computed list could not be put back where the prompt reads it."""
    with pytest.raises(SpecError, match=r"^error\[E108\]"):
        make("all", options="{{ [sample.a, sample.b] }}")


def test_options_are_moved_where_they_stand() -> None:
    """Other content of the same cell is kept.

    Options in columns of their own trade places.
    """
    setting = make("all", options="{{ sample.choices.text }}")
    row = Row(choices={"text": ["x", "y"], "label": ["A", "B"]})
    expected = {"choices": {"text": ["y", "x"], "label": ["A", "B"]}}
    assert setting.arrange(row, ("A", "B"), (1, 0)) == expected
    setting = ChoiceOrder(["{{ sample.opa }}", "{{ sample.opb }}"], "rotations")
    assert setting.columns == {"opa", "opb"}
    assert setting.arrange(Row(opa="x", opb="y"), ("A", "B"), (1, 0)) == {"opa": "y", "opb": "x"}


THREE = ("A", "B", "C")
ORDER = (1, 2, 0)


@pytest.mark.parametrize(
    ("cell", "moved"),
    [
        (["x", "y", "z"], ["y", "z", "x"]),
        ([1, 2.5, "z"], [2.5, "z", 1]),
        ('["x", "y", "ü"]', '["y", "ü", "x"]'),
        ("['x', 'y', 'z']", "['y', 'z', 'x']"),
        ({"A": "x", "B": "y", "C": "z", "D": None}, {"A": "y", "B": "z", "C": "x", "D": None}),
        ({"i": "x", "ii": "y", "iii": "z", "j": None},
         {"i": "y", "ii": "z", "iii": "x", "j": None}),
        (["A) x", "B) y", "C) z"], ["A) y", "B) z", "C) x"]),
        (["(A) x", "(B) y", "(C) z"], ["(A) y", "(B) z", "(C) x"]),
        (["A. x", "B. y", "z"], ["B. y", "z", "A. x"]),
        ([{"label": "A", "text": "x"}, {"label": "B", "text": "y"}, {"label": "C", "text": "z"}],
         [{"label": "A", "text": "y"}, {"label": "B", "text": "z"}, {"label": "C", "text": "x"}]),
    ],
)  # fmt: skip
def test_a_cell_keeps_its_form_in_another_order(cell: object, moved: object) -> None:
    """Only the options move: what belongs to a place, and how the cell is written, stay."""
    assert read_cell(cell, THREE).arrange(ORDER) == moved


def test_texts_are_without_labels() -> None:
    """Nor do cells without a text at the end count: they are options that the row does not have."""
    assert read_cell(["A) x", "B) y", "C) z"], THREE).texts == ("x", "y", "z")
    assert read_cell([{"id": "A", "text": "x", "n": 1}], ("A",)).texts == ("x",)
    setting = ChoiceOrder([f"{{{{ sample.{name} }}}}" for name in "abcde"], "rotations")
    options = setting.read(Row(a="x", b="y", c="z", d=None, e=""), THREE)
    assert options.texts == ("x", "y", "z")
    assert options.arrange(ORDER) == ["y", "z", "x", None, ""]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (None, "the options are None, not a list"),
        ("x, y, z", "the options are the text 'x, y, z', not a list"),
        (["x", "y"], "there are 2 options for 3 choices"),
        (["x", None, "z"], "the option None is not text or a number"),
        (["x", True, "z"], "the option True is not text or a number"),
        ([{"n": 1}, {"n": 2}, {"n": 3}], "the options are objects without a text: {'n': 1}"),
    ],
)
def test_options_that_cannot_be_reordered_have_a_reason(cell: object, message: str) -> None:
    """A cell that holds no list of as many texts as choices is the row's error."""
    with pytest.raises(OptionError) as caught:
        read_cell(cell, THREE)
    assert str(caught.value) == message


OTHERS = (
    "All of the above", "None of the above.", "none of these",
    "None of the above statements is true", "All answers are correct", "the first two options",
    "Alle oben genannten", "Keine der genannten Antworten", "Toutes ces réponses",
    "Aucune des réponses ci-dessus", "Todas las anteriores", "Ninguna de las anteriores",
    "Tutte le precedenti", "Nessuna delle precedenti", "Todas as anteriores",
    "Nenhuma das alternativas", "Все вышеперечисленное", "Ни один из вышеперечисленных", "以上都是",
    "以上皆非", "上記のすべて", "いずれでもない", "위의 모두", "해당 없음", "جميع ما سبق",
    "لا شيء مما سبق", "उपरोक्त सभी",
    "इनमें से कोई नहीं", "Tất cả các đáp án trên",
)  # fmt: skip
NAMING = (
    "Both A and B", "A and C only", "both (A) and (B)", "Neither A nor B", "A, B and C", "Only A",
    "Option B", "Sowohl A als auch B", "A et B", "A y B son correctas", "A и B", "A和B都对",
    "AとBの両方",
    "A와 B", "A और B दोनों", "Both A and B are true statements about heat",
)  # fmt: skip
PLAIN = (
    "Paris", "Vitamin A", "A", "Type A and type O blood", "None", "I and II only",
    "Above the tree line", "The first amendment", "All of the people were happy",
    "Neither a borrower nor a lender be", "Both of his brothers", "not true", "上海", "都柏林",
    "全国人民代表大会", "위스키", "Alle Tiere sind gleich", "",
)  # fmt: skip


@pytest.mark.parametrize(
    ("option", "reference"),
    [
        *((option, "REFERS_TO_OTHERS") for option in OTHERS),
        *((option, "REFERS_TO_LABELS") for option in NAMING),
        *((option, None) for option in PLAIN),
    ],
)
def test_options_that_speak_of_others_are_recognised(option: str, reference: str | None) -> None:
    """Phrases such as *none of the above* in many languages, options made of labels.

    No ordinary text.
    """
    assert find_reference(["x", option], LABELS) == reference


def test_labels_come_from_the_row() -> None:
    """Digits and other letters work alike; what is longer than the limit is not searched."""
    assert find_reference(["1 and 2"], ("1", "2", "3")) == "REFERS_TO_LABELS"
    assert find_reference(["1 and 2"], LABELS) is None
    assert find_reference(["أ و ب"], ("أ", "ب", "ج")) == "REFERS_TO_LABELS"
    assert find_reference(["all of the above " + "x" * MAX_REFERENCE_LENGTH], LABELS) is None
