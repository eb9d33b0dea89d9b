"""Messages as texts, for APIs that do not take them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from answerkey.errors import SolverError
from answerkey.models.message import TEXT_PARTS

Message = Mapping[str, object]

#: Who may speak, in the words of the chat API; what a system says stands apart in the other APIs.
SYSTEM_ROLES = frozenset({"system", "developer"})


def read_text(message: Message) -> str:
    """Return the text of a message, parts joined by a newline; SolverError E302 for anything else in it."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise SolverError("E302", f"a message's content is not text: {type(content).__name__}")
    return "\n".join(_read_part(part) for part in content)


def _read_part(part: object) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if isinstance(kind, str) and kind in TEXT_PARTS and isinstance(text, str):
        return text
    raise SolverError("E302", f"a part of a message's content is not text: {kind!r}")


def split_system(messages: Sequence[Message]) -> tuple[str | None, list[tuple[str, str]]]:
    """Return what the system says (joined by an empty line), and the others as role and text.

    The roles are `user` and `assistant`; SolverError E302 for another.
    """
    system: list[str] = []
    others: list[tuple[str, str]] = []
    for message in messages:
        role = message.get("role", "user")
        if role in SYSTEM_ROLES:
            system.append(read_text(message))
        elif role in {"user", "assistant"}:
            others.append((str(role), read_text(message)))
        else:
            raise SolverError("E302", f"a message has the role {role!r}, which this API does not take")
    return ("\n\n".join(system) if system else None), others
