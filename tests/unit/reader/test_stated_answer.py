from __future__ import annotations

import pytest

from answerkey.reader import Reading, read_stated_answer
from answerkey.reader.markup import find_thoughts
from answerkey.reader.stated_answer import list_statements

CHOICES = ("A", "B", "C", "D")
TOWNS_OF_AUSTRALIA = ("Sydney", "Canberra", "Melbourne", "Perth")


def quote(text: str) -> str | None:
    """Return the passage that decided."""
    span = read_stated_answer(text, CHOICES).span
    return None if span is None else text[span[0] : span[1]]


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("Well, the answer is (B), I think.", "answer is (B)"),
        ("  \n**B**\n", "**B**"),
        ("<think>A</think>\n\nAnswer: C", "Answer: C"),
        ("Question: x?\nAnswer: D\n\nQuestion: y?\nAnswer: A", "Answer: D"),
        ("It isn't A. It's D.", "It's D"),
        ("答案是C。", "答案是C"),
        ("\\boxed{\\text{B}}", "\\boxed{\\text{B}}"),
        ("Nothing here.", None),
    ],
)
def test_passage_is_where_the_answer_is_stated(text: str, passage: str | None) -> None:
    """The span covers the cue and the label, also behind thoughts and before another question."""
    assert quote(text) == passage


def test_only_what_follows_the_thought_is_read() -> None:
    """The last closed thought counts; one that is never closed leaves what stands before it."""
    assert read_stated_answer("<think>A</think>B<think>C</think>D", CHOICES).choice == "D"
    assert read_stated_answer("Answer: B\n<think>or C", CHOICES).choice == "B"
    assert read_stated_answer("<think>B", CHOICES) == Reading(
        None, "NOTHING_STATED", part="unclosed_thought"
    )
    assert read_stated_answer("<think>B</think>", CHOICES).reason == "NOTHING_STATED"


def test_first_turn_that_states_something_decides() -> None:
    """An echoed question is passed over, a further question is not read, whatever it states."""
    text = "Question: which?\nA. x\nB. y\nC. z\nD. w\nAnswer: C\n\nQuestion: and now?\nAnswer: A"
    assert read_stated_answer(text, CHOICES).choice == "C"
    assert (
        read_stated_answer("A or B\n\nQuestion: next\nAnswer: A", CHOICES).reason
        == "SEVERAL_CHOICES"
    )


def test_statements_have_to_agree_unless_one_corrects_the_others() -> None:
    """What was corrected does not count, unless it is stated again."""
    assert read_stated_answer("Answer: A. Wait, Answer: B. Answer: B", CHOICES).choice == "B"
    assert (
        read_stated_answer("Answer: A. Wait, Answer: B. Answer: A", CHOICES).reason
        == "SEVERAL_CHOICES"
    )
    assert read_stated_answer("Answer: A. Answer: B. Sorry, Answer: C", CHOICES).choice == "C"


def test_weaker_statements_count_only_without_stronger_ones() -> None:
    """What is called right in passing gives way to a stated answer, a guess to a definite one."""
    assert read_stated_answer("A is correct in part. The answer is B.", CHOICES).choice == "B"
    assert (
        read_stated_answer(
            "It might be that the answer could be A. The answer is B.", CHOICES
        ).choice
        == "B"
    )
    assert read_stated_answer("The closest option is A. The answer is B.", CHOICES).choice == "B"


