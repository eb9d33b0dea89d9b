from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.scorers.judge_reading import Scale, UnreadableVerdict, Verdict, read_verdict

FIVE = Scale(1, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"reasoning": "good", "score": 4, "confidence": 0.9}', Verdict(4.0, "good", 0.9)),
        ('{"score": 4}', Verdict(4.0)),
        ('```json\n{"score": 4, "reasoning": "x"}\n```', Verdict(4.0, "x")),
        ('Sure! Here it is:\n{"score": 4, "reasoning": "x"}\nAnything else?', Verdict(4.0, "x")),
        ("{'score': 4, 'reasoning': 'it\\'s fine', 'confidence': None}", Verdict(4.0, "it's fine")),
        ("```python\n{'score': 4,}\n```", Verdict(4.0)),
        ('{"score": 4, "reasoning": "x",}', Verdict(4.0, "x")),
        ('{"score": "4.5"}', Verdict(4.5)),
        ('{"Score": 4, "Reasoning": "x"}', Verdict(4.0, "x")),
        ('{"verdict": {"score": 4, "reasoning": "x"}}', Verdict(4.0, "x")),
        ('{"score": 4, "details": {"score": 1}}', Verdict(4.0)),
        ('{"reasoning": "two\nlines", "score": 4}', Verdict(4.0, "two\nlines")),
        ('{"reasoning": "{\\"score\\": 1}", "score": 4}', Verdict(4.0, '{"score": 1}')),
        ('<think>maybe {"score": 1}</think>\n{"score": 4}', Verdict(4.0)),
        ('{"score": 4} or in other words {"score": 4.0, "reasoning": "x"}', Verdict(4.0, "x")),
        ("4", Verdict(4.0)),
        (" 4.5\n", Verdict(4.5)),
        ('{"score": 4, "reasoning": ["a", "b"]}', Verdict(4.0, '["a", "b"]')),
        ('{"score": 1}', Verdict(1.0)),
        ('{"score": 5}', Verdict(5.0)),
    ],
)
def test_verdict_is_found(text: str, expected: Verdict) -> None:
    """A JSON object with a score is found bare, fenced, in prose, or as a Python literal."""
    assert read_verdict(text, FIVE) == expected


@pytest.mark.parametrize("confidence", ['"high"', "87", "-0.1", "true", "null", "NaN"])
def test_confidence_that_is_none_is_dropped(confidence: str) -> None:
    """A confidence that is no number from 0 to 1 is not kept, and spoils nothing."""
    assert read_verdict(f'{{"score": 4, "confidence": {confidence}}}', FIVE) == Verdict(4.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the reply is empty"),
        ("<think>hm</think>", "the reply is empty"),
        ("I would say it is good.", "the reply has no JSON object with a `score`: 'I would say it is good.'"),
        ("Score: 4", "no JSON object"),
        ("4/5", "no JSON object"),
        ('{"rating": 4}', "no JSON object"),
        ('{"score": 4, "reasoning": "cut of', "no JSON object"),
        ('{"score": 6}', "the score is 6, and the scale goes from 1 to 5"),
        ('{"score": 0.99}', "the score is 0.99, and the scale goes from 1 to 5"),
        ("7", "the score is 7, and the scale goes from 1 to 5"),
        ('{"score": null}', "the score is None, not a number"),
        ('{"score": true}', "the score is True, not a number"),
        ('{"score": "high"}', "the score is 'high', not a number"),
        ('{"score": [4]}', "not a number"),
        ('{"score": NaN}', "not a number"),
        ('{"score": Infinity}', "not a number"),
        ('{"score": 1e999}', "not a number"),
        ('{"score": 4} no, {"score": 2}', "the reply names several scores: 4, 2"),
        ('{"score": 4, "score": 2}', "the reply names several scores in one object"),
        ("{'score': 4, 'score': 2}", "the reply names several scores in one object"),
        ('[{"criterion": "a", "score": 1}, {"criterion": "b", "score": 5}]', "several scores: 1, 5"),
    ],
)
def test_no_score_is_guessed(text: str, why: str) -> None:
    """A text without exactly one score on the scale is refused with the reason; nothing is clipped."""
    with pytest.raises(UnreadableVerdict) as caught:
        read_verdict(text, FIVE)
    assert why in str(caught.value)


@given(st.text())
def test_reading_is_total(text: str) -> None:
    """Any text gives a score on the scale, or is refused."""
    try:
        verdict = read_verdict(text, FIVE)
    except UnreadableVerdict:
        return
    assert 1 <= verdict.score <= 5


@given(
    st.floats(1, 5), st.text(), st.floats(0, 1), st.sampled_from(["{}", "```json\n{}\n```", "So: {} Done."])
)
def test_what_was_written_is_read(score: float, reasoning: str, confidence: float, around: str) -> None:
    """What a judge writes as JSON is read back as it was meant."""
    text = json.dumps({"reasoning": reasoning, "score": score, "confidence": confidence})
    assert read_verdict(around.replace("{}", text), FIVE) == Verdict(score, reasoning, confidence)


@pytest.mark.parametrize("text", ["{" * 5000, '{"a":' * 5000, "{'a':" * 3000, "`" * 5000, '{"score":' * 2000])
def test_hostile_texts_are_refused(text: str) -> None:
    """Deep and endless shapes are refused like any other, without a crash."""
    with pytest.raises(UnreadableVerdict):
        read_verdict(text, FIVE)


@pytest.mark.parametrize(
    ("scale", "raw", "expected"),
    [
        (Scale(), 0.25, 0.25),
        (FIVE, 1, 0.0),
        (FIVE, 5, 1.0),
        (FIVE, 3, 0.5),
        (Scale(-1, 1), 0, 0.5),
        (Scale(0, 100), 87, 0.87),
    ],
)
def test_scores_are_normalised(scale: Scale, raw: float, expected: float) -> None:
    """The ends of the scale become 0 and 1."""
    assert scale.normalise(raw) == expected


@pytest.mark.parametrize(
    "text", ["{'score', 4}", "{**known, 'score': 4}", "{'score': }", "{'score': f(4)}", "{'score': 4 4}"]
)
def test_python_that_is_no_plain_dict_is_no_verdict(text: str) -> None:
    """A set, an unpacked dict, a call and what Python cannot parse hold no score; nothing of it is run."""
    with pytest.raises(UnreadableVerdict, match="no JSON object"):
        read_verdict(text, FIVE)


@pytest.mark.parametrize(("confidence", "kept"), [(0, 0.0), (1, 1.0), (1.5, None), (-0.5, None)])
def test_confidence_lies_within_its_ends(confidence: float, kept: float | None) -> None:
    """0 and 1 are confidences, a little more is none."""
    assert read_verdict(f'{{"score": 4, "confidence": {confidence}}}', FIVE) == Verdict(4.0, None, kept)
