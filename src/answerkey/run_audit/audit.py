"""How much of a run's number rests on format, position and chance.

The completions of a run are read again by every rule and as other harnesses read them. What stands
out becomes a finding: a sentence with its numbers and a next step.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import eq
from typing import Literal

import polars as pl

from answerkey.datasets.dataset import Dataset
from answerkey.engines import Spread, open_engine
from answerkey.errors import RunError
from answerkey.evaluate.job import FEWEST_ROWS, Progress, fit_rows, ignore_progress
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
from answerkey.scorers.rereading import OWN, Passage, list_labels, list_passages, reread
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import RULE_NAMES, Completions, CompletionStatus, Notice, Samples, Scores

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
    progress: Progress | None = None,
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
    for task_run in task_runs:
        if task_run.repetitions:
            what = f"of the repetitions of `{task_run.key}` the first is looked at"
            notices.append(Notice(what))
    if not task_runs:
        notices.append(Notice("no task of this run is finished"))
    reopened = [opened or _reopen(loaded, task_run, notices) for task_run in task_runs]
    progress = progress or ignore_progress
    tasks = [_audit_task(task, most, progress) for task in reopened]
    path = None if loaded.path is None else str(loaded.path)
    return Audit(path, loaded.status, tuple(tasks), tuple(notices))


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
    ids = kept.read(0, len(kept), ["sample_id"])["sample_id"].gather_every(task.num_trials)
    dataset = Dataset.of(Samples.from_rows([{}] * len(ids), ids), name="samples")
    return Reopened(task, task_run, dataset, KeptCompletions(kept, task.num_trials))


def find_reading_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, else the first that does, else the main one."""
    for step in (task.main_step, *task.scoring):
        if reads_choices(step.scorer):
            return step
    return task.main_step


