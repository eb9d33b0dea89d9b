"""What the rules read in short, odd and cut-off texts, and where they read it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from answerkey.reader import Reading, read_leading_label, read_stated_answer

LETTERS = tuple("ABCD")
CITIES = ("Sydney", "Canberra", "Melbourne", "Perth")
COLOURS = ("red", "blue", "green", "none of the above")
SHADES = ("red", "the blue", "green", "deep blue sea")


def show(text: str, reading: Reading) -> tuple[str | None, str | None, str | None]:
    """Return the choice or the reason, the part of the rule, and the passage."""
    passage = None if reading.span is None else text[slice(*reading.span)]
    return reading.choice or reading.reason, reading.part, passage


def read(text: str, choices: Sequence[str], options: Sequence[str] | None = None) -> object:
    """Return what `stated_answer` reads."""
    return show(text, read_stated_answer(text, choices, options))


@pytest.mark.parametrize(
    ("text", "answer", "part", "passage"),
    [
        ("Ce n'est pas A, c'est B-.", "B", "conclusion", "c'est B"),
        ("उत्तर A या B ह", "NOTHING_STATED", None, None),
        ("- A: x\n- B:", "SEVERAL_CHOICES", "first_label", "- A: x\n- B:"),
        ("Maybe A?\n\nanswer: b", "B", "answer_cue", "answer: b"),
        ('{"answer": null}\nb', "B", "label_line", "b"),
        ("A is not the answer, B is.", "B", "conclusion", "B is"),
        ("The answer isn't A but C.", "C", "answer_cue", "answer isn't A but C"),
        ("[[B]", "B", "label_line", "[[B]"),
        ("A ✗\nB ✓", "B", "label_line", "B"),
        ("A.\n\nB.\n\nC.\n\nD.", "NOTHING_STATED", None, None),
        ("choose $A$", "NOTHING_STATED", None, None),
        ("A - C", "A", "first_label", "A"),
    ],
)
def test_letters_are_read_where_they_are_stated(
    text: str, answer: str, part: str | None, passage: str | None
) -> None:
    """A passage begins with its cue and ends with its label; what breaks off states nothing."""
    assert read(text, LETTERS) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "answer", "part", "passage"),
    [
        ("Final answer: 3", "3", "answer_cue", "answer: 3"),
        ("3.5", "NOTHING_STATED", None, None),
        ("13", "NOTHING_STATED", None, None),
        ("$3", "NOTHING_STATED", None, None),
        ("-3", "NOTHING_STATED", None, None),
    ],
)
def test_digits_are_read_where_they_are_labels(
    text: str, answer: str, part: str | None, passage: str | None
) -> None:
    """Prices, decimals and larger numbers are none."""
    assert read(text, tuple("1234")) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "answer", "part", "passage"),
    [
        ("B Canberra ٢", "B", "first_label", "B Canberra"),
        ("Canberra (B)", "B", "conclusion", "Canberra (B)"),
        ("A. Canberra", "CONTRADICTS_ITSELF", "first_label", "A"),
        ("A. Sydney\nA. Sydney", "A", "first_label", "A. Sydney"),
    ],
)
def test_texts_of_options_are_read_with_their_labels(
    text: str, answer: str, part: str | None, passage: str | None
) -> None:
    """A label beside the text of another option contradicts itself."""
    assert read(text, LETTERS, CITIES) == (answer, part, passage)


def test_half_of_an_option_is_no_choice() -> None:
    """`none` is not `none of the above`: it declines to choose."""
    assert read("The answer is none", LETTERS, COLOURS) == (
        "DECLINED",
        "answer_cue",
        "answer is none",
    )


@pytest.mark.parametrize(
    ("text", "answer", "part", "passage"),
    [
        ('__B__"', "B", "unwrapped", "B"),
        ("A or B", "SEVERAL_CHOICES", "as_it_is", "A"),
        ("Answer: b", "B", "after_label", "b"),
        ("Answer:\nB", "B", "after_label", "B"),
        ("B because", "B", "as_it_is", "B"),
    ],
)
def test_leading_labels_are_read_through_what_wraps_them(
    text: str, answer: str, part: str | None, passage: str | None
) -> None:
    """The passage is the label itself."""
    assert show(text, read_leading_label(text, LETTERS)) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "choices", "answer", "part", "passage"),
    [
        ("A) Paris B) Lyon", "ABCD", "NOTHING_STATED", None, None),
        ("A. x\nB. y", "AB", "NOTHING_STATED", None, None),
        ("A. x\nB. y", "ABC", "SEVERAL_CHOICES", "first_label", "A. x\nB. y"),
        ("A. x\nC. y", "ABC", "SEVERAL_CHOICES", "first_label", "A. x\nC. y"),
        ("A\nB\nC", "ABCDE", "SEVERAL_CHOICES", "label_line", "C"),
        ("The force is:\n$$F$ = 3 N$\nNext.", "DEF", "NOTHING_STATED", None, None),
        (
            (
                "(b) Then we go on, one by one, with the many steps that are left to do; "
                "it ends here and now."
            ),
            "ABCD",
            "NOTHING_STATED",
            None,
            None,
        ),
        ("Could it be A? It is B.", "ABCD", "B", "conclusion", "It is B"),
        ("If so, the answer is B.", "ABCD", "NOTHING_STATED", None, None),
        ("Some say the answer is A. The answer is B.", "ABCD", "B", "answer_cue", "answer is B"),
        ("A is wrong. B is wrong.", "ABC", "C", "elimination", "A is wrong. B"),
        ("B is right, not A.", "ABCD", "B", "named_right", "B is right"),
        ("neither A nor B", "ABC", "C", "elimination", "neither A nor"),
        ("rule out A and B", "ABC", "C", "elimination", "rule out"),
        ("not the option A but B", "ABCD", "B", "conclusion", "not the option A but B"),
        ("A\nB\nC", "ABC", "NOTHING_STATED", None, None),
    ],
)
def test_lists_questions_and_verdicts_are_told_from_answers(
    text: str, choices: str, answer: str, part: str | None, passage: str | None
) -> None:
    """Options listed again, questions, conditions and opinions of others state nothing of their
    own.
    """
    assert read(text, tuple(choices)) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "answer", "passage"),
    [
        ("The answer is A, or the option B.", "SEVERAL_CHOICES", "answer is A, or the option B"),
        ("The answer is A, B is wrong.", "A", "answer is A"),
        ("The answer is A (unlike\nB) or C.", "SEVERAL_CHOICES", "B) or C"),
        ("The answer is A–C.", "SEVERAL_CHOICES", "answer is A–C"),
        ("The answer is A or", "SEVERAL_CHOICES", "answer is A"),
        ("The answer is A-", "A", "answer is A"),
        ("The answer is A, B-flat.", "NOTHING_STATED", None),
        ("The answer is A or C++.", "NOTHING_STATED", None),
        ("The answer is A or a dog.", "A", "answer is A"),
        ("The answer is A or option b.", "SEVERAL_CHOICES", "answer is A or option b"),
    ],
)
def test_labels_joined_to_others_are_read_with_them(
    text: str, answer: str, passage: str | None
) -> None:
    """Also over a remark in brackets; a label of which something else is said is not joined."""
    reading = read_stated_answer(text, LETTERS)
    assert (reading.choice or reading.reason, show(text, reading)[2]) == (answer, passage)


@pytest.mark.parametrize(
    ("text", "choices", "answer", "part", "passage"),
    [
        ("<answer>It is B</answer>", "ABCD", "B", "answer_tag", "<answer>It is B"),
        ("<think>x</think>A<think>B", "ABCD", "A", "label_line", "A"),
        ("A<|user|>B", "ABCD", "A", "label_line", "A"),
        ("B<|im_end|>A", "ABCD", "B", "label_line", "B"),
        ("B\nQ2. Which?\nA", "ABCD", "B", "label_line", "B"),
        ("<answer>not B</answer>", "ABCD", "NOTHING_STATED", None, None),
        ("<answer></answer> B", "ABCD", "NOTHING_STATED", None, None),
        ("\\boxed{not B}", "ABCD", "NOTHING_STATED", None, None),
        ("B, a question: which?", "ABCD", "B", "first_label", "B"),
        ("The answer is B))))))))).", "ABCD", "B", "answer_cue", "answer is B))))))"),
        ("The answer, I think, is B", "ABCD", "B", "answer_cue", "answer, I think, is B"),
        ("The answer is -2", "1234", "NOTHING_STATED", None, None),
        ("The answer is $2$", "1234", "2", "answer_cue", "answer is $2$"),
        ("The answer is $2", "1234", "NOTHING_STATED", None, None),
        ("The answer is B(x)", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is B[1]", "ABCD", "NOTHING_STATED", None, None),
    ],
)
def test_markup_turns_and_neighbours_decide_what_is_a_label(
    text: str, choices: str, answer: str, part: str | None, passage: str | None
) -> None:
    """Tags and boxes hold answers, thoughts and next questions do not.

    Numbers and words are no labels.
    """
    assert read(text, tuple(choices)) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Sodium (B)", "NOT_A_CHOICE"), ("Sodium\n(B)", "NOT_A_CHOICE"), ("b\n(a)", "B")],
)
def test_a_text_that_begins_plainly_has_no_wrapping(text: str, answer: str) -> None:
    """Nothing is taken off before a plain word."""
    assert show(text, read_leading_label(text, LETTERS)) == (answer, "as_it_is", text[0])


def test_without_choices_no_label_leads() -> None:
    """There is nothing to name."""
    assert read_leading_label("B", ()).reason == "NOT_A_CHOICE"


def test_a_link_is_read_as_emphasis() -> None:
    """The label of an answer may be a link to somewhere."""
    text = 'The answer is <a href="#b">B</a>.'
    assert read(text, LETTERS) == ("B", "answer_cue", 'answer is <a href="#b">B')


def test_a_mark_of_an_answer_is_no_label_though_no_choice_is_called_so() -> None:
    """`A:` after `Q:` leads to the answer, whatever the labels are."""
    result = read("Q: What is it?\nA: The answer is 2.", ("1", "2", "3", "4"))
    assert result == ("2", "answer_cue", "answer is 2")


@pytest.mark.parametrize(
    ("text", "choices", "answer", "part", "passage"),
    [
        ("The answer is $2 $", "1234", "2", "answer_cue", "answer is $2"),
        ("- x-B चुनता हूँ", "AB", "NOTHING_STATED", None, None),
        ("** ( ** ( ** ( ** ( Answer B", "ABCD", "B", "answer_cue", "Answer B"),
        ("-B", "ABCD", "B", "label_line", "-B"),
        (
            "A is wrong. B is wrong. C is wrong." + " word" * 148,
            "ABCD",
            "D",
            "elimination",
            "A is wrong. B is wrong. C",
        ),
        ("A or B चुनता हूँ", "ABCD", "SEVERAL_CHOICES", "named_right", "A or B चुनता"),
        ("Answers: A. Answer: B", "ABCD", "B", "answer_cue", "Answer: B"),
        (
            "B\n# # # # # # # # # Question: x\nAnswer: C",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "Answer: C",
        ),
        ("B\nQuestion x y z w: w\nAnswer: C", "ABCD", "SEVERAL_CHOICES", "answer_cue", "Answer: C"),
        ("B - wrong. C - wrong. D - wrong.", "ABCD", "A", "elimination", "B - wrong. C - wrong. D"),
        ("Eliminate the the the the A, then B, C.", "ABCD", "NOTHING_STATED", None, None),
        ("I would not choose A, B or C.", "ABCD", "D", "elimination", "choose"),
        ("It seems B", "ABCD", "B", "conclusion", "It seems B"),
        ("La rèponse est B", "ABCD", "B", "answer_cue", "rèponse est B"),
        ("So the answer to this : B - blue — correct", "ABCD", "NOTHING_STATED", None, None),
        ("That is my answer: B?", "ABCD", "B", "answer_cue", "answer: B"),
        ("The answer for B is C", "ABCD", "C", "answer_cue", "answer for B is C"),
        (
            "The answer is A or B. The answer is B or A. The answer is A.",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "answer is A",
        ),
        (
            "The answer is " + ", ".join("AB" * 13) + ", C",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "answer is " + ", ".join("AB" * 13) + "",
        ),
        ("The answer is _B_ x", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is is is is B", "ABCD", "B", "answer_cue", "answer is is is is B"),
        ("The best choice is B", "ABCD", "B", "answer_cue", "choice is B"),
        (
            "The correct option is B and C but not C",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "option is B and C",
        ),
        ("Therefore, the answer to this : B)</answer>", "ABCD", "NOTHING_STATED", None, None),
        ("\\boxed{} (B)", "ABCD", "B", "conclusion", "B)"),
        ("dass die Antwort B ist x", "ABCD", "NOTHING_STATED", None, None),
        (
            "my very very very very very very very option is B",
            "ABCD",
            "B",
            "answer_cue",
            "option is B",
        ),
        (
            "my very very very very very very very very option is B",
            "ABCD",
            "B",
            "answer_cue",
            "option is B",
        ),
        ("x. Is my answer: B?", "ABCD", "B", "answer_cue", "answer: B"),
        ("가입니다", "가나다라", "가", "label_line", "가입니다"),
        ("정답은 나정답", "가나다라", "NOTHING_STATED", None, None),
        ("(a) x" + " word" * 20, "ABCD", "A", "first_label", "(a)"),
        ("B\n# # # # # # # # Question: x\nAnswer: C", "ABCD", "B", "label_line", "B"),
        ("I choose E", "ABCD", "NOT_A_CHOICE", "chosen", "choose E"),
        ("I think E", "ABCD", "NOT_A_CHOICE", "chosen", "I think E"),
    ],
)
def test_labels_count_as_far_as_a_cue_reaches(
    text: str, choices: str, answer: str, part: str | None, passage: str | None
) -> None:
    """A label counts where the words before and after it lead to it, and nowhere else."""
    assert read(text, tuple(choices)) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "answer", "part", "passage"),
    [
        ("The answer is B (red", "CONTRADICTS_ITSELF", "answer_cue", "answer is B"),
        ("Blue is it not", "NOTHING_STATED", None, None),
        (
            "The answer is **blue** (C)",
            "CONTRADICTS_ITSELF",
            "answer_cue",
            "answer is **blue** (C)",
        ),
        ("The answer is B(blue)", "B", "answer_cue", "answer is B(blue)"),
        ("\ncorrect option option B is correct? no", "NOTHING_STATED", None, None),
        ("The answer is blue because", "B", "answer_cue", "answer is blue"),
        ("The answer is deep * _ * _ * _ blue sea", "NOTHING_STATED", None, None),
        ("[[**", "NOTHING_STATED", None, None),
        ("- [x] A\n> ", "A", "label_line", "[x] A"),
        ("blue blue", "NOTHING_STATED", None, None),
    ],
)
def test_option_texts_count_where_they_are_complete(
    text: str, answer: str, part: str | None, passage: str | None
) -> None:
    """An option's text counts when it stands in full, and contradicts a label that is not its
    own.
    """
    assert read(text, LETTERS, SHADES) == (answer, part, passage)
