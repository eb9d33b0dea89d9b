"""Audit a run: how much of its number depends on format, position and chance.

The completions of a run are read again by every rule and by the extractors of other harnesses.
Anything notable becomes a finding: a sentence with its numbers and a next step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from answerkey.datasets.rows import Positions, repeat_positions
from answerkey.engines import Spread, open_engine
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.reopen import Reopened, RunPart, find_task, reopen
from answerkey.metrics.base import count_coverage, sort_keys
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
from answerkey.run_audit.text import Audit, describe_doubted
from answerkey.runs import Run, RunPlace, load_run
from answerkey.scorers import choose_audited, reads_choices
from answerkey.scorers.rereading import OWN, list_passages, reread
from answerkey.spec import ScoringStep, Task
from answerkey.spec.job import FEWEST_ROWS, fit_rows
from answerkey.types import RULE_NAMES, CompletionStatus, Notice, Scores

#: The number of completions read at a time.
BLOCK = 8_192
#: Starting worker processes takes as long as reading texts of this many bytes.
WORKER_BYTES = 4_000_000
#: The fixed cost of reading a text, in bytes of text.
TEXT_BYTES = 200
#: The number of most frequent texts counted per chunk, and the characters kept of each.
TEXTS, TEXT_CHARACTERS = 64, 200
#: Placeholders of templates and format strings that were not filled in.
PLACEHOLDER = re.compile(
    r"\{\{[^{}]{1,80}\}\}"
    r"|<<\s*config\.[^<>]{1,80}>>"
    r"|(?:(?<=[\s\"'(:>])|(?<=\\n)|^)\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}"
)
#: The beginning of a placeholder: a fast test that few prompts pass.
OPENING = r"\{[A-Za-z_{]|<<"


def audit(
    run: Run | str | RunPlace,
    *,
    task: str | None = None,
    most: int | None = None,
    progress: Progress = ignore_progress,
    opened: Reopened | None = None,
) -> Audit:
    """Read all completions of a run by every rule and extractor, and return the findings.

    No model is called. `task` selects one of several tasks. From a task with more than `most`
    completions, that many are drawn at random. The dataset must still exist (E505). `opened` is the
    task, if it has already been reopened.
    """
    loaded = load_run(run)
    task_runs = list(loaded.tasks.values())
    if task is not None:
        task_runs = [find_task(loaded, task)]
    notices: list[Notice] = []
    if loaded.status != "complete":
        what = "the findings apply only to the existing completions"
        notices.append(Notice(f"the run is {loaded.status}: {what}"))
    if not task_runs:
        notices.append(Notice("no task of this run is finished"))
    for task_run in task_runs:
        if task_run.repetitions:
            what = f"`{task_run.key}` was run several times: only the first run is audited"
            notices.append(Notice(what))
    reopened = [opened or reopen(loaded, task_run.key) for task_run in task_runs]
    path = None if loaded.path is None else str(loaded.path)
    return Audit(
        path,
        loaded.status,
        tuple(_audit_task(task, most, progress) for task in reopened),
        tuple(notices),
    )


def find_reading_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, or else the first scorer that does, or else the
    main one.
    """
    for step in (task.main_step, *task.scoring):
        if reads_choices(step.scorer):
            return step
    return task.main_step


