"""Text output for every feature: safe text, numbers, lines with roles, tables, errors as lines.

A feature writes its text as lines; the printer decides how a role looks. Lines and tables make text
from data safe: nothing in it can move the cursor, hide text or reverse its direction.
"""

from __future__ import annotations

import ast
import json
import math
import re
import threading
import unicodedata
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from fractions import Fraction
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from answerkey.errors import HIDDEN, AnswerkeyError, Place, Problems, hide_values

if TYPE_CHECKING:  # importing the tables would slow down errors about a command line
    from answerkey.types import MetricValue, Notice

# ---------------------------------------------------------------------------------------- safe text

# Control characters (and thus ANSI escapes), soft hyphen, bidi and invisible marks, blank fillers,
# line separators, lone surrogates and tag characters. The joiners U+200C and U+200D are kept, and
# so are variation selectors: scripts and emoji need them.
_HIDDEN_RANGES = (
    "\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[\x00-\x1f{_HIDDEN_RANGES}]")
_HIDDEN_IN_LINES = f"[\x00-\x09\x0b-\x1f{_HIDDEN_RANGES}]"
# JSON itself escapes the first thirty-two.
_HIDDEN_IN_JSON = f"[{_HIDDEN_RANGES}]"


def make_visible(text: str, *, keep_lines: bool = False) -> str:
    r"""Return the text with every hidden character escaped (`\x1b`, `\u202e`).

    With `keep_lines` line feeds are kept and tabs become four spaces, for text printed as a block.
    """
    if keep_lines:
        text = text.replace("\t", "    ")
        return re.sub(_HIDDEN_IN_LINES, _escape_match, text)
    return _HIDDEN.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def escape_json(text: str) -> str:
    r"""Return equivalent JSON text in which every hidden character is escaped (`\u202e`)."""
    return re.sub(_HIDDEN_IN_JSON, lambda match: json.dumps(match[0])[1:-1], text)


def measure_width(text: str) -> int:
    """Return the width of the text in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 1


def shorten(text: str, width: int) -> str:
    """Return the text on one line without hidden characters, cut to `width` cells; `…` marks a
    cut.
    """
    # A huge completion is cut first: at most `width` characters of it can be shown.
    most = 4 * width + 4
    shown = make_visible(text[:most])
    if measure_width(shown) <= width and len(text) <= most:
        return shown
    kept = ""
    cells = 1
    for character in shown:
        cells += _measure_character(character)
        if cells > width:
            break
        kept += character
    return f"{kept}…"


def quote(completion: str | None, width: int) -> str:
    """Return a completion on one line in quotation marks; `none` if there is no text."""
    if completion is None:
        return "none"
    return f'"{shorten(completion, width)}"'


#: The paths on the command line by their real paths.
_given: dict[str, str] = {}


def remember_paths(words: Iterable[str]) -> None:
    """Show the files and folders on the command line by the paths given there from now on."""
    _given.clear()
    for word in words:
        path = word
        if word.startswith("--"):
            path = word.partition("=")[2]
        with suppress(OSError, ValueError, RuntimeError):
            if path and Path(path).exists():
                real_path = str(Path(path).resolve())
                _given[real_path] = path


def shorten_path(path: str) -> str:
    """Return a path as the user gave it, or else relative to the current folder if it is below
    it.
    """
    if path in _given:
        return _given[path]
    whole = Path(path)
    if whole.is_absolute():
        for folder in whole.parents:
            shown = _given.get(str(folder), ".")
            if shown != ".":
                return str(shown / whole.relative_to(folder))
    with suppress(ValueError, OSError):
        return str(whole.relative_to(Path.cwd()))
    return path


# ------------------------------------------------------------------------------------------ numbers

FRACTION_TYPES = frozenset(
    {
        "frequency",
        "precision",
        "recall",
        "f1_score",
        "binary-classification",
        "multiclass-classification",
    }
)
#: Whole numbers up to here are exact in a float.
EXACT = 2**53
_SMALLEST_P = 0.00001
#: Smaller shares are printed with one more digit.
FEW_HUNDREDTHS = 0.01

# With `digits`, every number is plain and has that many digits after the point: a share is then not
# a percentage, so that it can be compared with numbers printed by other tools.


def read_fraction(text: str) -> float:
    """Return a number written as `0.03`, `1/9` or `3%`; ValueError for anything else."""
    text = text.strip()
    try:
        number = Fraction(text.removesuffix("%"))
        if text.endswith("%"):
            number /= 100
        return float(number)
    except (ZeroDivisionError, OverflowError) as error:
        raise ValueError(text) from error


def format_percent(share: float, digits: int | None = None) -> str:
    """Return a share as a percentage with two digits."""
    if digits is None:
        return f"{100 * share:.2f} %"
    return f"{share:.{digits}f}"


def format_number(value: float, digits: int | None = None) -> str:
    """Return a number with up to six significant digits; whole numbers without a point."""
    if digits is not None:
        return f"{value:.{digits}f}"
    if float(value).is_integer() and abs(value) < EXACT:
        return f"{value:.0f}"
    return f"{value:.6g}"


def is_share(value: MetricValue) -> bool:
    """Return whether the metric is a share of something, best read as a percentage."""
    return value.is_share or value.interval_method == "wilson" or value.type in FRACTION_TYPES


def format_value(value: MetricValue, digits: int | None = None) -> str:
    """Return the metric's number as text; `no value` if there is none."""
    return format_figure(value.value, as_share=is_share(value), digits=digits)


