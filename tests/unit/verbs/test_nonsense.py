"""Laws of the early warning."""

from __future__ import annotations

import pytest

import answerkey as ak
from answerkey.datasets import load_rows
from answerkey.evaluate.session import FIRST, EarlyWarning, Judged, QuickJudge, judge_first
from answerkey.types import Completion, CompletionStatus

VALID = Judged(scored=50, correct=20, invalid=0)
INVALID = Judged(scored=50, correct=0, invalid=50)


def say(*texts: str | None, finish_reason: str = "stop") -> list[Completion]:
    """Return fifty completions that say these texts in turn."""
    return [Completion(texts[i % len(texts)], finish_reason=finish_reason) for i in range(50)]


def test_ordinary_completions_are_no_cause_for_a_warning() -> None:
    """Some are right, some are INVALID, not all are the same: nothing is said."""
    assert judge_first(say("A", "B"), Judged(50, 20, 49)) is None


@pytest.mark.parametrize(
    ("said", "judged", "words", "useless"),
    [
        (say("Well,", "So,"), INVALID, "all INVALID; for example 'Well,'", True),
        (say("A"), VALID, "all the same; for example 'A'", True),
        (say(None), INVALID, "all INVALID and all the same; for example no text (OK)", True),
        (say("A", "B", finish_reason="length"), VALID, "all cut off by the token limit; for", False),
        (say("A", "B", finish_reason="length"), Judged(), "all cut off by the token limit; for", True),
        (say("a", "b", finish_reason="length"), Judged(50, 0, 25), "all cut off by the token limit;", True),
        (
            say("Let me think", finish_reason="length"),
            INVALID,
            "all INVALID, all the same and all cut off by the token limit; for example 'Let me think'",
            True,
        ),
    ],
)
def test_what_all_have_in_common_is_said(
    said: list[Completion], judged: Judged, words: str, *, useless: bool
) -> None:
    """One sentence names everything; letters cut off after a token are no reason to stop."""
    found = judge_first(said, judged)
    assert found is not None
    notice, is_useless = found
    assert notice.message.startswith(f"the first 50 completions are {words}")
    assert is_useless is useless


def test_a_dataset_that_is_sorted_by_its_truths_is_no_nonsense() -> None:
    """The same answer fifty times is good when it is right fifty times."""
    assert judge_first(say("A"), Judged(scored=50, correct=50, invalid=0)) is None


@pytest.mark.parametrize(
    ("said", "judged", "hint"),
    [
        (say("A", "B", finish_reason="length"), VALID, "raise `max_tokens`"),
        (say("Well,", "So,"), INVALID, "does it ask for the letter alone?"),
        (say("A"), VALID, "does it hold the question and the options?"),
    ],
)
def test_each_finding_has_a_next_step(said: list[Completion], judged: Judged, hint: str) -> None:
    """The hint fits what was found."""
    found = judge_first(said, judged)
    assert found is not None
    assert hint in str(found[0].hint)


def test_it_speaks_with_the_fiftieth_completion_and_only_once() -> None:
    """Before there are fifty nothing is certain; afterwards everything is said. Failed calls do not count."""
    task = ak.load_task(
        {
            "key": "quiz",
            "display_name": "Quiz",
            "description": "Letters.",
            "definition": {
                "scorers": [{"type": "string_equals_mcqa", "ground_truth_choice": "A", "choices": ["A", "B"]}]
            },
        }
    )
    samples = load_rows([{"question": "q"}] * 200, name="rows").samples
    early = EarlyWarning(QuickJudge(task, samples))
    ids = samples.ids.to_list()
    failed = Completion(None, CompletionStatus.ERROR)
    spoken = [early.look_at(one, failed) for one in ids[:60]]
    spoken += [early.look_at(one, Completion(f"Well {one}")) for one in ids]
    assert [place for place, one in enumerate(spoken) if one is not None] == [60 + FIRST - 1]
