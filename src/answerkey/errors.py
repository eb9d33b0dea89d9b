"""Every error that answerkey raises on purpose.

    AnswerkeyError                                                                      exit code
    ├── SpecError       E1xx   what the user wrote: files, config, templates, commands      2
    ├── DataError       E2xx   datasets and recorded completions                            2
    ├── SolverError     E3xx   calls to a model                                             3
    ├── ScoringError    E4xx   scorers and metrics                                          2
    ├── RunError        E5xx   runs on disk                                                 2
    ├── EngineError     E6xx   engines and their workers                                    2
    ├── ServeError      E7xx   requests to the viewer                                       2
    ├── InternalError   E9xx   our own bug                                                 70
    └── Problems               several of the above, shown together                 the highest

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
from urllib.parse import unquote

from answerkey import features

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
    """Where something is: the file, line and column, and the sample and the dataset column."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    sample: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        steps = []
        for step in (self.file or None, self.line, self.column):
            if step is not None:
                steps.append(str(step))
        parts = []
        if steps:
            parts.append(":".join(steps))
        elif self.sample:
            parts.append(f"sample `{self.sample}`")
        if self.field:
            parts.append(f"column `{self.field}`")
        return ", ".join(parts)

    def without_secrets(self) -> Place:
        """Return the place without secrets: a file may be an address that contains one."""
        if self.file is None:
            return self
        return replace(self, file=hide_secrets(self.file))


class AnswerkeyError(Exception):
    """What happened, where, and what to do about it, without secrets."""

    exit_code = 2

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: Place | None = None,
        hint: str | None = None,
    ) -> None:
        self.code = code
        self.message = hide_secrets(message)
        self.where = where and where.without_secrets()
        self.hint = hint and hide_secrets(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        """Return the error as Python shows it, with the line of the file."""
        return features.draw_error(self)

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.code, self.message, self.where, self.hint)
        return _build_again, (type(self), *facts)

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
    """A task calls a model, but none is named."""


class DataError(AnswerkeyError):
    """Something is wrong with a dataset or with recorded completions."""


class SolverError(AnswerkeyError):
    """A model could not be called."""

    exit_code = 3


class ScoringError(AnswerkeyError):
    """A scorer or a metric failed."""


class RunError(AnswerkeyError):
    """A run folder could not be written or read."""


class EngineError(AnswerkeyError):
    """An engine is not available or could not do the work."""


class ServeError(AnswerkeyError):
    """A request to the viewer is refused; `status` is the HTTP status of the response."""

    status: int = 400

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 400,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.status = status


class InternalError(AnswerkeyError):
    """A bug in answerkey."""

    exit_code = 70


class Problems(AnswerkeyError):  # noqa: N818 - it holds errors, it is not one more of them
    """Several errors, shown together; never empty."""

    def __init__(self, errors: Iterable[AnswerkeyError]) -> None:
        flat: list[AnswerkeyError] = []
        for error in errors:
            if isinstance(error, Problems):
                flat.extend(error.errors)
            else:
                flat.append(error)
        first = flat[0]
        super().__init__(
            first.code,
            first.message,
            where=first.where,
            hint=first.hint,
        )
        self.errors: tuple[AnswerkeyError, ...] = tuple(flat)
        self.exit_code = max(error.exit_code for error in flat)

    def __reduce__(self) -> tuple[object, ...]:
        return Problems, (self.errors,)


def _build_again(
    kind: type[AnswerkeyError],
    code: str,
    message: str,
    where: Place | None,
    hint: str | None,
) -> AnswerkeyError:
    """Rebuild an error that was sent from another process."""
    error = kind.__new__(kind)
    AnswerkeyError.__init__(error, code, message, where=where, hint=hint)
    return error