def format_figure(value: float | None, *, as_share: bool, digits: int | None = None) -> str:
    """Return a number as text, as a percentage if it is a share; `no value` if there is none."""
    if value is None:
        return "no value"
    if as_share:
        return format_percent(value, digits)
    return format_number(value, digits)


def format_interval(
    interval: Sequence[float] | None, *, as_share: bool = True, digits: int | None = None
) -> str:
    """Return `[lo, hi]`, in per cent for a share; empty if there is none."""
    if interval is None:
        return ""
    low, high = interval
    if as_share and digits is None:
        return f"[{100 * low:.2f}, {100 * high:.2f}]"
    return f"[{format_number(low, digits)}, {format_number(high, digits)}]"


def format_p_value(p: float | None) -> str:
    """Return a p-value with five digits; empty if there is none."""
    if p is None:
        return ""
    if p < _SMALLEST_P:
        return f"<{_SMALLEST_P:.5f}"
    return f"{p:.5f}"


def format_short_percent(share: float) -> str:
    """Return a share in per cent with one digit, or with two if it is close to 0 or 1."""
    if share in {0, 1} or FEW_HUNDREDTHS <= share <= 1 - FEW_HUNDREDTHS:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.2f} %"


def format_part(count: int, n: int) -> str:
    """Return `12 of 80 (15.0 %)`."""
    return f"{count:,} of {n:,} ({format_short_percent(count / n)})"