def test_options_of_another_length_go_with_the_first_choices() -> None:
    """Fewer texts than choices, or more, are read in order."""
    assert read_stated_answer("The answer is Rome.", CHOICES, ["Paris", "Rome"]).choice == "B"
    assert (
        read_stated_answer("The answer is Rome.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice
        == "B"
    )
    assert (
        read_stated_answer("The answer is Oslo.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice
        is None
    )


TOWNS = ("Paris", "Lyon", "Rome", "Bonn")


@pytest.mark.parametrize(
    ("text", "choice"),
    [("We choose $A$ and solve.", None), ("So $B = 2$.", None), ("So $B$.", "B")],
)
def test_variables_are_no_answers(text: str, choice: str | None) -> None:
    """A letter between dollars is a variable, unless nothing but it is on the line."""
    assert read_stated_answer(text, CHOICES).choice == choice


def test_a_cue_leads_past_few_verbs() -> None:
    """A text that stammers is not followed for ever; the last cue of several leads to its label."""
    assert read_stated_answer("The answer is is is is is is B, C", CHOICES).part != "answer_cue"
    stammered = read_stated_answer("The answer is " * 5 + "B", CHOICES)
    assert (stammered.choice, stammered.part) == ("B", "answer_cue")


@pytest.mark.parametrize("text", ["The answer is not B", "The answer is not B,"])
def test_an_exclusion_at_the_end_states_nothing(text: str) -> None:
    """Nothing follows that could be stated in its place."""
    assert read_stated_answer(text, CHOICES).reason == "NOTHING_STATED"


def test_a_remark_in_brackets_ends_with_its_line() -> None:
    """Brackets that are not closed on their line are not skipped.

    The label before them counts.
    """
    result = read_stated_answer("The answer is B (which\nis Lyon).", CHOICES)
    assert (result.choice, result.part) == ("B", "answer_cue")


def test_dressed_text_after_a_mark_makes_a_label() -> None:
    """`B:**Lyon**` is labelled as `B: Lyon` is."""
    result = read_stated_answer("B:**Lyon**", CHOICES)
    assert (result.choice, result.part) == ("B", "first_label")


def test_a_list_of_options_states_nothing() -> None:
    """Every option repeated on a line of its own is the question again, and so are all labels."""
    echo = "\n".join(f"{label}. {town}" for label, town in zip(CHOICES, TOWNS, strict=True))
    assert read_stated_answer(echo, CHOICES, TOWNS).reason == "NOTHING_STATED"
    assert read_stated_answer("A\nB\nC\nD", CHOICES).reason == "NOTHING_STATED"


def test_verdicts_may_be_dressed_and_hedged() -> None:
    """A list with a verdict for every choice states the one that is called right."""
    text = (
        "A: Paris - **wrong**\nB: Lyon - definitely **correct**\nC: Rome - *wrong*\nD: Bonn - wrong"
    )
    result = read_stated_answer(text, CHOICES)
    assert (result.choice, result.part) == ("B", "verdict_list")


@pytest.mark.parametrize(
    "wrong", ["not correct", "not **correct**", "*not* **correct**", "**not correct**"]
)
def test_a_verdict_may_be_turned_round(wrong: str) -> None:
    """What is called not right is wrong, however that is dressed."""
    text = f"A: Paris - {wrong}\nB: Lyon - **correct**\nC: Rome - {wrong}\nD: Bonn - {wrong}"
    result = read_stated_answer(text, CHOICES)
    assert (result.choice, result.part) == ("B", "verdict_list")


@pytest.mark.parametrize(("text", "part"), [("[[B]]", "double_brackets"), ("[[B]", "label_line")])
def test_double_brackets_have_to_be_closed(text: str, part: str) -> None:
    """Otherwise the label stands on its own."""
    result = read_stated_answer(text, CHOICES)
    assert (result.choice, result.part) == ("B", part)


def test_a_label_may_be_followed_by_its_own_text_in_quotes() -> None:
    """With the quoted text of another option it contradicts itself."""
    assert read_stated_answer('B "Lyon"', CHOICES, TOWNS).choice == "B"
    assert read_stated_answer('B "Rome"', CHOICES, TOWNS).choice is None


def test_the_text_of_an_option_counts_at_the_end_of_a_sentence() -> None:
    """In between it is one of many things that are said; after a verb it may be dressed."""
    middle = "Well, it depends.\nLyon\nThat is what people say about it in the end."
    assert read_stated_answer(middle, CHOICES, TOWNS).reason == "NOTHING_STATED"
    for text in ("The capital is **Lyon**.", 'The town is "Lyon"'):
        result = read_stated_answer(text, CHOICES, TOWNS)
        assert (result.choice, result.part) == ("B", "option_text")


def test_a_question_about_a_label_is_no_verdict() -> None:
    """What is asked is not stated."""
    assert read_stated_answer("Is it so? B is correct?", CHOICES).reason == "NOTHING_STATED"


def test_endless_words_are_read_as_they_are() -> None:
    """A word that no lexicon holds is not normalized; what follows it is read all the same."""
    result = read_stated_answer("\N{LATIN SMALL LETTER E WITH ACUTE}" * 65 + ". Answer: B", CHOICES)
    assert (result.choice, result.part) == ("B", "answer_cue")


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
        ("\\boxed{C-x", "AB", "NOT_A_CHOICE", "boxed", "\\boxed{C"),
        ("\nNo, it's B) Correct.", "ABC", "B", "named_right", "B) Correct"),
        ("Answer: B: red 아니라 C입니다", "ABC", "SEVERAL_CHOICES", "answer_cue", "Answer: B"),
        ("\nC. green", "ABCD", "C", "first_label", "C"),
        ("(A) not correct\n(B) correct", "ABCD", "NOTHING_STATED", None, None),
        ("(a) x" + " word" * 20, "ABCD", "A", "first_label", "(a)"),
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
        ("A or B चुनता हूँ", "ABCD", "SEVERAL_CHOICES", "named_right", "A or B चुनता"),
        ("A. x\nB. y\nC. z", "ABCD", "NOTHING_STATED", None, None),
        ("Answers: A. Answer: B", "ABCD", "B", "answer_cue", "Answer: B"),
        (
            "B\n# # # # # # # # # Question: x\nAnswer: C",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "Answer: C",
        ),
        ("B\n# # # # # # # # Question: x\nAnswer: C", "ABCD", "B", "label_line", "B"),
        ("B\nQuestion x y z w: w\nAnswer: C", "ABCD", "SEVERAL_CHOICES", "answer_cue", "Answer: C"),
        ("B - wrong. C - wrong. D - wrong.", "ABCD", "A", "elimination", "B - wrong. C - wrong. D"),
        ("B Question: y\nAnswer: C", "ABCD", "C", "answer_cue", "Answer: C"),
        ("B is right.?", "ABCD", "B", "named_right", "B is right"),
        ("Bは正解ではない", "ABCD", "NOTHING_STATED", None, None),
        ("Eliminate the the the the A, then B, C.", "ABCD", "NOTHING_STATED", None, None),
        ("Hence B-x", "ABCD", "NOTHING_STATED", None, None),
        ("Hence option is B", "ABCD", "B", "conclusion", "Hence option is B"),
        ("I choose E", "ABCD", "NOT_A_CHOICE", "chosen", "choose E"),
        ("I think E", "ABCD", "NOT_A_CHOICE", "chosen", "I think E"),
        ("I would not choose A, B or C.", "ABCD", "D", "elimination", "choose"),
        ("It seems B", "ABCD", "B", "conclusion", "It seems B"),
        ("La rèponse est B", "ABCD", "B", "answer_cue", "rèponse est B"),
        (
            "Maybe Answer: B: red 아니라 C입니다",
            "ABCD",
            "SEVERAL_CHOICES",
            "answer_cue",
            "Answer: B",
        ),
        ("Scratch that, B", "ABCD", "B", "correction", "Scratch that, B"),
        ("So (a) is right", "ABCD", "A", "first_label", "So (a)"),
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
        ("dass die Antwort B ist", "ABCD", "B", "answer_cue", "Antwort B"),
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
        ("x my option B.", "ABCD", "B", "conclusion", "B"),
        ("x. Is my answer: B?", "ABCD", "B", "answer_cue", "answer: B"),
        ("x</think>\n<think>B", "ABCD", "NOTHING_STATED", "unclosed_thought", None),
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
        ("ox\n" + LONG, SHORT_TEXTS, "A", "option_text", "ox"),
        ("Blue.\nI choose « B »\nC. green", COLOURS[:2], "B", "chosen", "choose « B"),
        ("\ncorrect option option B is correct? no", COLOURS, "NOTHING_STATED", None, None),
        ("B blue is right", COLOURS, "B", "first_label", "B blue"),
        ("Blue is it not", COLOURS, "NOTHING_STATED", None, None),
        ("It is ((((((((blue", COLOURS, "B", "conclusion", "It is ((((((((blue"),
        ("It is ((((((blue", COLOURS, "B", "conclusion", "It is ((((((blue"),
        ("It's D입니다", COLOURS, "D", "conclusion", "It's D"),
        ("No, it's , B", COLOURS, "NOTHING_STATED", None, None),
        ("The answer is (B: red) x", COLOURS, "CONTRADICTS_ITSELF", "answer_cue", "answer is (B"),
        (
            "The answer is **blue** (C)",
            COLOURS,
            "CONTRADICTS_ITSELF",
            "answer_cue",
            "answer is **blue** (C)",
        ),
        ("The answer is B (red", COLOURS, "CONTRADICTS_ITSELF", "answer_cue", "answer is B"),
        ("The answer is B(blue)", COLOURS, "B", "answer_cue", "answer is B(blue)"),
        ("The answer is blue because", COLOURS, "B", "answer_cue", "answer is blue"),
        ("The answer is deep * _ * _ * _ blue sea", COLOURS, "NOTHING_STATED", None, None),
        ("[[**", COLOURS, "NOTHING_STATED", None, None),
        ("\\boxed{", COLOURS, "NOTHING_STATED", None, None),
        ("- [x] A\n> ", COLOURS, "A", "label_line", "[x] A"),
        ("blue blue", COLOURS, "NOTHING_STATED", None, None),
        ("so D because x", COLOURS, "D", "first_label", "so D"),
        ("word " * 56 + "word. It is blue", COLOURS, "B", "conclusion", "It is blue"),
        ("The answer is Paris", WIDE, "A", "answer_cue", "answer is Paris"),
    ],
)
def test_option_texts_count_where_they_are_complete(
    text: str, options: tuple[str, ...], answer: str, part: str | None, passage: str | None
) -> None:
    """An option's text counts when it stands in full, and contradicts a label that is not its
    own.
    """
    assert show(text, tuple("ABCD"[: len(options)]), options) == (answer, part, passage)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Nothing here.", []),
        (" B\n", [(("B",), "B")]),
        ("The answer is (B).", [(("B",), "answer is (B)")]),
        (
            "The answer is A. Wait, that is wrong. The answer is C.",
            [(("A",), "answer is A"), (("C",), "answer is C")],
        ),
        ("The answer is A or B.", [(("A", "B"), "answer is A or B")]),
        ("<think>The answer is A.</think>\nThe answer is C.", [(("C",), "answer is C")]),
        ("<think>The answer is A.", []),
        ("\\boxed{B}", [(("B",), "\\boxed{B}")]),
    ],
)
def test_every_stated_answer_is_listed_with_its_place(
    text: str, stated: list[tuple[tuple[str, ...], str]]
) -> None:
    """In the order of the text.

    What is only thought is not stated. Option texts change nothing here.
    """
    for options in (None, ("one", "two", "three", "four")):
        result = list_statements(text, CHOICES, options)
        assert [(choices, text[begin:end]) for choices, (begin, end) in result] == stated


