from __future__ import annotations

import pytest

from answerkey.scorers.stated.lexicon import fold_accents, list_words, load_lexicon, normalize_word
from answerkey.scorers.stated.roles import ANSWER, BARE, BE, FILL, FIX, NAMES, NOT, PICK

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


@pytest.mark.parametrize(
    ("word", "folded"),
    [
        ("été", "été"),
        ("abcÀ", "abcA"),
        ("éabɏ", "eabɏ"),
        ("éabɐ", "éabɐ"),
        ("é" + "a" * 63, "e" + "a" * 63),
        ("é" + "a" * 64, "é" + "a" * 64),
        ("ответ\u0301", "ответ\u0301"),
    ],
)
def test_only_latin_words_of_some_length_lose_accents(word: str, folded: str) -> None:
    """From four letters to sixty-four, and up to the last of the Latin letters."""
    assert fold_accents(word) == folded


def test_only_tokens_of_some_length_are_composed() -> None:
    """A token of more than sixty-four characters is no word, and stays as wide as it is."""
    assert normalize_word("Ｂ" * 64) == "b" * 64
    assert normalize_word("Ｂ" * 65) == "ｂ" * 65


def test_lexicon_is_built_from_the_files() -> None:
    """Elided words are whole, phrases are split, and accents may be missing in both."""
    tree = load_lexicon.__wrapped__()
    assert tree["l'"].roles == FILL
    assert tree["réponse"].roles == tree["reponse"].roles
    assert tree["go"].following["with"].roles == PICK
    assert tree["答"].following["案"].roles == ANSWER | BARE
