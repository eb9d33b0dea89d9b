"""What stands out in a dataset: sentences with their numbers, each with a next step."""

from __future__ import annotations

import math
from collections.abc import Iterator

from answerkey.metrics import wilson
from answerkey.metrics.classification import measure_chance
from answerkey.metrics.intervals import ChiSquare, compare_counts, student
from answerkey.verbs import question_checks as checks
from answerkey.verbs import text_damage as damage
from answerkey.verbs.audit_findings import say_percent, say_share
from answerkey.verbs.dataset_audits import Baseline, DatasetFinding, TruthStatistics
from answerkey.verbs.duplicate_questions import FoundRepeats
from answerkey.verbs.question_checks import QuestionPart, Truths

#: Fewer rows show nothing.
LEAST = 20
#: A test of counts needs as many expected in each cell.
LEAST_EXPECTED = 5
#: Places that are this unlikely to be an accident are called skewed.
ALPHA = 0.01

#: Kind → what is said of the rows, and what to do, in the order of the report.
ROW_KINDS: dict[str, tuple[str, str]] = {
    checks.MISSING_QUESTION: ("have no question", "fill or drop the rows"),
    checks.MISSING_TRUTH: ("have no truth", "fill or drop the rows; they cannot be scored"),
    checks.BAD_TRUTH: (
        "have a truth that is none of their choices",
        "correct them, or score the rest with `--allow-failed`",
    ),
    checks.MISSING_OPTION: ("have an option without text", "fill or drop the rows"),
    checks.BAD_CHOICES: ("have more or fewer options than labels", "make both lists equally long"),
    checks.ONE_CHOICE: (
        "have a single choice, which cannot be wrong",
        "drop them, or keep them in mind: they raise every accuracy",
    ),
    checks.RIGHT_TWICE: (
        "have the right option twice, under two labels",
        "one of the two labels is counted as wrong; correct the options",
    ),
    checks.SAME_OPTIONS: ("have two options with the same text", "correct the options"),
    checks.REFERS_TO_LABELS: (
        "have options that refer to labels, such as “both A and B”",
        "leave these rows in place when options are shuffled",
    ),
    checks.REFERS_TO_OTHERS: (
        "have options such as “all of the above” or “none of these”",
        "leave these rows in place when options are shuffled; see how often such an option is right",
    ),
    checks.NESTED: (
        "have an option whose text stands in another one",
        "nothing, unless answers are read by their text: there the shorter one is found in the longer",
    ),
    damage.REPLACEMENT: (
        "hold U+FFFD, where a character was lost",
        "read the source again with its own encoding",
    ),
    damage.MOJIBAKE: (
        "hold UTF-8 that was read as Latin-1 or Windows-1252",
        "read the source again as UTF-8, or repair the texts",
    ),
    damage.CONTROL: ("hold control or invisible characters", "strip them; models see them, readers do not"),
    damage.ENTITY: ("hold HTML entities", "unescape the texts (`html.unescape`)"),
}


def measure_truths(truths: Truths) -> TruthStatistics:
    """Return what follows from the places of the truths."""
    sizes = dict(sorted(truths.sizes.items()))
    places = {size: tuple(truths.places[size, place] for place in range(size)) for size in sizes}
    return TruthStatistics(
        n=truths.n,
        sizes=sizes,
        chance=measure_chance(sizes),
        labels=dict(sorted(truths.labels.items())),
        places=places,
        majority=_measure_majority(truths),
        longest=_measure_longest(truths),
        skew=_test_places(places),
    )


def _measure_majority(truths: Truths) -> Baseline | None:
    if not truths.labels:
        return None
    label, count = max(truths.labels.items(), key=lambda one: (one[1], one[0]))
    return Baseline(count / truths.n, wilson(count, truths.n), truths.n, label)


def _measure_longest(truths: Truths) -> Baseline | None:
    """Return what the longest option gets; where several are equally long, one of them is drawn."""
    n = sum(truths.measured.values())
    if not n:
        return None
    value = math.fsum(count / ties for ties, count in truths.longest.items()) / n
    squares = math.fsum(count / ties**2 for ties, count in truths.longest.items())
    variance = max(0.0, squares - n * value * value) / (n - 1) if n > 1 else 0.0
    interval = student(value, math.sqrt(variance / n), n - 1, is_share=True) if variance else None
    return Baseline(value, interval, n)


def _test_places(places: dict[int, tuple[int, ...]]) -> ChiSquare | None:
    """Return the test that all places are equally likely, among rows with equally many choices."""
    groups = []
    for size, counts in places.items():
        expected = sum(counts) / size
        if size > 1 and expected >= LEAST_EXPECTED:
            groups.append((counts, [expected] * size))
    return compare_counts(groups)