def test_what_decides_is_among_the_stated_answers() -> None:
    """The passage of `read_stated_answer` is one of those listed, with its choice."""
    for text in (
        "Well, the answer is (B), I think.",
        "  \n**B**\n",
        "It isn't A. It's D.",
        "答案是C。",
    ):
        reading = read_stated_answer(text, CHOICES)
        assert ((reading.choice,), reading.span) in list_statements(text, CHOICES)


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [
        ("Answer: B", []),
        ("<think>a</think>\n\nB", ["<think>a</think>\n\n"]),
        ("B<think>or C", ["<think>or C"]),
        ("<think>or C", ["<think>or C"]),
        ("A<think>x</think>B<think>y</think>C", ["<think>x</think>", "<think>y</think>"]),
    ],
)
def test_thoughts_are_what_cannot_state_the_answer(text: str, thoughts: list[str]) -> None:
    """With their tokens and the white space after them."""
    assert [text[begin:end] for begin, end in find_thoughts(text)] == thoughts


@pytest.mark.parametrize(
    ("text", "options", "choice"),
    [
        ("Answer: C", ("c", "x", "y", "z"), "C"),
        ("The answer to that\nis B.", None, "B"),
        ("The answer is x.", ("(x)", "b", "q", "w"), "A"),
        ("It is -5.", ("5", "6", "7", "8"), None),
        ("The answer is 5.", ("5", "6", "7", "8"), "A"),
        ("A. Sydney\nB. Canb", TOWNS_OF_AUSTRALIA, None),
        ("I think it's B, but wait, C also fits", TOWNS_OF_AUSTRALIA, None),
        ("C'est la loi de 1882 (réponse B), mais la séparation date de 1905.", None, None),
        (
            "A. It is Sydney.\nB. It is Canberra.\nC. It is Melbourne.\nD. It is Perth.",
            TOWNS_OF_AUSTRALIA,
            None,
        ),
        ("Answer: B? Well, D could be right too, and I can't decide.", None, None),
        ("第1题：B\n第2题：A", None, None),
        ("The answer is A (the first) or B (the second).", None, None),
        ("A careful look at the options leads to A.", None, "A"),
        ("Die Luft ist dünn, daher ist Antwort C richtig.", None, "C"),
        ("Bu nedenle cevap D olmalıdır.", None, "D"),
        ("It flows north, i.e. C.", None, "C"),
        ("The answer is (D). Perth is not a capital.", TOWNS_OF_AUSTRALIA, "D"),
    ],
)
def test_what_only_looks_like_an_answer_is_none(
    text: str, options: tuple[str, ...] | None, choice: str | None
) -> None:
    """Cut lists, glosses, taken back letters and answers to several questions name no choice."""
    assert read_stated_answer(text, CHOICES, options).choice == choice


