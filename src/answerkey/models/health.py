"""Whether it makes sense to go on asking an endpoint."""

from __future__ import annotations

from answerkey.errors import SolverError
from answerkey.models.retrying import SILENT_TROUBLES, Outcome, Verdict

#: So many calls that fail for good in a row, all for the same reason, end the asking.
FAILURES_IN_A_ROW = 50
#: Once an endpoint has answered, it takes this many refusals in a row with status 403: a single one may be
#: about what was asked.
REFUSALS_IN_A_ROW = 3
_FORBIDDEN = "status 403"
_NOT_FOUND = "status 404"
#: Reasons that lie in one call, however many calls they concern; they never end the asking.
_OWN_FAULTS = frozenset({"status 400", "status 413", "status 422", "unreadable", "too_large"})
_LONGEST = 300


class Health:
    """What the outcomes of calls say about the endpoint; `name` is the model's.

    `is_reached` is whether anything was ever heard of the endpoint.
    """

    def __init__(self, name: str, host: str) -> None:
        self._name = name
        self._host = host
        self.is_reached = False
        self._has_answered = False
        self._label = ""
        self._count = 0

    def note(self, outcome: Outcome, *, is_final: bool) -> SolverError | None:
        """Take an outcome in; return why the asking must end, or None."""
        self.is_reached |= outcome.label not in SILENT_TROUBLES
        if outcome.verdict is Verdict.ANSWERED:
            self._has_answered = True
            self._count = 0
            return None
        if not is_final:
            return None
        self._count = self._count + 1 if outcome.label == self._label else 1
        self._label = outcome.label
        why = (outcome.completion.error or outcome.label)[:_LONGEST]
        if outcome.verdict is Verdict.REFUSED:
            return self._judge_refusal(why)
        return self._judge_failure(why)

    def _judge_refusal(self, why: str) -> SolverError | None:
        if self._label == "model_not_found":
            return self._miss_model(why)
        if self._label == "insufficient_quota":
            return SolverError(
                "E304",
                f"`{self._host}` has no quota left for the key of `{self._name}`: {why}",
                hint="add credit, or raise the limit of the account; what was answered is kept, and "
                "`answerkey resume` goes on",
            )
        may_be_one_call = self._has_answered and self._label == _FORBIDDEN
        if may_be_one_call and self._count < REFUSALS_IN_A_ROW:
            return None
        return SolverError(
            "E304",
            f"the endpoint of `{self._name}` refuses the key ({self._label}): {why}",
            hint="check the key; what was answered is kept, and `answerkey resume` goes on with a better one",
        )

    def _judge_failure(self, why: str) -> SolverError | None:
        if not self.is_reached:
            what = "never answers" if self._label == "timeout" else "cannot be reached"
            return SolverError(
                "E306",
                f"`{self._name}` {what}: {why}",
                hint="check the address, and that the endpoint is up; then `answerkey resume` goes on",
            )
        if self._label == _NOT_FOUND and not self._has_answered:
            return self._miss_model(why)
        if self._label in _OWN_FAULTS or self._count < FAILURES_IN_A_ROW:
            return None
        return SolverError(
            "E306",
            f"{self._count} calls to `{self._name}` failed in a row, all for the same reason: {why}",
            hint="what was answered is kept, and `answerkey resume` asks the rest again",
        )

    def _miss_model(self, why: str) -> SolverError:
        return SolverError(
            "E306",
            f"`{self._host}` does not know the model, or the address, of `{self._name}`: {why}",
            hint="correct the name or the address and start a new run; if they are right, see that the "
            "endpoint has the model, and `answerkey resume` goes on",
        )
