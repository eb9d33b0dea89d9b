"""How much of a run's number rests on format, position and chance.

The completions of a run are read again by every rule and as other harnesses read them. What stands
out becomes a finding: a sentence with its numbers and a next step.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import polars as pl

from answerkey.datasets.dataset import Dataset
from answerkey.engines import Spread, open_engine
from answerkey.errors import RunError
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.reopen import Reopened, find_task, reopen
from answerkey.metrics.base import count_left_out, sort_keys
from answerkey.metrics.task_counts import find_invalid_reasons
from answerkey.metrics.trials import find_owners
from answerkey.reader import EXTRACTORS
from answerkey.run_audit.findings import (
    FIRST,
    INVALID,
    STATED,
    Finding,
    ReaderCounts,
    ReadingTally,
    ReasonCounts,
    TaskAudit,
    find_run_findings,
)
from answerkey.run_audit.text import Audit, say_doubted
from answerkey.runs import KeptCompletions, Run, RunPlace, TaskRun, load_run
from answerkey.scorers import choose_audited, find_audited_rows, reads_choices
from answerkey.scorers.rereading import OWN, Passage, list_passages, reread
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.spec.job import FEWEST_ROWS, fit_rows
from answerkey.types import RULE_NAMES, CompletionStatus, Notice, Samples, Scores

#: How many completions are read together.
BLOCK = 32_768
#: Starting worker processes takes as long as reading texts of this many bytes.
WORKER_BYTES = 4_000_000
#: What a text costs besides its length, in bytes.
TEXT_BYTES = 200
#: How many of the most frequent texts of a chunk are counted, and how much of each is kept.
TEXTS, TEXT_CHARACTERS = 64, 200
#: What templates and format strings leave behind when nobody fills them.
PLACEHOLDER = re.compile(
    r"\{\{[^{}]{1,80}\}\}"
    r"|<<\s*config\.[^<>]{1,80}>>"
    r"|(?:(?<=[\s\"'(:>])|(?<=\\n)|^)\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}"
)


def audit(
    run: Run | str | RunPlace,
    *,
    task: str | None = None,
    most: int | None = None,
    progress: Progress = ignore_progress,
    opened: Reopened | None = None,
) -> Audit:
    """Read all completions of a run by every rule and extractor, and return what stands out.

    No model is called. `task` is one of several. Of a task with more than `most` completions, that
    many are drawn at random. The dataset must still be there (E505). `opened` is the one task, if
    it has been opened again already.
    """
    loaded = load_run(run)
    task_runs = list(loaded.tasks.values()) if task is None else [find_task(loaded, task)]
    notices: list[Notice] = []
    if loaded.status != "complete":
        what = "what is said of the completions that are there is not said of all"
        notices.append(Notice(f"the run is {loaded.status}: {what}"))
    if not task_runs:
        notices.append(Notice("no task of this run is finished"))
    for task_run in task_runs:
        if task_run.repetitions:
            what = f"of the repetitions of `{task_run.key}` the first is looked at"
            notices.append(Notice(what))
    reopened = [opened or _reopen(loaded, task_run, notices) for task_run in task_runs]
    tasks = tuple(_audit_task(task, most, progress) for task in reopened)
    path = None if loaded.path is None else str(loaded.path)
    return Audit(path, loaded.status, tasks, tuple(notices))


def _reopen(run: Run, task_run: TaskRun, notices: list[Notice]) -> Reopened:
    """Return a task with its samples and completions; without its dataset, if the completions are
    kept and are enough.
    """
    try:
        return reopen(run, task_run.key)
    except RunError as error:
        task = task_from_source(task_run.source["task"])
        kept = task_run.stored_completions
        scorer = find_reading_step(task).scorer
        needs_samples = reads_choices(scorer) and scorer.options is not None
        if error.code != "E505" or not len(kept) or needs_samples:
            raise
    gone = f"the dataset of `{task_run.key}` is gone"
    notices.append(Notice(f"{gone}: other harnesses' rules do not see the options"))
    table = kept.read(0, len(kept), ["sample_id"])
    ids = table["sample_id"].gather_every(task.num_trials)
    samples = Samples.from_rows([{}] * len(ids), ids)
    dataset = Dataset.of(samples, name="samples")
    return Reopened(task, task_run, dataset, KeptCompletions(kept, task.num_trials))


def find_reading_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, else the first that does, else the main one."""
    for step in (task.main_step, *task.scoring):
        if reads_choices(step.scorer):
            return step
    return task.main_step


