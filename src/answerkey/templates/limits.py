"""How much a template may do on one row: steps, the size of what it makes, and the time of its patterns.

Every limit on steps and sizes is a count, not a time, so that the same row always gives the same value. What
no count foresees is stopped by the limits of the worker process (`rendering`).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any, Final, cast

from jinja2.runtime import Context

from answerkey.templates.values import ExcessError

#: The elements that loops and filters go through and the calls of one row, with the text that is made.
MOST_STEPS: Final = 1_000_000
#: A tame template that needs no more is rendered here; one that does is rendered again in a worker process.
FEW_STEPS: Final = 10_000
#: A call counts as so many steps of a loop.
CALL_STEPS: Final = 20
#: A filter counts as so many on each element, and so does one in the body of a loop.
FILTER_STEPS: Final = 5
#: So many characters count as one step, and so many parts of the body of a loop.
STEP_TEXT: Final = 32
STEP_NODES: Final = 4
#: Larger texts are refused before they are made, and larger lists, products and powers.
MOST_ELEMENTS: Final = 10_000_000
MOST_PARTS: Final = 1_000_000
MOST_BITS: Final = 10_000
#: The product of two numbers of so many bits together counts as one step.
STEP_BITS: Final = 2**14
#: What a template may make of nothing, and how many times what it reads and what it is written with.
FREE_OUTPUT: Final = 16_384
MOST_GROWTH: Final = 32
#: For patterns whose worst case is not known, on one row.
PATTERN_SECONDS: Final = 0.5
_LEAST_SECONDS: Final = 0.001

#: A conversion of `'%5.2f' % x`: its width and its precision.
_CONVERSION: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|[0-9]+)?(?:\.(\*|[0-9]+)?)?")
_WIDTH: Final = re.compile(r"[0-9*]")
#: A format of its own inside `'{:>5}'.format(x)`.
_SPECIAL: Final = re.compile(r"\{[^{}]*[:!]")
_DIGITS: Final = re.compile(r"[0-9]+")
#: Python reads no longer numbers either.
_LONGEST_WIDTH: Final = 18
_SHOWN_BITS: Final = 200
_DIGIT_BITS: Final = 4
_TEXTS: Final = frozenset([str])


class Effort:
    """What is left of the steps of one row, and of the time for patterns.

    With few steps (`FEW_STEPS`) nothing is tried whose cost cannot be told.
    """

    __slots__ = ("left", "seconds", "steps")

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.steps = steps
        self.renew()

    def renew(self) -> None:
        """Begin anew with the next row."""
        self.left = self.steps
        self.seconds = PATTERN_SECONDS

    def spend(self, steps: int) -> None:
        """Take steps away; raise ExcessError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise ExcessError(f"the template takes more than {self.steps:,} steps on this row")

    def spend_text(self, size: int) -> None:
        """Take away the steps of a text or list before it is made; raise ExcessError if it is too long."""
        if size > MOST_ELEMENTS:
            message = f"the template makes a value of {size:,} elements; {MOST_ELEMENTS:,} are allowed"
            raise ExcessError(message)
        self.left -= 1 + size // STEP_TEXT
        if self.left < 0:
            self.spend(0)


