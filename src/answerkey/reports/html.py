"""The report: one HTML file with everything in it, written part by part.

    runs ──► overviews, comparison, rows to embed ──► begin of the page, a block of JSON each, end
    of the page

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from html import escape
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from typing import Any

import polars as pl

from answerkey._version import __version__
from answerkey.comparison.compare import TaskComparison
from answerkey.engines import open_engine
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.pairs import AnyRun, is_same_run, name_runs
from answerkey.exporters import COMPACT, to_json
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, PAIRED_TEST
from answerkey.reports.leaderboard import Tasks, compare_tasks, describe_leaderboard, list_columns
from answerkey.reports.overview import audit_tasks, describe_overview
from answerkey.reports.samples import Excerpt, SampleSource, SampleTable, describe_samples
from answerkey.run_audit.audit import choose_spread
from answerkey.runs import Run, load_run, name_answerer, write_whole
from answerkey.text import clean_numbers, make_visible

#: So many rows of a task are in a report, unless the caller says otherwise.
MOST_EMBEDDED = 20_000
#: Of each kind that decides something, at most this part of all that are embedded.
SHARE = 4
SEED = 0
#: A block of samples; the page unpacks one when a sample of it is opened.
BLOCK_SAMPLES = 200
#: Smaller blocks stay plain text.
LEAST_PACKED = 4_096
#: To zlib, gzip; there is no time in it, so that the same text gives the same bytes.
GZIP = 31
#: So many samples are described together, by one process.
TOGETHER = 5 * BLOCK_SAMPLES
#: So many bytes of images are in a report; each has at most a hundredth.
IMAGES = 20_000_000
#: The scripts in the order in which they run.
SCRIPTS = (
    *(
        "core.js",
        "charts.js",
        "copy.js",
        "overview.js",
        "list.js",
        "samples.js",
        "sample.js",
        "compare.js",
    ),
    *("leaderboard.js", "runs.js", "embedded.js", "server.js", "main.js"),
)
VIEWER_ONLY = frozenset({"runs.js", "server.js"})
#: Columns of rows with few texts that come again and again: these are numbered.
CODED = ("category", "truth", "predicted", "status", "validity", "reason")

#: So many flipped samples of a pair are listed, and fewer where there are many pairs.
MOST_FLIPS, MOST_OF_ALL, FEWEST = 2_000, 20_000, 100
#: How the notice of a comparison between datasets that differ in other columns ends.
OTHER_DATASETS = "differ, though samples and truths are the same"
TESTS = {
    EXACT_TEST: "McNemar's exact test",
    PAIRED_TEST: "paired t test over samples",
    CLUSTERED_TEST: "t test over clusters",
}

# What could end a block or be taken for markup, and what old scripts take for the end of a line.
_UNSAFE = {one.encode(): b"\\u%04x" % ord(one) for one in "<>&\u2028\u2029"}

Plain = dict[str, Any]
Progress = Callable[[str, int, int], None]
#: Run id → task key → rows.
Tables = Mapping[str, Mapping[str, SampleTable]]
#: Which task of each run is compared, by the id of the run.
#: Rows, column by column.
Columns = dict[str, list[Any]]
#: The positions of rows, and the sentence that says what is left out.
Selected = tuple[pl.Series, str | None]


def report(
    runs: AnyRun | Sequence[AnyRun],
    path: str | Path,
    *,
    max_samples: int = MOST_EMBEDDED,
    baseline: AnyRun | None = None,
    common: bool = False,
    title: str | None = None,
    progress: Progress | None = None,
) -> Plain:
    """Write the report of one or several runs.

    Return its file and size, and how many rows are in it. At most `max_samples` rows of each task
    are embedded. Runs are compared with `baseline` if there is one, with `common` on the samples
    that all of them have. The file is there whole or not at all.
    """
    known = [] if baseline is None else [load_run(baseline)]
    distinct: list[Run] = []
    for run in map(load_run, runs if isinstance(runs, list | tuple) else [runs]):
        if not any(is_same_run(run, one) for one in (*distinct, *known)):
            distinct.append(run)
    named = {f"r{number}": run for number, run in enumerate((*distinct, *known))}
    tables = {
        name: {key: SampleTable(run, task) for key, task in run.tasks.items()}
        for name, run in named.items()
    }
    chosen: dict[tuple[str, int], Selected] = {}
    tell = progress or (lambda *_: None)

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            against = None if baseline is None else list(named)[-1]
            comparison = None
            if len(named) > 1:
                tell("comparing", 0, 1)
                comparison = describe_comparison(named, tables, baseline=against, common=common)
            overviews = []
            for place, (name, label) in enumerate(
                zip(named, label_runs(list(named.values())), strict=True)
            ):
                tell("auditing", place, len(named))
                base = None if name == against else next(iter(known), None)
                audited = audit_tasks(named[name])
                overviews.append(
                    describe_overview(
                        named[name], audited=audited, baseline=base, run_id=name, label=label
                    )
                )
                pairs = zip(overviews[-1]["tasks"], tables[name].items(), strict=True)
                for number, (task, (key, table)) in enumerate(pairs):
                    table.know_flips(audited[key].audit)
                    compared = list_compared(comparison, name, number)
                    positions, sentence = chosen[name, number] = select_rows(
                        table, max_samples, compared
                    )
                    sentences = " ".join(one for one in (sentence, table.source.missing) if one)
                    task["rows"] |= {"embedded": len(positions), "sentence": sentences or None}
            first = next(iter(named.values()))
            alone = str(first.manifest.get("display_name") or first.key)
            shown = title or (alone if len(named) == 1 else f"{len(named)} runs compared")
            content = {
                "mode": "report",
                "title": shown,
                "made": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "version": __version__,
                "runs": overviews,
                "comparison": comparison,
            }
            begin, end, _ = build_page(shown)
            out.write(begin)
            # Never packed: the page cannot begin without it.
            out.write(
                _wrap("ak-overview", write_content(to_json(content, COMPACT), is_packed=False))
            )
            out.writelines(_write_rows(tables, chosen, tell))
            out.write(end)

    target = Path(path)
    write_whole(target, write)
    return {
        "file": str(target),
        "bytes": target.stat().st_size,
        "runs": len(named),
        "rows": sum(len(table) for one in tables.values() for table in one.values()),
        "embedded": sum(len(positions) for positions, _ in chosen.values()),
    }


def _write_rows(
    tables: Tables,
    chosen: Mapping[tuple[str, int], Selected],
    progress: Progress,
) -> Iterator[str]:
    """Yield the blocks of samples and of rows, task by task."""
    total, done = sum(len(positions) for positions, _ in chosen.values()), 0
    for (name, number), (positions, _) in chosen.items():
        place = f"{list(tables).index(name)}-{number}"
        columns: Columns = {"p": []}
        blocks, coded = 0, {}
        room = IMAGES // max(1, total // TOGETHER)
        source = list(tables[name].values())[number].source
        shards = join_excerpts(source.read(positions), TOGETHER)
        first = list(islice(shards, 1))
        said = [
            one.completions.frame["completion"] for part in first for one in part if one.completions
        ]
        spread = choose_spread(pl.concat(said), len(positions)) if said else "alone"
        embed = partial(embed_samples, source, room=room)
        for part, contents in open_engine().map(embed, chain(first, shards), spread=spread):
            for content in contents:
                yield _wrap(f"ak-samples-{place}-{blocks}", content)
                blocks += 1
            for one, values in part.items():
                columns.setdefault(one, []).extend(values)
            done += len(part["p"])
            progress("writing", done, total)
        for one in CODED:  # a code for each text, -1 for None, and the texts by code
            names: dict[str, int] = {}
            texts = columns.pop(one, [])
            codes = [-1 if text is None else names.setdefault(text, len(names)) for text in texts]
            coded[one] = {"codes": codes, "names": list(names)}
        yield _wrap(f"ak-rows-{place}", write_content(to_json({**columns, **coded}, COMPACT)))


# ── the page around what it shows


def build_page(title: str, *, is_viewer: bool = False) -> tuple[str, str, str]:
    """Return the page up to its blocks, the page after them, and its policy.

    The viewer has two scripts more, and sends its policy as a header; a report has it in the page.
    """
    text, style, script = _read_web(is_viewer=is_viewer)
    before, after_policy, after_title, after_style, after_blocks, after_script = re.split(
        r"<!-- \w+ -->", text
    )
    policy = (
        f"default-src 'none'; script-src '{hash_source(script)}'; style-src "
        f"'{hash_source(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = (
        ""
        if is_viewer
        else f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    )
    named = f"{before}{meta}{after_policy}{escape(make_visible(title))}{after_title}"
    begin = f"{named}<style>{style}</style>{after_style}"
    return begin, f"{after_blocks}<script>{script}</script>{after_script}", policy


@lru_cache(maxsize=2)
def _read_web(*, is_viewer: bool) -> tuple[str, str, str]:
    """Return HTML, style and script of the page."""
    folder = files("answerkey.reports").joinpath("web")
    scripts = [name for name in SCRIPTS if is_viewer or name not in VIEWER_ONLY]
    page, style, *texts = (
        folder.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", *scripts)
    )
    return page, style, "\n".join(texts)


def hash_source(text: str) -> str:
    """Return how a policy names a script or style: the hash of its text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# ── blocks of JSON