def format_count(number: int, noun: str) -> str:
    """Return `1 sample`, `2 samples`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def describe_reused_calls(calls: Iterable[Mapping[str, Any]]) -> str | None:
    """Return how many replies came from the call cache, and the age of the oldest.

    None if there are none. `calls` are the counts in `run.json` for each purpose.
    """
    reused = 0
    replies = 0
    seconds = 0
    for count in calls:
        reused += count["cached"]
        replies += count["calls"] - count["failed"]
        seconds = max(seconds, count.get("oldest_seconds") or 0)
    if not reused:
        return None
    age = "less than a minute"
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            age = format_count(seconds // length, unit)
            break
    return f"{reused} of {replies} replies were reused from the cache, the oldest {age} old"


# ------------------------------------------------------------------------------------ plain values


_PARSING = threading.Lock()


def parse_syntax(source: str, mode: Literal["exec", "eval"] = "exec") -> Any:  # noqa: ANN401  # by mode
    """Return the syntax tree of Python source, `ast.Module` or `ast.Expression`, without warnings.

    One thread at a time: Python up to 3.11.7 raises SystemError if two threads parse at once
    (gh-106905).
    """
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, mode=mode)


def parse_python(text: str) -> object:
    """Return the value of a Python literal; ValueError for any other text."""
    try:
        return ast.literal_eval(parse_syntax(text.lstrip(" \t"), "eval"))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(text) from error


def clean_numbers(content: object) -> Any:  # noqa: ANN401  # whatever shape JSON has
    """Return the same values with NaN and infinities, which JSON lacks, replaced by null."""
    if isinstance(content, float) and not math.isfinite(content):
        return None
    if isinstance(content, dict):
        return {str(name): clean_numbers(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [clean_numbers(value) for value in content]
    return content


def describe_metric(value: MetricValue) -> dict[str, Any]:
    """Return one metric value.

    Notes, `details` and `groups` are included only if they are set.
    """
    described = {name: getattr(value, name) for name in _ALWAYS_DESCRIBED}
    for name in ("interval_note", "note", "details"):
        if getattr(value, name):
            described[name] = getattr(value, name)
    if value.groups:
        described["groups"] = [asdict(groups) for groups in value.groups]
    return described


_ALWAYS_DESCRIBED = (
    "name",
    "type",
    "metric",
    "scorer",
    "purpose",
    "value",
    "n",
    "n_excluded",
    "interval",
    "interval_method",
    "std_error",
)


# -------------------------------------------------------------------------------- lines and tables

Role = Literal["plain", "title", "head", "strong", "dim", "good", "warn", "bad"]


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    role: Role = "plain"


Cell = str | Span
Cells = Sequence[Cell]
#: A line is a text, a span, or several of them; hidden characters are escaped when it is printed.
Line = Cell | Cells
Lines = list[Line]
BLANK: Line = ()
INDENT = "  "
GAP = "  "
#: The width of text printed by Python, where the width of the window is unknown.
DEFAULT_WIDTH = 110


def list_spans(line: Line) -> list[Span]:
    """Return the spans of a line, with their hidden characters escaped."""
    cells = [line] if isinstance(line, str | Span) else line
    spans = []
    for cell in cells:
        span = Span(cell) if isinstance(cell, str) else cell
        spans.append(Span(make_visible(span.text), span.role))
    return spans


def plain_text(lines: Iterable[Line]) -> str:
    """Return lines as safe text without roles, each ended by a line feed, without trailing
    spaces.
    """
    text = ""
    for line in lines:
        written = "".join([span.text for span in list_spans(line)])
        text += f"{written.rstrip()}\n"
    return text


def wrap(text: str, width: int) -> list[str]:
    """Return text broken at spaces into lines of at most `width` cells.

    A longer word gets its own line.
    """
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        joined = f"{current} {word}" if current else word
        if current and measure_width(joined) > width:
            lines.append(current)
            current = word
        else:
            current = joined
    return [*lines, current]


def join_blocks(blocks: Iterable[Sequence[Line]]) -> Lines:
    """Return blocks of lines, separated by blank lines."""
    lines: Lines = []
    for block in blocks:
        lines += [BLANK, *block]
    return lines[1:]


def draw_text(
    text: str,
    width: int,
    role: Role = "plain",
    *,
    indent: str = INDENT,
) -> Lines:
    """Return a text as indented lines, without hidden characters."""
    parts = wrap(make_visible(text), width - len(indent))
    return [Span(f"{indent}{part}", role) for part in parts]


class Drawn(ABC):
    """An object that is shown as text: by `print`, and in a notebook."""

    @abstractmethod
    def draw(self, width: int) -> Lines:
        """Return its lines, each at most `width` cells wide."""

    def __str__(self) -> str:
        return plain_text(self.draw(DEFAULT_WIDTH))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def draw_finding(
    number: int,
    sentence: str,
    notes: Mapping[str, str],
    width: int,
) -> Lines:
    """Return an entry of a numbered list: the finding, then notes such as `Next: `, indented."""
    lead = f"{number:>3}. "
    lines = draw_labelled(Span(lead, "dim"), sentence, width, "warn")
    indent = " " * len(lead)
    for label, note in notes.items():
        if note:
            lines += draw_labelled(Span(f"{indent}{label}", "dim"), note, width)
    return lines


def draw_labelled(
    label: Span,
    text: str,
    width: int,
    role: Role = "plain",
) -> Lines:
    """Return a text broken into lines, the first after its label and the others aligned with it."""
    lines: Lines = []
    room = measure_width(label.text)
    for part in wrap(make_visible(text), max(20, width - room)):
        lines.append((label, Span(part, role)))
        label = Span(" " * room)
    return lines


def draw_table(
    header: Cells,
    rows: Iterable[Cells],
    align: str,
    width: int,
) -> Lines:
    """Return a table as lines of at most `width` cells, as far as its columns can be cut.

    `align` has a mark for each column: `<`, `>`, or `~` for a left-aligned one that may be cut. A
    column without text is left out, and so is an empty heading line.
    """
    columns: list[list[Span]] = []
    aligns = ""
    flexible = None
    cells_by_column = zip(header, *rows, strict=True)
    for mark, (heading, *cells) in zip(align, cells_by_column, strict=True):
        spans = list_spans((heading, *cells))
        if not any(span.text for span in spans[1:]):
            continue
        if mark == "~":
            flexible = len(columns)
        aligns += mark
        columns.append([Span(spans[0].text, "head"), *spans[1:]])
    widths = []
    for column in columns:
        widths.append(max(measure_width(span.text) for span in column))
    gaps = len(GAP) * (len(columns) - 1)
    spare = width - len(INDENT) - gaps - sum(widths)
    if flexible is not None and spare < 0:
        least = max(8, measure_width(columns[flexible][0].text))
        widths[flexible] = max(least, widths[flexible] + spare)
    lines: Lines = []
    for row in zip(*columns, strict=True):
        pieces = [Span(INDENT)]
        for span, cell_width, mark in zip(row, widths, aligns, strict=True):
            text = _pad(span.text, cell_width, mark)
            pieces += [Span(text, span.role), Span(GAP)]
        lines.append(pieces[:-1])
    has_heading = any(column[0].text for column in columns)
    return lines if has_heading else lines[1:]


def _pad(text: str, width: int, mark: str) -> str:
    """Return a text cut or padded to `width` cells."""
    if measure_width(text) > width:
        text = shorten(text, width)
    padding = " " * (width - measure_width(text))
    return padding + text if mark == ">" else text + padding


def draw_facts(facts: Iterable[tuple[str, Cell]], width: int) -> Lines:
    """Return a table of names and values, without a heading."""
    rows = [(Span(name, "dim"), value) for name, value in facts]
    return draw_table(("", ""), rows, "<~", width)


# ------------------------------------------------------------------------------- letters of choices

INVALID = "INVALID"
MAX_LETTER_COLUMNS = 12


def draw_letter_table(
    counts: Mapping[str, Mapping[str, int]], width: int, *, with_shares: bool = True
) -> Lines:
    """Return true choice → predicted choice (or INVALID) → count as a table, with the recall.

    Empty if there are more than twelve choices, which do not fit on a line.
    """
    totals: Counter[str] = Counter()
    for row in counts.values():
        totals.update(row)
    letters = sorted({*counts, *totals} - {INVALID})
    if not counts or len(letters) > MAX_LETTER_COLUMNS:
        return []
    rows: list[Cells] = []
    predictions = [*letters, INVALID]
    for letter in letters:
        if letter not in counts:
            continue
        row = counts[letter]
        n = sum(row.values())
        cells: list[Cell] = [letter]
        for prediction in predictions:
            role: Role = "strong" if prediction == letter else "plain"
            cells.append(Span(str(row.get(prediction, 0)), role))
        recall = ""
        if with_shares:
            recall = format_percent(row.get(letter, 0) / n)
        rows.append([*cells, str(n), recall])
    sums = [totals[prediction] for prediction in predictions]
    rows.append([Span(str(cell), "dim") for cell in ("all", *sums, sum(sums), "")])
    header = ["True \\ predicted", *predictions, "n", "recall"]
    align = "<" + ">" * (len(header) - 1)
    return [BLANK, *draw_table(header, rows, align, width)]


# ------------------------------------------------------------------------------- errors and notices

MAX_SHOWN_ERRORS = 50
#: Types of files whose lines are shown in errors, the maximum bytes read for that, and the maximum
#: length of a line.
_SHOWN_FILES = frozenset([".yaml", ".yml", ".jsonl", ".ndjson", ".json", ".csv", ".tsv"])
_MAX_BYTES, _MAX_LINE_LENGTH = 16_000_000, 100_000
#: Errors about a name in a template.
_ABOUT_NAMES = {"E110", "E112", "E206"}


def draw_problems(
    errors: Sequence[AnswerkeyError], width: int = 100, *, for_python: bool = False
) -> Lines:
    """Return errors as lines, separated by blank lines.

    After the first 50, only the count of the rest is shown. `for_python` names arguments of
    functions instead of options of commands.
    """
    blocks = []
    for error in errors[:MAX_SHOWN_ERRORS]:
        label = Span(f"error[{error.code}]", "bad")
        blocks.append(_draw_problem(label, error, width, for_python=for_python))
    more = len(errors) - MAX_SHOWN_ERRORS
    if more > 0:
        where = "`errors` of this exception" if for_python else "`--json`"
        blocks.append([f"and {more} more errors; {where} has them all"])
    return join_blocks(blocks)


def write_problem(error: AnswerkeyError, *, for_python: bool = False) -> str:
    """Return an error, or several, as text."""
    errors = error.errors if isinstance(error, Problems) else (error,)
    return plain_text(draw_problems(errors, for_python=for_python)).rstrip("\n")


def draw_notice(notice: Notice) -> Lines:
    """Return a notice as lines."""
    return _draw_problem(Span("warning", "warn"), notice)


def _draw_problem(
    label: Span,
    problem: AnswerkeyError | Notice,
    width: int = 0,
    *,
    for_python: bool = False,
) -> Lines:
    """Return a problem as lines; with a `width`, also the line of its file."""
    translate = name_arguments if for_python else str
    first, *further = _split_lines(translate(problem.message))
    lines: Lines = [(label, Span(f": {first}", "strong"))]
    lines += [f"  {text}" for text in further]
    if problem.where and str(problem.where):
        place = show_place(problem.where)
        if for_python:
            place = place.removeprefix("--")
        lines.append((Span("  --> ", "dim"), place))
        if width and isinstance(problem, AnswerkeyError):
            lines += _draw_source(problem, problem.where, width)
    if problem.hint:
        first, *further = _split_lines(translate(problem.hint))
        lines.append((Span("  = help: ", "dim"), first))
        lines += [f"          {text}" for text in further]
    return lines


def _split_lines(text: str) -> list[str]:
    return make_visible(text, keep_lines=True).split("\n")


def _draw_source(error: AnswerkeyError, place: Place, width: int) -> Lines:
    """Return the line of a file, cut around the mistake, with a caret below it.

    Empty if the column is unknown. Hidden characters and tabs are escaped, so that the caret is in
    the right place. A secret value is hidden in the line, too.
    """
    if error.code == "E117" or HIDDEN in error.message:
        return []
    source = _read_line(place)
    if source is None:
        return []
    column = _find_column(error, place, source)
    shown = hide_values(source)
    common = commonprefix([shown, source])  # noqa: RUF071 - characters are compared, not paths
    column = min(column, len(common) + 1)
    start = max(0, column - 1)
    before = make_visible(shown[:start])
    after = shown[start:]
    room = width - 8
    if measure_width(before) + measure_width(after[:room]) > room:
        while measure_width(before) > room // 2:
            before = f"…{before[2 + (measure_width(before) - room // 2) // 2 :]}"
    cells = measure_width(before)
    lines: Lines = [(Span(f"{place.line:>5} | ", "dim"), before + shorten(after, room - cells))]
    if column > 0:
        margin = Span(f"{'|':>7} ", "dim")
        return [*lines, (margin, " " * cells, Span("^", "bad"))]
    is_whole_row = error.code == "E202"
    return lines if is_whole_row else []


def _find_column(error: AnswerkeyError, place: Place, source: str) -> int:
    """Return the column of a mistake in its line, counted from 1; 0 if it is unknown."""
    column = place.column or 0
    if not column:
        name = (place.field or "").rpartition(".")[2]
        key = re.search(rf'(?<!\\)"{re.escape(name)}"\s*:\s*', source)
        column = key.end() + 1 if key else 0
    if error.code in _ABOUT_NAMES:
        # The place is the template's, but the mistake is a name in it.
        for name in reversed(re.findall(r"`([^`]+)`", error.message)):
            pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            match = pattern.search(source, max(0, column - 1))
            if match:
                return match.start() + 1
    return column if column <= len(source) + 1 else 0


def _read_line(place: Place) -> str | None:
    """Return the line of a place in a local text file.

    None if there is none, or if it is too far down.
    """
    path = Path(place.file or "")
    if place.line is None or path.suffix.lower() not in _SHOWN_FILES:
        return None
    try:
        with path.open("rb") as stream:
            lines = stream.read(_MAX_BYTES).split(b"\n")
    except (OSError, ValueError):
        return None
    raw = b"".join(lines[place.line - 1 : place.line])
    if not raw or len(raw) > _MAX_LINE_LENGTH or b"\0" in raw:
        return None
    return raw.decode("utf-8-sig", "replace").rstrip("\r\n")


def show_place(place: Place) -> str:
    """Return a place as text; files below the current folder have a short path."""
    if place.file is not None:
        place = replace(place, file=shorten_path(place.file))
    return str(place)


#: Options that are arguments in Python; options without a value; commands that are functions.
_OPTION = (
    "--(?!json|to|column|header|score|host|port|allow-network|save-details|upgrade|dry-run|question)"
    r"([a-z][a-z2-]+)(?: ('[^']*'|[^\s`]+))?(?=[`\s])"
)
_SWITCH = r"--(no-)?(trust-code|allow-outside|copy|common|batch|stop-on-nonsense)(?=[`\s])"
_COMMAND = r"`answerkey (run|score|resume|rescore|check|audit|compare)\b ?([^`-]*)`"


def name_arguments(text: str) -> str:
    """Return a text in which commands and options in backticks are replaced by those of Python, if
    it has them.
    """
    text = re.sub(_SWITCH, lambda match: f"{match[2].replace('-', '_')}={not match[1]}", text)
    return re.sub(_COMMAND, r"`ak.\1(\2)`", re.sub(_OPTION, _name_option, text))


def _name_option(match: re.Match[str]) -> str:
    name = match[1].replace("-", "_")
    value = (match[2] or "…").strip("'")
    shown = value
    if not re.fullmatch(r"[\d./]+|…", value):
        shown = f'"{value}"'
    if name == "allow_host":
        return f"allow_hosts=({shown},)"
    key, equals, config_value = value.partition("=")
    if name == "config" and equals:
        return f'config={{"{key}": {config_value}}}'
    return f"{name}={shown}"


def describe_problems(errors: Iterable[AnswerkeyError]) -> dict[str, object]:
    """Return errors as `--json` prints them, with paths as the user gave them."""
    return {"errors": [error.describe() | _describe_file(error.where) for error in errors]}


def describe_notices(notices: Iterable[Notice]) -> list[dict[str, object]]:
    """Return notices as plain values."""
    described = []
    for notice in notices:
        place = notice.where or Place()
        facts = {
            "message": notice.message,
            **_describe_file(place),
            "line": place.line,
            "column": place.column,
            "hint": notice.hint,
        }
        described.append(facts)
    return described


def _describe_file(place: Place | None) -> dict[str, object]:
    file = place.file if place else None
    return {"file": file and shorten_path(file)}
