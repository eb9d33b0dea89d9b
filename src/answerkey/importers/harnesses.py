"""lm-evaluation-harness and lighteval: the samples of a run by task, alone, in its folder, or in an archive.

Of several runs in a folder the newest is taken. Tasks by log-probability have no replies: there the likeliest
choice stands for one.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from answerkey.datasets import questions as ask
from answerkey.datasets.blocks import Keys, Leaf, split_leaves
from answerkey.datasets.columns import fill_column
from answerkey.datasets.rows import iterate_blocks
from answerkey.datasets.tables import load_table
from answerkey.errors import listing
from answerkey.importers import prompts
from answerkey.importers.logs import (
    DamagedError,
    Json,
    KnownReader,
    Log,
    LogFile,
    Record,
    RecordBlock,
    Row,
    Verdict,
    is_archive,
    iterate_files,
)
from answerkey.models.responses import read_message, to_json_values
from answerkey.types import Completion

_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)"
#: The numbers of a run, as both tools name the file.
_RESULTS = re.compile(rf"(.*/)?results_{_TIME}\.json")
#: Minus infinity, which no JSON has, as a log-probability of no probability either.
_IMPOSSIBLE = -1e30


def choose_newest(log: Log, pattern: re.Pattern[str], wanted: str, option: str) -> list[tuple[str, LogFile]]:
    """Return the files of the newest run by task; a file of any name, when it is all there is.

    The pattern has the groups `task` and `time`. A folder without such files is an error that names what is
    `wanted` and the option by which the tool writes it.
    """
    found: dict[str, tuple[str, LogFile]] = {}
    older = 0
    for file in log.files():
        match = pattern.fullmatch(file.name)
        if match is not None:
            known = found.get(match["task"])
            older += known is not None
            if known is None or known[0] < (match["time"] or ""):
                found[match["task"]] = (match["time"] or "", file)
    if older:
        log.notice(f"{older} files of earlier runs are left aside", "name one file, or one folder of a run")
    if found:
        return [(task, file) for task, (_, file) in sorted(found.items())]
    if log.path.is_file():
        return [(file.stem, file) for file in log.files()][:1]
    raise log.make_error("E201", f"the folder `{log.path}` holds no file `{wanted}`", option)


def read_results(log: Log, pattern: re.Pattern[str]) -> dict[str, Json]:
    """Return the numbers of the runs whose samples are in the log, by time, the newest first.

    Of a log that is one file they lie beside it.
    """
    matches = (pattern.fullmatch(file.name) for file in log.files())
    times = {match["time"] for match in matches if match}
    files = list(log.files())
    if log.path.is_file() and not is_archive(log.path):
        files = [file for path in log.path.parent.glob("results_*.json") for file in iterate_files(path)]
    results: dict[str, Json] = {}
    for file in sorted(files, key=lambda file: file.name, reverse=True):
        match = _RESULTS.fullmatch(file.name)
        if match is not None and match["time"] in times and (result := log.read_beside(file)) is not None:
            results[match["time"]] = result
    return results


def note_missing_tasks(
    log: Log, results: Mapping[str, Json], key: str, files: Sequence[tuple[str, LogFile]]
) -> None:
    """Tell which tasks the results of a whole run state, `key` by name, without any samples in the log."""
    stated = {task for result in results.values() for task in result.object(key)}
    missing = stated.difference(task for task, _ in files)
    if missing and len(list(log.files())) > 1:
        log.notice(
            f"the results file states tasks of which the log has no samples: {listing(sorted(missing))}"
        )


class TaskRows:
    """The rows of one task. The first of them decide which metric and which filter are looked at.

    Several replies to a question were judged together; their verdict is shown with the first.
    """

    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name = log, name
        self.metric = log.options.score
        self.repeats = 1

    def list_trials(
        self, sample_id: str, question: ask.Question, replies: list[Completion], verdict: Verdict
    ) -> list[Record]:
        """Return a record for each reply to a question."""
        self.repeats = max(self.repeats, len(replies))
        return prompts.list_trials(sample_id, question, replies, verdict)

    def add_notices(self) -> None:
        """Tell what was judged together."""
        if self.repeats > 1:
            self.log.notice(
                f"task `{self.name}`: each question was asked {self.repeats} times and judged once; "
                "the verdict is that of the first trial"
            )


# ── lm-evaluation-harness ───────────────────────────────────────────────────────────────────────────────────

#: Metrics that say whether an answer is right, the usual first.
_METRICS = ("acc", "exact_match", "acc_norm", "em", "mc1")
_KNOWN = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"})
#: A row with this metric asks in half of its requests how likely the continuations are without the question.
_HALVED_BY = "acc_mutual_info"
#: By how much of a continuation these metrics divide its log-probability.
_LENGTHS: dict[str, Callable[[str], int]] = {
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode(errors="replace")),
}
_TESTED = "0.4.13"
#: What a filter says that found nothing.
_INVALID = "[invalid]"


class LmEvalReader(KnownReader):
    """Reads `samples_<task>_<time>.jsonl` of lm-evaluation-harness.

    A line is one question under one filter; the same replies come again for the next filter, and only one is
    taken.
    """

    kind = "lm-eval"
    title = "lm-evaluation-harness log"
    file_name = re.compile(rf"(.*/)?samples_(?P<task>[^/]+?)_{_TIME}\.jsonl(\.gz|\.zst)?")
    row_keys = ({"doc_id", "doc", "resps", "filtered_resps"},)

    def read(self, log: Log) -> Iterator[Record | RecordBlock]:
        """Yield a record for each question and repeat, under one filter."""
        hint = "lm-eval writes them with `--log_samples`"
        files = choose_newest(log, self.file_name, "samples_*.jsonl", hint)
        results = read_results(log, self.file_name)
        models = [
            one.text(*path) for path in (("model_name",), ("config", "model")) for one in results.values()
        ]
        log.description.model = next((name for name in models if name), None)
        for one in results.values():
            log.compare_version(one.text("lm_eval_version"), _TESTED)
        note_missing_tasks(log, results, "n-samples", files)
        for task, file in files:
            if not log.begin_task(task):
                continue
            rows, description, before = _LmEvalRows(log, task), log.description, log.seen
            for number, lines in log.blocks(file):
                yield from rows.read_lines(file, number, lines)
            rows.add_notices()
            match = self.file_name.fullmatch(file.name)
            time = match["time"] if match else ""
            result = results.get(time, Json(None))
            effective = result.count("n-samples", task, "effective")
            rows.require_filter(log.seen - before)
            log.compare_count(log.seen - before - rows.skipped, effective, f"`results_{time}.json`")
            score = str(description.score)
            reported = result.number("results", task, score)
            description.reported = {} if reported is None else {score: reported}


class _LmEvalRows(TaskRows):
    def __init__(self, log: Log, name: str) -> None:
        super().__init__(log, name)
        metric, *chosen = (log.options.score or "").split(",")
        self.metric = metric or None
        self._filter: str | None = chosen[0] if chosen else None
        self._others: Counter[str] = Counter()

    @property
    def skipped(self) -> int:
        """How many rows are of another filter."""
        return self._others.total()

    def read(self, row: Json) -> list[Record]:
        """Return the records of a row: none under another filter, one for each repeat under this."""
        under = row.text("filter") or "none"
        self._filter = under if self._filter is None else self._filter
        if self.metric is None:
            stated = row.get("metrics")
            names = [name for name in row.object() if name not in _KNOWN and not name.endswith("_hash")]
            names = [one for one in stated if isinstance(one, str)] if isinstance(stated, list) else names
            listed = [one for one in names if row.number(one) is not None]
            self.metric = next((one for one in _METRICS if one in listed), listed[0] if listed else "")
        if self.metric:
            self.log.description.score = f"{self.metric},{self._filter}"
        if under != self._filter:
            self._others[under] += 1
            return []
        number = row.require("line", "doc_id")
        question, replies, answer = _read_lm_eval(row, self.metric)
        verdict = Verdict(row.number(self.metric), answer)
        return self.list_trials(f"{self.name}/{number}", question, replies, verdict)

    def read_lines(
        self, file: LogFile, number: int, lines: Sequence[bytes]
    ) -> Iterator[Record | RecordBlock]:
        """Yield the records of lines, of which `number` is the first; those of plain rows are in blocks."""

        def convert(begin: int, end: int) -> Iterator[Record]:
            return self.log.convert(file, self.log.parse(file, number + begin, lines[begin:end]), self.read)

        at = 1 if self.log.description.score is None else 0  # the first row decides what is looked at
        yield from convert(0, at)
        rest, metric, under = b"".join(lines[at:]), self.metric, self._filter
        is_decided = metric == "" or self.log.description.score is not None  # not by a row that is broken
        leaves = split_leaves(rest) if rest and is_decided and under else None
        taken = None if leaves is None else _read_plain(leaves, self.name, metric or "", under or "")
        if taken is None:
            yield from convert(at, len(lines))
            return
        frame, left = taken
        before = 0
        for place in (*(one + at for one in left), len(lines)):
            if place > at:
                self.log.seen += place - at
                yield RecordBlock(frame.slice(before, place - at))
                before += place - at
            yield from convert(place, place + 1)
            at = place + 1

    def require_filter(self, rows: int) -> None:
        """Raise E206 when no row of so many is of the filter that is wanted."""
        if rows and rows == self.skipped:
            message = f"task `{self.name}` has no score `{self.log.options.score}`"
            scores = listing(f"{self.metric},{name}" for name in self._others)
            raise self.log.make_error("E206", message, f"its scores: {scores}; `--task NAME` takes one task")

    def add_notices(self) -> None:
        """Tell which filters were passed over, too."""
        if self._others:
            score = shlex.quote(f"{self.metric or 'acc'},{next(iter(self._others))}")
            hint = f"`--task {shlex.quote(self.name)} --score {score}` takes another"
            names = listing(sorted(self._others))
            self.log.notice(f"task `{self.name}`: filter `{self._filter}` is taken; others: {names}", hint)
        super().add_notices()


def _read_lm_eval(row: Json, metric: str) -> tuple[ask.Question, list[Completion], str | None]:
    """Return what was asked, the replies (one for each repeat), and what the filter extracted."""
    (asks, continuations), logprobs = _list_requests(row), _list_logprobs(row)
    prompt = prompts.parse_chat(asks) if continuations else None
    target = row.get("target")
    doc = row.object("doc")
    asked = ask.read_asked(doc, prompts.find_question(prompt), target=target)
    choices, options, truth = asked.choices, asked.options, asked.truth
    if logprobs:
        continuations = continuations[: len(logprobs)]
        if not 1 < len(logprobs) == len(continuations):
            message = "the line has log-probabilities and no choices: this task is no multiple choice"
            raise DamagedError(message)
        letters = ask.take_labels(continuations, counting=True)
        if letters is None and (options is None or len(options) != len(continuations)):
            choices, options = None, tuple(text.strip() for text in continuations)
        elif letters is not None:
            choices = letters
            options = options if options is not None and len(options) == len(letters) else None
        if choices is None or len(choices) != len(continuations):
            choices = ask.label_options(len(continuations))
        truth = ask.find_label(target, choices, options, by_index=True) or truth
    question = ask.Question(asked.question, choices, options, truth, asked.category, doc, asked.passage)
    if logprobs and choices:
        # A continuation is a choice after a space.
        measure = _LENGTHS.get(metric)
        lengths = [max(1, measure(text.removeprefix(" "))) if measure else 1 for text in continuations]
        shares = [one / length for one, length in zip(logprobs, lengths, strict=True)]
        said = prompts.rank_choices(choices, continuations, logprobs, prompt, by=shares)
        return question, [said], said.text
    replies = [read_message(text) for text in _take_first(row.get("resps"), [])]
    if not replies:
        raise DamagedError("the line has no reply in `resps`")
    read = _take_first(row.get("filtered_resps"), [None])[0]
    text = ask.write_cell(read)
    answer = None if text == _INVALID else ask.find_label(read, choices, options) or text
    return question, [Completion(one.text, one.status, prompt) for one in replies], answer


#: What the JSON of values in a plain row is like: texts that are no lists, numbers as Python writes them.
_WHOLE = r"^(?:0|-?[1-9][0-9]{0,17})$"
_PLAIN = {"text": r"^[^\[({\s\\]", "texts": "", "scalar": rf"^(?:true|false|null)$|{_WHOLE}"}
_NO_LIST, _NO_CHAT = r"^[^\[]", r"^(?:\s|\\[nrtf])*(?:[^\s\\\[]|\\[^nrtf])"
_NUMBER = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$"
#: Escapes that Python does not write, a line break, and what stands between texts.
_ODD_ESCAPE, _BREAK, _SEVERAL = r"\\[u/]", r"\\n", r'", ?"'
#: How the line of an option begins.
_OPTION_LINE = re.compile(r"\n[ \t]*[(\[\uff08]?[A-Z][)\].:\uff09\uff0e\uff1a\u3001]")
_ID, _TARGET, _UNDER = ("doc_id",), ("target",), ("filter",)
_SAID, _READ = ("resps", "[]"), ("filtered_resps",)
_LISTS = pl.List(pl.String)


def _read_plain(
    leaves: Mapping[Keys, Leaf], task: str, metric: str, under: str
) -> tuple[pl.DataFrame, list[int]] | None:
    """Return the records of plain rows as a table, and which rows are not plain; None for a block of others.

    That is what `_LmEvalRows.read` gives of single replies to prompts in text, with a truth in text.
    """
    doc = {path[1]: leaf for path, leaf in leaves.items() if path[0] == "doc" and len(path) == _FEWEST}
    asks = next((path for path in leaves if path[0] == "arguments"), ())
    found = ask.find_asked({name: leaf.kind == "texts" for name, leaf in doc.items()})
    named = {one: ("doc", found.columns.get(one, "")) for one in ("question", "category", "passage")}
    options, choices = (("doc", found.columns.get(one, "")) for one in ("options", "choices"))
    kinds = {path: leaf.kind for path, leaf in leaves.items()}
    needed: dict[Keys, str] = {_ID: "scalar text", _SAID: "texts", _READ: "texts"}
    needed |= dict.fromkeys((_TARGET, asks, named["question"]), "text")
    needed |= {_UNDER: "text"} if _UNDER in leaves or under != "none" else {}
    beside: dict[Keys, str] = {(metric,): "scalar", options: "texts"}
    beside |= dict.fromkeys(named.values(), "text")
    needed |= {path: fit for path, fit in beside.items() if path in leaves}
    is_fit = all(kinds.get(path) in fit.split() for path, fit in needed.items())
    is_flat = len(doc) == sum(path[0] == "doc" for path in leaves) and asks[2:] == ("arg_0",)
    if not is_fit or not is_flat or found.spread or choices in leaves:
        return None
    like = [
        *((leaf, _PLAIN[leaf.kind], _ODD_ESCAPE) for leaf in doc.values()),
        (leaves[_ID], _WHOLE if kinds[_ID] == "scalar" else "", _ODD_ESCAPE),
        (leaves[_TARGET], _NO_LIST, rf"{_ODD_ESCAPE}|,"),
        (leaves[asks], _NO_CHAT, _ODD_ESCAPE),
        (leaves[named["question"]], "", _BREAK),
        *((leaves[path], "", f"{_ODD_ESCAPE}|{_SEVERAL}") for path in (_SAID, _READ)),
        *((leaves[path], f"^{pl.escape_regex(under)}$", _ODD_ESCAPE) for path in (_UNDER,) if path in leaves),
        *((leaves[path], _NUMBER, _ODD_ESCAPE) for path in ((metric,),) if path in leaves),
    ]
    cells = pl.DataFrame([leaf.cells.alias(str(place)) for place, (leaf, *_) in enumerate(like)])
    fits = [pl.col(str(place)).str.contains(begin) for place, (_, begin, _) in enumerate(like) if begin]
    fits += [~pl.col(str(place)).str.contains(odd) for place, (_, _, odd) in enumerate(like)]
    places = cells.select(pl.all_horizontal(fits)).to_series().arg_true()
    plain = {path: leaf.take(places) for path, leaf in leaves.items()}
    said, read = (plain[path].values.list.first() for path in (_SAID, _READ))
    own = plain[options].values if options in plain else pl.Series([None] * len(places), dtype=_LISTS)
    parts = zip(plain[asks].values, own.to_list(), plain[_TARGET].values, read, strict=True)
    told = [_tell_plain(*one) for one in parts]
    is_told = pl.Series([one is not None for one in told], dtype=pl.Boolean)
    if not is_told.any():
        return None
    texts, truths, answers = (list(one) for one in zip(*filter(None, told), strict=True))
    pieces: list[pl.Expr | pl.Series] = []
    for name, leaf in ((path[1], one) for path, one in plain.items() if path[0] == "doc"):
        begin, end = {"text": ('"', '"'), "texts": ('["', '"]')}.get(leaf.kind, ("", ""))
        opening = pl.lit(f'{", " if pieces else "{"}"{name}": {begin}')
        pieces += [opening, leaf.cells.alias(name), pl.lit(end)]
    asking = pl.concat_str(pl.lit('[{"role": "user", "content": "'), plain[asks].cells, pl.lit('"}]'))
    columns = {name: plain[path].values for name, path in named.items() if path in plain}
    columns |= {"their_score": plain[metric,].cells.cast(pl.Float64)} if (metric,) in plain else {}
    frame = pl.select(
        pl.lit(f"{task}/").add(plain[_ID].values).alias("sample_id"),
        pl.concat_str(*pieces, pl.lit("}")).alias("original"),
        asking.alias("prompt"),
        said.alias("completion"),
        *(one.alias(name) for name, one in columns.items()),
    )
    letters, count = pl.lit(pl.Series([ask.LABELS], dtype=_LISTS)), pl.col("options").list.len()
    frame = frame.filter(is_told).with_columns(
        own.filter(is_told).alias("options") if options in plain else fill_column("options", texts, _LISTS),
        fill_column("answer", truths, pl.String()),
        fill_column("their_answer", answers, pl.String()),
    )
    labels = pl.when(count.is_not_null()).then(letters.list.head(count))
    left = pl.int_range(len(leaves[asks].cells), eager=True)
    is_left = ~left.is_in(places.filter(is_told).implode())
    return frame.with_columns(labels.alias("choices")), left.filter(is_left).to_list()


def _shows_in_order(prompt: str, own: Sequence[str]) -> bool:
    """Whether the last options that a prompt shows are those of its row as `A. `, `B. ` …, a line each.

    In such a prompt `ask.find_lettered` finds them in this order, or nothing. Options that have letters of
    their own (`A) `) stand as they are; it finds them without.
    """
    pairs = list(zip(ask.LABELS, own, strict=False))
    is_told = all(text.startswith((f"{label}) ", f"{label}. ")) for label, text in pairs)
    lines = "".join(f"\n{text}" if is_told else f"\n{label}. {text}" for label, text in pairs)
    _, found, rest = prompt.rpartition(lines)
    is_last = rest[:1] in {"", "\n"} and not _OPTION_LINE.search(rest)
    return bool(found) and is_last and lines.count("\n") == len(own)


def _tell_plain(
    prompt: str, own: list[str] | None, target: str, read: str
) -> tuple[list[str] | None, str | None, str | None] | None:
    """Return options, truth and what was extracted of a plain row; None where it is not that plain.

    `own` are the options that the row states. The prompt may show them in another order.
    """
    shown = None if own and _shows_in_order(prompt, own) else ask.find_lettered(prompt)[1]
    options = shown if own is None else tuple(own)
    choices = None if options is None else ask.label_options(len(options))
    if own is not None:
        is_moved = shown is not None and shown != options and sorted(shown) == sorted(own)
        if choices is None or own[0].strip() == choices[0] or is_moved:
            return None
    known = choices or ()
    truth = target if target in known else ask.find_truth(target, choices, options)
    answer = read if read in known else ask.find_label(read, choices, options) or read
    return None if options is None else list(options), truth, None if read == _INVALID else answer


def _take_first(listed: object, empty: list[object]) -> list[object]:
    """Return the first of a list of lists; of a plain list, its first alone; `empty` of an empty one."""
    first = listed[0] if isinstance(listed, list) and listed else listed
    return first if isinstance(first, list) and first else empty if isinstance(first, list) else [first]


def _list_requests(row: Json) -> tuple[str, list[str]]:
    """Return the prompt of the first request and the continuation of each; what is no text is empty."""

    def read(value: object) -> str:
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, str) else ""

    if arguments := row.object("arguments"):
        objects = [one if isinstance(one, dict) else {} for one in arguments.values()]
        pairs = [(one.get("arg_0"), one.get("arg_1")) for one in objects]
    else:
        lists = [one.value for one in row.list("arguments")]
        pairs = [(*one, None)[:2] for one in lists if isinstance(one, list) and one]
    return read(pairs[0][0]) if pairs else "", [read(second) for _, second in pairs]


def _list_logprobs(row: Json) -> list[float]:
    """Return the log-probability of each continuation; none for a task that generates.

    Each is logged with whether it was the greedy choice.
    """
    found: list[float] = []
    listed = row.get("filtered_resps")
    for pair in listed if isinstance(listed, list) else ():
        if not isinstance(pair, list) or len(pair) != 2 or str(pair[1]) not in {"True", "False"}:  # noqa: PLR2004 - a pair
            return []
        number = Json(pair[0]).number()
        if number is None and str(pair[0]) not in {"-inf", "-Infinity"}:
            return []
        found.append(_IMPOSSIBLE if number is None else number)
    return found[: len(found) // 2] if _HALVED_BY in row.object() and len(found) % 2 == 0 else found


# ── lighteval ───────────────────────────────────────────────────────────────────────────────────────────────

_LIGHTEVAL_METRICS = (
    *("acc", "loglikelihood_acc", "exact_match", "extractive_match", "em", "acc_norm", "qem", "pem"),
)
_COLUMNS = frozenset({"doc", "metric", "model_response"})
_OLD_COLUMNS = frozenset({"predictions", "full_prompt"})
_BLOCK = 2_048
_FEWEST = 2


class LightevalReader(KnownReader):
    """Reads `details_<task>|<shots>_<time>.parquet` of lighteval.

    Its columns are `doc`, `metric` and `model_response`; older releases had the same as flat columns.
    """

    kind = "lighteval"
    title = "lighteval details"
    file_name = re.compile(rf"(.*/)?details_(?P<task>[^/]+?)(_{_TIME})?\.parquet")

    def read(self, log: Log) -> Iterator[Record]:
        """Yield a record for each question and each of its replies."""
        hint = "lighteval writes them with `--save-details`"
        files = choose_newest(log, self.file_name, "details_*.parquet", hint)
        # The model is what the folders between `details` and the time are called.
        parts = Path(files[0][1].file).parts
        if "details" in parts:
            last = len(parts) - parts[::-1].index("details")
            log.description.model = "/".join(parts[last:-2]) or None
        results = read_results(log, self.file_name)
        note_missing_tasks(log, results, "config_tasks", files)
        for task, file in files:
            if log.begin_task(task):
                rows, before = TaskRows(log, task), log.seen
                yield from log.convert(file, _iterate_details(log, file), partial(_read_details, rows))
                rows.add_notices()
                stated = [one.count("config_tasks", task, "effective_num_docs") for one in results.values()]
                log.compare_count(log.seen - before, next(iter(stated), None), "the results file")


def _iterate_details(log: Log, file: LogFile) -> Iterator[Json]:
    """Yield the rows of a Parquet file with their numbers from 1 on; a part of them is in memory."""
    path = Path(file.file)
    if not path.is_file():
        log.mark_broken("Parquet cannot be read inside an archive: unpack it first", file.place())
        return
    with log.guard(file):
        rows = load_table(path, by_trial=True).rows
        if not any(set(rows.columns) >= form for form in (_COLUMNS, _OLD_COLUMNS)):
            message = "it has neither the columns `doc`, `metric` and `model_response` nor older ones"
            raise DamagedError(message)
        number = 0
        for _, block in iterate_blocks(rows, size=_BLOCK):
            for row in block.rows():
                log.seen += 1
                number += 1
                yield Json(dict(row), number)


def _read_details(task: TaskRows, row: Json) -> list[Record]:
    """Return the records of a row."""
    doc, metrics, said = _split(row.object())
    if task.metric is None:
        names = list(metrics.object())
        numbers = (one for one in names if metrics.number(one) is not None)
        task.metric = next((one for one in _LIGHTEVAL_METRICS if one in names), None) or next(numbers, "")
    task.log.description.score = task.metric or None
    prompt = prompts.read_messages(said.get("input"))
    asked = doc.text("query") or None
    if not asked and prompt and isinstance(prompt[-1]["content"], str):
        asked = prompt[-1]["content"]
    # Choices that are labels themselves leave the options to the prompt. Single characters that neither count
    # nor stand before the prompt's options are options: `Q`, `O`, `N`.
    texts, shown = ask.read_texts(doc.get("choices")) or (), prompts.split_prompt(asked)
    is_shown = shown.choices == tuple(text.strip() for text in texts)
    choices, options = ask.take_labels(texts, counting=not is_shown), shown.options
    if len(texts) < _FEWEST:
        choices = shown.choices
    elif choices is None:
        choices, options = ask.label_options(len(texts)), tuple(text.strip() for text in texts)
    elif shown.choices != choices:
        options = None
    given = doc.get("gold_index")
    truths = []
    for place in given if isinstance(given, list) else [given]:
        if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(texts):
            text = texts[place].strip()
            label = choices[place] if choices and len(choices) == len(texts) else None
            truths.append(label or ask.find_label(text, choices, options) or text)
    if not truths:
        gold = ask.read_texts(doc.get("gold")) or (doc.text("gold") or "",)
        truths = [ask.find_label(one.strip(), choices, options) or one.strip() for one in gold]
    kept = {name: doc.get(name) for name in ("id", "task_name", "specific", "num_samples")}
    question = ask.Question(
        question=shown.question if options == shown.options else asked,
        choices=choices,
        options=options,
        truth=",".join(truths) or None,
        original={name: value for name, value in kept.items() if value is not None},
    )
    listed = said.get("text")
    replies = listed if isinstance(listed, list) else [listed] if isinstance(listed, str) else []
    if replies:
        completions = [
            Completion(one.text, one.status, prompt, reasoning=_pick_text(said, "reasonings", place))
            for place, one in enumerate(map(read_message, replies))
        ]
        read = _pick_text(said, "text_post_processed", 0)
        answer = None if read is None else ask.find_label(read, choices, options) or read.strip()
    else:
        found = [one.number() for one in said.list("logprobs")]
        logprobs = [_IMPOSSIBLE if one is None else one for one in found]
        if choices is None or not logprobs or not len(logprobs) == len(choices) == len(texts):
            raise DamagedError("the row has neither a reply nor a log-probability of each choice")
        completions = [prompts.rank_choices(choices, texts, logprobs, prompt)]
        answer = completions[0].text
    identity = doc.text("id") or str((row.line or 0) - 1)
    return task.list_trials(identity, question, completions, Verdict(metrics.number(task.metric), answer))


def _split(row: Row) -> tuple[Json, Json, Json]:
    """Return what was asked, the metrics and what was said, also of a row of an older release."""
    if "doc" in row:
        return _unpack(row["doc"]), _unpack(row.get("metric")), _unpack(row.get("model_response"))
    doc = {
        "query": row.get("example") or row.get("full_prompt"),
        "choices": row.get("choices"),
        "gold_index": row.get("gold_index", _unpack(row.get("specifics")).get("gold_index")),
        "gold": row.get("gold"),
    }
    replies = _unpack(row.get("predictions")).value
    listed = replies if isinstance(replies, list) else [replies]
    # A log-probability stands alone, or before whether it was the greedy choice.
    firsts = [one[0] if isinstance(one, list | tuple) and one else one for one in listed]
    numbers = [None if isinstance(one, str) else Json(one).number() for one in firsts]
    said: Row = {"input": row.get("full_prompt")}
    if len(listed) >= _FEWEST and all(number is not None for number in numbers):
        said["logprobs"] = numbers
    else:
        said["text"] = listed
    return Json(doc), _unpack(row.get("metrics")), Json(said)


def _unpack(value: object) -> Json:
    """Return a cell as plain values; a list may be its JSON text."""
    if isinstance(value, str) and value.startswith("[") and (found := ask.read_texts(value)) is not None:
        return Json(list(found))
    return Json(to_json_values(value) if isinstance(value, Mapping) else value)


def _pick_text(said: Json, name: str, place: int) -> str | None:
    """Return the text in a place of a list; None for none, or an empty one."""
    found = next((one.value for one in said.list(name)[place:]), None)
    return found if isinstance(found, str) and found else None
