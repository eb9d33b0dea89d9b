from __future__ import annotations

import pytest

from answerkey.scorers.stated.lexicon import fold_accents, list_words, load_lexicon, normalize_word
from answerkey.scorers.stated.roles import ANSWER, BARE, BE, FIX, NAMES, NOT

LANGUAGES = {
    "English": "answer",
    "German": "Antwort",
    "French": "réponse",
    "Spanish": "respuesta",
    "Italian": "risposta",
    "Portuguese": "resposta",
    "Russian": "ответ",
    "Korean": "정답은",
    "Arabic": "الإجابة",
    "Hindi": "उत्तर",
    "Dutch": "antwoord",
    "Polish": "odpowiedź",
    "Turkish": "cevap",
    "Ukrainian": "відповідь",
    "Indonesian": "jawaban",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_word_for_the_answer(language: str) -> None:
    """The word for the answer is known in each of the languages."""
    assert load_lexicon()[normalize_word(LANGUAGES[language])].roles & ANSWER


def test_phrases_hang_below_their_first_word() -> None:
    """A phrase is found word by word, also where words are single characters."""
    assert load_lexicon()["答"].following["案"].roles == ANSWER | BARE
    assert load_lexicon()["on"].following["second"].following["thought"].roles & FIX
    assert load_lexicon()["isn't"].roles & BE & ~NOT == BE


def test_words_files_are_well_formed() -> None:
    """Every line names known roles, and words without blanks around them."""
    seen: set[tuple[str, str]] = set()
    for roles, words in list_words():
        assert roles
        assert set(roles) <= set(NAMES)
        for word in words:
            assert word == word.strip()
            assert word
            seen.add((" ".join(roles), word))
    assert len(seen) > 2_000


@pytest.mark.parametrize(
    ("token", "word"),
    [("ANSWER", "answer"), ("Ｂ", "b"), ("l\u2019", "l'"), ("الإجابــة", "الاجابة"), ("RÉPONSE", "réponse")],
)
def test_words_are_spelled_alike(token: str, word: str) -> None:
    """Case, full width, apostrophes and Arabic spellings are evened out."""
    assert normalize_word(token) == word


def test_accents_may_be_left_out() -> None:
    """Long Latin words are known without their accents, short ones are not."""
    assert fold_accents("réponse") == "reponse"
    assert fold_accents("è") == "è"
    assert load_lexicon()["reponse"].roles & ANSWER
