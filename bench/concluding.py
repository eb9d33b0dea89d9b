"""From costs to promises, tables and the plot."""

from __future__ import annotations

from measuring import Cost
from plotting import Line
from promises import PLATFORM_RATE, Promise
from reader import promise_reader
from scoring import MAIN_ROWS, SIZES, Findings
from tables import Table, say_bytes, say_rate, say_rows, say_seconds

LARGEST = SIZES[-1]
OURS = {"default": "answerkey, default rule", "literal": "answerkey, `first_character_literal`"}
LOOPS = {
    "render": "Jinja loop in two processes, texts rendered and parsed",
    "expression": "Jinja loop in two processes, values as they are",
}


def find_main(found: Findings) -> int:
    """Return the size at which ratios are taken: a million rows, or the largest below it."""
    return max((rows for rows in found.sizes if rows <= MAIN_ROWS), default=0)


def list_promises(found: Findings) -> list[Promise]:
    """Return every promise with what was measured."""
    return [
        *_promise_scoring(found),
        *_promise_growth(found),
        *_promise_startup(found),
        *promise_reader(found.reader),
        *_promise_live(found),
    ]


def _promise_scoring(found: Findings) -> list[Promise]:
    rows = find_main(found)
    if not rows:
        return []
    costs, at = found.sizes[rows], f", {say_rows(rows)} rows"
    default, literal, raw = (costs[name] for name in ("default", "literal", "raw"))
    speed = rows / (default.inner_wall or default.wall)
    platform = f"default rule{at}: samples/s over {PLATFORM_RATE:,} (the platform's scorer)"
    return [
        Promise(platform, speed / PLATFORM_RATE, 1000),
        _promise_inspect(found, f"default rule{at}", speed),
        *(
            Promise(
                f"default rule{at}: against the Jinja loop ({form}), per CPU",
                divide(costs[form].inner_cpu, default.inner_cpu),
                bound,
            )
            for form, bound in (("render", 20), ("expression", None))
        ),
        Promise(
            f"literal rule{at}: against raw Polars, per CPU", divide(raw.inner_cpu, literal.inner_cpu), 0.6
        ),
        Promise(
            f"default rule{at}: against raw Polars, per CPU", divide(raw.inner_cpu, default.inner_cpu), 0.35
        ),
        *_promise_unique(found),
    ]


def _promise_inspect(found: Findings, name: str, speed: float) -> Promise:
    text, rates = f"{name}: samples/s over Inspect's re-scoring", found.foreign.get("Inspect", "left out")
    if isinstance(rates, str):
        return Promise(text, None, 3000, why=rates)
    return Promise(text, speed / rates["end_to_end"], 3000)


def _promise_unique(found: Findings) -> list[Promise]:
    costs, at = found.unique, f", {say_rows(found.unique_rows)} rows"
    return [
        Promise(
            f"every template value unique{at}: against the two-process Jinja loop ({form})",
            divide(costs[form].inner_wall, costs["ours"].inner_wall),
            bound,
        )
        for form, bound in (("render", 0.8), ("expression", None))
        if costs
    ]


def _promise_growth(found: Findings) -> list[Promise]:
    few, many = found.sizes.get(MAIN_ROWS), found.sizes.get(LARGEST)
    growth = divide(many["default"].inner_wall, few["default"].inner_wall) if few and many else None
    peak = many["default"].peak / 1e6 if many else None
    return [
        Promise(
            f"{say_rows(LARGEST)} rows: peak memory", peak, 600, is_ceiling=True, unit=" MB", why="left out"
        ),
        Promise(
            f"growth of time from {say_rows(MAIN_ROWS)} to {say_rows(LARGEST)} rows",
            growth,
            11,
            is_ceiling=True,
            unit=" \u00d7",
            why="left out",
        ),
    ]


def _promise_startup(found: Findings) -> list[Promise]:
    bounds = {"answerkey --help": 0.3, "import answerkey": 0.3, "answerkey score, 100 rows": 1.0}
    return [
        Promise(f"start-up: `{name}`", cost.cpu, bounds[name], is_ceiling=True, unit=" CPU s")
        for name, cost in found.startup.items()
    ]


def _promise_live(found: Findings) -> list[Promise]:
    return [
        Promise(
            f"live models: the ratios of `{name}`, below",
            float(is_kept),
            1,
            words=("all kept" if is_kept else "not all kept", "all"),
        )
        for name, (_, is_kept) in found.live.items()
    ]


def divide(above: float | None, below: float | None) -> float | None:
    """Return a ratio, None where one side was not measured."""
    return None if above is None or not below else above / below


def tabulate_sizes(found: Findings) -> Table:
    """Return ours at every size."""
    head = ("rule", "rows", "time", "samples/s", "CPU time", "whole command", "peak memory", "scores written")
    lines = [(name, rows) for name in OURS for rows in found.sizes]
    return Table(
        head,
        [_say_size(OURS[name].partition(", ")[2], rows, found.sizes[rows][name]) for name, rows in lines],
    )


