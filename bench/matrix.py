"""Four endpoints asked at once, by a whole run of four models, beside one alone and one after the
other.

Each endpoint is a server on this machine, in a process of its own, that answers after 200 ms. The
best of each counts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from asking import start_server

import answerkey as ak

ENDPOINTS, DELAY, SAMPLES, TURNS = 4, 0.2, 400, 3
#: Four at once take at most so many times as long as one alone.
MOST = 1.5
TASK = ak.mcqa(
    question="{{ sample.question }}", options="{{ sample.options }}", truth="{{ sample.answer }}"
)


def measure(models: list[str], folder: Path, number: int) -> float:
    """Return the seconds of a run for each of these models, all at once, nothing known
    beforehand.
    """
    rows = [
        {"question": f"question {n}", "options": ["x", "y"], "answer": "AB"[n % 2]}
        for n in range(SAMPLES)
    ]
    begun = time.perf_counter()
    made = ak.run_matrix(
        TASK, dataset=rows, models=models, out=folder / str(number), cache_policy="no-cache"
    )
    if made.status != "complete":
        raise SystemExit(f"a run is {made.status}: {made.errors}")
    return time.perf_counter() - begun


def main() -> int:
    """Print the times; return 1 when all at once take too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="how often each is measured")
    turns = parser.parse_args().turns
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        servers = [stack.enter_context(start_server(DELAY)) for _ in range(ENDPOINTS)]
        models = [f"{url.removesuffix('/chat/completions')}#m" for url in servers]
        alone, together, each = [], [], []
        for turn in range(turns):
            alone.append(measure(models[:1], folder, 10 * turn))
            together.append(measure(models, folder, 10 * turn + 1))
            each.append(
                sum(measure([model], folder, 10 * turn + 2 + n) for n, model in enumerate(models))
            )
    ratio = min(together) / min(alone)
    print(f"{SAMPLES} samples each, {1000 * DELAY:.0f} ms a call; seconds, best of {turns}")
    print(f"  one endpoint alone     {min(alone):6.2f}")
    verdict = f"{ratio:.2f} times one alone (at most {MOST})"
    print(f"  {ENDPOINTS} endpoints at once    {min(together):6.2f}, {verdict}")
    print(f"  one after the other    {min(each):6.2f}")
    cells = [f"{ENDPOINTS} models at once, {SAMPLES} samples each", f"{min(together):.2f} s"]
    cells += [
        f"one after the other: {min(each):.2f} s",
        f"one model: {min(alone):.2f} s",
        f"{ratio:.2f}",
    ]
    print("row:", " | ".join([*cells, f"{MOST:g}"]))
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
