"""`import_log`: another tool's log becomes a folder with a dataset, completions, a task and a run file.

    log ──► reader ──► Lines ──► drafts ──► two tables in one order ──► DIR, whole or not at all

A reader is a class with a `kind` (see `LogReader`); packages add theirs through entry points of the group
`answerkey.importers`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.columns import without_collecting
from answerkey.datasets.content import require_plain
from answerkey.errors import DataError, Place, RunError, SpecError, listing, suggest
from answerkey.exchange.batch_outputs import AnthropicBatchReader, OpenAiBatchReader
from answerkey.exchange.drafts import LineDrafts, Seen
from answerkey.exchange.evalscope import EvalscopeReader
from answerkey.exchange.every_eval_ever import EveryEvalEverReader
from answerkey.exchange.evidence import EvidenceReader
from answerkey.exchange.helm import HelmReader
from answerkey.exchange.inspect_log import InspectReader
from answerkey.exchange.lighteval import LightevalReader
from answerkey.exchange.lm_eval import LmEvalReader
from answerkey.exchange.logs import Glimpse, Log, LogReader, Told, Wishes
from answerkey.exchange.mmlu_pro import MmluProReader
from answerkey.exchange.opencompass import OpenCompassReader
from answerkey.exchange.plain import PlainReader
from answerkey.exchange.projects import guess_choices, make_plain, write_run, write_task
from answerkey.exchange.promptfoo import PromptfooReader
from answerkey.exchange.settling import Settled, settle_lines
from answerkey.types import Notice, Registry
from answerkey.verbs.options import Options

AUTO = "auto"
#: By kind, in the order in which they are asked whether they recognise a log; the last takes any table.
READERS: Registry[LogReader] = Registry(
    "answerkey.importers",
    {
        "inspect": InspectReader,
        "lm-eval": LmEvalReader,
        "mmlu-pro": MmluProReader,
        "openai-batch": OpenAiBatchReader,
        "anthropic-batch": AnthropicBatchReader,
        "helm": HelmReader,
        "lighteval": LightevalReader,
        "evalscope": EvalscopeReader,
        "opencompass": OpenCompassReader,
        "promptfoo": PromptfooReader,
        "every_eval_ever": EveryEvalEverReader,
        "evidence": EvidenceReader,
        "plain": PlainReader,
    },
)
IMPORT = "import.json"
_REPORT_EVERY = 2_000
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Imported:
    """An imported log: where it lay and lies now, what it says of itself, and what became of its lines.

    `samples` were asked `num_trials` times each. `statuses` counts completions by status, `judged` those that
    the tool judged, and `their_mean` is the mean of its verdicts. `spoiled` lines or members are left out.
    """

    path: Path
    folder: Path
    kind: str
    title: str
    told: Told
    samples: int
    num_trials: int
    statuses: dict[str, int]
    judged: int
    their_mean: float | None
    spoiled: int
    notices: tuple[Notice, ...] = ()
    has_questions: bool = True
    spoiled_places: tuple[str, ...] = ()


def import_log(
    kind: str,
    path: str | Path,
    *,
    out: str | Path | None = None,
    wishes: Wishes | None = None,
    allow_failed: int | str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a log into a new folder (default `imported/<name>`) and return what it holds.

    `kind` is one of `READERS`, or `auto`. More broken lines than `allow_failed` (a number, or a share such as
    `"2%"`) are an error, and nothing is written.
    """
    source = Path(path)
    reader = find_reader(kind, source)
    log = Log(source, wishes or Wishes())
    folder = Path(out) if out is not None else Path("imported") / name_folder(source)
    with _write_folder(folder) as draft, tempfile.TemporaryDirectory(prefix=".lines-", dir=draft) as stage:
        drafts = LineDrafts(Path(stage))
        _gather(reader, log, drafts, progress)
        _check(log, drafts.seen, allow_failed)
        settled = settle_lines(drafts, draft, file=str(source), last_wins=log.told.last_wins)
        _tell(log, drafts.seen, settled)
        found = _conclude(reader, log, drafts.seen, settled, folder=folder)
        _write_project(draft, found, drafts.seen, settled)
        if isinstance(reader, EvidenceReader):
            reader.restore(draft, log)
    return found


def find_reader(kind: str, path: Path) -> LogReader:
    """Return the reader of a kind, or for `auto` the first that recognises the log."""
    if not path.exists():
        raise DataError("E201", f"there is no log `{path}`", where=Place(file=str(path)))
    require_plain(path)
    if kind == AUTO:
        return READERS[detect_kind(path)]()
    if kind not in READERS:
        hint = suggest(kind, [*READERS, AUTO]) or f"kinds: {listing([AUTO, *READERS])}"
        raise SpecError("E119", f"there is no kind of log `{kind}`", hint=hint)
    return READERS[kind]()


