from __future__ import annotations

from collections import Counter

import pytest

from answerkey.testing import Behaviour, Reply, answer_by_hash, read_config
from answerkey.testing.replies import Messages, find_reply


def build_messages(text: str) -> Messages:
    """Return one user message."""
    return [{"role": "user", "content": text}]


def test_faults_come_in_their_shares() -> None:
    """Of many contents about the share meets each fault; the same ones for the same seed."""
    behaviour = Behaviour(faults={"429": 0.1, "reset": 0.05}, seed=3)
    drawn = Counter(behaviour.choose_fault(str(number), 0) for number in range(10_000))
    assert 900 < drawn["429"] < 1100
    assert 400 < drawn["reset"] < 600
    again = Behaviour(faults={"429": 0.1, "reset": 0.05}, seed=3)
    other = Behaviour(faults={"429": 0.1, "reset": 0.05}, seed=4)
    numbers = [str(number) for number in range(100)]
    first = [behaviour.choose_fault(one, 0) for one in numbers]
    assert [again.choose_fault(one, 0) for one in numbers] == first
    assert [other.choose_fault(one, 0) for one in numbers] != first


def test_faults_end_after_some_attempts() -> None:
    """Only the first attempts of a content meet faults, unless `faulty_attempts` is None."""
    behaviour = Behaviour(faults={"500": 1.0}, faulty_attempts=2)
    assert [behaviour.choose_fault("x", attempt) for attempt in range(4)] == ["500", "500", None, None]
    assert Behaviour(faults={"500": 1.0}, faulty_attempts=None).choose_fault("x", 99) == "500"


def test_delay_may_be_a_range() -> None:
    """A delay from and to is drawn by the content, and stays within."""
    behaviour = Behaviour(delay=(0.1, 0.2))
    delays = [behaviour.choose_delay(str(number)) for number in range(100)]
    assert min(delays) >= 0.1
    assert max(delays) <= 0.2
    assert len(set(delays)) == 100
    assert Behaviour(delay=0.5).choose_delay("x") == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"faults": {"oops": 0.1}},
        {"faults": {"200": 0.1}},
        {"faults": {"500": 0.7, "429": 0.4}},
        {"faults": {"500": -1}},
    ],
)
def test_wrong_faults_are_refused(settings: dict[str, dict[str, float]]) -> None:
    """An unknown fault, and shares that are no shares, are errors."""
    with pytest.raises(ValueError, match="fault"):
        Behaviour(**settings)  # type: ignore[arg-type]  # wrong on purpose


def test_config_is_read_from_json() -> None:
    """A JSON object gives answers and behaviour; lists become tuples."""
    answers, behaviour = read_config(
        {"answers": {"x": "B", "y": {"kind": "refusal"}}, "delay": [0.1, 0.2], "faults": {"429": 0.1}}
    )
    assert answers == {"x": "B", "y": Reply(kind="refusal")}
    assert behaviour == Behaviour(delay=(0.1, 0.2), faults={"429": 0.1})
    assert read_config({"answers": {"kind": "null_content"}})[0] == Reply(kind="null_content")
    assert read_config({})[0] == "A"


def test_config_may_name_choices() -> None:
    """With `choices` each prompt gets one of them, always the same."""
    answers, _ = read_config({"choices": ["A", "B"]})
    said = [find_reply(answers, build_messages(str(number))).text for number in range(50)]
    assert set(said) == {"A", "B"}
    assert said == [answer_by_hash(["A", "B"])(build_messages(str(number))) for number in range(50)]


@pytest.mark.parametrize("config", [{"latency": 1}, {"answers": {"kind": "odd"}}, {"batch_outcome": "odd"}])
def test_wrong_config_is_refused(config: dict[str, object]) -> None:
    """Unknown settings and kinds are errors that name what there is."""
    with pytest.raises(ValueError, match="unknown"):
        read_config(config)