def _wrap(name: str, content: str) -> str:
    return f'<script type="application/json" id="{name}"{content}</script>\n'


def write_content(text: str, *, is_packed: bool = True) -> str:
    """Return what stands in an element of the page from its attributes on: JSON, packed if it is
    large.

    Nothing of it is markup; halves of characters, which UTF-8 does not have, are escaped.
    """
    least = LEAST_PACKED if is_packed else float("inf")
    safe = text.encode(errors="backslashreplace")
    for one, escaped in _UNSAFE.items():
        safe = safe.replace(one, escaped)
    if len(safe) < 4 * least and len(plain := safe.decode()) < least:  # of at most four bytes each
        return f">{plain}"
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    packed = base64.b64encode(packer.compress(safe) + packer.flush()).decode("ascii")
    return f' data-packed="gzip">{packed}'


def join_excerpts(parts: Iterable[Excerpt], size: int) -> Iterator[list[Excerpt]]:
    """Yield the rows of all parts, cut or joined to so many at a time."""
    found, left = [], size
    for part in parts:
        at = 0
        while at < len(part):
            found.append(part.slice(at, left))
            at, left = at + len(found[-1]), left - len(found[-1])
            if not left:
                yield found
                found, left = [], size
    if found:
        yield found


def embed_samples(
    source: SampleSource, parts: Sequence[Excerpt], room: int = IMAGES
) -> tuple[Columns, list[str]]:
    """Return some rows as columns, and their samples as blocks of JSON, each ready to be written.

    The images of each part have at most `room` bytes.
    """
    found = [pair for part in parts for pair in describe_samples(source, part, room)]
    columns = {name: [row[name] for row, _ in found] for name in found[0][0]}
    place, lines = list(found[0][1]).index("readings"), []
    for _, one in found:  # the readings are most of it, and the same for many
        halves = (dict(islice(one.items(), *some)) for some in ((place,), (place + 1, None)))
        begin, end = (to_json(half, COMPACT) for half in halves)
        lines.append(f'{begin[:-1]},"readings":{one["readings"].text},{end[1:]}')
    blocks = (lines[at : at + BLOCK_SAMPLES] for at in range(0, len(lines), BLOCK_SAMPLES))
    return columns, [write_content(f"[{','.join(block)}]") for block in blocks]


