"""The report: one HTML file with everything in it, written part by part.

    runs ──► overviews, comparison, rows to embed ──► page, with a block of JSON for each

The page has a policy of its own: only the style and the scripts in `web` run, and nothing is
fetched from anywhere. Nothing in a block of JSON can end it. A large block is packed (gzip in
base64, marked `data-packed="gzip"`); every current browser unpacks it by itself.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from answerkey._version import __version__
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.pairs import AnyRun, is_same_run
from answerkey.exporters import COMPACT, to_json
from answerkey.reports.comparison import (
    ComparisonView,
    build_comparison,
    label_runs,
    list_flips,
)
from answerkey.reports.leaderboard import Runs
from answerkey.reports.overview import Overview, audit_task, build_overview
from answerkey.reports.sample_view import SampleRow, view_samples
from answerkey.reports.samples import SampleSource, SampleTable
from answerkey.runs import Run, load_run, write_output
from answerkey.text import make_visible

#: The most rows of a task in a report, unless the caller says otherwise.
MAX_EMBEDDED = 20_000
#: Of each kind of telling rows, at most this part of all that are embedded.
SHARE = 5
#: A block of samples; the page unpacks one when a sample of it is opened.
BLOCK_SAMPLES = 200
#: Smaller blocks stay plain text.
MIN_PACKED = 4_096
#: zlib's code for gzip, which it writes without a time: the same text gives the same bytes.
GZIP = 31
#: How many samples are read and described together.
CHUNK_SAMPLES = 5 * BLOCK_SAMPLES
#: How many bytes of images are in a report; each has at most a hundredth.
MAX_IMAGES = 20_000_000
#: The scripts in the order in which they run.
SCRIPTS = (
    "core.js",
    "charts.js",
    "copy.js",
    "overview.js",
    "list.js",
    "samples.js",
    "sample.js",
    "compare.js",
    "leaderboard.js",
    "runs.js",
    "embedded.js",
    "server.js",
    "main.js",
)
VIEWER_ONLY = frozenset({"runs.js", "server.js"})
# What could end a block or be taken for markup, and what old scripts take for the end of a line.
_UNSAFE = re.compile("[<>&\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The positions of the rows of a task that are embedded, in dataset order.

    `sentence` says what is left out; None where nothing is.
    """

    table: SampleTable
    positions: Sequence[int]
    sentence: str | None


def report(
    runs: AnyRun | Sequence[AnyRun],
    path: str | Path,
    *,
    max_samples: int = MAX_EMBEDDED,
    title: str | None = None,
    progress: Progress = ignore_progress,
) -> dict[str, Any]:
    """Write the report of one or several runs, which are then compared.

    Return its file and size, and how many rows are in it. At most `max_samples` rows of each task
    are embedded. The file is there whole or not at all.
    """
    distinct = _list_distinct(runs)
    shown = title or _choose_title(list(distinct.values()))
    rows = embedded = 0

    def write(temporary: Path) -> None:
        nonlocal rows, embedded
        comparison = None
        if len(distinct) > 1:
            progress("comparing", 0, 1)
            comparison = build_comparison(distinct)
        overviews, selections = _build_overviews(
            distinct,
            comparison,
            max_samples,
            progress,
        )
        for selection in selections.values():
            rows += len(selection.table)
            embedded += len(selection.positions)
        begin, end, _ = build_page(shown)
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            out.write(begin)
            out.write(_write_overview(shown, overviews, comparison))
            out.writelines(_write_rows(selections, progress))
            out.write(end)

    target = Path(path)
    write_output(target, write)
    return {
        "file": str(target),
        "bytes": target.stat().st_size,
        "runs": len(distinct),
        "rows": rows,
        "embedded": embedded,
    }