def _say_size(name: str, rows: int, cost: Cost) -> list[str]:
    times = [
        say_seconds(cost.inner_wall),
        say_rate(divide(rows, cost.inner_wall)),
        say_seconds(cost.inner_cpu),
    ]
    return [
        name,
        say_rows(rows),
        *times,
        say_seconds(cost.wall),
        say_bytes(cost.peak),
        say_bytes(cost.facts["written"]),
    ]


def tabulate_rates(found: Findings) -> Table:
    """Return all of them beside each other at the main size, the slow ones at their own."""
    rows = find_main(found)
    names = {**OURS, "raw": "raw Polars, literal rule only, nothing checked", **LOOPS}
    lines = [_say_rates(text, rows, found.sizes[rows][name]) for name, text in names.items()] if rows else []
    for name, rates in found.foreign.items():
        if isinstance(rates, str):
            lines.append([f"{name}: {rates}", "-", "-", "-"])
            continue
        size = say_rows(int(rates["rows"]))
        lines.append([f"{name} {rates['version']}", size, say_rate(rates["end_to_end"]), "-"])
        if "scoring" in rates:
            lines.append(
                [f"{name}, without reading and writing its log", size, say_rate(rates["scoring"]), "-"]
            )
    lines.append(
        ["the platform's own scorer (reference, not measured here)", "-", say_rate(PLATFORM_RATE), "-"]
    )
    return Table(("who", "rows", "samples/s", "samples per CPU second"), lines)


def _say_rates(name: str, rows: int, cost: Cost) -> list[str]:
    return [
        name,
        say_rows(rows),
        say_rate(divide(rows, cost.inner_wall)),
        say_rate(divide(rows, cost.inner_cpu)),
    ]


def tabulate_unique(found: Findings) -> Table:
    """Return the case in which nothing repeats."""
    names = {"ours": OURS["default"], **LOOPS}
    lines = [
        _say_rates(text, found.unique_rows, found.unique[name])
        for name, text in names.items()
        if found.unique
    ]
    return Table(("who", "rows", "samples/s", "samples per CPU second"), lines)


def tabulate_mixes(found: Findings) -> Table:
    """Return other mixes of rows, beside raw Polars on the same file."""
    head = ("default rule, other rows", "time", "CPU time", "peak memory", "per CPU, over raw Polars")
    lines = []
    for name, costs in found.mixes.items():
        ours, ratio = costs["ours"], divide(costs["raw"].inner_cpu, costs["ours"].inner_cpu)
        times = [say_seconds(ours.inner_wall), say_seconds(ours.inner_cpu), say_bytes(ours.peak)]
        lines.append([name, *times, "-" if ratio is None else f"{ratio:.2f}"])
    return Table(head, lines)


def tabulate_formats(found: Findings) -> Table:
    """Return the whole command by file format."""
    head = ("format", "first time", "CPU time", "again", "CPU time", "peak memory, first time")
    rows, lines = find_main(found), []
    if rows:
        cost = found.sizes[rows]["default"]
        times = [say_seconds(cost.wall), say_seconds(cost.cpu)]
        lines.append(["Parquet", *times, *times, say_bytes(cost.peak)])
    for ending, costs in found.formats.items():
        first, again = costs["first"], costs["again"]
        times = [say_seconds(number) for number in (first.wall, first.cpu, again.wall, again.cpu)]
        lines.append([ending.upper(), *times, say_bytes(first.peak)])
    return Table(head, lines)


def tabulate_startup(found: Findings) -> Table:
    """Return the cost of beginning."""
    lines = [
        [f"`{name}`", say_seconds(cost.cpu), say_seconds(cost.wall), say_bytes(cost.peak)]
        for name, cost in found.startup.items()
    ]
    return Table(("command", "CPU time", "time", "peak memory"), lines)


def list_lines(found: Findings) -> list[Line]:
    """Return the lines of the plot; a harness of which only a rate is known is a dashed one."""
    names = {
        "default": "answerkey",
        "literal": "answerkey, literal",
        "raw": "raw Polars",
        "expression": "Jinja loop, 2 processes",
    }
    lines = []
    for name, text in names.items():
        points = [(rows, costs[name].inner_wall) for rows, costs in found.sizes.items() if name in costs]
        lines.append(Line(text, [(rows, seconds) for rows, seconds in points if seconds]))
    rates = {name: rate["end_to_end"] for name, rate in found.foreign.items() if not isinstance(rate, str)}
    ends = (min(found.sizes), max(found.sizes))
    for name, rate in {**rates, "the platform's scorer": PLATFORM_RATE}.items():
        lines.append(Line(name, [(rows, rows / rate) for rows in ends], is_dashed=True))
    return lines