ARGUMENT = (
    "The speed is the distance over the time it takes, and the mass does not matter here. " * 3
)


@pytest.mark.parametrize(
    ("steps", "closing", "answer"),
    [
        (ARGUMENT, "The answer is (B).", "B"),
        (ARGUMENT + "So (C) is too small.\n", "The answer is (B).", "B"),
        (ARGUMENT + "So the answer is (C).\n", "The answer is (B).", None),
        (ARGUMENT + "So (c) comes first.\n", "Hence my best guess for the answer is (B).", "B"),
        ("The answer is (C). Wait. " + ARGUMENT, "The answer is (B).", "B"),
        (ARGUMENT + "\nQuestion: who?\n", "The answer is (B).", "B"),
        (ARGUMENT, "The answer is (E).", None),
        (ARGUMENT + "So (C) is small.\n", "My guess for the answer is (B).", "B"),
        (ARGUMENT + "So (C) is small.\n", "The most likely answer is (B).", "B"),
    ],
)
def test_a_chain_is_read_as_if_every_sentence_were(
    steps: str, closing: str, answer: str | None
) -> None:
    """Sentences that name no label change nothing."""
    text = steps + closing
    reading = read_stated_answer(text, CHOICES, ("Lyon", "Paris", "Nice", "Lille"))
    assert reading.choice == answer
    if answer is not None:
        begin, end = reading.span or (0, 0)
        assert "answer" in text[begin:end]
        assert text[begin:end].endswith("(B)")