def detect_kind(path: str | Path) -> str:
    """Return the kind of a log; DataError E201 when no reader recognises it."""
    glimpse = Glimpse(Path(path))
    for kind in READERS:
        if READERS[kind].recognises(glimpse):
            return kind
    names = sorted(glimpse.names)
    message = f"the kind of the log `{path}` cannot be told"
    hint = f"name one of {listing(READERS)} in place of `auto`; files there: {listing(names, limit=5)}"
    raise DataError("E201", message, where=Place(file=str(path)), hint=hint)


def name_folder(path: Path) -> str:
    """Return a folder's name for a log: its own, without its ending."""
    name = path.resolve().name
    for ending in (".gz", ".zst", ".eval", ".jsonl", ".ndjson", ".json", ".zip", ".csv", ".tsv", ".parquet"):
        name = name.removesuffix(ending)
    return name or "log"


@contextmanager
def _write_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that gets its name when all is in it; nothing is left when something goes wrong."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        hint = "name a new or empty folder with `--out`"
        raise SpecError("E119", f"`{folder}` is there already; nothing was written", hint=hint)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise _refuse_writing(folder, error) from error
    try:
        yield draft
        draft.chmod(0o755)
        draft.replace(folder)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _refuse_writing(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_writing(folder: Path, error: Exception) -> RunError:
    hint = "check the free space and the rights of the folder, or choose another with `--out`"
    return RunError("E502", f"cannot write `{folder}`: {error}", hint=hint)


def _gather(reader: LogReader, log: Log, drafts: LineDrafts, progress: Progress | None) -> None:
    with without_collecting():
        for number, line in enumerate(reader.read(log), 1):
            if not drafts.add(line):
                where = Place(file=str(log.path), sample=line.sample_id)
                log.spoil(f"a text of sample `{line.sample_id}` is too long for a table", where)
            if progress is not None and number % _REPORT_EVERY == 0:
                progress("read", number, 0)
        drafts.flush()


def _check(log: Log, seen: Seen, allow_failed: int | str | None) -> None:
    """Raise what is broken in the log, unless that much of it may be."""
    limit = Options(allow_failed=allow_failed).failed_limit(max(log.seen, seen.lines + log.spoiled))
    if log.spoiled > limit:
        log.troubles.raise_any()
    if not seen.said:
        message = "the log has no completions" if not log.spoiled else "nothing of the log can be used"
        raise DataError("E210", message, where=Place(file=str(log.path)))


def _tell(log: Log, seen: Seen, settled: Settled) -> None:
    """Add what a reader cannot know: it needs all lines."""
    if log.spoiled:
        log.notice(f"{log.spoiled} broken lines or members are left out")
    if settled.missing:
        hint = "they are in the completions with the status ERROR: a run of them is incomplete"
        log.notice(f"{settled.missing} completions are not in the log", hint)
    if log.told.expected is not None and log.told.expected > settled.samples:
        log.notice(f"the log has {settled.samples} of {log.told.expected} samples")
    unlabelled = seen.asked - seen.with_choices
    if unlabelled and seen.with_choices:
        log.notice(
            f"{unlabelled} of {seen.asked} questions have no choices", "they cannot be scored as they are"
        )
    if not seen.with_choices and seen.asked:
        guessed = guess_choices(seen)
        told = (
            f"taken to be {listing(guessed)}, by the truths" if guessed else "replies are compared as texts"
        )
        log.notice(f"the log lists no choices: {told}")


def _conclude(reader: LogReader, log: Log, seen: Seen, settled: Settled, *, folder: Path) -> Imported:
    return Imported(
        path=log.path,
        folder=folder,
        kind=reader.kind,
        title=reader.title,
        told=log.told,
        samples=settled.samples,
        num_trials=settled.num_trials,
        statuses=dict(sorted(seen.statuses.items())),
        judged=seen.judged,
        their_mean=seen.right / seen.judged if seen.judged else None,
        spoiled=log.spoiled,
        notices=tuple(log.notices),
        has_questions=bool(seen.asked),
        spoiled_places=tuple(str(one.where) for one in log.troubles.errors),
    )


def _write_project(draft: Path, found: Imported, seen: Seen, settled: Settled) -> None:
    source = make_plain(f"{found.title} `{found.told.task or found.folder.name}`")
    if found.has_questions:
        key = write_task(draft, found.told, seen, settled, source=source)
        write_run(draft, key, found.told, source=source)
    text = json.dumps(describe_import(found), ensure_ascii=False, indent=2, allow_nan=False)
    (draft / IMPORT).write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def describe_import(found: Imported) -> dict[str, object]:
    """Return an import as plain values, as `import.json` and `--json` have it."""
    return {
        "log": str(found.path),
        "folder": str(found.folder),
        "kind": found.kind,
        "tool": found.title,
        "task": found.told.task,
        "model": found.told.model,
        "samples": found.samples,
        "num_trials": found.num_trials,
        "completions": found.statuses,
        "theirs": {
            "score": found.told.score,
            "judged": found.judged,
            "mean": found.their_mean,
            "reported": found.told.reported,
        },
        "left_out": found.spoiled,
        "left_out_places": list(found.spoiled_places),
        "notices": [str(one) for one in found.notices],
        "answerkey_version": __version__,
    }