def _audit_task(
    reopened: Reopened,
    most: int | None,
    progress: Progress,
) -> TaskAudit:
    task_run = reopened.task_run
    samples = len(reopened.dataset)
    step = find_reading_step(reopened.task)
    rule = step.scorer.rule_name if reads_choices(step.scorer) else None
    size = reopened.task.num_trials
    audited: Positions = range(samples)
    drawn_from = None
    if most is not None and len(reopened) > most:
        drawn_from = len(reopened)
        chosen = choose_audited(samples, max(1, most // size))
        audited = pl.Series(chosen)
    rows = min(BLOCK, fit_rows(reopened.dataset.rows, reopened.recorded))
    length = max(1, rows // size)
    positions = [audited[start : start + length] for start in range(0, len(audited), length)]
    first = reopened.read(audited[:FEWEST_ROWS]).completions.frame["completion"]
    spread = choose_spread(first, len(audited) * size)
    tally = ReadingTally()
    tallies = open_engine().map(
        count_part,
        map(reopened.take, positions),
        spread=spread,
    )
    done = 0
    for part, counted in zip(positions, tallies, strict=True):
        tally.update(counted)
        done += len(part)
        progress("audit", done, len(audited))
    letters = {}
    for truth in tally.group("truth"):
        letters[truth] = tally.group("letter", truth)
    sizes = {}
    for number, count in tally.group("choices").items():
        sizes[int(number)] = count
    audit = TaskAudit(
        key=task_run.key,
        scorer=step.key if rule else None,
        rule=rule,
        n=tally.count("n"),
        left_out=dict(sorted(tally.group("left_out").items())),
        samples=tally.count("owners"),
        readers=tuple(_list_readers(tally, rule)) if rule else (),
        flips=tally.count("flip"),
        flipped=tally.shown("flip"),
        flipped_rows=tally.flipped_rows,
        reasons=tuple(_list_reasons(tally)),
        letters=sort_keys(letters),
        choice_counts=dict(sorted(sizes.items())),
        drawn_from=drawn_from,
    )
    findings = find_run_findings(audit, tally)
    for sentence in describe_doubted(task_run):  # about all completions of the run
        advice = (
            "read some with `answerkey explain`, which says why they are doubted; "
            "`extraction: {rule: stated_answer, accept: doubted}` accepts them"
        )
        numbers = dict(task_run.totals["doubted"])
        findings.append(Finding("DOUBTED", sentence, advice, numbers))
    return replace(audit, findings=tuple(findings))


def _list_readers(tally: ReadingTally, rule: str) -> Iterator[ReaderCounts]:
    """Yield the counts of each reader, the run's own reading first."""
    for name in (OWN, *_list_names(rule)):
        reader = ReaderCounts(
            name,
            "lens" if name in EXTRACTORS else "rule",
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
            reader = replace(reader, name=rule, kind="own")
        yield reader


def _list_names(rule: str) -> list[str]:
    """Return the names of all rules and extractors but the run's own."""
    return [name for name in (*RULE_NAMES, *EXTRACTORS) if name != rule]


def _list_reasons(tally: ReadingTally) -> Iterator[ReasonCounts]:
    """Yield why completions are INVALID, the most frequent reason first."""
    counts = sorted(tally.group("reason").items())
    for reason, count in sorted(counts, key=lambda item: -item[1]):
        yield ReasonCounts(
            reason,
            count,
            stated=tally.count("stated", reason),
            right=tally.count("right", reason),
            example=tally.shown("reason", reason)[0],
            completion=tally.first_texts[reason],
        )


# Reading and counting


def choose_spread(texts: pl.Series, count: int) -> Spread:
    """Return whether to read `count` completions like these in worker processes."""
    distinct = texts.drop_nulls().unique()
    sizes = distinct.str.len_bytes() + TEXT_BYTES
    size = int(sizes.sum())
    return "processes" if size * count > WORKER_BYTES * len(texts) else "alone"


def count_part(part: RunPart) -> ReadingTally:
    """Return the counts of some samples, and of the readings of their completions."""
    step = find_reading_step(part.task)
    excerpt = part.load()
    encoded = part.task_run.manifest.get("encoded", {})
    scores = Scores(
        excerpt.scores[step.key].struct.unnest(),
        frozenset(encoded.get(step.key, ())),
    )
    tally = ReadingTally()
    for exclusion, count in count_coverage(scores).left_out.items():
        tally.counts["left_out", exclusion] += count
    is_counted = scores.counted()
    rows = is_counted.arg_true()
    positions = repeat_positions(part.positions, part.task.num_trials)
    chosen = excerpt.samples.take(rows)
    completions = excerpt.completions.take(rows)
    scores = scores.take(rows)
    tally.counts["owners",] += find_owners(chosen).n_unique()
    frame = completions.frame.select("completion", "status", "finish_reason", "prompt")
    table = frame.with_columns(
        chosen.ids.alias("id"),
        pl.Series("position", positions).filter(is_counted),
        find_invalid_reasons(scores, frame["status"]).alias("reason"),
        scores.text("ground_truth_choice").alias("truth"),
        scores.text("predicted_choice").alias(OWN),
    )
    _count_completions(tally, table)
    scorer = step.scorer
    if reads_choices(scorer):
        passages = list_passages(scorer, chosen, completions, scores)
        sizes = [str(len(labels)) for _, labels, _ in passages]
        names = _list_names(scorer.rule_name)
        readings = reread(passages, names, is_told=scorer.options is not None)
        table = table.with_columns(
            pl.Series("choices", sizes, dtype=pl.String),
            *readings.values(),
        )
        _count_readings(tally, table, scorer.rule_name)
    return tally


def _count_completions(tally: ReadingTally, table: pl.DataFrame) -> None:
    """Count statuses, texts, prompts and truncated completions."""
    tally.counts["n",] += len(table)
    tally.add_groups("status", table["status"])
    text = pl.col("completion")
    reason = pl.col("reason")
    is_answered = pl.col("status") == CompletionStatus.OK.value
    # A long text is identified by its length and its beginning.
    length = text.str.len_chars()
    beginning = pl.format("{} {}", length, text.str.head(TEXT_CHARACTERS))
    answered = table.filter(is_answered).select(beginning)
    tally.add_groups("text", answered.to_series(), TEXTS)
    is_open = text.str.contains("<think>", literal=True)
    is_open &= ~text.str.contains("</think>", literal=True)
    is_open |= reason.eq_missing("TRUNCATED_THINKING")
    is_limited = pl.col("finish_reason") == "length"
    is_cut_off = pl.any_horizontal(is_limited, is_open)
    tally.add(table, is_limited, "by_limit")
    tally.add(table, is_open, "open_thought")
    tally.add(table, is_cut_off, "cut_off")
    tally.add(table, is_cut_off & reason.is_not_null(), "cut_off_invalid")
    prompts = table["prompt"].drop_nulls()
    tally.counts["prompts",] += len(prompts)
    for prompt in prompts.filter(prompts.str.contains(OPENING)):
        for placeholder in set(PLACEHOLDER.findall(prompt)):
            tally.counts["placeholder", placeholder] += 1


def _count_readings(
    tally: ReadingTally,
    table: pl.DataFrame,
    rule: str,
) -> None:
    """Count letters, the readings of each reader, and the rows on which the rules disagree."""
    own_choice = pl.col(OWN)
    truth = pl.col("truth")
    tally.add_groups("truth", table["truth"])
    tally.add_groups("choices", table["choices"])
    for (letter,), rows in table.group_by("truth"):
        predicted = rows[OWN].fill_null(INVALID)
        tally.add_groups(("letter", str(letter)), predicted)
    for name in (OWN, *_list_names(rule)):
        choice = pl.col(name)
        is_changed = choice.ne_missing(own_choice)
        is_right = choice == truth
        tally.add(table, is_right, name, "correct")
        tally.add(table, choice.is_null(), name, "invalid")
        tally.add(table, is_changed, name, "changes")
        tally.add(table, is_changed & is_right, name, "gains")
        tally.add(table, is_changed & (own_choice == truth), name, "losses")
    table = table.with_columns(own_choice.alias(rule))
    first = pl.col(FIRST)
    stated_choice = pl.col(STATED)
    every_row = pl.col("id").is_not_null()
    flips = [first.ne_missing(pl.col(name)) for name in RULE_NAMES]
    flipped = table.filter(pl.any_horizontal(flips))
    tally.add(flipped, every_row, "flip")
    tally.flipped_rows.extend(flipped["position"])
    opposed = flipped.filter(first != stated_choice)
    tally.add(opposed, every_row, "disagree")
    tally.add(opposed, first == truth, "first_right")
    tally.add(opposed, stated_choice == truth, "stated_right")
    invalid = table.drop_nulls("reason")
    for (reason,), rows in invalid.group_by("reason", maintain_order=True):
        name = str(reason)
        text = rows["completion"].str.head(TEXT_CHARACTERS)[0]
        tally.first_texts.setdefault(name, text)
        tally.add(rows, every_row, "reason", name)
        tally.add(rows, stated_choice.is_not_null(), "stated", name)
        tally.add(rows, stated_choice == truth, "right", name)
