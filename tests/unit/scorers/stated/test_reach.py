"""How far the rules look: the last unit that still counts, and the first that no longer does."""

from __future__ import annotations

import pytest

from answerkey.scorers.stated_answer import read_stated_answer

COLOURS = ("red", "the blue", "green", "deep blue sea")
NUMBERS = ("1.5", "route 66", "x", "12")
SHORT_TEXTS = ("ox", "x", "12", "x 1")
CLAIMS = ("It is C", "It is D", "It is A", "none")
WIDE = ("Ｐａｒｉｓ", "y", "z", "w")
LONG = "So we go on and on. " * 12


def show(
    text: str, choices: tuple[str, ...], options: tuple[str, ...] | None = None
) -> tuple[str | None, str | None, str | None]:
    """Return the choice or the reason, the part of the rule, and the passage."""
    reading = read_stated_answer(text, choices, options)
    passage = None if reading.span is None else text[slice(*reading.span)]
    return reading.choice or reading.reason, reading.part, passage


@pytest.mark.parametrize(
    ("text", "choices", "answer", "part", "passage"),
    [
        ("The answer is $2 $", "1234", "2", "answer_cue", "answer is $2"),
        ("The answer is A", "A", "A", "answer_cue", "answer is A"),
        ("- x-B चुनता हूँ", "AB", "NOTHING_STATED", None, None),
        ("A, B is the answer", "AB", "SEVERAL_CHOICES", "first_label", "A, B"),
        ("A. x\nB", "AB", "A", "first_label", "A"),
        ("A: wrong.\nB: correct ** x", "AB", "B", "elimination", "A"),
        (
            "A: x - wrong\nB: very very very very very very very very very correct",
            "AB",
            "B",
            "elimination",
            "A",
        ),
        ("I think A and B are right", "AB", "NOTHING_STATED", None, None),
        ("\\boxed{C-x", "AB", "NOTHING_STATED", None, None),
        ("\nNo, it's B) Correct.", "ABC", "NOTHING_STATED", None, None),
        ("Answer: B: red 아니라 C입니다", "ABC", "B", "answer_cue", "Answer: B"),
        ("\nC. green", "ABCD", "C", "first_label", "C"),
        ("((B)) (blue), A. B", "ABCD", "SEVERAL_CHOICES", "first_label", "((B)) (blue), A"),
        ("(A) not correct\n(B) correct", "ABCD", "NOTHING_STATED", None, None),
        ("(a) x" + " word" * 20, "ABCD", "A", "first_label", "(a)"),
        ("** ( ** ( ** ( ** ( ** Answer B", "ABCD", "NOTHING_STATED", None, None),
        ("** ( ** ( ** ( ** ( Answer B", "ABCD", "B", "answer_cue", "Answer B"),
        ("- Answer:  is not **correct**", "ABCD", "NOTHING_STATED", None, None),
        ("-B", "ABCD", "B", "label_line", "-B"),
        (
            "A is wrong. B is wrong. C is wrong." + " word" * 148,
            "ABCD",
            "D",
            "elimination",
            "A is wrong. B is wrong. C",
        ),
        ("A or B चुनता हूँ", "ABCD", "B", "chosen", "चुनता"),
        ("A. x\nB. y\nC. z", "ABCD", "NOTHING_STATED", None, None),
        ("Answers: A. Answer: B", "ABCD", "B", "answer_cue", "Answer: B"),
        ("B\n# # # # # # # # # Question: x\nAnswer: C", "ABCD", "SEVERAL_CHOICES", "answer_cue", "Answer: C"),
        ("B\n# # # # # # # # Question: x\nAnswer: C", "ABCD", "B", "label_line", "B"),
        ("B\nQuestion x y z w: w\nAnswer: C", "ABCD", "SEVERAL_CHOICES", "answer_cue", "Answer: C"),
        ("B - wrong. C - wrong. D - wrong.", "ABCD", "A", "elimination", "B - wrong. C - wrong. D"),
        ("B Question: y\nAnswer: C", "ABCD", "C", "answer_cue", "Answer: C"),
        ("B is right.?", "ABCD", "B", "named_right", "B is right"),
        ("B:**", "ABCD", "NOTHING_STATED", None, None),
        ("Bは正解ではない", "ABCD", "NOTHING_STATED", None, None),
        ("Eliminate the the the the A, then B, C.", "ABCD", "NOTHING_STATED", None, None),
        ("Hence B-x", "ABCD", "NOTHING_STATED", None, None),
        ("Hence option is B", "ABCD", "B", "conclusion", "Hence option is B"),
        ("I choose E", "ABCD", "NOT_A_CHOICE", "chosen", "choose E"),
        ("I think A () or B", "ABCD", "SEVERAL_CHOICES", "chosen", "I think A () or B"),
        ("I think E", "ABCD", "NOT_A_CHOICE", "chosen", "I think E"),
        ("I would not choose A, B or C.", "ABCD", "D", "elimination", "choose"),
        ("It seems B", "ABCD", "B", "conclusion", "It seems B"),
        ("La rèponse est B", "ABCD", "B", "answer_cue", "rèponse est B"),
        ("Maybe Answer: B: red 아니라 C입니다", "ABCD", "B", "answer_cue", "Answer: B"),
        ("Scratch that, B", "ABCD", "NOTHING_STATED", None, None),
        ("So (a) is right", "ABCD", "A", "named_right", "(a) is right"),
        ("So the answer to this : B - blue — correct", "ABCD", "NOTHING_STATED", None, None),
        ("That is my answer: B?", "ABCD", "B", "answer_cue", "answer: B"),
        ("The answer for B is C", "ABCD", "C", "answer_cue", "answer for B is C"),
        ("The answer is *B*x", "ABCD", "NOTHING_STATED", None, None),
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
        ("The answer is B or C is wrong", "ABCD", "B", "answer_cue", "answer is B"),
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
        ("\\boxed{} (B)", "ABCD", "NOTHING_STATED", None, None),
        ("a를 선택합니다", "ABCD", "A", "chosen", "선택합니다"),
        ("dass die Antwort B ist", "ABCD", "B", "answer_cue", "Antwort B"),
        ("dass die Antwort B ist x", "ABCD", "NOTHING_STATED", None, None),
        ("my very very very very very very very option is B", "ABCD", "B", "answer_cue", "option is B"),
        ("my very very very very very very very very option is B", "ABCD", "B", "answer_cue", "option is B"),
        ("so $B$ but C", "ABCD", "NOTHING_STATED", None, None),
        ("x B 번 번 번 번을 선택합니다", "ABCD", "NOTHING_STATED", None, None),
        ("x my option B.", "ABCD", "NOTHING_STATED", None, None),
        ("x. Is my answer: B?", "ABCD", "NOTHING_STATED", None, None),
        ("x</think>\n<think>B", "ABCD", "NOTHING_STATED", "unclosed_thought", None),
        ("i is right", "HIJ", "NOTHING_STATED", None, None),
        ("가입니다", "가나다라", "가", "label_line", "가입니다"),
        ("정답은 나정답", "가나다라", "NOTHING_STATED", None, None),
    ],
)
def test_labels_count_as_far_as_a_cue_reaches(
    text: str, choices: str, answer: str, part: str | None, passage: str | None
) -> None:
    """A label counts where the words before and after it lead to it, and nowhere else."""
    assert show(text, tuple(choices)) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "options", "answer", "part", "passage"),
    [
        ("The answer is 1.5 - 1", NUMBERS, "NOTHING_STATED", None, None),
        ("A. It is C.\nB. It is D.", CLAIMS, "NOTHING_STATED", None, None),
        ("ox\n" + LONG, SHORT_TEXTS, "A", "option_text", "ox"),
        ("x\n" + LONG, SHORT_TEXTS, "NOTHING_STATED", None, None),
        ("Blue.\nI choose « B »\nC. green", COLOURS[:2], "B", "chosen", "choose « B"),
        ("\ncorrect option option B is correct? no", COLOURS, "B", "answer_cue", "option option B"),
        ("$B$**; A since it is.", COLOURS, "B", "first_label", "$B$**"),
        ("B blue is right", COLOURS, "B", "named_right", "B blue is right"),
        ("B-C is the answer", COLOURS, "SEVERAL_CHOICES", "first_label", "B-C"),
        ("Blue is it not", COLOURS, "NOTHING_STATED", None, None),
        ("It is ((((((((blue", COLOURS, "NOTHING_STATED", None, None),
        ("It is ((((((blue", COLOURS, "B", "option_text", "blue"),
        ("It's D입니다", COLOURS, "D", "conclusion", "It's D"),
        ("No, it's , B", COLOURS, "NOTHING_STATED", None, None),
        ("Odpowiedź to , B\n\n**No, it's B-C is", COLOURS, "NOTHING_STATED", None, None),
        ("The answer is (B: red) x", COLOURS, "B", "answer_cue", "answer is (B"),
        ("The answer is **blue** (C)", COLOURS, "CONTRADICTS_ITSELF", "answer_cue", "answer is **blue** (C)"),
        ("The answer is B (red", COLOURS, "CONTRADICTS_ITSELF", "answer_cue", "answer is B"),
        ("The answer is B(blue)", COLOURS, "B", "answer_cue", "answer is B"),
        ("The answer is blue because", COLOURS, "B", "answer_cue", "answer is blue"),
        ("The answer is deep * _ * _ * _ blue sea", COLOURS, "NOTHING_STATED", None, None),
        ("[[**", COLOURS, "NOTHING_STATED", None, None),
        ("\\boxed{", COLOURS, "NOTHING_STATED", None, None),
        ("blue blue", COLOURS, "NOTHING_STATED", None, None),
        ("so D because x", COLOURS, "D", "conclusion", "so D"),
        ("the answer to this : $B$\nWait, C", COLOURS, "C", "correction", "Wait, C"),
        ("word " * 56 + "word. It is blue", COLOURS, "B", "option_text", "blue"),
        ("The answer is Paris", WIDE, "A", "answer_cue", "answer is Paris"),
    ],
)
def test_option_texts_count_where_they_are_complete(
    text: str, options: tuple[str, ...], answer: str, part: str | None, passage: str | None
) -> None:
    """An option's text counts when it stands in full, and contradicts a label that is not its own."""
    assert show(text, tuple("ABCD"[: len(options)]), options) == (answer, part, passage)
