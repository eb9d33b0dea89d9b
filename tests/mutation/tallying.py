"""What became of mutants, counted by module and written as a table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .mutating import Mutant
from .running import KILLED, TIMED_OUT, Outcome

NOTICED = frozenset({KILLED, TIMED_OUT})


@dataclass
class Tally:
    """How many mutants there are, how many a test noticed, and how many are argued to change nothing."""

    mutants: int = 0
    killed: int = 0
    equivalent: int = 0

    @property
    def survived(self) -> int:
        """How many are left that no test notices though they change something."""
        return self.mutants - self.killed - self.equivalent

    @property
    def plain_score(self) -> float:
        """The share of all mutants that is noticed."""
        return self.killed / self.mutants if self.mutants else 1.0

    @property
    def score(self) -> float:
        """The share noticed of those that change something."""
        changing = self.mutants - self.equivalent
        return self.killed / changing if changing else 1.0


def count(
    mutants: Iterable[Mutant], outcomes: Mapping[str, Outcome], equivalents: Mapping[str, str]
) -> dict[str, Tally]:
    """Return a tally for each module, and one for all of them under the name `all`."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for mutant in mutants:
        if mutant.name not in outcomes:
            continue
        is_noticed = outcomes[mutant.name].status in NOTICED
        for name in (mutant.module, "all"):
            tallies[name].mutants += 1
            tallies[name].killed += is_noticed
            tallies[name].equivalent += not is_noticed and mutant.name in equivalents
    return tallies


def write_table(tallies: Mapping[str, Tally]) -> str:
    """Return the tallies as a table in Markdown, the sum last."""
    heads = ("module", "mutants", "killed", "survived", "equivalent", "score")
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for name in [*sorted(name for name in tallies if name != "all"), "all"]:
        totals = tallies[name]
        shown = "all of them" if name == "all" else f"`{name}`"
        numbers = (totals.mutants, totals.killed, totals.survived, totals.equivalent, f"{totals.score:.1%}")
        lines.append(f"| {shown} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines)


def read_equivalents(file: Path) -> dict[str, str]:
    """Return why each of these mutants changes nothing, by its name; the reason stands below it."""
    reasons: dict[str, str] = {}
    name = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            reasons[name] = f"{reasons[name]} {line.strip()}".strip()
        elif line.strip() and not line.startswith("#"):
            name = line
            reasons[name] = ""
    return reasons


def read_outcomes(file: Path) -> dict[str, Outcome]:
    """Return what an earlier run left."""
    if not file.exists():
        return {}
    return {name: Outcome(*kept) for name, kept in json.loads(file.read_text(encoding="utf-8")).items()}


def keep_outcomes(file: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Keep what became of mutants for the next run."""
    kept = {name: (outcome.status, outcome.killer) for name, outcome in outcomes.items()}
    file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
