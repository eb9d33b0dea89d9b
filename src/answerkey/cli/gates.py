"""What commands share about gates: their options, the files that others read, the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from answerkey.errors import AnswerkeyError, SpecError

if TYPE_CHECKING:
    from answerkey.runs import Run

FAILED = 1
INCOMPLETE = 3

POLICY_OPTIONS = (
    click.option("--policies", metavar="FILE", help="Rules that the run must meet, in place of its own."),
    click.option("--baseline", metavar="RUN", help="A run to be no worse than, significantly."),
)
REPORT_OPTIONS = (
    click.option("--junit", metavar="FILE", help="Write the gates as JUnit XML."),
    click.option("--summary", metavar="FILE", help="Append numbers and gates as Markdown."),
)


@dataclass(frozen=True)
class GateFiles:
    """The files that are asked for; both may be None."""

    junit: str | None = None
    summary: str | None = None

    def require_places(self) -> None:
        """Raise E119 for a file that cannot be written, before anything is asked."""
        for option, name in (("--junit", self.junit), ("--summary", self.summary)):
            if name is not None and (not name.strip() or Path(name).is_dir()):
                what = "is a folder" if name.strip() else "names no file"
                hint = 'name a file; on GitHub `--summary "$GITHUB_STEP_SUMMARY"`'
                raise SpecError("E119", f"`{option} {name}` {what}", hint=hint)
            if name is not None and not Path(name).absolute().parent.is_dir():
                message = f"`{option} {name}`: there is no folder `{Path(name).parent}`"
                raise SpecError("E119", message, hint="make the folder first")

    def write(self, outcome: Sequence[Run] | AnswerkeyError) -> None:
        """Write the files that are asked for, from finished runs or from what kept a run from its end."""
        if self.junit is not None:
            from answerkey.report.markdown import write_junit, write_junit_fault
            from answerkey.runs import write_output

            text = write_junit_fault(outcome) if isinstance(outcome, AnswerkeyError) else write_junit(outcome)
            write_output(Path(self.junit), lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
        if self.summary is not None:
            from answerkey.report.markdown import write_step_summary, write_summary_fault

            if isinstance(outcome, AnswerkeyError):
                page = write_summary_fault(outcome)
            else:
                page = write_step_summary(outcome)
            with Path(self.summary).open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(page)


@contextmanager
def keep_files(options: dict[str, object]) -> Iterator[GateFiles]:
    """Take `--junit` and `--summary` out of the options and yield the files that are asked for.

    An error on the way is told in them, too.
    """
    junit, summary = (options.pop(name) for name in ("junit", "summary"))
    files = GateFiles(*(None if name is None else str(name) for name in (junit, summary)))
    files.require_places()
    try:
        yield files
    except AnswerkeyError as error:
        files.write(error)
        raise


def find_baseline(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options with the folder of the run that `--baseline` means, as for `show`."""
    from answerkey.report.listing import find_run

    name = options["baseline"]
    return {**options, "baseline": None if name is None else str(find_run(str(name)).path)}


def find_exit_code(runs: Sequence[Run]) -> int:
    """Return 3 when a run is incomplete, 1 when a gate does not let one through, else 0."""
    from answerkey.types import GateStatus

    if any(run.status != "complete" for run in runs):
        return INCOMPLETE
    closed = {GateStatus.FAIL, GateStatus.NOT_DECIDED}
    return FAILED if any(gate.status in closed for run in runs for gate in run.gates) else 0
