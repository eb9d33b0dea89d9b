"""`resume` and `rescore`: runs taken up again."""

from __future__ import annotations

from pathlib import Path

import click

from answerkey.cli.completing import complete_run
from answerkey.cli.gates import POLICY_OPTIONS, REPORT_OPTIONS, find_baseline, keep_files
from answerkey.cli.options import RESCORE_OPTIONS, RESUME_OPTIONS, add_options, speaks
from answerkey.cli.run import finish
from answerkey.cli.talk import Talk


@click.command("resume", epilog="Example: answerkey resume latest")
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@add_options(*RESUME_OPTIONS, *REPORT_OPTIONS)
@speaks
def resume_command(talk: Talk, run: str, **options: object) -> int:
    """Go on with RUN where it stopped; what was answered is not asked again.

    RUN is a run folder, its name below `runs`, or `latest`. Calls that failed are asked again. A run that is
    complete is left as it is.
    """
    from answerkey import verbs
    from answerkey.reports.listing import find_run
    from answerkey.runs import find_place, has_only_begun, load_manifest

    with keep_files(options) as files:
        place = find_place(run)
        if isinstance(place, Path) and not place.is_dir():
            place = find_run(run).path or place
        if not has_only_begun(place) and load_manifest(place)["status"] == "complete":
            talk.say_text("the run is complete: there is nothing to go on with")
        with talk.display() as display:
            resumed = verbs.resume(place, progress=display.report, onlooker=display, **options)
        return finish(talk, [resumed], files=files)


@click.command(
    "rescore",
    epilog="""\b
Examples:
  answerkey rescore latest
  answerkey rescore runs/my-run task.yaml --out runs/my-run-again""",
)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.argument("file", metavar="[FILE]", required=False)
@add_options(*RESCORE_OPTIONS, *POLICY_OPTIONS, *REPORT_OPTIONS)
@speaks
def rescore_command(talk: Talk, run: str, file: str | None, *, out: str | None, **options: object) -> int:
    """Score the completions of RUN again, as a new run; no model is asked for completions.

    FILE is a changed task file, or the run file that has it; without FILE the tasks of RUN are used as they
    were. Samples and completions are those of RUN. A scorer that asks a model asks it, unless the call cache
    knows what it said.
    """
    from answerkey import verbs
    from answerkey.reports.listing import find_run

    with keep_files(options) as files:
        options = find_baseline(options)
        with talk.display() as display:
            scored = verbs.rescore(
                find_run(run), file, out=out, progress=display.report, onlooker=display, **options
            )
        return finish(talk, [scored], files=files)
