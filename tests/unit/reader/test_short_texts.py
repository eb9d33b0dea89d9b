"""What the rules read in short, odd and cut-off texts, and where they read it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from answerkey.reader import Reading, read_leading_label, read_stated_answer

LETTERS = tuple("ABCD")
CITIES = ("Sydney", "Canberra", "Melbourne", "Perth")
COLOURS = ("red", "blue", "green", "none of the above")


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
        ("正解はAとBですAnswer: B", "B", "answer_cue", "Answer: B"),
        ("**A is the answer", "A", "named_right", "**A is the answer"),
        ("Ce n'est pas A, c'est B-.", "B", "conclusion", "c'est B"),
        ("उत्तर A या B ह", "NOTHING_STATED", None, None),
        ("Ce", "NOTHING_STATED", None, None),
        ("Ж" * 70 + " B", "NOTHING_STATED", None, None),
        ("Hmm, A or", "NOTHING_STATED", None, None),
        ("A-Csondern", "NOTHING_STATED", None, None),
        ("- A: x\n- B:", "SEVERAL_CHOICES", "first_label", "- A: x\n- B:"),
        ('Either A or" C.', "SEVERAL_CHOICES", "label_line", 'Either A or" C'),
        ("That leaves D?.", "NOTHING_STATED", None, None),
        ("\\boxed{B", "B", "boxed", "\\boxed{B"),
        (
            (
                "Therefore the answer is B.\n\n---\n\n**Question 2** Which is larger?\nA. "
                "x\nB. y\nAnswer: A"
            ),
            "B",
            "answer_cue",
            "answer is B",
        ),
        ("I will go with,  D.", "D", "conclusion", "D"),
        ("Maybe A?\n\nanswer: b", "B", "answer_cue", "answer: b"),
        ('Could the answer be B?"', "NOTHING_STATED", None, None),
        ("Options A and B are both", "NOTHING_STATED", None, None),
        ("我选择CĐáp án: B", "B", "conclusion", "B"),
        ('{"answer": null}\nb', "B", "label_line", "b"),
        ("The correct answer is: C, a.", "SEVERAL_CHOICES", "answer_cue", "answer is: C, a"),
        ("I am not sure but I'd guess C.", "C", "chosen", "I'd guess C"),
        ("정답은 B가 아니라,  C입니다.", "C", "conclusion", "아니라,  C"),
        ("1 yang benar adalah B. Canberra", "NOTHING_STATED", None, None),
        ("したがって、 B正解は「B」です。", "B", "named_right", "B正解は"),
        ("मैं B.  चुनता हूँ।", "NOTHING_STATED", None, None),
        (" A正解は選択肢Bです。", "SEVERAL_CHOICES", "answer_cue", "正解は選択肢B"),
        ("The answerдумаюis A? No. The answer is B.", "B", "answer_cue", "answer is B"),
        ("A. Incorrect.\nB. Incorrect.\nC.  not Correct.\nD. Correct.", "D", "verdict_list", "D"),
        ("The answer is B because", "B", "answer_cue", "answer is B"),
        ("I choose", "NOTHING_STATED", None, None),
        ("It is", "NOTHING_STATED", None, None),
        ("So", "NOTHING_STATED", None, None),
        ("not", "NOTHING_STATED", None, None),
        ("The answer is not", "NOTHING_STATED", None, None),
        ("That leaves", "NOTHING_STATED", None, None),
        ("The correct one is", "NOTHING_STATED", None, None),
        ("B is", "NOTHING_STATED", None, None),
        ("B is not", "NOTHING_STATED", None, None),
        ("A is not the answer, B is.", "B", "conclusion", "B is"),
        ("(A) or (B)", "SEVERAL_CHOICES", "label_line", "(A) or (B)"),
        ("A/B", "SEVERAL_CHOICES", "label_line", "A/B"),
        ("A-C", "SEVERAL_CHOICES", "label_line", "A-C"),
        ("A - C", "A", "first_label", "A"),
        ("A, B, C and D are all correct", "NOTHING_STATED", None, None),
        ("It is either B or C, I think B.", "B", "chosen", "I think B"),
        ("Many would say the answer is A, but the answer is B.", "B", "answer_cue", "answer is B"),
        ("Is the answer B? No, the answer is C.", "C", "answer_cue", "answer is C"),
        ("The answer is B? The answer is B!", "B", "answer_cue", "answer is B"),
        ("I don't think the answer is A. I think it is D.", "D", "chosen", "I think it is D"),
        ("The answer isn't A but C.", "C", "answer_cue", "answer isn't A but C"),
        ("<answer>B</answer>", "B", "answer_tag", "<answer>B"),
        ("<answer>B", "B", "answer_tag", "<answer>B"),
        ("<answer>\nB\n</answer>", "B", "answer_tag", "<answer>\nB"),
        ("[[B]]", "B", "double_brackets", "[[B]]"),
        ("[[B]", "B", "label_line", "[[B]"),
        ("\\boxed{\\text{B}}", "B", "boxed", "\\boxed{\\text{B}}"),
        ("$\\boxed{B}$", "B", "boxed", "\\boxed{B}$"),
        ("\\boxed{A} or \\boxed{B}", "SEVERAL_CHOICES", "boxed", "\\boxed{A} or \\boxed{B}"),
        ("<think>A</think>\n\nB", "B", "label_line", "B"),
        ("<think>The answer is A", "NOTHING_STATED", "unclosed_thought", None),
        ("B\n<think>", "B", "label_line", "B"),
        ("B<|im_end|>A", "B", "label_line", "B"),
        ("B\nQuestion: next\nA", "B", "label_line", "B"),
        ("Question: x\nB", "B", "label_line", "B"),
        ("B\n**Question**: A", "B", "label_line", "B"),
        ("A. no\nB. yes", "NOTHING_STATED", None, None),
        ("A: wrong\nB: right\nC: wrong\nD: wrong", "B", "verdict_list", "B"),
        ("A ✗\nB ✓", "B", "label_line", "B"),
        ("A\nB", "SEVERAL_CHOICES", "label_line", "B"),
        ("A\nA", "A", "label_line", "A"),
        ("A.\n\nB.\n\nC.\n\nD.", "NOTHING_STATED", None, None),
        ("A-level results say B.", "NOTHING_STATED", None, None),
        ("vitamin C", "NOTHING_STATED", None, None),
        ("C++", "NOTHING_STATED", None, None),
        ("f(A) = B", "NOTHING_STATED", None, None),
        ("so $B = 2$", "NOTHING_STATED", None, None),
        ("choose $A$", "NOTHING_STATED", None, None),
        ("A good answer", "NOTHING_STATED", None, None),
        ("U.S.A. or B", "NOTHING_STATED", None, None),
        ("정답은 B입니다.", "B", "answer_cue", "정답은 B"),
        ("B를 선택합니다.", "B", "named_right", "B를 선택합니다"),
        ("答案是A或B", "SEVERAL_CHOICES", "answer_cue", "答案是A或B"),
        ("选B。", "B", "chosen", "选B"),
        ("不是A，而是B", "B", "conclusion", "不是A，而是B"),
        ("Bが正解です。", "B", "named_right", "Bが正解です"),
        ("La réponse est B.", "B", "answer_cue", "réponse est B"),
        (
            "Die Antwort ist nicht A, sondern B.",
            "B",
            "answer_cue",
            "Antwort ist nicht A, sondern B",
        ),
        ("weil die Antwort B ist.", "B", "answer_cue", "Antwort B"),
        ("La respuesta es la B", "B", "answer_cue", "respuesta es la B"),
        ("Answer: b", "B", "answer_cue", "Answer: b"),
        ("Option B", "B", "label_line", "Option B"),
        ("Choice: B", "B", "answer_cue", "Choice: B"),
        ("My choice is B", "B", "answer_cue", "choice is B"),
        ("option: A, B", "SEVERAL_CHOICES", "answer_cue", "option: A, B"),
        ("A and B are wrong, C is wrong.", "D", "elimination", "A and B are wrong, C"),
        ("None of the above", "DECLINED", None, None),
        ("The answer is E.", "NOT_A_CHOICE", "answer_cue", "answer is E"),
        ("The answer is (E).", "NOT_A_CHOICE", "answer_cue", "answer is (E)"),
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
        ("dir", "NOTHING_STATED", None, None),
        ("3.Sodium", "3", "first_label", "3"),
        ("Final answer: 3", "3", "answer_cue", "answer: 3"),
        ("3) because", "3", "first_label", "3)"),
        ("3.5", "NOTHING_STATED", None, None),
        ("$3", "NOTHING_STATED", None, None),
        ("-3", "NOTHING_STATED", None, None),
        ("1-3", "SEVERAL_CHOICES", "label_line", "1-3"),
        ("13", "NOTHING_STATED", None, None),
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
        (
            'A (Sydney)" or B (Canberra)',
            "SEVERAL_CHOICES",
            "first_label",
            'A (Sydney)" or B (Canberra)',
        ),
        ('{"answer": "Canberra" definition }', "NOTHING_STATED", None, None),
        (
            "The answer is B (Sydney). I think B is correct.",
            "CONTRADICTS_ITSELF",
            "answer_cue",
            "answer is B",
        ),
        (
            "The answer is Canberra (A).",
            "CONTRADICTS_ITSELF",
            "answer_cue",
            "answer is Canberra (A)",
        ),
        ("Canberra (B)", "B", "conclusion", "Canberra (B)"),
        ("B (Canberra) is correct.", "B", "first_label", "B (Canberra)"),
        ("A (Canberra)", "CONTRADICTS_ITSELF", "first_label", "A"),
        ("The answer is Canberra and Sydney.", "NOTHING_STATED", None, None),
        ("Canberra is the capital.", "B", "option_text", "Canberra"),
        ("It is Perth.", "D", "conclusion", "It is Perth"),
        ("Not Sydney.", "NOTHING_STATED", None, None),
        ("Sydney? No: Canberra", "B", "option_text", "Canberra"),
        ("B. Canberra", "B", "first_label", "B. Canberra"),
        ("B. Canberra.", "B", "first_label", "B. Canberra"),
        ("B. Canberra and more", "B", "first_label", "B. Canberra"),
        ("B Canberra", "B", "first_label", "B Canberra"),
        ("b Canberra", "B", "first_label", "b Canberra"),
        ("A. Canberra", "CONTRADICTS_ITSELF", "first_label", "A"),
        ("A. Sydney\nA. Sydney", "A", "first_label", "A. Sydney"),
        ("B. Canberra\nThe answer is B.", "B", "first_label", "B. Canberra"),
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
        ("B", "B", "as_it_is", "B"),
        ("B.", "B", "as_it_is", "B"),
        ("(B)", "B", "unwrapped", "B"),
        ("**B**", "B", "unwrapped", "B"),
        ("_B_", "B", "unwrapped", "B"),
        ("__B__", "B", "unwrapped", "B"),
        (" B ", "B", "as_it_is", "B"),
        ("B\n", "B", "as_it_is", "B"),
        ("B because", "B", "as_it_is", "B"),
        ("Answer: B", "B", "after_label", "B"),
        ("Answer:\nB", "B", "after_label", "B"),
        ("The answer is B", "NOT_A_CHOICE", "as_it_is", "T"),
        ("A or B", "SEVERAL_CHOICES", "as_it_is", "A"),
        ("1. B", "NOT_A_CHOICE", "as_it_is", "1"),
        ("- B", "B", "unwrapped", "B"),
        ("> B", "B", "unwrapped", "B"),
        ("# B", "B", "unwrapped", "B"),
        ("\\boxed{B}", "B", "unwrapped", "B"),
        ("`B`", "B", "unwrapped", "B"),
        ('"B"', "B", "unwrapped", "B"),
        ("B)", "B", "as_it_is", "B"),
        ("[B]", "B", "unwrapped", "B"),
        ("B,", "B", "as_it_is", "B"),
        ("Bx", "PART_OF_A_WORD", "as_it_is", "B"),
        ("b", "B", "as_it_is", "b"),
        ("Answer: b", "B", "after_label", "b"),
        ("Final answer: **B**", "B", "after_label", "B"),
        ("答案：B", "B", "after_label", "B"),
        ("$B$", "B", "unwrapped", "B"),
        ("{B}", "B", "unwrapped", "B"),
        ("_B", "B", "unwrapped", "B"),
        ("B_", "B", "as_it_is", "B"),
        ("__B", "B", "unwrapped", "B"),
        ("(B", "B", "unwrapped", "B"),
        ("*B", "B", "unwrapped", "B"),
        ("Option B", "NOT_A_CHOICE", "as_it_is", "O"),
        ("B/A", "SEVERAL_CHOICES", "as_it_is", "B"),
        ("B and A", "SEVERAL_CHOICES", "as_it_is", "B"),
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
        (
            "**A** - **Correct**\n**B** - **Incorrect**\n**C** - Incorrect\n**D** - Incorrect",
            "ABCD",
            "A",
            "verdict_list",
            "**A**",
        ),
        (
            "A. Correct, because x\nB. Incorrect, because y\nC. Incorrect\nD. Incorrect",
            "ABCD",
            "A",
            "verdict_list",
            "A",
        ),
        ("A: true\nB: false\nC: false\nD: true", "ABCD", "SEVERAL_CHOICES", "verdict_list", "D"),
        ("A: no\nB: no\nC: yes\nD: no", "ABCD", "C", "verdict_list", "C"),
        ("A: wrong\nB: wrong\nC: wrong", "ABCD", "D", "elimination", "A: wrong\nB: wrong\nC"),
        (
            "A: a correct use of x\nB: y",
            "ABCD",
            "SEVERAL_CHOICES",
            "first_label",
            "A: a correct use of x\nB: y",
        ),
        ("A) Paris B) Lyon", "ABCD", "NOTHING_STATED", None, None),
        ("B) Lyon, as A) is not", "ABCD", "NOTHING_STATED", None, None),
        ("A. x\nB. y", "AB", "NOTHING_STATED", None, None),
        ("A. x", "AB", "A", "first_label", "A"),
        ("B. y\nA. x", "AB", "SEVERAL_CHOICES", "first_label", "B. y\nA. x"),
        ("A. x\nB. y", "ABC", "SEVERAL_CHOICES", "first_label", "A. x\nB. y"),
        ("A. x\nC. y", "ABC", "SEVERAL_CHOICES", "first_label", "A. x\nC. y"),
        ("A. x\nB. y\nC. z", "ABC", "NOTHING_STATED", None, None),
        ("A\nB", "ABC", "SEVERAL_CHOICES", "label_line", "B"),
        ("A\nB\nC", "ABC", "NOTHING_STATED", None, None),
        ("A\nB\nC", "ABCDE", "SEVERAL_CHOICES", "label_line", "C"),
        ("B. Lyon\nC", "ABCD", "SEVERAL_CHOICES", "first_label", "B. Lyon\nC"),
        ("B. Lyon\nD", "ABCD", "SEVERAL_CHOICES", "first_label", "B. Lyon\nD"),
        ("B. Lyon\n\nC", "ABCD", "SEVERAL_CHOICES", "first_label", "B. Lyon\n\nC"),
        ("I. first\nii. second", "IJ", "NOTHING_STATED", None, None),
        ("I. first", "IJ", "I", "first_label", "I"),
        ("1. add\n2. subtract", "1234", "NOTHING_STATED", None, None),
        ("1. add", "1234", "1", "first_label", "1"),
        ("2. add\n3. subtract", "1234", "SEVERAL_CHOICES", "first_label", "2. add\n3. subtract"),
        ("Let us see.\nB. Lyon", "ABCD", "B", "last_label", "B"),
        ("Let us see.\nB. Lyon\nIt is nice.", "ABCD", "NOTHING_STATED", None, None),
        ("The city is:\nB. Lyon\nIt is nice.", "ABCD", "B", "after_colon", "B"),
        ("The force is:\n$$F$ = 3 N$\nNext.", "DEF", "NOTHING_STATED", None, None),
        ("Let us see.\nB. Lyon\nC. Nice", "ABCD", "NOTHING_STATED", None, None),
        ("Let us see.\nB. wrong", "ABCD", "B", "last_label", "B"),
        ("Maybe B. Lyon", "ABCD", "B", "first_label", "Maybe B"),
        ("Maybe: B", "ABCD", "B", "conclusion", "B"),
        ("so B", "ABCD", "B", "label_line", "so B"),
        ("So, B.", "ABCD", "B", "label_line", "So, B"),
        ("my option: B", "ABCD", "B", "answer_cue", "option: B"),
        ("B - Lyon", "ABCD", "B", "first_label", "B"),
        ("B-Lyon", "ABCD", "NOTHING_STATED", None, None),
        ("B:Lyon", "ABCD", "B", "first_label", "B"),
        ("B: x", "ABCD", "B", "first_label", "B"),
        ("B.Lyon", "ABCD", "B", "first_label", "B"),
        ("B:**Lyon**", "ABCD", "B", "first_label", "B"),
        ("B.", "ABCD", "B", "label_line", "B"),
        ("B:", "ABCD", "B", "first_label", "B"),
        ("B -", "ABCD", "B", "first_label", "B"),
        ("B because it is", "ABCD", "B", "first_label", "B"),
        ("B it is", "ABCD", "NOTHING_STATED", None, None),
        ("B (it is)", "ABCD", "B", "first_label", "B"),
        ("B, C: both", "ABCD", "SEVERAL_CHOICES", "first_label", "B, C"),
        ("b. x", "ABCD", "B", "first_label", "b"),
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
        (
            (
                "(B) Then we go on, one by one, with the many steps that are left to do; "
                "it ends here and now."
            ),
            "ABCD",
            "B",
            "first_label",
            "(B)",
        ),
        ("Could it be A? It is B.", "ABCD", "B", "conclusion", "It is B"),
        ("Is it B?", "ABCD", "NOTHING_STATED", None, None),
        ("Is the correct answer B?", "ABCD", "NOTHING_STATED", None, None),
        ("The question is whether the answer is B.", "ABCD", "NOTHING_STATED", None, None),
        ("What if the answer is B? Then so be it.", "ABCD", "NOTHING_STATED", None, None),
        ("If so, the answer is B.", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is B if x.", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is B, if I am right.", "ABCD", "B", "answer_cue", "answer is B"),
        ("At first I thought the answer is A.", "ABCD", "NOTHING_STATED", None, None),
        ("Some say the answer is A. The answer is B.", "ABCD", "B", "answer_cue", "answer is B"),
        ("I do not think the answer is B", "ABCD", "NOTHING_STATED", None, None),
        ("This is not so: the answer is B", "ABCD", "B", "answer_cue", "answer is B"),
        ("Not so, and the answer is B", "ABCD", "B", "answer_cue", "answer is B"),
        ("No. The answer is B", "ABCD", "B", "answer_cue", "answer is B"),
        ("wrong answer: B", "ABCD", "NOTHING_STATED", None, None),
        ("The wrong answer is B", "ABCD", "NOTHING_STATED", None, None),
        ("A and C are wrong", "ABCD", "NOTHING_STATED", None, None),
        ("A is wrong. B is wrong.", "ABC", "C", "elimination", "A is wrong. B"),
        ("B is the answer?", "ABCD", "NOTHING_STATED", None, None),
        ("B is right, not A.", "ABCD", "B", "named_right", "B is right"),
        ("Option b is right", "ABCD", "B", "named_right", "b is right"),
        ("a is right", "ABCD", "A", "named_right", "a is right"),
        ("(a) is right", "ABCD", "A", "first_label", "(a)"),
        ("Option a is right", "ABCD", "A", "named_right", "a is right"),
        ("A and B: B is right", "ABCD", "SEVERAL_CHOICES", "first_label", "A and B"),
        ("I know B is right", "ABCD", "NOTHING_STATED", None, None),
        ("so B is right", "ABCD", "B", "named_right", "B is right"),
        ("B - the answer", "ABCD", "B", "first_label", "B"),
        ("B isn't wrong", "ABCD", "NOTHING_STATED", None, None),
        ("not A, not B, not C", "ABCD", "D", "elimination", "not A, not B, not"),
        ("neither A nor B", "ABC", "C", "elimination", "neither A nor"),
        ("rule out A and B", "ABC", "C", "elimination", "rule out"),
        ("not the option A but B", "ABCD", "B", "conclusion", "not the option A but B"),
        ("not (A) but (B)", "ABCD", "B", "conclusion", "not (A) but (B)"),
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
    ("text", "options", "answer", "passage"),
    [
        (
            "The answer is A, or the option B.",
            None,
            "SEVERAL_CHOICES",
            "answer is A, or the option B",
        ),
        ("The answer is A, B is wrong.", None, "A", "answer is A"),
        ("The answer is A, B is not.", None, "A", "answer is A"),
        ("The answer is A, B are right.", None, "SEVERAL_CHOICES", "answer is A, B"),
        ("The answer is A, because B is wrong.", None, "A", "answer is A"),
        ("The answer is A–C.", None, "SEVERAL_CHOICES", "answer is A–C"),
        ("The answer is A, (B), [C].", None, "SEVERAL_CHOICES", "answer is A, (B), [C]"),
        ("The answer is A,", None, "A", "answer is A"),
        ("The answer is A or", None, "SEVERAL_CHOICES", "answer is A"),
        ("The answer is A/", None, "A", "answer is A"),
        ("The answer is A-", None, "A", "answer is A"),
        ("The answer is A, B-flat.", None, "NOTHING_STATED", None),
        ("The answer is A or C++.", None, "NOTHING_STATED", None),
        ("The answer is A & B", None, "SEVERAL_CHOICES", "answer is A & B"),
        ("The answer is A, B, or C", None, "SEVERAL_CHOICES", "answer is A, B, or C"),
        ("The answer is **A** or **B**.", None, "SEVERAL_CHOICES", "answer is **A** or **B**"),
        ("The answer is A) or B).", None, "SEVERAL_CHOICES", "answer is A) or B)"),
        ("The answer is A or a dog.", None, "A", "answer is A"),
        ("The answer is A or option b.", None, "SEVERAL_CHOICES", "answer is A or option b"),
        ("The answer is A (unlike\nB) or C.", None, "SEVERAL_CHOICES", "B) or C"),
        (
            "The answer is A (Sydney) or B (Canberra).",
            CITIES,
            "SEVERAL_CHOICES",
            "answer is A (Sydney) or B (Canberra)",
        ),
        (
            "The answer is A. Sydney or B. Canberra",
            CITIES,
            "SEVERAL_CHOICES",
            "answer is A. Sydney or B. Canberra",
        ),
        ("The answer is A (Sydney), B is wrong.", CITIES, "A", "answer is A (Sydney)"),
    ],
)
def test_labels_joined_to_others_are_read_with_them(
    text: str, options: Sequence[str] | None, answer: str, passage: str | None
) -> None:
    """Also over a remark in brackets; a label of which something else is said is not joined."""
    reading = read_stated_answer(text, LETTERS, options)
    assert (reading.choice or reading.reason, show(text, reading)[2]) == (answer, passage)


@pytest.mark.parametrize(
    ("text", "choices", "answer", "part", "passage"),
    [
        (
            "<answer>B</answer> and <answer>C</answer>",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_tag",
            "<answer>C",
        ),
        ("<answer>It is B</answer>", "ABCD", "B", "answer_tag", "<answer>It is B"),
        ("<answer>not B</answer>", "ABCD", "NOTHING_STATED", None, None),
        ("<final>B</final>", "ABCD", "B", "answer_tag", "<final>B"),
        ("<answer></answer> B", "ABCD", "NOTHING_STATED", None, None),
        ("\\boxed{not B}", "ABCD", "NOTHING_STATED", None, None),
        ("\\fbox{B}", "ABCD", "B", "boxed", "\\fbox{B}"),
        ("[[A]] then [[B]]", "ABCD", "SEVERAL_CHOICES", "double_brackets", "[[B]]"),
        ("[[A, B]]", "ABCD", "SEVERAL_CHOICES", "double_brackets", "[[A, B]]"),
        ("[A]", "ABCD", "A", "label_line", "[A]"),
        ("<think>x</think>A<think>B", "ABCD", "A", "label_line", "A"),
        ("<think>A</think>", "ABCD", "NOTHING_STATED", None, None),
        ("<think>", "ABCD", "NOTHING_STATED", "unclosed_thought", None),
        ("</think>B", "ABCD", "B", "label_line", "B"),
        ("x</think>\nB\n<think>C</think>\nD", "ABCD", "D", "label_line", "D"),
        ("B\n# Question 2\nA", "ABCD", "B", "label_line", "B"),
        ("B\nQ2. Which?\nA", "ABCD", "B", "label_line", "B"),
        ("B, a question: which?", "ABCD", "B", "first_label", "B"),
        ("B</s>A", "ABCD", "B", "label_line", "B"),
        ("A<|user|>B", "ABCD", "A", "label_line", "A"),
        ("Question 1 of 2\nB", "ABCD", "B", "label_line", "B"),
        ("The answer is ((B)).", "ABCD", "B", "answer_cue", "answer is ((B))"),
        ("The answer is ((((((((B.", "ABCD", "B", "answer_cue", "answer is ((((((((B"),
        ("The answer is B))))))))).", "ABCD", "B", "answer_cue", "answer is B))))))"),
        ("The answer is -2", "1234", "NOTHING_STATED", None, None),
        ("The answer is x-2", "1234", "NOTHING_STATED", None, None),
        ("The answer is $2$", "1234", "2", "answer_cue", "answer is $2$"),
        ("The answer is $2", "1234", "NOTHING_STATED", None, None),
        ("The answer is 2 apples", "1234", "NOTHING_STATED", None, None),
        ("The answer is 2, not 3", "1234", "2", "answer_cue", "answer is 2"),
        ("The answer is A, as it is", "ABCD", "A", "answer_cue", "answer is A"),
        ("I is right", "IJ", "I", "named_right", "I is right"),
        ("The answer is I am", "IJ", "NOTHING_STATED", None, None),
        ("The answer is B (x)", "ABCD", "B", "answer_cue", "answer is B"),
        ("The answer is B(x)", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is B[1]", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is Ab", "ABCD", "NOTHING_STATED", None, None),
        ("The answer is B答", "ABCD", "B", "answer_cue", "answer is B"),
        ("정답은 B번", "ABCD", "B", "answer_cue", "정답은 B"),
        (
            "The answer to the first question is B",
            "ABCD",
            "B",
            "answer_cue",
            "answer to the first question is B",
        ),
        ("The answer to this: B", "ABCD", "B", "conclusion", "B"),
        ("The answer to this. B", "ABCD", "NOTHING_STATED", None, None),
        ("The answer, I think, is B", "ABCD", "B", "answer_cue", "answer, I think, is B"),
        ("The answer is, B", "ABCD", "B", "answer_cue", "answer is, B"),
        ("The answer is\n\nB", "ABCD", "B", "answer_cue", "answer is\n\nB"),
        ("The answer: is: B", "ABCD", "B", "answer_cue", "answer: is: B"),
        ("The answer is maybe B", "ABCD", "B", "answer_cue", "answer is maybe B"),
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