@pytest.mark.parametrize(
    ("text", "choices", "answer"),
    [
        ("I'd go with the second one.", "ABCD", "B"),
        ("The last option is correct.", "ABCD", "D"),
        ("The fourth option is correct.", "ABC", None),
    ],
)
def test_an_option_may_be_named_by_its_place(text: str, choices: str, answer: str | None) -> None:
    """The second option is that of the second choice, the last one that of the last."""
    assert read_stated_answer(text, tuple(choices)).choice == answer


def test_a_short_reply_states_the_one_option_that_it_names_by_label_and_text() -> None:
    """Nothing else needs to call it the answer."""
    options = ("Jane Austen", "Mary Shelley")
    text = "Frankenstein was written by B. Mary Shelley."
    assert read_stated_answer(text, ("A", "B"), options).choice == "B"


@pytest.mark.parametrize(
    ("text", "options", "choice"),
    [
        ("**Paris**", ("**Paris**", "Nice", "Lyon", "Brest"), "A"),
        ("It is C.", ("c", "d", "x", "y"), "C"),
        ("Canberra has been it since 1913, and letter B names it for you", TOWNS_OF_AUSTRALIA, "B"),
        ("The answer is Canberra [the capital].", TOWNS_OF_AUSTRALIA, "B"),
        ("The capital is Canberra (A).", TOWNS_OF_AUSTRALIA, None),
        ("Part 1: x y. Part 2: B", None, None),
        ("The root of 16 is known to be\nC", None, "C"),
        ("Monday: A\nTuesday: B", None, None),
        ("The only non-renewable source is C.", None, "C"),
        ("A is incorrect.", ("Correct", "Incorrect"), None),
        ("수도는 서울입니다.", ("부산", "서울"), "B"),
        ("$\\boxed{\\text{D. } 2 x}$", None, "D"),
        ("I was wrong: it is A", ("right", "wrong"), "A"),
        ("The poet is **Keats (B)**, not Blake (A).", ("Blake", "Keats"), "B"),
    ],
)
def test_what_a_reply_names_last_or_alone_is_its_answer(
    text: str, options: tuple[str, ...] | None, choice: str | None
) -> None:
    """A label or a text, after a verb or a colon, unless it answers a part or clashes."""
    assert read_stated_answer(text, CHOICES, options).choice == choice
