"""Which snippets the user has allowed to run, by the hash of their text."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from answerkey.errors import SpecError
from answerkey.sandbox.snippet import Snippet
from answerkey.types import Notice

VERSION = 1
DIGEST_CHARACTERS = 12


def require_trust(snippets: Sequence[Snippet], *, trust_code: bool) -> list[Notice]:
    """Return when all snippets may run; raise SpecError E118 with a list of those that may not yet.

    With `trust_code` they are trusted from now on; a notice says so when that could not be remembered.
    """
    strange = untrusted(snippets)
    if not strange:
        return []
    if not trust_code:
        raise _refuse(strange)
    try:
        remember_trust(strange)
    except OSError as error:
        return [Notice(f"the trust in these snippets could not be remembered: {error}")]
    return []


def untrusted(snippets: Iterable[Snippet]) -> list[Snippet]:
    """Return the snippets that the user has not allowed to run, each text once."""
    known = _read_digests()
    strange = {snippet.digest: snippet for snippet in snippets if snippet.digest not in known}
    return list(strange.values())


def remember_trust(snippets: Iterable[Snippet]) -> None:
    """Remember that these very texts may run."""
    path = _trust_file()
    trusted = _read_digests() | {
        snippet.digest: {"function": snippet.function, "label": snippet.label} for snippet in snippets
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        json.dump({"version": VERSION, "trusted": trusted}, file, indent=1, sort_keys=True)
    Path(file.name).replace(path)


def _refuse(strange: Sequence[Snippet]) -> SpecError:
    lines = [_describe(snippet) for snippet in strange]
    count = "one Python snippet" if len(strange) == 1 else f"{len(strange)} Python snippets"
    return SpecError(
        "E118",
        "\n".join([f"{count} would run that you have not trusted yet:", *lines]),
        where=strange[0].place,
        hint="read them, then run again with `--trust-code`; it is remembered until their text changes",
    )


def _describe(snippet: Snippet) -> str:
    place = f" ({snippet.place})" if snippet.place and str(snippet.place) else ""
    digest = snippet.digest[:DIGEST_CHARACTERS]
    return f"  - `{snippet.label}`{place}, {snippet.function}, sha256 {digest}…: {snippet.first_line!r}"


def _trust_file() -> Path:
    """Return the record's path; as the XDG rules say, a relative XDG_CONFIG_HOME counts as unset."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path("~/.config").expanduser()
    return base / "answerkey" / "trust.json"


def _read_digests() -> dict[str, object]:
    """Return what is trusted; a record that cannot be read trusts nothing."""
    try:
        content = json.loads(_trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    trusted = content.get("trusted") if isinstance(content, dict) else None
    return trusted if isinstance(trusted, dict) else {}
