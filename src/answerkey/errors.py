"""Every error that answerkey raises on purpose.

    AnswerkeyError
    ├── SpecError       E1xx   what the user wrote (files, config, templates, command line)
    exit 2
    ├── DataError       E2xx   datasets and recorded completions
    exit 2
    ├── SolverError     E3xx   asking a model
    exit 3
    ├── ScoringError    E4xx   scorers and metrics
    exit 2
    ├── RunError        E5xx   runs on disk
    exit 2
    ├── EngineError     E6xx   where work happens
    exit 2
    ├── ServeError      E7xx   requests to the viewer, which are answered and end nothing
    exit 2
    ├── InternalError   E9xx   our own bug
    exit 70
    └── Problems               several of the above, shown together                              the
    worst

`CODES` names every code once; `docs/reference/errors.md` has a paragraph for each (a test
compares).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from urllib.parse import unquote

CODES: dict[str, str] = {
    "E101": "file not found or unreadable",
    "E102": "not valid YAML",
    "E103": "duplicate key",
    "E104": "YAML that is not read (unknown tag, too many nodes)",
    "E105": "`!include` or `$ref` that cannot be followed",
    "E106": "environment value that is not set",
    "E107": "unknown key",
    "E108": "missing or unsuitable value",
    "E109": "unknown type",
    "E110": "unknown config name",
    "E111": "config value missing or out of bounds",
    "E112": "template that does not parse, or reads what is never there",
    "E113": "reference to something that is not defined",
    "E114": "key used twice",
    "E115": "metric field that the scorer does not produce, or not as a number",
    "E116": "not in this release",
    "E117": "secret where none may stand or go, or not found",
    "E118": "code that is not trusted yet",
    "E119": "command line that cannot be carried out",
    "E120": "template that was stopped because it does too much",
    "E201": "data file not found or of unknown format",
    "E202": "data file that is not well formed",
    "E203": "data file with undecodable text",
    "E204": "ground truth that is not among the choices",
    "E205": "choices that are not a list of distinct single characters",
    "E206": "column that does not exist",
    "E207": "template that fails on a row",
    "E208": "sample id used twice",
    "E209": "recorded completions that do not fit the dataset",
    "E210": "dataset without rows",
    "E211": "cell that does not have the declared type",
    "E212": "column or key that appears twice",
    "E213": "options that cannot be put in another order",
    "E214": "dataset of the web or the hub that cannot be fetched",
    "E215": "truths that can be read in several ways, or in none",
    "E301": "unknown model, or one that cannot be called",
    "E302": "prompt that could not be built",
    "E303": "solver outside the scope of multiple choice",
    "E304": "key that the endpoint refuses",
    "E305": "stopped by a limit on calls or cost, or by the stop on nonsense",
    "E306": "model that cannot be reached",
    "E401": "scorer snippet that failed",
    "E402": "metric that cannot be computed from these scores",
    "E403": "metric snippet that failed",
    "E501": "not a run folder",
    "E502": "run folder that cannot be written",
    "E503": "run folder of an unknown version, or damaged",
    "E504": "sample that is not in the run",
    "E505": "the run's dataset or completions are gone or have changed",
    "E506": "run folder in use by another process",
    "E507": "run that cannot be resumed or scored again",
    "E508": "runs that cannot be compared",
    "E509": "run folder on shared storage that cannot be read or written",
    "E601": "engine that is not available",
    "E602": "worker process that ended",
    "E603": "rows that are missing, or there twice, after the work",
    "E701": "request to the viewer from elsewhere",
    "E702": "request to the viewer that is not taken",
    "E703": "request for something that the viewer does not have",
    "E704": "request to the viewer without its token",
    "E901": "our own bug",
}


@dataclass(frozen=True)
class Place:
    """Where something is: file, line and column of a file, and which sample and dataset column."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    sample: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number is not None]
        place = ":".join([self.file, *numbers]) if self.file else ":".join(numbers)
        parts = [place, f"sample `{self.sample}`" if self.sample and not place else ""]
        parts.append(f"column `{self.field}`" if self.field else "")
        return ", ".join(part for part in parts if part)

    def without_secrets(self) -> Place:
        """Return the place as it may be shown: a file may be the address of one."""
        return self if self.file is None else replace(self, file=hide_secrets(self.file))


