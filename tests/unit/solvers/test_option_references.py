"""Laws of recognising options that speak of the other options."""

from __future__ import annotations

import pytest

from answerkey.solvers.option_references import LONGEST, find_reference

LABELS = ("A", "B", "C", "D")

OTHERS = (
    "All of the above",
    "None of the above.",
    "none of these",
    "None of the above statements is true",
    "All answers are correct",
    "the first two options",
    "Alle oben genannten",
    "Keine der genannten Antworten",
    "Toutes ces réponses",
    "Aucune des réponses ci-dessus",
    "Todas las anteriores",
    "Ninguna de las anteriores",
    "Tutte le precedenti",
    "Nessuna delle precedenti",
    "Todas as anteriores",
    "Nenhuma das alternativas",
    "Все вышеперечисленное",
    "Ни один из вышеперечисленных",
    "以上都是",
    "以上皆非",
    "上記のすべて",
    "いずれでもない",
    "위의 모두",
    "해당 없음",
    "جميع ما سبق",
    "لا شيء مما سبق",
    "उपरोक्त सभी",
    "इनमें से कोई नहीं",
    "Tất cả các đáp án trên",
)
NAMING = (
    "Both A and B",
    "A and C only",
    "both (A) and (B)",
    "Neither A nor B",
    "A, B and C",
    "Only A",
    "Option B",
    "Sowohl A als auch B",
    "A et B",
    "A y B son correctas",
    "A и B",
    "A和B都对",
    "AとBの両方",
    "A와 B",
    "A और B दोनों",
    "Both A and B are true statements about heat",
)
PLAIN = (
    "Paris",
    "Vitamin A",
    "A",
    "Type A and type O blood",
    "None",
    "I and II only",
    "Above the tree line",
    "The first amendment",
    "All of the people were happy",
    "Neither a borrower nor a lender be",
    "Both of his brothers",
    "not true",
    "上海",
    "都柏林",
    "全国人民代表大会",
    "위스키",
    "Alle Tiere sind gleich",
    "",
)


@pytest.mark.parametrize("option", OTHERS)
def test_an_option_that_speaks_of_the_others_is_recognised(option: str) -> None:
    """Phrases such as *none of the above* are recognised in many languages."""
    assert find_reference(["x", option], LABELS) == "REFERS_TO_OTHERS"


@pytest.mark.parametrize("option", NAMING)
def test_an_option_that_names_labels_is_recognised(option: str) -> None:
    """Options made of labels, or with a list of labels in them, are recognised."""
    assert find_reference([option, "x"], LABELS) == "REFERS_TO_LABELS"


@pytest.mark.parametrize("option", PLAIN)
def test_an_option_that_stands_for_itself_is_left_alone(option: str) -> None:
    """Ordinary texts are not taken for references."""
    assert find_reference([option], LABELS) is None


def test_labels_are_those_of_the_row() -> None:
    """What counts as a label is what the options are called: digits and other letters work alike."""
    assert find_reference(["1 and 2"], ("1", "2", "3")) == "REFERS_TO_LABELS"
    assert find_reference(["1 and 2"], LABELS) is None
    assert find_reference(["أ و ب"], ("أ", "ب", "ج")) == "REFERS_TO_LABELS"


def test_long_options_are_sentences_of_their_own() -> None:
    """An option longer than the limit is not searched."""
    assert find_reference(["all of the above " + "x" * LONGEST], LABELS) is None
