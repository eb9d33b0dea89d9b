"""What the user should hear, and never has to stop for."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.errors import Place
from answerkey.masking import hide_secrets


@dataclass(frozen=True)
class Notice:
    """Something the user should hear once: an old name, a trimmed cell; never a reason to stop.

    Its words hold no secret.
    """

    message: str
    where: Place | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        shown = {
            "message": hide_secrets(self.message),
            "where": self.where and self.where.without_secrets(),
            "hint": self.hint and hide_secrets(self.hint),
        }
        for name, value in shown.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        lines = [f"warning: {self.message}"]
        if self.where and str(self.where):
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  = help: {self.hint}")
        return "\n".join(lines)