class RowContext(Context):
    """What a template sees of one row, with the effort that is left for it.

    `holds` tells the row's own values, which nothing may change, from what the template made itself.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - Jinja's own signature
        super().__init__(*arguments, **options)
        self.effort = Effort()
        self.given = self.parent
        self._held: frozenset[int] | None = None
        self._own_size = 0
        self._columns: frozenset[str] | None = None

    def grant(self, steps: int, *, own_size: int, columns: frozenset[str] | None) -> None:
        """Say what the template may do, how long it is itself, and which columns it reads (None: any)."""
        self.effort = Effort(steps)
        self._own_size = own_size
        self._columns = columns

    def limit_growth(self, size: int) -> None:
        """Raise ExcessError for an outcome that is out of proportion to the row and the template."""
        if size <= FREE_OUTPUT:
            return
        given = self._own_size
        for name, value in self.given.items():
            if name == "sample" and isinstance(value, dict) and self._columns is not None:
                value = {key: value[key] for key in self._columns if key in value}  # noqa: PLW2901 - what counts of it
            given += min(count_within(value, MOST_ELEMENTS), MOST_ELEMENTS)
        most = FREE_OUTPUT + MOST_GROWTH * given
        if size > most:
            made = f"the template makes {size:,} characters out of {given:,}, its own and those that it reads"
            raise ExcessError(f"{made}; {most:,} are allowed")

    def renew(self) -> None:
        """Begin anew with the next row: nothing set, nothing spent."""
        self.vars.clear()
        self.exported_vars.clear()
        self.effort.renew()
        self.eval_ctx.autoescape = False
        self._held = None

    def derived(self, locals: dict[str, Any] | None = None) -> RowContext:  # noqa: A002 - Jinja's own signature
        """Return a context of the same row; what was given and what is left stay the same."""
        context = cast("RowContext", super().derived(locals))
        context.effort, context.given = self.effort, self.given
        return context

    def holds(self, value: object) -> bool:
        """Say whether a value is part of what was given, at any depth."""
        if self._held is None:
            found: set[int] = set()
            waiting: list[object] = [self.given]
            while waiting:
                one = waiting.pop()
                if isinstance(one, (list, tuple, dict)) and id(one) not in found:
                    found.add(id(one))
                    waiting.extend(one.values() if isinstance(one, dict) else one)
            self._held = frozenset(found)
        return id(value) in self._held


def measure(value: object) -> int:
    """Return about how long a value is when it is printed; raise ExcessError where that is too long."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, int):
        return max(1, value.bit_length() // _DIGIT_BITS)
    if not isinstance(value, (list, tuple, dict)):
        return 1
    if type(value) is list and _TEXTS.issuperset(map(type, value)):
        # By far the most usual list, and told without a loop of ours.
        size = len(value) + 1 + sum(map(len, value))
    else:
        size = parts = 0
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, (list, tuple, dict)):
                # Keys count as short: there are never more of them than values.
                waiting.extend(one.values() if isinstance(one, dict) else one)
                parts += len(one) + 1
                if parts > MOST_PARTS:
                    raise ExcessError(f"the template makes a value of more than {MOST_PARTS:,} parts")
            else:
                size += 1
        size += parts
    if size > MOST_ELEMENTS:
        raise ExcessError(f"the template makes a value of more than {MOST_ELEMENTS:,} elements")
    return size


def count_within(value: object, most: int) -> int:
    """Return how many characters and parts a value has; when there are more than `most`, some such number.

    A list or mapping that is reached in several ways counts once.
    """
    size = 0
    seen: set[int] = set()
    waiting: list[object] = [value]
    while waiting and size <= most:
        one = waiting.pop()
        if isinstance(one, (list, tuple, dict)):
            if id(one) in seen:
                continue
            seen.add(id(one))
            size += 2 * len(one) + 2
            if size <= most:
                waiting.extend([*one, *one.values()] if isinstance(one, dict) else one)
        elif isinstance(one, (str, bytes)):
            size += len(one)
    return size


def measure_operation(operator: str, left: object, right: object) -> int:
    """Return the size of what `+`, `*`, `**` or `%` makes, or the work of it; refuse what is absurd.

    The work is counted in characters, as sizes are.
    """
    if operator == "+":
        if isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
            return len(left) + len(right)
        is_list = isinstance(left, (list, tuple)) and isinstance(right, (list, tuple))
        return measure(left) + measure(right) if is_list else 0
    if operator == "%":
        if isinstance(left, (str, bytes)):
            return measure_conversions(left if isinstance(left, str) else left.decode("latin-1"), right)
        return 0
    if operator == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
                return measure(many) * times
    if not (isinstance(left, int) and isinstance(right, int)):
        return 0
    if operator == "*":
        sizes = left.bit_length(), right.bit_length()
        if sum(sizes) > MOST_BITS:
            raise ExcessError("the product is too large a number")
        return sizes[0] * sizes[1] * STEP_TEXT // STEP_BITS
    bits = left.bit_length() * max(right, 0)
    if bits > MOST_BITS:
        shown = [
            str(one) if one.bit_length() < _SHOWN_BITS else f"(a number of {one.bit_length()} bits)"
            for one in (left, right)
        ]
        raise ExcessError(f"the power {shown[0]} ** {shown[1]} is too large")
    return bits * bits * STEP_TEXT // STEP_BITS


