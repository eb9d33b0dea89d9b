"""What the user should hear, and never has to stop for."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.errors import Place


@dataclass(frozen=True)
class Notice:
    """Something the user should hear once: an old name, a trimmed cell; never a reason to stop."""

    message: str
    where: Place | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [f"warning: {self.message}"]
        if self.where and str(self.where):
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  = help: {self.hint}")
        return "\n".join(lines)