def _audit_task(reopened: Reopened, most: int | None, progress: Progress) -> TaskAudit:
    task_run, samples = reopened.task_run, len(reopened.dataset)
    step = find_reading_step(reopened.task)
    scorer = step.scorer if reads_choices(step.scorer) else None
    rule = scorer.rule_name if scorer else None
    audited = None
    if most is not None and len(reopened) > most:
        audited = choose_audited(samples, max(1, most // reopened.task.num_trials))
    tally = ReadingTally()
    for chunk, readings in _read_chunks(reopened, step, audited):
        _count_completions(tally, chunk)
        if scorer is not None:
            _count_readings(tally, chunk, readings, scorer.rule_name)
        progress("audit", chunk.end, samples)
    letters = {truth: tally.group("letter", truth) for truth in tally.group("truth")}
    sizes = {int(size): count for size, count in tally.group("choices").items()}
    audit = TaskAudit(
        key=task_run.key,
        scorer=step.key if scorer else None,
        rule=rule,
        n=tally.count("n"),
        left_out=dict(sorted(tally.group("left_out").items())),
        num_trials=reopened.task.num_trials,
        samples=tally.count("owners"),
        readers=_list_readers(tally, rule),
        flips=tally.count("flip"),
        flipped=tally.shown("flip"),
        flipped_rows=pl.Series(tally.flipped_rows, dtype=pl.UInt32) if scorer else None,
        reasons=_list_reasons(tally),
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


def _list_readers(tally: ReadingTally, rule: str | None) -> tuple[ReaderCounts, ...]:
    """Return the counts of each reader, the run's own reading first."""
    readers = []
    for name in (OWN, *_other_readers(rule)) if rule else ():
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
        if name == OWN:
            reader = replace(reader, name=str(rule), kind="own")
        readers.append(reader)
    return tuple(readers)


def _other_readers(rule: str) -> list[str]:
    return [name for name in (*RULE_NAMES, *EXTRACTORS) if name != rule]


def _list_reasons(tally: ReadingTally) -> tuple[ReasonCounts, ...]:
    """Return why completions are INVALID, the most frequent reason first."""
    reasons = []
    for reason, count in sorted(
        tally.group("reason").items(), key=lambda item: (-item[1], item[0])
    ):
        stated, right = tally.count("stated", reason), tally.count("right", reason)
        sample, text = tally.shown("reason", reason)[0], tally.first_texts[reason]
        reasons.append(ReasonCounts(reason, count, stated, right, sample, text))
    return tuple(reasons)


# Reading and counting


@dataclass(frozen=True)
class _Chunk:
    """Some rows that are audited; `left_out` counts those that no metric sees.

    `numbers` are the positions of the rows, `end` is the number of samples up to here.
    """

    samples: Samples
    completions: Completions
    scores: Scores
    numbers: list[int]
    left_out: Mapping[str, int]
    end: int

    @cached_property
    def reasons(self) -> list[str | None]:
        """Why each completion is INVALID; None for one that is not."""
        return find_invalid_reasons(self.scores, self.completions.frame["status"]).to_list()


Readings = dict[str, list[str | None]]


def _read_chunks(
    reopened: Reopened, step: ScoringStep, audited: Sequence[int] | None
) -> Iterator[tuple[_Chunk, Readings]]:
    """Yield the rows of a task with what each reader reads in them, the run's own reading first.

    They are read in worker processes where that pays.
    """
    rows, recorded = reopened.dataset.rows, reopened.recorded
    length = min(BLOCK, fit_rows(rows, recorded)) // reopened.task.num_trials
    offsets = range(0, len(rows), max(1, length))
    first = reopened.read(0, FEWEST_ROWS).completions.frame["completion"]
    waiting: deque[_Chunk] = deque()

    def list_chunks() -> Iterator[list[Passage]]:
        for offset in offsets:
            chunk = _load_chunk(reopened, step, audited, offset, offsets.step)
            waiting.append(chunk)
            if reads_choices(step.scorer):
                yield list_passages(step.scorer, chunk.samples, chunk.completions, chunk.scores)
            else:
                yield []

    names: list[str] = []
    is_told = False
    if reads_choices(step.scorer):
        names = _other_readers(step.scorer.rule_name)
        is_told = step.scorer.options is not None
    read = partial(reread, names=names, is_told=is_told)
    spread = choose_spread(first, len(reopened))
    for columns in open_engine().map(read, list_chunks(), spread=spread):
        chunk = waiting.popleft()
        readings = {name: column.to_list() for name, column in columns.items()}
        yield chunk, {OWN: chunk.scores.text("predicted_choice").to_list(), **readings}


def choose_spread(texts: pl.Series, count: int) -> Spread:
    """Return whether to read `count` completions like these in worker processes."""
    distinct = texts.drop_nulls().unique()
    size = int(distinct.str.len_bytes().sum()) + TEXT_BYTES * len(distinct)
    return "processes" if size * count > WORKER_BYTES * len(texts) else "alone"


def _load_chunk(
    reopened: Reopened, step: ScoringStep, audited: Sequence[int] | None, offset: int, length: int
) -> _Chunk:
    """Return the rows of `length` samples that count; `audited` are the samples that are read."""
    size = reopened.task.num_trials
    excerpt = reopened.read(offset, length)
    encoded = (reopened.task_run.manifest.get("encoded") or {}).get(step.key, ())
    scores = Scores(excerpt.scores[step.key].struct.unnest(), frozenset(encoded))
    end = offset + len(scores) // size
    positions = list(range(len(scores)))
    if audited is not None:
        positions = find_audited_rows(audited, range(offset, end), size)
    left_out = count_left_out(scores.take(pl.Series(positions, dtype=pl.UInt32)))
    is_counted = scores.counted().to_list()
    positions = [position for position in positions if is_counted[position]]
    rows = pl.Series(positions, dtype=pl.UInt32)
    return _Chunk(
        excerpt.samples.take(rows),
        excerpt.completions.take(rows),
        scores.take(rows),
        [offset * size + position for position in positions],
        left_out,
        end,
    )


def _count_completions(tally: ReadingTally, chunk: _Chunk) -> None:
    """Count statuses, texts, prompts and signs that a completion was cut off."""
    for exclusion, count in chunk.left_out.items():
        tally.counts["left_out", exclusion] += count
    tally.counts["owners",] += find_owners(chunk.samples).n_unique()
    frame = chunk.completions.frame.select("completion", "status", "finish_reason", "prompt")
    texts: Counter[str] = Counter()
    rows = zip(chunk.samples.ids, chunk.reasons, frame.iter_rows(), strict=True)
    for sample, reason, (text, status, finish_reason, prompt) in rows:
        tally.add("n")
        tally.add("status", status)
        if text is not None and status == CompletionStatus.OK.value:
            texts[f"{len(text)} {text[:TEXT_CHARACTERS]}"] += 1
        _count_cut_off(tally, sample, text or "", finish_reason, reason)
        if prompt is not None:
            tally.add("prompts")
            for placeholder in set(PLACEHOLDER.findall(prompt)):
                tally.add("placeholder", placeholder)
    for beginning, count in texts.most_common(TEXTS):
        tally.counts["text", beginning] += count


def _count_cut_off(
    tally: ReadingTally, sample: str, text: str, finish_reason: str | None, reason: str | None
) -> None:
    is_cut = finish_reason == "length"
    if is_cut:
        tally.add("by_limit")
    if reason == "TRUNCATED_THINKING" or ("<think>" in text and "</think>" not in text):
        tally.add("open_thought")
        is_cut = True
    if is_cut:
        tally.add("cut_off", example=sample)
        if reason is not None:
            tally.add("cut_off_invalid")


def _count_readings(tally: ReadingTally, chunk: _Chunk, readings: Readings, rule: str) -> None:
    """Count letters, what each reader reads, and the rows on which the rules disagree."""
    ids = chunk.samples.ids.to_list()
    truths = chunk.scores.text("ground_truth_choice").to_list()
    labels = list_labels(chunk.scores)
    for truth, choice, options in zip(truths, readings[OWN], labels, strict=True):
        tally.add("truth", truth)
        tally.add("letter", truth, choice or INVALID)
        tally.add("choices", str(len(options)))
    _compare_with_own(tally, ids, truths, readings)
    _count_flips(tally, chunk, ids, truths, readings | {rule: readings[OWN]})
    stated = readings[OWN if rule == STATED else STATED]
    texts = chunk.completions.frame["completion"].str.head(TEXT_CHARACTERS).to_list()
    for row, reason in enumerate(chunk.reasons):
        if reason is not None:
            tally.add("reason", reason, example=ids[row])
            tally.first_texts.setdefault(reason, texts[row])
            if stated[row] is not None:
                tally.add("stated", reason)
            if stated[row] == truths[row]:
                tally.add("right", reason)


def _compare_with_own(
    tally: ReadingTally, ids: Sequence[str], truths: Sequence[str], readings: Readings
) -> None:
    """Count for each reader how often it is right, reads nothing, and differs from the run."""
    for name, choices in readings.items():
        tally.counts[name, "correct"] += sum(map(eq, choices, truths))
        tally.counts[name, "invalid"] += choices.count(None)
        for row, (choice, before) in enumerate(zip(choices, readings[OWN], strict=True)):
            if choice != before:
                tally.add(name, "changes")
                if choice == truths[row]:
                    tally.add(name, "gains", example=ids[row])
                elif before == truths[row]:
                    tally.add(name, "losses", example=ids[row])


def _count_flips(
    tally: ReadingTally,
    chunk: _Chunk,
    ids: Sequence[str],
    truths: Sequence[str],
    readings: Readings,
) -> None:
    """Count the completions that the rules do not read alike."""
    columns = [readings[name] for name in RULE_NAMES]
    for row, choices in enumerate(zip(*columns, strict=True)):
        if len(set(choices)) == 1:
            continue
        tally.add("flip", example=ids[row])
        tally.flipped_rows.append(chunk.numbers[row])
        first, stated = readings[FIRST][row], readings[STATED][row]
        if first is not None and stated is not None and first != stated:
            tally.add("disagree", example=ids[row])
            if first == truths[row]:
                tally.add("first_right")
            if stated == truths[row]:
                tally.add("stated_right")
