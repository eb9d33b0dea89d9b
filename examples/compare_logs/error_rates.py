"""How often gates on two logs fail a clean change, and how often they find a real loss.

`python error_rates.py` simulates pairs of runs on the same questions. 64 % of the questions are
right in every run, 24 % wrong, and 12 % right half of the time, as sampling, batching and other
kernels make it: accuracy is 70 %, and 6 % of the verdicts flip between two runs of the same model.
A loss makes answers wrong that were always right. Every gate sees the same pairs; answerkey's
decides by the same test as `--not-worse-than`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from answerkey.gates.rules import ALPHA
from answerkey.metrics.paired import Flips, mcnemar

PAIRS = 10_000
SEED = 1
#: Questions and points lost: a column of the table each.
CASES = ((200, 0.0), (200, 0.02), (200, 0.05), (1_570, 0.0), (1_570, 0.02))
ALWAYS, SOMETIMES = 0.64, 0.12

#: A gate gets the number of questions, how many are right after the change, and how many flipped.
Gate = Callable[[int, int, Flips], bool]
GATES: dict[str, Gate] = {
    "accuracy at least 69 %": lambda size, right, _: right < 0.69 * size,
    "at most 1 point lost": lambda size, _, flips: (
        flips.second_only - flips.first_only > 0.01 * size
    ),
    "at most 3 points lost": lambda size, _, flips: (
        flips.second_only - flips.first_only > 0.03 * size
    ),
    "`--not-worse-than`": lambda _size, _, flips: (
        flips.second_only > flips.first_only and mcnemar(flips)[0] < ALPHA
    ),
}


def draw_pair(draw: random.Random, size: int, loss: float) -> tuple[int, Flips]:
    """Return how many answers are right after a change, and the flips: those right after it come
    first.
    """
    open_questions, lost = round(SOMETIMES * size), round(loss * size)
    before, after = (draw.getrandbits(open_questions) for _ in range(2))
    kept = round(ALWAYS * size) - lost
    only_after, only_before = (after & ~before).bit_count(), (before & ~after).bit_count() + lost
    both = kept + (before & after).bit_count()
    return both + only_after, Flips(
        both, only_after, only_before, size - both - only_after - only_before
    )


def count_failures(size: int, loss: float) -> dict[str, float]:
    """Return the share of pairs that each gate fails."""
    draw = random.Random(SEED)  # noqa: S311 - no secret
    pairs = [draw_pair(draw, size, loss) for _ in range(PAIRS)]
    return {name: sum(gate(size, *pair) for pair in pairs) / PAIRS for name, gate in GATES.items()}


def write_table() -> str:
    """Return the percentage of pairs that each gate fails, as a table of Markdown."""
    heads = [f"{size:,}, {f'{100 * loss:g} lost' if loss else 'clean'}" for size, loss in CASES]
    found = [count_failures(*case) for case in CASES]
    rows = [[name, *(f"{100 * one[name]:.1f}" for one in found)] for name in GATES]
    lines = [["failed, %", *heads], ["---", *["--:"] * len(CASES)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(write_table())
