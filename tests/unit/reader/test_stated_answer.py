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


def decide(
    text: str, choices: tuple[str, ...] = CHOICES, options: tuple[str, ...] | None = None
) -> str | None:
    """Return the choice, or the reason why there is none."""
    reading = read_stated_answer(text, choices, options)
    return reading.choice or reading.reason


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("Well, the answer is (B), I think.", "answer is (B)"),
        ("<think>A</think>\n\nAnswer: C", "Answer: C"),
        ("Question: x?\nAnswer: D\n\nQuestion: y?\nAnswer: A", "Answer: D"),
    ],
)
def test_passage_is_where_the_answer_is_stated(text: str, passage: str | None) -> None:
    """The span covers the cue and the label, also behind thoughts and before another question."""
    assert quote(text) == passage


def test_only_what_follows_the_thought_is_read() -> None:
    """The last closed thought counts; one that is never closed leaves what stands before it."""
    assert decide("<think>A</think>B<think>C</think>D") == "D"
    assert decide("Answer: B\n<think>or C") == "B"
    unclosed = Reading(None, "NOTHING_STATED", part="unclosed_thought")
    assert read_stated_answer("<think>B", CHOICES) == unclosed
    assert decide("<think>B</think>") == "NOTHING_STATED"


def test_first_turn_that_states_something_decides() -> None:
    """An echoed question is passed over, a further question is not read, whatever it states."""
    text = "Question: which?\nA. x\nB. y\nC. z\nD. w\nAnswer: C\n\nQuestion: and now?\nAnswer: A"
    assert decide(text) == "C"
    assert decide("A or B\n\nQuestion: next\nAnswer: A") == "SEVERAL_CHOICES"


def test_statements_have_to_agree_unless_one_corrects_the_others() -> None:
    """What was corrected does not count, unless it is stated again."""
    assert decide("Answer: A. Wait, Answer: B. Answer: B") == "B"
    assert decide("Answer: A. Wait, Answer: B. Answer: A") == "SEVERAL_CHOICES"
    assert decide("Answer: A. Answer: B. Sorry, Answer: C") == "C"


def test_weaker_statements_count_only_without_stronger_ones() -> None:
    """What is called right in passing gives way to a stated answer, a guess to a definite one."""
    assert decide("A is correct in part. The answer is B.") == "B"
    assert decide("It might be that the answer could be A. The answer is B.") == "B"
    assert decide("The closest option is A. The answer is B.") == "B"


def test_options_of_another_length_go_with_the_first_choices() -> None:
    """Fewer texts than choices, or more, are read in order."""
    assert decide("The answer is Rome.", CHOICES, ("Paris", "Rome")) == "B"
    cities = ("Paris", "Rome", "Oslo")
    assert decide("The answer is Rome.", ("A", "B"), cities) == "B"
    assert read_stated_answer("The answer is Oslo.", ("A", "B"), cities).choice is None


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


def test_the_text_of_an_option_counts_at_the_end_of_a_sentence() -> None:
    """In between it is one of many things that are said; after a verb it may be dressed."""
    middle = "Well, it depends.\nLyon\nThat is what people say about it in the end."
    assert read_stated_answer(middle, CHOICES, TOWNS).reason == "NOTHING_STATED"
    for text in ("The capital is **Lyon**.", 'The town is "Lyon"'):
        result = read_stated_answer(text, CHOICES, TOWNS)
        assert (result.choice, result.part) == ("B", "option_text")


def test_endless_words_are_read_as_they_are() -> None:
    """A word that no lexicon holds is not normalized; what follows it is read all the same."""
    result = read_stated_answer("\N{LATIN SMALL LETTER E WITH ACUTE}" * 65 + ". Answer: B", CHOICES)
    assert (result.choice, result.part) == ("B", "answer_cue")


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        (" B\n", [(("B",), "B")]),
        ("The answer is (B).", [(("B",), "answer is (B)")]),
        (
            "The answer is A. Wait, that is wrong. The answer is C.",
            [(("A",), "answer is A"), (("C",), "answer is C")],
        ),
        ("The answer is A or B.", [(("A", "B"), "answer is A or B")]),
        ("<think>The answer is A.</think>\nThe answer is C.", [(("C",), "answer is C")]),
        ("<think>The answer is A.", []),
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
        ("The answer is x.", ("(x)", "b", "q", "w"), "A"),
        ("It is -5.", ("5", "6", "7", "8"), None),
        ("A. Sydney\nB. Canb", TOWNS_OF_AUSTRALIA, None),
        ("C'est la loi de 1882 (réponse B), mais la séparation date de 1905.", None, None),
        ("第1题：B\n第2题：A", None, None),
        ("The answer is A (the first) or B (the second).", None, None),
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
        (ARGUMENT + "So the answer is (C).\n", "The answer is (B).", None),
        (ARGUMENT + "So (c) comes first.\n", "Hence my best guess for the answer is (B).", "B"),
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


@pytest.mark.parametrize(
    ("text", "options", "choice"),
    [
        ("Canberra has been it since 1913, and letter B names it for you", TOWNS_OF_AUSTRALIA, "B"),
        ("The answer is Canberra [the capital].", TOWNS_OF_AUSTRALIA, "B"),
        ("The capital is Canberra (A).", TOWNS_OF_AUSTRALIA, None),
        ("Part 1: x y. Part 2: B", None, None),
        ("Monday: A\nTuesday: B", None, None),
        ("A is incorrect.", ("Correct", "Incorrect"), None),
        ("수도는 서울입니다.", ("부산", "서울"), "B"),
        ("I was wrong: it is A", ("right", "wrong"), "A"),
        ("The poet is **Keats (B)**, not Blake (A).", ("Blake", "Keats"), "B"),
        ("**Paris**", ("**Paris**", "Nice", "Lyon", "Brest"), "A"),
        ("$\\boxed{\\text{D. } 2 x}$", None, "D"),
    ],
)
def test_what_a_reply_names_last_or_alone_is_its_answer(
    text: str, options: tuple[str, ...] | None, choice: str | None
) -> None:
    """A label or a text, after a verb or a colon, unless it answers a part or clashes."""
    assert read_stated_answer(text, CHOICES, options).choice == choice