def raise_all(errors: Sequence[AnswerkeyError]) -> None:
    """Raise a single error itself, several as `Problems`, and nothing if there are none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Problems(errors)


def distinct(errors: Iterable[AnswerkeyError]) -> list[AnswerkeyError]:
    """Return the distinct errors, in order."""
    unique: dict[object, AnswerkeyError] = {}
    for error in errors:
        key = (error.code, error.message, error.where, error.hint)
        unique[key] = error
    return list(unique.values())


#: Common words for what has another name here: the first existing name is meant. An empty tuple
#: marks something that does not exist.
ALIASES: dict[str, tuple[str, ...]] = {
    "accuracy": ("mean", "is_correct", "string_equals_mcqa"),
    "acc": ("mean", "is_correct", "string_equals_mcqa"),
    "avg": ("mean",),
    "average": ("mean",),
    "median": (),
    "f1": ("f1_score",),
    "binary": ("binary-classification",),
    "multiclass": ("multiclass-classification",),
    "mcqa": ("string_equals_mcqa",),
    "multiplechoice": ("string_equals_mcqa",),
    "exactmatch": ("string_equals",),
    "answer": ("ground_truth_choice",),
    "target": ("ground_truth_choice",),
    "truth": ("ground_truth_choice",),
    "label": ("ground_truth_choice",),
    "integer": ("int",),
}


def suggest(name: str, names: Iterable[str]) -> str | None:
    """Return the hint "did you mean `x`?" for the nearest of the names, or None."""
    near = find_near(name, names)
    return None if near is None else f"did you mean `{near}`?"


def find_near(name: str, names: Iterable[str]) -> str | None:
    """Return the name that a mistyped name most likely stands for, or None.

    A near name differs only in case, `-` and `_`, is a common word for the name, begins with at
    least half of it, or has nearly the same letters in the same order.
    """
    typed = _fold(name)
    folded = {candidate: _fold(candidate) for candidate in names}
    if typed in ALIASES:
        aliases = [alias for alias in ALIASES[typed] if alias in folded]
        if aliases or not ALIASES[typed]:
            return next(iter(aliases), None)
    longer = []
    for candidate, text in folded.items():
        if text.startswith(typed) and 2 * len(typed) >= len(text):
            longer.append(candidate)
    if longer:
        return min(longer, key=len)
    cutoff = 0.66 if len(typed) < 5 else 0.75  # noqa: PLR2004 - two letters of three, three of four
    matches = get_close_matches(typed, folded.values(), n=1, cutoff=cutoff)
    return next((candidate for candidate in folded if folded[candidate] in matches), None)


def _fold(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def refuse_column(
    message: str,
    name: str,
    columns: Iterable[str],
    where: Place | None = None,
) -> DataError:
    """Return E206 for a missing column, with the nearest column or all columns as hint."""
    names = list(columns)
    hint = suggest(name, names) or f"columns: {listing(names)}"
    return DataError("E206", message, where=where, hint=hint)


def listing(names: Iterable[str], *, limit: int = 20) -> str:
    """Return names in backticks, separated by commas; after `limit` names, only the count of the
    rest.
    """
    names = list(names)
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    if len(names) > limit:
        return f"{shown} and {len(names) - limit} more"
    return shown or "none"


HIDDEN = "***"
#: A shorter secret may be an ordinary word, which must not be hidden everywhere.
MIN_SECRET_LENGTH = 8
#: Names of URL parameters with a secret: keys, tokens, passwords, signatures of presigned URLs.
HIDDEN_PARAMETER = (
    r"[\w.-]*(?:key(?:-?id)?|key-?pair-?id|token|secret|passw(?:or)?d|passphrase|pwd|sig|signature|credentials?|"
    r"auth|authorization|accessid|sas|jwt|session(?:-?id)?)|pass|code"
)
_PARAMETER = re.compile(rf"(?<=[?&;'\"])({HIDDEN_PARAMETER})=([^&#\s`'\"<>]+)", re.IGNORECASE)
#: User name and password before a host; in a path, an address has only one slash. A password may
#: contain a `/` that should have been encoded, and a port is not a password.
_USER = re.compile(
    r"(:/{1,3})(?:[^\s/?#:@\[]*:(?!\d*[/?#])[^\s?#]{0,500}|[^\s/?#]*)@"
    r"|(?<![^\s`'\"(=,])()[^\s/?#:@`'\"(=,]+:[^\s/@`'\"]+@(?=[\w\[])"
)
#: Every secret that this process has seen.
_KNOWN: set[str] = set()


def hide_secrets(text: str) -> str:
    """Return a text with every secret replaced by `***`.

    It hides the secrets that this process has seen, and the user name, password and secret
    parameters of any URL.
    """
    for secret in sorted(_KNOWN, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if "@" in text:
        text = _USER.sub(rf"\1\2{HIDDEN}@", text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1={HIDDEN}", text)
    return text


#: The value after the name of a secret in a line of a file, unless it only refers to one.
_VALUE = (
    r"""((?:api[_-]?key|token|secret|passw(?:or)?d|authorization|credentials?)["']?\s*:\s*)"""
    r"""(?!["']?(?:\$|<<))[^\s`][^`]*"""
)


def hide_values(line: str) -> str:
    """Return a line of a file without secrets and without the values of `api_key:` and the like."""
    return re.sub(_VALUE, rf"\1{HIDDEN}", hide_secrets(line), flags=re.IGNORECASE)


def remember_secret(text: str) -> None:
    """Hide a text from now on, wherever it appears."""
    if len(text) >= MIN_SECRET_LENGTH:
        _KNOWN.add(text)


def is_url(name: str) -> bool:
    """Return whether the name of a model or a file is a web address."""
    return name.lower().startswith(("http://", "https://"))


def remember_url(url: str) -> None:
    """Hide the secrets of a URL from now on, even if a library writes them without the URL."""
    user, at, _ = url.partition("://")[2].rpartition("@")
    secrets = [value for _, value in _PARAMETER.findall(url)]
    if at and "?" not in user:
        secrets.append(user.partition(":")[2])
    for secret in secrets:
        remember_secret(secret)
        remember_secret(unquote(secret))


class Stopped(KeyboardInterrupt):
    """Ends the work of a thread, as Ctrl-C ends that of the main thread."""

    message = "interrupted"


class Stop:
    """Ends the work of the threads that follow it, once it has a message."""

    message: str | None = None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Let this thread follow it for the duration of the block."""
        _following.stop = self
        try:
            yield
        finally:
            _following.stop = None


_following = threading.local()


def raise_if_interrupted() -> None:
    """Raise `Stopped`, once, if this thread follows a `Stop` that has a message."""
    stop: Stop | None = getattr(_following, "stop", None)
    if stop is not None and stop.message is not None:
        _following.stop = None
        stopped = Stopped(stop.message)
        stopped.message = stop.message
        raise stopped
