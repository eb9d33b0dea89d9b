from __future__ import annotations

import pytest

from answerkey.scorers.heads import Reading
from answerkey.scorers.stated_answer import read_stated_answer

CHOICES = ("A", "B", "C", "D")


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
    assert read_stated_answer("<think>B", CHOICES) == Reading(None, "NOTHING_STATED", "unclosed_thought")
    assert read_stated_answer("<think>B</think>", CHOICES).reason == "NOTHING_STATED"


def test_first_turn_that_states_something_decides() -> None:
    """An echoed question is passed over, a further question is not read, whatever it states."""
    text = "Question: which?\nA. x\nB. y\nC. z\nD. w\nAnswer: C\n\nQuestion: and now?\nAnswer: A"
    assert read_stated_answer(text, CHOICES).choice == "C"
    assert read_stated_answer("A or B\n\nQuestion: next\nAnswer: A", CHOICES).reason == "SEVERAL_CHOICES"


def test_statements_have_to_agree_unless_one_corrects_the_others() -> None:
    """What was corrected does not count, unless it is stated again."""
    assert read_stated_answer("Answer: A. Wait, Answer: B. Answer: B", CHOICES).choice == "B"
    assert read_stated_answer("Answer: A. Wait, Answer: B. Answer: A", CHOICES).reason == "SEVERAL_CHOICES"
    assert read_stated_answer("Answer: A. Answer: B. Sorry, Answer: C", CHOICES).choice == "C"


def test_weaker_statements_count_only_without_stronger_ones() -> None:
    """What is called right in passing gives way to a stated answer, a guess to a definite one."""
    assert read_stated_answer("A is correct in part. The answer is B.", CHOICES).choice == "B"
    assert (
        read_stated_answer("It might be that the answer could be A. The answer is B.", CHOICES).choice == "B"
    )
    assert read_stated_answer("The closest option is A. The answer is B.", CHOICES).choice == "B"


def test_options_of_another_length_go_with_the_first_choices() -> None:
    """Fewer texts than choices, or more, are read in order."""
    assert read_stated_answer("The answer is Rome.", CHOICES, ["Paris", "Rome"]).choice == "B"
    assert read_stated_answer("The answer is Rome.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice == "B"
    assert read_stated_answer("The answer is Oslo.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice is None


TOWNS = ("Paris", "Lyon", "Rome", "Bonn")


@pytest.mark.parametrize(
    ("text", "choice"), [("We choose $A$ and solve.", None), ("So $B = 2$.", None), ("So $B$.", "B")]
)
def test_variables_are_no_answers(text: str, choice: str | None) -> None:
    """A letter between dollars is a variable, unless nothing but it is on the line."""
    assert read_stated_answer(text, CHOICES).choice == choice


def test_a_cue_leads_past_few_verbs() -> None:
    """A text that stammers is not followed for ever; the last cue of several leads to its label."""
    assert read_stated_answer("The answer is is is is is is B", CHOICES).reason == "NOTHING_STATED"
    stammered = read_stated_answer("The answer is " * 5 + "B", CHOICES)
    assert (stammered.choice, stammered.part) == ("B", "answer_cue")


@pytest.mark.parametrize("text", ["The answer is not B", "The answer is not B,"])
def test_an_exclusion_at_the_end_states_nothing(text: str) -> None:
    """Nothing follows that could be stated in its place."""
    assert read_stated_answer(text, CHOICES).reason == "NOTHING_STATED"


def test_a_remark_in_brackets_ends_with_its_line() -> None:
    """Brackets that are not closed on their line are passed over by nobody; the label before them counts."""
    found = read_stated_answer("The answer is B (which\nis Lyon).", CHOICES)
    assert (found.choice, found.part) == ("B", "answer_cue")


def test_dressed_text_after_a_mark_makes_a_label() -> None:
    """`B:**Lyon**` is labelled as `B: Lyon` is."""
    found = read_stated_answer("B:**Lyon**", CHOICES)
    assert (found.choice, found.part) == ("B", "first_label")


def test_a_list_of_options_states_nothing() -> None:
    """Every option repeated on a line of its own is the question again, and so are all labels."""
    echo = "\n".join(f"{label}. {town}" for label, town in zip(CHOICES, TOWNS, strict=True))
    assert read_stated_answer(echo, CHOICES, TOWNS).reason == "NOTHING_STATED"
    assert read_stated_answer("A\nB\nC\nD", CHOICES).reason == "NOTHING_STATED"


def test_verdicts_may_be_dressed_and_hedged() -> None:
    """A list with a verdict for every choice states the one that is called right."""
    text = "A: Paris - **wrong**\nB: Lyon - definitely **correct**\nC: Rome - *wrong*\nD: Bonn - wrong"
    found = read_stated_answer(text, CHOICES)
    assert (found.choice, found.part) == ("B", "verdict_list")


@pytest.mark.parametrize("wrong", ["not correct", "not **correct**", "*not* **correct**", "**not correct**"])
def test_a_verdict_may_be_turned_round(wrong: str) -> None:
    """What is called not right is wrong, however that is dressed."""
    text = f"A: Paris - {wrong}\nB: Lyon - **correct**\nC: Rome - {wrong}\nD: Bonn - {wrong}"
    found = read_stated_answer(text, CHOICES)
    assert (found.choice, found.part) == ("B", "verdict_list")


@pytest.mark.parametrize(("text", "part"), [("[[B]]", "double_brackets"), ("[[B]", "label_line")])
def test_double_brackets_have_to_be_closed(text: str, part: str) -> None:
    """Otherwise the label stands on its own."""
    found = read_stated_answer(text, CHOICES)
    assert (found.choice, found.part) == ("B", part)


def test_a_label_may_be_followed_by_its_own_text_in_quotes() -> None:
    """The quoted text of another option does not make a label of the letter before it."""
    assert read_stated_answer('B "Lyon"', CHOICES, TOWNS).choice == "B"
    assert read_stated_answer('B "Rome"', CHOICES, TOWNS).reason == "NOTHING_STATED"


def test_the_text_of_an_option_counts_on_the_first_or_last_line() -> None:
    """In between it is one of many things that are said; after a verb it may be dressed."""
    middle = "Well, it depends.\nLyon\nThat is what people say about it in the end."
    assert read_stated_answer(middle, CHOICES, TOWNS).reason == "NOTHING_STATED"
    for text in ("Lyon\nfoo is\nLyon\nbar", "The capital is **Lyon**.", 'It is "Lyon"'):
        found = read_stated_answer(text, CHOICES, TOWNS)
        assert (found.choice, found.part) == ("B", "option_text")


def test_a_question_about_a_label_is_no_verdict() -> None:
    """Nor is what is said of all choices at once."""
    assert read_stated_answer("Is it so? B is correct?", CHOICES).reason == "NOTHING_STATED"
    assert read_stated_answer("A, B, C and D are correct.", CHOICES).reason == "SEVERAL_CHOICES"


def test_endless_words_are_read_as_they_are() -> None:
    """A word that no lexicon holds is not normalized; what follows it is read all the same."""
    found = read_stated_answer("\N{LATIN SMALL LETTER E WITH ACUTE}" * 65 + ". Answer: B", CHOICES)
    assert (found.choice, found.part) == ("B", "answer_cue")