def _write_overview(
    title: str,
    overviews: Sequence[Overview],
    comparison: ComparisonView | None,
) -> str:
    """Return the block that the page begins with, which is never packed."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    page = {
        "mode": "report",
        "title": title,
        "made": now.replace("+00:00", "Z"),
        "version": __version__,
        "runs": overviews,
        "comparison": comparison,
    }
    content = describe_content(to_json(page, COMPACT), is_packed=False)
    return _wrap("ak-overview", content)


def _list_distinct(runs: AnyRun | Sequence[AnyRun]) -> dict[str, Run]:
    """Return the runs by their ids, each once."""
    sources = runs if isinstance(runs, list | tuple) else [runs]
    distinct: dict[str, Run] = {}
    for run in map(load_run, sources):
        if not any(is_same_run(run, listed) for listed in distinct.values()):
            distinct[f"r{len(distinct)}"] = run
    return distinct


def _choose_title(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    run = runs[0]
    return str(run.manifest.get("display_name") or run.key)


def _build_overviews(
    distinct: Runs,
    comparison: ComparisonView | None,
    max_samples: int,
    progress: Progress,
) -> tuple[list[Overview], dict[str, RowSelection]]:
    """Return the overviews of all runs, and which rows are embedded, by block."""
    overviews = []
    selections: dict[str, RowSelection] = {}
    labels = label_runs(list(distinct.values()))
    for place, (name, run) in enumerate(distinct.items()):
        progress("auditing", place, len(distinct))
        tables = {}
        audits = {}
        for key, task_run in run.tasks.items():
            tables[key] = SampleTable(run, task_run)
            audits[key] = audit_task(tables[key])
        overview = build_overview(
            run,
            audits,
            run_id=name,
            label=labels[place],
        )
        tasks = []
        for number, task in enumerate(overview.tasks):
            table = tables[task.key]
            flips = list_flips(comparison, name, number)
            selection = select_rows(table, max_samples, flips)
            selections[f"{place}-{number}"] = selection
            remarks = filter(None, (selection.sentence, table.source.missing))
            rows = replace(
                task.rows,
                embedded=len(selection.positions),
                sentence=" ".join(remarks) or None,
            )
            tasks.append(replace(task, rows=rows))
        overviews.append(replace(overview, tasks=tasks))
    return overviews, selections


def _write_rows(
    selections: Mapping[str, RowSelection],
    progress: Progress,
) -> Iterator[str]:
    """Yield the blocks of samples and of rows, task by task."""
    done = 0
    total = 0
    for selection in selections.values():
        total += len(selection.positions)
    room = MAX_IMAGES // max(1, total // CHUNK_SAMPLES)
    for place, selection in selections.items():
        source = selection.table.source
        positions = selection.positions
        rows: list[SampleRow] = []
        blocks = 0
        for offset in range(0, len(positions), CHUNK_SAMPLES):
            chunk = positions[offset : offset + CHUNK_SAMPLES]
            part, contents = embed_samples(source, chunk, room)
            for content in contents:
                yield _wrap(f"ak-samples-{place}-{blocks}", content)
                blocks += 1
            rows += part
            done += len(part)
            progress("writing", done, total)
        columns = {}
        for name in SampleRow.__annotations__:
            columns[name] = [row[name] for row in rows]  # type: ignore[literal-required]  # a field
        yield _wrap(f"ak-rows-{place}", describe_content(to_json(columns, COMPACT)))


def embed_samples(
    source: SampleSource,
    positions: Sequence[int],
    room: int = MAX_IMAGES,
) -> tuple[list[SampleRow], list[str]]:
    """Return some rows, and their samples as blocks of JSON, each ready to be written.

    The images have at most `room` bytes.
    """
    rows = []
    samples = []
    for part in source.read(positions):
        for row, view in view_samples(source, part, room):
            rows.append(row)
            samples.append(view)
    blocks = []
    for offset in range(0, len(samples), BLOCK_SAMPLES):
        block = samples[offset : offset + BLOCK_SAMPLES]
        blocks.append(describe_content(to_json(block, COMPACT)))
    return rows, blocks


# ── the page around what it shows


def build_page(title: str, *, is_viewer: bool = False) -> tuple[str, str, str]:
    """Return the page up to its blocks, the page after them, and its policy.

    The viewer has two scripts more, and sends its policy as a header; a report has it in the page.
    """
    text, style, script = _read_web(is_viewer=is_viewer)
    before, after_policy, after_title, after_style, after_blocks, after_script = re.split(
        r"<!-- \w+ -->",
        text,
    )
    policy = (
        f"default-src 'none'; script-src '{hash_source(script)}'; "
        f"style-src '{hash_source(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = ""
    if not is_viewer:
        meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    head = f"{before}{meta}{after_policy}{escape(make_visible(title))}{after_title}"
    begin = f"{head}<style>{style}</style>{after_style}"
    return begin, f"{after_blocks}<script>{script}</script>{after_script}", policy


@lru_cache(maxsize=2)
def _read_web(*, is_viewer: bool) -> tuple[str, str, str]:
    """Return HTML, style and script of the page."""
    folder = files("answerkey.reports").joinpath("web")
    texts = []
    for name in SCRIPTS:
        if is_viewer or name not in VIEWER_ONLY:
            texts.append(folder.joinpath(name).read_text("utf-8"))
    page = folder.joinpath("page.html").read_text("utf-8")
    style = folder.joinpath("page.css").read_text("utf-8")
    return page, style, "\n".join(texts)


def hash_source(text: str) -> str:
    """Return how a policy names a script or style: the hash of its text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# ── blocks of JSON


