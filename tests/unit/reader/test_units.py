from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.reader import lexicon
from answerkey.reader.lexicon import (
    ANSWER,
    BARE,
    BE,
    BREAK,
    FILL,
    FIX,
    NOT,
    PICK,
    ROLES,
    fold_accents,
    list_words,
    load_lexicon,
    normalize_word,
    split_tokens,
)
from answerkey.reader.units import read_labels, split_units


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The answer is B.", ["The", "answer", "is", "B", "."]),
        ("<answer>B</answer>", ["<answer>", "B", "</answer>"]),
        ("정답은 B입니다", ["정답은", "B", "입니다"]),
    ],
)
def test_text_falls_into_tokens(text: str, tokens: list[str]) -> None:
    """Words go by script, numbers and tags stay whole, every other mark is its own token."""
    assert split_tokens(text) == tokens


@pytest.mark.parametrize("text", ["  a b\n c", "答案 ： B", "\u00a0x\u3000y\u2028z", "\x1fA\tB"])
def test_pieces_are_the_text(text: str) -> None:
    """Nothing is lost between the tokens."""
    assert "".join(split_units(text, LABELS).pieces) == text.rstrip()


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
    assert load_lexicon().roles[normalize_word(LANGUAGES[language])] & ANSWER


def test_phrases_are_found_by_their_words() -> None:
    """A phrase has roles of its own, also where words are single characters."""
    assert load_lexicon().find_roles(["答", "案"]) == ANSWER | BARE
    assert load_lexicon().find_roles(["on", "second", "thought"]) & FIX
    assert load_lexicon().find_roles(["on", "second", "answer"]) == 0
    assert load_lexicon().roles["isn't"] & BE & ~NOT == BE


def test_words_files_are_well_formed() -> None:
    """Every line names known roles, and words without blanks around them."""
    seen: set[tuple[str, str]] = set()
    for roles, words in list_words():
        assert roles
        assert {role for role in roles if not role.isdecimal()} <= set(ROLES)
        for word in words:
            assert word == word.strip()
            assert word
            seen.add((" ".join(roles), word))
    assert len(seen) > 2_000


def test_every_words_file_is_read() -> None:
    """No file in the folder is forgotten."""
    folder = Path(lexicon.__file__).parent / "words"
    assert {file.name for file in folder.iterdir()} == {
        f"{name}.txt" for name in lexicon.WORD_FILES
    }


@pytest.mark.parametrize(
    ("token", "word"),
    [
        ("ANSWER", "answer"),
        ("Ｂ", "b"),
        ("l\u2019", "l'"),
        ("الإجابــة", "الاجابة"),
        ("RÉPONSE", "réponse"),
    ],
)
def test_words_are_spelled_alike(token: str, word: str) -> None:
    """Case, full width, apostrophes and Arabic spellings are evened out."""
    assert normalize_word(token) == word


def test_accents_may_be_left_out() -> None:
    """Long Latin words are known without their accents, short ones are not."""
    assert fold_accents("réponse") == "reponse"
    assert fold_accents("è") == "è"
    assert load_lexicon().roles["reponse"] & ANSWER


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
    lexicon = load_lexicon.__wrapped__()
    assert lexicon.roles["l'"] == FILL
    assert lexicon.roles["réponse"] == lexicon.roles["reponse"]
    assert lexicon.find_roles(["go", "with"]) == PICK
    assert lexicon.find_roles(["答", "案"]) == ANSWER | BARE


@pytest.mark.parametrize(
    ("choices", "token", "label"),
    [
        ("ABCD", "b", "B"),
        ("ABCD", "Β", None),  # Greek
        ("1234", "2\ufe0f\u20e3", "2"),
        ("⑴⑵", "2", "⑵"),
        ("aBb", "A", None),
        ("1①", "1", "1"),
    ],
)
def test_labels_are_read_as_freely_as_keeps_them_apart(
    choices: str, token: str, label: str | None
) -> None:
    """Case and typography are ignored unless two choices differ by nothing else."""
    assert read_labels(tuple(choices)).find(token) == label


def test_label_that_is_not_offered_is_recognized() -> None:
    """A letter of the same kind looks like a label; other signs do not."""
    labels = read_labels(("A", "B"))
    assert [labels.resembles(token) for token in ("E", "e", "5", "Б", "Ex", ".")] == [
        True,
        *[False] * 5,
    ]


@pytest.mark.parametrize(
    ("choices", "token", "label"),
    [
        (("k", "K", "Ｋ"), "K", "K"),
        (("definitely", "hardly"), "Definitely", "definitely"),
        (("réponses", "x"), "RÉPONSES", "réponses"),
        (("réponsesx", "x"), "réponsesx", None),
    ],
)
def test_labels_that_differ_by_little_are_read_as_written(
    choices: tuple[str, ...], token: str, label: str | None
) -> None:
    """Case and width count where they tell choices apart.

    Beyond ASCII eight characters are the most.
    """
    assert read_labels.__wrapped__(choices).find(token) == label


LABELS = read_labels(("A", "B", "C"))


def test_units_are_words_and_phrases() -> None:
    """A phrase is one unit, with its own roles and no word."""
    units = split_units("I'd go with B", LABELS)
    assert units.words[: units.size] == ["i'd", "", "b"]
    assert units.roles[1] == PICK
    assert units.labels[: units.size] == [None, None, "B"]
    assert [units.token(at) for at in range(units.size)] == ["I'd", "go with", "B"]