# ── which rows are embedded


def select_rows(
    table: SampleTable, most: int = MOST_EMBEDDED, compared: Sequence[int] = ()
) -> Selected:
    """Return the positions of all rows, or of those that decide something and of others drawn at
    random.

    They are in dataset order; the sentence says what is left out, None where nothing is. `compared`
    are rows that another run has right and this one not, or the other way round.
    """
    count = len(table)
    if count <= most:
        return pl.int_range(count, dtype=pl.UInt32, eager=True), None
    noun = "samples" if table.task_run.counts["samples"] == count else "rows"
    if not most:
        return pl.Series([], dtype=pl.UInt32), f"This file holds none of {count:,} {noun}."
    share = most // SHARE
    kinds = [
        ("INVALID", table.select("invalid").arg_true(), share),
        ("flipped between rules", table.flips, share),
        ("wrong", table.select("wrong").arg_true(), share),
        ("without a score", table.select("failed").arg_true(), share // SHARE),
        ("flipped between runs", pl.Series(compared, dtype=pl.UInt32), share // SHARE),
    ]
    chosen: set[int] = set()
    size, parts = 0, []
    for name, found, limit in kinds:
        draw = random.Random(SEED)  # noqa: S311 - for repeatability, not for secrets
        few = found if len(found) <= limit else found.gather(draw.sample(range(len(found)), limit))
        chosen.update(few)
        size += len(few)
        if len(found):
            looked_at = len(table.reread)
            is_part = name == "flipped between rules" and looked_at < count
            among = f" (of {looked_at:,} that were looked at)" if is_part else ""
            number = (
                f"all {len(found):,}"
                if len(few) == len(found)
                else f"{len(few):,} of {len(found):,}"
            )
            parts.append(f"{number} {name}{among}")
    draw = random.Random(SEED + 1)  # noqa: S311 - for repeatability, not for secrets
    others = [one for one in draw.sample(range(count), min(count, most)) if one not in chosen]
    rest = others[: most - len(chosen)]
    positions = pl.Series(sorted(chosen.union(rest)), dtype=pl.UInt32)
    listed = ", ".join([*parts, f"{len(rest):,} others drawn at random"])
    several = " (some are of several kinds)" if len(chosen) < size else ""
    return positions, (
        f"This file holds {len(positions):,} of {count:,} {noun}: {listed}{several}."
        " Every number of the overview is of all; the table, its counts and the search "
        "are of these alone."
    )


# ── several runs compared


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Return what runs are called in a page: the names of their folders, numbered where they are
    the same.
    """
    counts: dict[str, int] = {}
    labels = []
    for run in runs:
        name = run.path.resolve().name if run.path else run.key
        counts[name] = counts.get(name, 0) + 1
        labels.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return labels


def describe_comparison(
    runs: Mapping[str, Run], tables: Tables, *, baseline: str | None = None, common: bool = False
) -> Plain:
    """Return the comparison of runs by their ids; `refused` says why there is none.

    With `baseline`, the id of one of them, the others are each held against it.
    """
    labels = dict(zip(runs, label_runs(list(runs.values())), strict=True))
    ordered = {name: run for name, run in runs.items() if name != baseline}
    ordered |= {} if baseline is None else {baseline: runs[baseline]}

    def rename(text: str) -> str:
        """Return a sentence with runs called as in the page, and not by the folders of this
        machine.
        """
        for name, known in zip(ordered, name_runs(list(ordered.values())), strict=True):
            text = text.replace(f"`{known}`", f"`{labels[name]}`")
            text = text.replace(str(runs[name].path), labels[name]) if runs[name].path else text
        return text

    try:
        compared, notices, refused = *compare_tasks(ordered, baseline, common=common), None
    except AnswerkeyError as error:
        compared, notices = [], []
        refused = rename(f"{error.message} ({error.hint})" if error.hint else error.message)
    comparisons = sum(len(task.pairs) for task, _ in compared)
    alike = [notice for notice in notices if notice.endswith(OTHER_DATASETS)]
    if len(alike) > 1:  # said once, not once for each pair
        others = [one for one in notices if one not in alike]
        notices = [f"the datasets of the runs {OTHER_DATASETS}", *others]
    described: Plain = clean_numbers(
        {
            "tasks": [
                _describe_task(task, comparisons, names, runs, labels=labels, tables=tables)
                for task, names in compared
            ],
            "notices": list(map(rename, notices)),
            "refused": refused,
            "leaderboard": None,
        }
    )
    if len(runs) > 2 or refused:  # noqa: PLR2004 - a pair is compared, more are ranked
        columns = list_columns(runs, compared, is_ranked=baseline is None)
        described["leaderboard"] = clean_numbers(describe_leaderboard(runs, labels, columns))
    return described


def list_compared(comparison: Plain | None, run: str, task: int) -> list[int]:
    """Return the positions of the flipped samples that a comparison lists, in one task of one
    run.
    """
    found: set[int] = set()
    for one in [] if comparison is None else comparison["tasks"]:
        if (run, task) in [(each["id"], each["task"]) for each in one["runs"]]:
            flips = (flip for pair in one["pairs"] for flip in pair["flips"])
            found.update(flip["p"][run] for flip in flips if run in flip["p"])
    return sorted(found)


def _describe_task(
    task: TaskComparison,
    comparisons: int,
    tasks: Tasks,
    runs: Mapping[str, Run],
    *,
    labels: Mapping[str, str],
    tables: Tables,
) -> Plain:
    """Return the comparison of one task; `tasks` are in the order of the comparison."""
    ids = {one.label: name for one, name in zip(task.runs, tasks, strict=True)}
    shown = {label: labels[name] for label, name in ids.items()}
    is_share = all(one.is_share for one in task.runs)
    most = min(MOST_FLIPS, max(FEWEST, MOST_OF_ALL // comparisons))
    flips = []
    for pair in task.pairs:  # as many of one side as of the other where there are too many
        first = pair.first_only[: max(most // 2, most - len(pair.second_only))]
        second = pair.second_only[: most - len(first)]
        flips.append([(name, "first") for name in first] + [(name, "second") for name in second])
    flipped = [name for pair in flips for name, _ in pair]
    positions = {name: tables[name][one.key].locate(flipped) for name, one in tasks.items()}
    described = [
        {
            "id": name,
            "task": list(runs[name].tasks).index(own.key),
            "label": labels[name],
            "model": name_answerer(own.manifest, with_folder=False),
            "mean": one.mean,
            "n": one.n,
        }
        for one, (name, own) in zip(task.runs, tasks.items(), strict=True)
    ]
    pairs = []
    for pair, listed in zip(task.pairs, flips, strict=True):
        evidence, sides = pair.difference.evidence, [ids[pair.first], ids[pair.second]]
        found = [(run, positions[run]) for run in sides]
        left_out = {}
        for (
            reason,
            count,
        ) in pair.left_out.items():  # `failed in a`, with the run called as in the page
            known = next((one for one in shown if reason.endswith(f" in {one}")), "")
            left_out[f"{reason.removesuffix(known)}{shown.get(known, '')}"] = count
        pairs.append(
            {
                "first": sides[0],
                "second": sides[1],
                "difference": pair.difference.value,
                "interval": evidence.interval,
                "p": evidence.p,
                "p_adjusted": pair.p_adjusted,
                "test": TESTS.get(evidence.p_method or "", "no test"),
                "is_significant": pair.is_significant(),
                "first_only": len(pair.first_only),
                "second_only": len(pair.second_only),
                "left_out": left_out,
                "categories": [
                    {
                        "label": name,
                        "difference": one.value,
                        "interval": one.evidence.interval,
                        "n": one.n,
                    }
                    for name, one in pair.categories.items()
                ],
                "flips": [
                    {
                        "id": name,
                        "p": {run: at[name] for run, at in found if name in at},
                        "side": side,
                    }
                    for name, side in listed
                ],
                "flips_total": len(pair.first_only) + len(pair.second_only),
            }
        )
    title = next(iter(tasks.values())).manifest.get("display_name")
    about = {"key": task.key, "name": title, "samples": task.samples, "comparisons": comparisons}
    return {**about, "runs": described, "is_share": is_share, "pairs": pairs}