def measure_conversions(text: str, values: object) -> int:
    """Return at most how long `text % values` is."""
    if not _WIDTH.search(text):
        return len(text) + text.count("%") * measure(values)
    arguments = values if isinstance(values, tuple) else (values,)
    pairs = _CONVERSION.findall(text)
    widths = [width for pair in pairs for width in pair]
    stars = sum(abs(one) for one in arguments if isinstance(one, int)) if "*" in widths else 0
    fixed = sum(_read_width(width) for width in widths if width.isdigit())
    return len(text) + fixed + stars + len(pairs) * measure(values)


def measure_fields(text: str, arguments: Sequence[object], named: Mapping[str, object]) -> int:
    """Return at most how long `text.format(…)` is."""
    values = [*arguments, *(named[key] for key in named)]
    if not _SPECIAL.search(text):
        return len(text) + text.count("{") * measure(values)
    size, fields = len(text), 0
    for _, name, form, _ in Formatter().parse(text):
        fields += name is not None
        size += sum(map(_read_width, _DIGITS.findall(form or "")))
        if form and "{" in form:  # any of the values may be the width
            size += sum(max(map(_read_width, _DIGITS.findall(str(one))), default=0) for one in values)
    return size + fields * measure(values)


def _read_width(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_WIDTH else MOST_ELEMENTS + 1


def measure_replacement(text: str, old: str, new: str, count: int = -1) -> int:
    """Return how long a text is with `old` replaced by `new`, the first `count` times or (-1) always."""
    if len(new) <= len(old):
        return len(text)
    found = text.count(old)
    return len(text) + (found if count < 0 else min(found, count)) * (len(new) - len(old))


def measure_joined(separator: str, values: Sequence[object]) -> int:
    """Return how long values are with a separator between them."""
    return len(separator) * len(values) + sum(map(measure, values))


def measure_stripped(text: str, characters: str | None = None) -> int:
    """Return what it takes to look for each character at the ends of a text among others."""
    return len(text) * max(1, len(characters or "") // STEP_TEXT)


def _measure_padded(owner: Any, width: int = 0, *_: object) -> int:  # noqa: ANN401 - whatever has a length
    return max(len(owner), width)


#: Methods of texts and lists that make something longer than what they are given, and how long.
METHOD_SIZES: Final[dict[str, Callable[..., int]]] = {
    **dict.fromkeys(["center", "ljust", "rjust", "zfill"], _measure_padded),
    **dict.fromkeys(["strip", "lstrip", "rstrip"], measure_stripped),
    "expandtabs": lambda owner, tabsize=8: len(owner) + owner.count("\t") * tabsize,
    "replace": measure_replacement,
    "join": measure_joined,
    "translate": lambda owner, table: len(owner) * max((measure(table[key]) for key in table), default=1),
    "extend": lambda owner, values: len(owner) + len(values),
    "to_bytes": lambda _owner, length=1, *_rest, **_options: length,
}


# Regular expressions that cannot run for ever. Python's own engine is the fast one, and does what it may in
# the worst case: `(a+)+$` takes years on forty letters. A pattern whose worst case is small on the text at
# hand goes there; any other goes to an engine that can be stopped.

#: The fast engine makes so many tries in about a second.
_MOST_TRIES: Final = 10**8
#: So many tries count as one step.
_STEP_TRIES: Final = 256
_LONGEST_PATTERN: Final = 2_000
_MOST_DIGITS: Final = 300
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
    if tries <= _MOST_TRIES and (len(text) + 1) * len(repl) <= MOST_ELEMENTS:
        effort.spend(int(tries) // _STEP_TRIES)
        return compiled.sub(repl, text, count=count)
    if effort.steps < MOST_STEPS:  # only with all steps granted does this run where it can be stopped
        effort.spend(effort.steps + 1)
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

    flag_bits = int(compiled.flags & _FLAGS)
    started = time.monotonic()
    try:
        return str(regex.sub(pattern, expand, text, count=count, flags=flag_bits, timeout=effort.seconds))
    except TimeoutError:
        message = f"`regex_replace`: the pattern {pattern!r} takes too long on this text"
        raise ExcessError(message) from None
    except regex.error as error:
        raise re.error(str(error)) from None
    finally:
        # All patterns of a row share its time; the last of them may still begin.
        effort.seconds = max(effort.seconds - (time.monotonic() - started), _LEAST_SECONDS)


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