class AnswerkeyError(Exception):
    """What happened, where, and what to do about it, without secrets.

    The base of every error here.
    """

    exit_code = 2

    def __init__(
        self, code: str, message: str, *, where: Place | None = None, hint: str | None = None
    ) -> None:
        self.code = code
        self.message = hide_secrets(message)
        self.where = where and where.without_secrets()
        self.hint = hint and hide_secrets(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        """Return the error as Python shows it, with its line of the file.

        Drawn above, so named here only.
        """
        text: str = import_module("answerkey.text").write_problem(self, for_python=True)
        return text

    def __reduce__(self) -> tuple[object, ...]:
        return partial(_build_again, where=self.where, hint=self.hint), (
            type(self),
            self.code,
            self.message,
        )

    def describe(self) -> dict[str, object]:
        """Return the error as plain values, as `--json` prints it."""
        place = self.where or Place()
        return {
            "code": self.code,
            "message": self.message,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "sample": place.sample,
            "field": place.field,
            "hint": self.hint,
        }


class SpecError(AnswerkeyError):
    """Something is wrong with what the user wrote."""


class NoModelError(SpecError):
    """A task calls a model, and none is named."""


class DataError(AnswerkeyError):
    """Something is wrong with a dataset or with recorded completions."""


class SolverError(AnswerkeyError):
    """A model could not be asked."""

    exit_code = 3


class ScoringError(AnswerkeyError):
    """A scorer or a metric could not do its work."""


class RunError(AnswerkeyError):
    """A run folder could not be written or read."""


class EngineError(AnswerkeyError):
    """Work could not be handed out."""


class ServeError(AnswerkeyError):
    """A request to the viewer is refused; `status` is that of its HTTP answer."""

    status: int = 400

    def __init__(
        self, code: str, message: str, *, status: int = 400, hint: str | None = None
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.status = status


class InternalError(AnswerkeyError):
    """A bug of ours."""

    exit_code = 70


class Problems(AnswerkeyError):  # noqa: N818 - it holds errors, it is not one more of them
    """Several errors, shown together; never empty."""

    def __init__(self, errors: Iterable[AnswerkeyError]) -> None:
        flat: list[AnswerkeyError] = []
        for error in errors:
            flat.extend(error.errors if isinstance(error, Problems) else [error])
        first = flat[0]
        super().__init__(first.code, first.message, where=first.where, hint=first.hint)
        self.errors: tuple[AnswerkeyError, ...] = tuple(flat)
        self.exit_code = max(error.exit_code for error in flat)

    def __reduce__(self) -> tuple[object, ...]:
        return Problems, (self.errors,)


def _build_again(
    kind: type[AnswerkeyError], code: str, message: str, *, where: Place | None, hint: str | None
) -> AnswerkeyError:
    """Return an error as it was before it travelled between processes."""
    error = kind.__new__(kind)
    AnswerkeyError.__init__(error, code, message, where=where, hint=hint)
    return error


def raise_all(errors: Sequence[AnswerkeyError]) -> None:
    """Raise nothing for no errors, the error itself for one, `Problems` for several."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Problems(errors)


def distinct(errors: Iterable[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return errors in their order, each once."""
    return list({(one.code, one.message, one.where, one.hint): one for one in errors}.values())


#: Everyday words for what has another name here, the first that is known; with none, for what there
#: is not.
ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "acc"), ("mean", "is_correct", "string_equals_mcqa")),
    **dict.fromkeys(("avg", "average"), ("mean",)),
    "median": (),
    "f1": ("f1_score",),
    "binary": ("binary-classification",),
    "multiclass": ("multiclass-classification",),
    **dict.fromkeys(("mcqa", "multiplechoice"), ("string_equals_mcqa",)),
    "exactmatch": ("string_equals",),
    **dict.fromkeys(("answer", "target", "truth", "label"), ("ground_truth_choice",)),
    "integer": ("int",),
}


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the hint "did you mean `x`?" for a known name that is near, or None when none is."""
    near = find_near(name, known)
    return f"did you mean `{near[0]}`?" if near else None


def find_near(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """Return the known names that a name may be a slip of, nearest first.

    Near is the same but for case, `-` and `_`, an everyday word for it, its first half or more, or
    nearly the same letters in the same order.
    """
    wanted, folded = _fold(name), {one: _fold(one) for one in known}
    called = [one for one in ALIASES.get(wanted, ()) if one in folded]
    if called or ALIASES.get(wanted) == ():
        return called[:most]
    begun = [
        one
        for one, text in folded.items()
        if text.startswith(wanted) and 2 * len(wanted) >= len(text)
    ]
    least = 0.66 if len(wanted) < 5 else 0.75  # noqa: PLR2004 - two letters of three, three of four
    alike = get_close_matches(wanted, folded.values(), n=most, cutoff=least)
    near = [one for text in alike for one in folded if folded[one] == text]
    return list(dict.fromkeys([*sorted(begun, key=len), *near]))[:most]


def _fold(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def refuse_column(
    message: str, name: str, columns: Iterable[str], where: Place | None = None
) -> DataError:
    """Return E206 for a column that is not there, with a hint to one that is near, or to all there
    are.
    """
    known = list(columns)
    return DataError(
        "E206", message, where=where, hint=suggest(name, known) or f"columns: {listing(known)}"
    )


def listing(names: Iterable[str], *, limit: int = 20) -> str:
    """Return names in backticks, comma separated, cut after `limit` with the count of the rest."""
    names = list(names)
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown or "none"


HIDDEN = "***"
#: A shorter secret is not hidden by its letters alone: they may be a word of ours.
SHORTEST_WORD = 8
#: Names of URL parameters that hold a secret: keys, tokens, passwords, the signatures of presigned
#: URLs.
HIDDEN_PARAMETER = (
    r"[\w.-]*(?:key(?:-?id)?|key-?pair-?id|token|secret|passw(?:or)?d|passphrase|pwd|sig|signature|credentials?|"
    r"auth|authorization|accessid|sas|jwt|session(?:-?id)?)|pass|code"
)
_PARAMETER = re.compile(rf"(?<=[?&;'\"])({HIDDEN_PARAMETER})=([^&#\s`'\"<>]+)", re.IGNORECASE)
#: User name and password before a host; a path holds an address with one slash. A password may hold
#: a `/` that should have been encoded, and a port is no password.
_USER = re.compile(
    r"(:/{1,3})(?:[^\s/?#:@\[]*:(?!\d*[/?#])[^\s?#]{0,500}|[^\s/?#]*)@"
    r"|(?<![^\s`'\"(=,])()[^\s/?#:@`'\"(=,]+:[^\s/@`'\"]+@(?=[\w\[])"
)
#: Every secret that this process has come to know.
_KNOWN: set[str] = set()


def hide_secrets(text: str) -> str:
    """Return a text for people with every secret in it as `***`, whoever wrote it.

    Hidden are the secrets that are known, and of any URL its user name, password and secret
    parameters.
    """
    for secret in sorted(_KNOWN, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if "@" in text:
        text = _USER.sub(rf"\1\2{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1={HIDDEN}", text) if "=" in text else text


#: All that follows the name of a secret in a line of a file, unless it only refers to one.
_VALUE = re.compile(
    r"""((?:api[_-]?key|token|secret|passw(?:or)?d|authorization|credentials?)["']?\s*:\s*)"""
    r"""(?!["']?(?:\$|<<))[^\s`][^`]*""",
    re.IGNORECASE,
)


def hide_values(line: str) -> str:
    """Return a line of a file as `hide_secrets` does, and without the values of `api_key:` and its
    like.
    """
    return _VALUE.sub(rf"\1{HIDDEN}", hide_secrets(line))


def remember_secret(text: str) -> None:
    """Hide a text from now on, wherever it turns up."""
    if len(text) >= SHORTEST_WORD:
        _KNOWN.add(text)


def is_url(name: str) -> bool:
    """Return whether the name of a model or a file is an address of the web."""
    return name.lower().startswith(("http://", "https://"))


def remember_url(url: str) -> None:
    """Hide the secrets of a URL from now on, also where a library writes them without their URL."""
    user, at, _ = url.partition("://")[2].rpartition("@")
    found = [user.partition(":")[2]] if at and "?" not in user else []
    found += [value for _, value in _PARAMETER.findall(url)]
    for secret in found:
        remember_secret(secret)
        remember_secret(unquote(secret))


class Stopped(KeyboardInterrupt):
    """What ends the work of a thread, as Ctrl-C ends that of the main thread."""

    message = "interrupted"


class Stop:
    """Ends the work of the threads that follow it, once it has a message.

    Work that waits looks at it.
    """

    message: str | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Let this thread follow it meanwhile."""
        _following.stop = self
        try:
            yield
        finally:
            _following.stop = None


_following = threading.local()


def raise_if_interrupted() -> None:
    """Raise, once, what stops this thread, if it follows something that does."""
    stop: Stop | None = getattr(_following, "stop", None)
    if stop is not None and stop.message is not None:
        _following.stop = None
        stopped = Stopped(stop.message)
        stopped.message = stop.message
        raise stopped