def _audit_task(reopened: Reopened, most: int | None, progress: Progress) -> TaskAudit:
    task_run = reopened.task_run
    samples = len(reopened.dataset)
    step = find_reading_step(reopened.task)
    rule = step.scorer.rule_name if reads_choices(step.scorer) else None
    audited = None
    if most is not None and len(reopened) > most:
        audited = choose_audited(samples, max(1, most // reopened.task.num_trials))
    tally = ReadingTally()
    for chunk in _read_chunks(reopened, step, audited):
        _count_completions(tally, chunk)
        if rule is not None:
            _count_readings(tally, chunk.table, rule)
        progress("audit", chunk.end, samples)
    letters = {}
    for truth in tally.group("truth"):
        letters[truth] = tally.group("letter", truth)
    sizes = {}
    for size, count in tally.group("choices").items():
        sizes[int(size)] = count
    audit = TaskAudit(
        key=task_run.key,
        scorer=step.key if rule else None,
        rule=rule,
        n=tally.count("n"),
        left_out=dict(sorted(tally.group("left_out").items())),
        num_trials=reopened.task.num_trials,
        samples=tally.count("owners"),
        readers=tuple(_list_readers(tally, rule)),
        flips=tally.count("flip"),
        flipped=tally.shown("flip"),
        flipped_rows=tally.flipped_rows,
        reasons=tuple(_list_reasons(tally)),
        letters=sort_keys(letters),
        choice_counts=dict(sorted(sizes.items())),
        drawn_from=None if audited is None else len(reopened),
    )
    findings = [*find_run_findings(audit, tally), *_find_doubted(task_run)]
    return replace(audit, findings=tuple(findings))


def _find_doubted(task_run: TaskRun) -> Iterator[Finding]:
    """Yield a finding about stated choices that are doubted, of all completions of the run."""
    for sentence in say_doubted(task_run):
        step = (
            "read some with `answerkey explain`, which says what speaks against them; "
            "`extraction: {rule: stated_answer, accept: doubted}` accepts them"
        )
        yield Finding("DOUBTED", sentence, step, dict(task_run.totals["doubted"]))


def _list_readers(tally: ReadingTally, rule: str | None) -> Iterator[ReaderCounts]:
    """Yield the counts of each reader, the run's own reading first."""
    if rule is None:
        return
    for name in (OWN, *_list_names(rule)):
        kind: Literal["own", "rule", "lens"] = "lens" if name in EXTRACTORS else "rule"
        reader = ReaderCounts(
            name,
            kind,
            n=tally.count("n"),
            correct=tally.count(name, "correct"),
            invalid=tally.count(name, "invalid"),
            samples=tally.count("owners"),
            changes=tally.count(name, "changes"),
            gains=tally.count(name, "gains"),
            losses=tally.count(name, "losses"),
            gained=tally.shown(name, "gains"),
            lost=tally.shown(name, "losses"),
        )
        yield replace(reader, name=rule, kind="own") if name == OWN else reader


def _list_names(rule: str) -> list[str]:
    """Return the names of all rules and extractors but the run's own."""
    return [name for name in (*RULE_NAMES, *EXTRACTORS) if name != rule]


def _list_reasons(tally: ReadingTally) -> Iterator[ReasonCounts]:
    """Yield why completions are INVALID, the most frequent reason first."""
    counts = tally.group("reason")
    for reason in sorted(counts, key=lambda reason: (-counts[reason], reason)):
        yield ReasonCounts(
            reason,
            counts[reason],
            stated=tally.count("stated", reason),
            right=tally.count("right", reason),
            example=tally.shown("reason", reason)[0],
            completion=tally.first_texts[reason],
        )


# Reading and counting


@dataclass(frozen=True)
class _Chunk:
    """Some rows that are audited; `left_out` counts those that no metric sees.

    `table` has the completions, verdicts and readings, `owners` is the number of samples behind
    them, and `end` the number of samples up to here.
    """

    table: pl.DataFrame
    left_out: Mapping[str, int]
    owners: int
    end: int


def _read_chunks(
    reopened: Reopened, step: ScoringStep, audited: Sequence[int] | None
) -> Iterator[_Chunk]:
    """Yield the rows of a task with what each reader reads in them.

    They are read in worker processes where that pays.
    """
    rows = reopened.dataset.rows
    size = reopened.task.num_trials
    length = max(1, min(BLOCK, fit_rows(rows, reopened.recorded)) // size)
    waiting: deque[_Chunk] = deque()

    def list_chunks() -> Iterator[list[Passage]]:
        for offset in range(0, len(rows), length):
            chunk, passages = _load_chunk(reopened, step, audited, offset, length)
            waiting.append(chunk)
            yield passages

    names: list[str] = []
    is_told = False
    if reads_choices(step.scorer):
        names = _list_names(step.scorer.rule_name)
        is_told = step.scorer.options is not None
    read = partial(reread, names=names, is_told=is_told)
    first = reopened.read(0, FEWEST_ROWS).completions.frame["completion"]
    count = len(reopened) if audited is None else len(audited) * size
    spread = choose_spread(first, count)
    for columns in open_engine().map(read, list_chunks(), spread=spread):
        chunk = waiting.popleft()
        yield replace(chunk, table=chunk.table.with_columns(columns.values()))


def choose_spread(texts: pl.Series, count: int) -> Spread:
    """Return whether to read `count` completions like these in worker processes."""
    distinct = texts.drop_nulls().unique()
    size = int(distinct.str.len_bytes().sum()) + TEXT_BYTES * len(distinct)
    return "processes" if size * count > WORKER_BYTES * len(texts) else "alone"


def _load_chunk(
    reopened: Reopened,
    step: ScoringStep,
    audited: Sequence[int] | None,
    offset: int,
    length: int,
) -> tuple[_Chunk, list[Passage]]:
    """Return the rows of `length` samples that count, and what rules are to read in them.

    `audited` are the samples that are read.
    """
    size = reopened.task.num_trials
    excerpt = reopened.read(offset, length)
    encoded = (reopened.task_run.manifest.get("encoded") or {}).get(step.key, ())
    scores = Scores(excerpt.scores[step.key].struct.unnest(), frozenset(encoded))
    end = offset + len(scores) // size
    positions: Sequence[int] = range(len(scores))
    if audited is not None:
        positions = find_audited_rows(audited, range(offset, end), size)
    rows = pl.Series(positions, dtype=pl.UInt32)
    left_out = count_left_out(scores.take(rows))
    rows = rows.filter(scores.counted().gather(rows))
    samples = excerpt.samples.take(rows)
    completions = excerpt.completions.take(rows)
    scores = scores.take(rows)
    frame = completions.frame.select("completion", "status", "finish_reason", "prompt")
    table = frame.with_columns(
        samples.ids.alias("id"),
        (rows + offset * size).alias("position"),
        find_invalid_reasons(scores, frame["status"]).alias("reason"),
        scores.text("ground_truth_choice").alias("truth"),
        scores.text("predicted_choice").alias(OWN),
    )
    passages: list[Passage] = []
    if reads_choices(step.scorer):
        passages = list_passages(step.scorer, samples, completions, scores)
        sizes = [str(len(labels)) for _, labels, _ in passages]
        table = table.with_columns(pl.Series("choices", sizes, dtype=pl.String))
    return _Chunk(table, left_out, find_owners(samples).n_unique(), end), passages


def _count_completions(tally: ReadingTally, chunk: _Chunk) -> None:
    """Count statuses, texts, prompts and signs that a completion was cut off."""
    table = chunk.table
    for exclusion, count in chunk.left_out.items():
        tally.counts["left_out", exclusion] += count
    tally.counts["owners",] += chunk.owners
    tally.counts["n",] += len(table)
    tally.add_groups("status", table["status"])
    text = pl.col("completion")
    reason = pl.col("reason")
    is_answered = pl.col("status") == CompletionStatus.OK.value
    # A long text is known by its length and its beginning.
    beginning = pl.format("{} {}", text.str.len_chars(), text.str.head(TEXT_CHARACTERS))
    answered = table.filter(is_answered)
    tally.add_groups("text", answered.select(beginning).to_series(), TEXTS)
    is_open = text.str.contains("<think>", literal=True)
    is_open &= ~text.str.contains("</think>", literal=True)
    is_open |= reason.eq_missing("TRUNCATED_THINKING")
    is_limited = pl.col("finish_reason") == "length"
    cut_off = table.filter(pl.any_horizontal(is_limited, is_open))
    tally.add("by_limit", rows=table.filter(is_limited))
    tally.add("open_thought", rows=table.filter(is_open))
    tally.add("cut_off", rows=cut_off)
    tally.add("cut_off_invalid", rows=cut_off.filter(reason.is_not_null()))
    prompts = table["prompt"].drop_nulls()
    tally.counts["prompts",] += len(prompts)
    for prompt in prompts:
        for placeholder in set(PLACEHOLDER.findall(prompt)):
            tally.counts["placeholder", placeholder] += 1


def _count_readings(tally: ReadingTally, table: pl.DataFrame, rule: str) -> None:
    """Count letters, what each reader reads, and the rows on which the rules disagree."""
    own_choice = pl.col(OWN)
    truth = pl.col("truth")
    tally.add_groups("truth", table["truth"])
    tally.add_groups("choices", table["choices"])
    for (letter,), rows in table.group_by("truth"):
        tally.add_groups(("letter", str(letter)), rows[OWN].fill_null(INVALID))
    for name in (OWN, *_list_names(rule)):
        choice = pl.col(name)
        changed = table.filter(choice.ne_missing(own_choice))
        tally.add(name, "correct", rows=table.filter(choice == truth))
        tally.add(name, "invalid", rows=table.filter(choice.is_null()))
        tally.add(name, "changes", rows=changed)
        tally.add(name, "gains", rows=changed.filter(choice == truth))
        tally.add(name, "losses", rows=changed.filter(own_choice == truth))
    table = table.with_columns(own_choice.alias(rule))
    first = pl.col(FIRST)
    stated_choice = pl.col(STATED)
    flips = [first.ne_missing(pl.col(name)) for name in RULE_NAMES]
    flipped = table.filter(pl.any_horizontal(flips))
    tally.add("flip", rows=flipped)
    tally.flipped_rows.extend(flipped["position"])
    disagreeing = flipped.filter(first != stated_choice)
    tally.add("disagree", rows=disagreeing)
    tally.add("first_right", rows=disagreeing.filter(first == truth))
    tally.add("stated_right", rows=disagreeing.filter(stated_choice == truth))
    invalid = table.filter(pl.col("reason").is_not_null())
    for (reason,), rows in invalid.group_by("reason", maintain_order=True):
        name = str(reason)
        text = rows["completion"].str.head(TEXT_CHARACTERS)[0]
        tally.first_texts.setdefault(name, text)
        tally.add("reason", name, rows=rows)
        tally.add("stated", name, rows=rows.filter(stated_choice.is_not_null()))
        tally.add("right", name, rows=rows.filter(stated_choice == truth))
