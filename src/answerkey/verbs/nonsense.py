"""Early warning: what the first completions say about all that would follow."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.types import Completion, CompletionStatus, Notice
from answerkey.verbs.judging import Judged, QuickJudge

#: So many completions are looked at.
FIRST = 50
LENGTH = "length"
_SHOWN = 60


class EarlyWarning:
    """Looks at the first 50 completions of a task; calls that failed are not among them."""

    def __init__(self, judge: QuickJudge) -> None:
        self._judge = judge
        self._said: list[tuple[str, Completion]] = []
        self._is_over = False

    def look_at(self, sample_id: str, completion: Completion) -> tuple[Notice, bool] | None:
        """Take a completion; with the fiftieth, return what is wrong with all of them, if anything is.

        The truth value says whether the rest would be nonsense, too. A letter cut off after one token may be
        just what was wanted, and is only worth a warning.
        """
        if self._is_over or completion.status is CompletionStatus.ERROR:
            return None
        self._said.append((sample_id, completion))
        if len(self._said) < FIRST:
            return None
        self._is_over = True
        judged, texts = self._judge.judge(self._said), [one for _, one in self._said]
        self._said = []
        return judge_first(texts, judged)


def judge_first(said: Sequence[Completion], judged: Judged) -> tuple[Notice, bool] | None:
    """Return what is wrong with all of these completions, and whether it makes them useless."""
    is_cut = all(one.finish_reason == LENGTH for one in said)
    is_invalid = bool(judged.scored) and judged.invalid == judged.scored
    # A dataset that is sorted by its truths has the same right answer fifty times.
    is_right = bool(judged.scored) and judged.correct == judged.scored
    is_same = len({(one.status, one.text) for one in said}) == 1 and not is_right
    found = [
        words
        for is_so, words in (
            (is_invalid, "all INVALID"),
            (is_same, "all the same"),
            (is_cut, "all cut off by the token limit"),
        )
        if is_so
    ]
    if not found:
        return None
    message = f"the first {len(said)} completions are {_join(found)}; for example {_show(said[0])}"
    hint = _advise(is_cut=is_cut, is_invalid=is_invalid)
    is_useless = is_invalid or is_same or 2 * (judged.invalid or 0) >= judged.scored
    return Notice(message, hint=hint), is_useless


def _join(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _show(completion: Completion) -> str:
    if completion.text is None:
        return f"no text ({completion.status.value})"
    return repr(completion.text if len(completion.text) <= _SHOWN else f"{completion.text[:_SHOWN]}…")


def _advise(*, is_cut: bool, is_invalid: bool) -> str:
    stop = "Ctrl-C stops the run"
    if is_cut:
        return f"{stop}; raise `max_tokens` in the model's `generation`, unless one letter is all you want"
    if is_invalid:
        return f"{stop}; `--dry-run` shows the prompt: does it ask for the letter alone?"
    return f"{stop}; `--dry-run` shows the prompt: does it hold the question and the options?"