def _wrap(name: str, content: str) -> str:
    return f'<script type="application/json" id="{name}"{content}</script>\n'


def describe_content(text: str, *, is_packed: bool = True) -> str:
    """Return an element of the page from its attributes on: JSON, packed if it is large.

    Nothing of it is markup; halves of characters, which UTF-8 does not have, are escaped.
    """
    escaped = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    safe = escaped.encode(errors="backslashreplace")
    if not is_packed or len(escaped) < MIN_PACKED:
        return f">{safe.decode()}"
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    packed = packer.compress(safe) + packer.flush()
    letters = base64.b64encode(packed).decode("ascii")
    return f' data-packed="gzip">{letters}'


# ── which rows are embedded


def select_rows(
    table: SampleTable,
    limit: int = MAX_EMBEDDED,
    flips: Sequence[int] = (),
) -> RowSelection:
    """Return all rows, or telling ones and others drawn at random.

    `flips` are rows that another run has right and this one not, or the other way round.
    """
    count = len(table)
    if count <= limit:
        return RowSelection(table, range(count), None)
    noun = "samples" if table.task_run.counts["samples"] == count else "rows"
    if not limit:
        return RowSelection(table, (), f"This file holds none of {count:,} {noun}.")
    index = table.index
    telling = [table.flips, flips]
    for kind in ("invalid", "wrong", "failed"):
        telling.append(index[kind].arg_true().to_list())
    chosen: set[int] = set()
    for rows in telling:
        chosen.update(_draw(rows, limit // SHARE))
    for row in _draw(range(count), limit, seed=1):
        if len(chosen) == limit:
            break
        chosen.add(row)
    positions = sorted(chosen)
    sentence = (
        f"This file holds {len(positions):,} of {count:,} {noun}: some that are INVALID, wrong,"
        " without a score, or read differently by rules or in other runs, and others drawn at"
        " random. The overview counts all of them; the table, its counts and the search cover"
        " only these rows."
    )
    return RowSelection(table, positions, sentence)


def _draw(
    rows: Sequence[int],
    most: int,
    seed: int = 0,
) -> list[int]:
    """Return some rows drawn at random, the same ones every time."""
    draw = random.Random(seed)  # noqa: S311 - for repeatability, not for secrets
    return draw.sample(rows, min(most, len(rows)))
