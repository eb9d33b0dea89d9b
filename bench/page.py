"""`docs/performance.md`: a page written by hand, with blocks that a measurement fills."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from concluding import (
    list_lines,
    tabulate_formats,
    tabulate_mixes,
    tabulate_rates,
    tabulate_sizes,
    tabulate_startup,
    tabulate_unique,
)
from plotting import draw_plot
from promises import Promise, tabulate
from scoring import Findings
from tables import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "img" / "performance.svg"
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- /measured -->)", re.DOTALL)


def describe_machine() -> str:
    """Return the machine in general words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in ("polars", "jinja2", "aiohttp"))
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores ({platform.machine()}), "
        f"{memory:.0f} GB of memory, {platform.system()}, Python {platform.python_version()}, {libraries}, "
        f"answerkey {version('answerkey')}."
    )


def build_tables(found: Findings, promises: list[Promise]) -> dict[str, Table]:
    """Return the tables by the name of their block."""
    return {
        "promises": tabulate(promises),
        "sizes": tabulate_sizes(found),
        "rates": tabulate_rates(found),
        "unique": tabulate_unique(found),
        "mixes": tabulate_mixes(found),
        "formats": tabulate_formats(found),
        "startup": tabulate_startup(found),
    }


def fill_page(text: str, found: Findings, promises: list[Promise]) -> str:
    """Return the page with every block filled; a part that was not measured says so."""
    tables = build_tables(found, promises)
    blocks = {name: table.to_markdown() if table.rows else "Not measured." for name, table in tables.items()}
    blocks["machine"] = describe_machine()
    printed = [f"```text\n{text}\n```" for text, _ in found.live.values()]
    blocks["live"] = "\n\n".join(printed) or "Not measured."
    return BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}\n{match[3]}", text)


def write_page(found: Findings, promises: list[Promise]) -> None:
    """Fill the page and draw its plot."""
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), found, promises), encoding="utf-8")
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(draw_plot(list_lines(found)), encoding="utf-8")