def find_dataset_findings(
    part: QuestionPart, every: TruthStatistics, repeats: FoundRepeats | None
) -> Iterator[DatasetFinding]:
    """Yield what stands out, the gravest first."""
    kinds = list(ROW_KINDS)
    grave = kinds.index(checks.SAME_OPTIONS)
    yield from _find_rows(part, kinds[:grave])
    yield from _find_contradictions(repeats) if repeats else ()
    yield from _find_repeats(repeats, part.rows) if repeats else ()
    yield from _find_baselines(every)
    yield from _find_skew(every)
    yield from _find_rows(part, kinds[grave:])


def _find_rows(part: QuestionPart, kinds: list[str]) -> Iterator[DatasetFinding]:
    for kind in kinds:
        count = part.kinds.counts[kind]
        if count:
            what, step = ROW_KINDS[kind]
            more = _say_right(part, count) if kind == checks.REFERS_TO_OTHERS else ""
            yield DatasetFinding(
                kind,
                f"{say_share(count, part.rows)} rows {what}{more}.",
                step,
                count,
                {"of": part.rows},
                tuple(part.kinds.examples[kind]),
            )


def _say_right(part: QuestionPart, count: int) -> str:
    return f"; such an option is right in {say_share(part.right_others['right'], count)}"


def _find_contradictions(repeats: FoundRepeats) -> Iterator[DatasetFinding]:
    same = repeats.same
    if same.contradicting:
        who = "1 question stands" if same.contradicting == 1 else f"{same.contradicting:,} questions stand"
        yield DatasetFinding(
            "CONTRADICTING_TRUTHS",
            f"{who} in the dataset several times, with the same options and different truths: no model can"
            " get all of them right.",
            "find out which truth is right; drop the other rows",
            same.contradicting,
            {},
            same.contradictions,
        )


def _find_repeats(repeats: FoundRepeats, rows: int) -> Iterator[DatasetFinding]:
    found = (
        ("DUPLICATE_QUESTIONS", repeats.same, "repeat a question with its options, word for word"),
        ("NEAR_DUPLICATES", repeats.near, "are nearly the same as an earlier question and its options"),
    )
    for kind, one, what in found:
        if not one.rows:
            continue
        where = "" if one.groups == 1 else f"in {one.contradicting:,} of the {one.groups:,} groups "
        differ = f"; {where}the right options differ"
        more = differ if one.contradicting and one is repeats.near else ""
        yield DatasetFinding(
            kind,
            f"{say_share(one.rows, rows)} rows {what}{more}.",
            "drop all but one, or cluster by them: the same question twice is no second observation"
            if one is repeats.same
            else "look at the pairs; where they ask the same, keep one",
            one.rows,
            {"groups": one.groups, "contradicting": one.contradicting},
            one.examples,
        )


def _find_baselines(every: TruthStatistics) -> Iterator[DatasetFinding]:
    if every.n < LEAST or every.chance is None:
        return
    label = every.majority.label if every.majority else ""
    found = (
        ("MAJORITY_LETTER", every.majority, f"Always answering {label!r}", "shuffle the options of each row"),
        (
            "LONGEST_OPTION",
            every.longest,
            "Always answering the longest option",
            "report this baseline beside every accuracy; rewrite wrong options that are too short",
        ),
    )
    for kind, baseline, what, step in found:
        if baseline is None or baseline.interval is None or baseline.interval[0] <= every.chance:
            continue
        # The most frequent letter is the best of several: it leads by accident unless the places are skewed.
        if baseline is every.majority and (every.skew is None or every.skew.p >= ALPHA):
            continue
        low, high = baseline.interval
        yield DatasetFinding(
            kind,
            f"{what} is right in {say_percent(baseline.value)} [{100 * low:.1f}, {100 * high:.1f}] of the"
            f" rows, where guessing gets {say_percent(every.chance)}.",
            step,
            baseline.n,
            {"value": baseline.value, "chance": every.chance},
        )


def _find_skew(every: TruthStatistics) -> Iterator[DatasetFinding]:
    skew = every.skew
    if skew is None or skew.p >= ALPHA:
        return
    size = max(every.sizes, key=lambda one: every.sizes[one])
    counts = every.places[size]
    shares = ", ".join(f"{100 * count / sum(counts):.1f} %" for count in counts)
    chance = f"{skew.p:.2g}" if skew.p >= 1e-300 else "less than 1e-300"  # noqa: PLR2004 - where floats end
    yield DatasetFinding(
        "POSITION_SKEW",
        f"The truth does not stand in all places equally often: {shares} of the rows with {size} choices"
        f" (chi-square {skew.statistic:.1f} with {skew.df} degrees, p = {chance}).",
        "a model that favours a place gains or loses by it: shuffle the options, or report recall by letter",
        every.n,
        {"statistic": skew.statistic, "df": skew.df, "p": skew.p},
    )