def test_places_lead_back_into_the_text() -> None:
    """The start and the end of each unit are those of its text, phrases included."""
    text = "  On second thought,\n**B** it is"
    units = split_units(text, LABELS)
    spans = [units.span(at, at + 1) for at in range(units.size)]
    assert [text[begin:end] for begin, end in spans] == [
        "On second thought", ",", "\n", "**", "B", "**", "it is",
    ]  # fmt: skip
    assert units.roles[0] & FIX
    assert [units.places[at] for at in range(units.size)] == [0, 3, 4, 5, 6, 7, 8]


def test_line_breaks_are_alike() -> None:
    """Whatever breaks the line is a break."""
    units = split_units("a\r\nb\u2028c\x0bd", LABELS)
    assert units.words[: units.size] == ["a", BREAK, "b", BREAK, "c", BREAK, "d"]


def list_labels(text: str, *choices: str) -> list[str | None]:
    """Return the choices that the units of a text name."""
    units = split_units(text, read_labels(choices))
    return units.labels[: units.size]


def test_endings_belong_to_labels() -> None:
    """Korean and Turkish endings leave a label a label."""
    assert list_labels("B'dir", "A", "B") == ["B"]
    assert list_labels("나입니다", "가", "나") == ["나"]
    assert list_labels("가입니다", "가", "나") == ["가"]
    assert list_labels("나라", "가", "나") == [None]
    assert list_labels("나정답", "가", "나") == [None]


def test_labels_have_eight_characters_at_most() -> None:
    """Longer words are none where only their case, or their type, tells two labels apart."""
    assert list_labels("réponses", "réponses", "Réponses") == ["réponses"]
    assert list_labels("réponsesx", "réponsesx", "Réponsesx") == [None]


def test_words_of_any_language_have_roles() -> None:
    """Accents may be missing, and words may touch."""
    assert split_units("la reponse est", LABELS).roles[1:3] == [ANSWER, BE]
    assert split_units("la rèponse est", LABELS).roles[1:3] == [ANSWER, BE]
    assert list_labels("答案是B", "A", "B") == [None, None, "B"]


def test_a_word_that_is_nothing_but_a_stretched_line_is_a_word() -> None:
    """The Arabic tatweel stretches letters; alone it is no label, and no phrase."""
    units = split_units("\u0640 B", LABELS)
    assert units.words[: units.size] == ["\u0640", "b"]
    assert list_labels("\u0640 B", "A", "B") == [None, "B"]


FOUR = read_labels(("A", "B", "C", "D"))


def find_text(text: str, options: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the choice whose text begins the completion, and the passage."""
    units = split_units(text, FOUR, options)
    if 0 not in units.options:
        return None
    return units.options[0], text[: units.span(0, 1)[1]]


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("red** and **blue", ("red and blue",), ("A", "red** and **blue")),
        ("Paris", ("(A) Paris", "(B) Rome"), ("A", "Paris")),
        ("Paris", ("A. Paris", "B. Rome"), ("A", "Paris")),
        ("none of the above", ("x", "None of the above."), ("B", "none of the above")),
        ("4.5", ("4", "4.5"), ("B", "4.5")),
    ],
)
def test_longest_full_text_is_found(
    text: str, options: tuple[str, ...], match: tuple[str, str] | None
) -> None:
    """Case, emphasis within, an article before it and the option's own label make no difference."""
    assert find_text(text, options) == match


def test_texts_are_found_where_choices_differ_by_case() -> None:
    """The label before an option's text may be any of them then."""
    labels = read_labels(("a", "A"))
    assert split_units("blue", labels, ("a) red", "A) blue")).options == {0: "A"}


def test_texts_go_with_the_choices_in_order() -> None:
    """More texts than choices are ignored."""
    assert find_text("six", ("one", "two", "three", "four", "six")) is None


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("(B) No", ("Yes", "No"), ["(", "b", ")", "no"]),
        ("D. Neither I nor II", ("I", "II", "Both", "Neither I nor II"), ["d", ".", ""]),
        ("C: $2 million", ("x", "y", "$2 million"), ["c", ":", ""]),
        ("-5", ("5", "-5"), [""]),
    ],
)
def test_an_option_text_is_one_unit_without_roles(
    text: str, options: tuple[str, ...], words: list[str]
) -> None:
    """Its words say nothing but which option it is, and belong to the label before them."""
    units = split_units(text, FOUR, options)
    last = units.size - 1
    assert units.words[: units.size] == words
    assert units.roles[last] == 0
    assert units.labels[last] is None
    assert last in units.options


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("A", ("A.", "B."), ("A", "A")),
        ("B. Paris", ("B. Paris", "x"), ("A", "B. Paris")),
        ("x", ("((A) x", "y"), ("A", "x")),
        ("red _**_ wine", ("red wine",), ("A", "red _**_ wine")),
        ("red *_*_*_ wine", ("red wine",), None),
        ("?", (".", "?"), ("B", "?")),
        ("?!", ("!", "?!"), ("B", "?")),
        ("red * _ * wine", ("red wine",), ("A", "red * _ * wine")),
        ("red * _ * _ wine", ("red wine",), None),
    ],
)
def test_parts_of_a_text_are_not_the_text(
    text: str, options: tuple[str, ...], match: tuple[str, str] | None
) -> None:
    """All words have to be there, without much between them.

    Only the option's own label is left away.
    """
    assert find_text(text, options) == match
