r"""Regular expressions that cannot run for ever.

Python's own engine is the fast one, and does what it may in the worst case: `(a+)+$` takes years on forty
letters. A pattern whose worst case is small on the text at hand goes there; any other goes to an engine that
can be stopped.
"""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from typing import Final

from answerkey.templates.limits import MOST_ELEMENTS, Effort, ExcessError

#: The fast engine makes so many tries in about a second.
_MOST_TRIES: Final = 10**8
#: So many tries count as one step.
_STEP_TRIES: Final = 256
_LONGEST_PATTERN: Final = 2_000
_MOST_DIGITS: Final = 300
_LEAST_SECONDS: Final = 0.001

_ATOM: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP_START: Final = re.compile(r"\(\?(?:[a-zA-Z-]*[:)]|P?<\w+>|P=|<?[=!]|>|#)")
_REPEAT: Final = re.compile(r"[*+}][?+]?")
_LAST_REPEAT: Final = re.compile(r"[^()|{}][*+]\Z")
_VERBOSE: Final = re.compile(r"\(\?[a-wyzA-Z-]*x")
#: The flags that the filter sets; both engines know them by the same number.
_FLAGS: Final = re.MULTILINE | re.IGNORECASE


def replace_matches(
    pattern: str, repl: str, text: str, *, flags: re.RegexFlag, effort: Effort, count: int = 0
) -> str:
    """Return text with the matches replaced, the first `count` or (0) all of them.

    Raise re.error for what is no pattern, ExcessError for a pattern that takes too long and for a text that
    becomes too long.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise re.error(f"the pattern has {len(pattern):,} characters; {_LONGEST_PATTERN:,} are allowed")
    compiled = re.compile(pattern, flags)
    tries = count_tries(pattern, flags, len(text))
    if tries > _MOST_TRIES or (len(text) + 1) * len(repl) > MOST_ELEMENTS:
        effort.require_all()
        return _replace_slowly(compiled, repl, text, count=count, effort=effort)
    effort.spend(int(tries) // _STEP_TRIES)
    return compiled.sub(repl, text, count=count)


def is_quick(pattern: str, flags: re.RegexFlag, size: int) -> bool:
    """Say whether a pattern is done with a text of this size in a second, however badly they go together."""
    return count_tries(pattern, flags, size) <= _MOST_TRIES


def count_tries(pattern: str, flags: re.RegexFlag, size: int) -> float:
    """Return at most how many tries a pattern makes on a text of this size.

    Each repeat may try every length, from every start; each branch doubles that; a repeated group has no
    bound.
    """
    powers, branches = _weigh(pattern, flags)
    digits = powers * math.log10(size + 2) + branches * math.log10(2)
    return 10.0**digits if digits < _MOST_DIGITS else math.inf


@lru_cache(maxsize=512)
def _weigh(pattern: str, flags: re.RegexFlag) -> tuple[float, int]:
    """Return how often the size of the text counts, and the number of branches."""
    bare = _GROUP_START.sub("(", _ATOM.sub("x", pattern))
    if _VERBOSE.search(pattern) or re.search(r"\)[*+{]", bare):
        return math.inf, 0
    is_anchored = pattern.startswith((r"\A", "^")) and not flags & re.MULTILINE and "|" not in bare
    # Nothing comes after a repeat at the end, so none of its lengths is ever tried again: `\s+` is linear.
    repeats = len(_REPEAT.findall(_LAST_REPEAT.sub("", bare)))
    branches = bare.count("|") + _REPEAT.sub("", bare).count("?")
    return repeats if is_anchored else repeats + 1, branches


def _replace_slowly(compiled: re.Pattern[str], repl: str, text: str, *, count: int, effort: Effort) -> str:
    import regex  # type: ignore[import-untyped]  # its functions are those of `re`, with a time limit

    made = 0
    compiled.sub(repl, "")  # a replacement that names no group is told by the same library as ever

    def expand(match: re.Match[str]) -> str:
        nonlocal made
        piece = match.expand(repl)
        made += len(piece)
        if made > MOST_ELEMENTS:
            raise ExcessError(f"`regex_replace` makes more than {MOST_ELEMENTS:,} characters")
        return piece

    flags = int(compiled.flags & _FLAGS)
    started = time.monotonic()
    try:
        return str(
            regex.sub(compiled.pattern, expand, text, count=count, flags=flags, timeout=effort.seconds)
        )
    except TimeoutError:
        message = f"`regex_replace`: the pattern {compiled.pattern!r} takes too long on this text"
        raise ExcessError(message) from None
    except regex.error as error:
        raise re.error(str(error)) from None
    finally:
        # All patterns of a row share its time; the last of them may still begin.
        effort.seconds = max(effort.seconds - (time.monotonic() - started), _LEAST_SECONDS)
