"""Options that several commands share, and what a shell completes for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
from click.shell_completion import CompletionItem

from answerkey.cli.console import Console
from answerkey.errors import AnswerkeyError, SpecError
from answerkey.models.names import PROVIDERS

if TYPE_CHECKING:
    from answerkey.runs import Run


FAILED = 1
INCOMPLETE = 3
Kind = Literal["task", "run", "dataset", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Command = Callable[..., int | None]
Decorator = Callable[[Command], Command]


def option(flag: str, metavar: str, text: str, *names: str, **more: Any) -> Decorator:  # noqa: ANN401 - click's
    """Return an option with a value.

    `text` is its help, and `names` is what the function calls it.
    """
    return click.option(flag, *names, metavar=metavar, help=text, **more)


POLICY_OPTIONS = (
    option("--policies", "FILE", "Policy file to use in place of the run's own policies."),
    option("--baseline", "RUN", "Baseline run: fail if this run is significantly worse."),
    option("--fail-under", "X", "Fail if the main value is below X: 0.8 or 80%."),
    option("--not-worse-than", "RUN", "Fail if significantly worse than RUN on the same samples."),
)
REPORT_OPTIONS = (
    option("--junit", "FILE", "Write the gates as JUnit XML."),
    option("--summary", "FILE", "Append numbers and gates as Markdown."),
)


def write_files(folder: Path, texts: Mapping[str, str], *, with_schemas: bool = True) -> list[Path]:
    """Write the files of a project into a folder, all or none, and return them.

    E119 when one is there. The first line of a YAML file leads editors to its schema, which is
    written, too.
    """
    from answerkey.spec.schema import write_schema

    found = dict(texts)
    for kind in KINDS if with_schemas else ():
        if (name := f"{kind}.yaml") in texts:
            found[name] = f"# yaml-language-server: $schema=.schemas/{kind}.json\n{texts[name]}"
            found[f".schemas/{kind}.json"] = write_schema(kind)
    taken = [name for name in found if (folder / name).exists()]
    if taken or (folder.exists() and not folder.is_dir()):
        what = folder / taken[0] if taken else folder
        message = f"`{what}` is there already; nothing was written"
        raise SpecError("E119", message, hint="choose a new or empty folder")
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in found]


#: Writes what others are to read, of finished runs or of what kept a run from its end.
WriteFiles = Callable[["Sequence[Run] | AnswerkeyError"], None]


@contextmanager
def keep_files(options: dict[str, Any]) -> Iterator[WriteFiles]:
    """Take `--junit` and `--summary` out of the options and yield what writes the files that are
    asked for.

    One that cannot be written is E119, before anything is asked. An error on the way is told in
    them, too.
    """
    names: dict[str, str] = {}
    for option in ("junit", "summary"):
        if (name := options.pop(option)) is None:
            continue
        if not name.strip() or Path(name).is_dir():
            what = "is a folder" if name.strip() else "names no file"
            hint = 'name a file; on GitHub `--summary "$GITHUB_STEP_SUMMARY"`'
            raise SpecError("E119", f"`--{option} {name}` {what}", hint=hint)
        if not Path(name).absolute().parent.is_dir():
            message = f"`--{option} {name}`: there is no folder `{Path(name).parent}`"
            raise SpecError("E119", message, hint="make the folder first")
        names[option] = name

    def write(outcome: Sequence[Run] | AnswerkeyError) -> None:
        if not names:
            return
        from answerkey.reports import markdown
        from answerkey.runs import write_output

        error, runs = (outcome, ()) if isinstance(outcome, AnswerkeyError) else (None, outcome)
        if "junit" in names:
            text = markdown.write_junit_fault(error) if error else markdown.write_junit(runs)
            junit = Path(names["junit"])
            write_output(junit, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
        if "summary" in names:
            page = (
                markdown.write_summary_fault(error) if error else markdown.write_step_summary(runs)
            )
            summary = Path(names["summary"])
            if summary.is_file():  # of an earlier step
                with summary.open("ab") as stream:
                    stream.write(page.encode())
            else:
                write_output(summary, lambda path: path.write_bytes(page.encode()))

    try:
        yield write
    except AnswerkeyError as error:
        write(error)
        raise


def find_baseline(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options with the folders of the runs that they name, as for `show`."""
    from answerkey.reports.view import find_run

    named = {name: options[name] for name in ("baseline", "not_worse_than")}
    found = {
        key: None if name is None else str(find_run(str(name)).path) for key, name in named.items()
    }
    return {**options, **found}


def find_exit_code(runs: Sequence[Run]) -> int:
    """Return 3 when a run is incomplete, 1 when a gate does not let one through, else 0."""
    from answerkey.types import GateStatus

    if any(run.status != "complete" for run in runs):
        return INCOMPLETE
    closed = {GateStatus.FAIL, GateStatus.NOT_DECIDED}
    return FAILED if any(gate.status in closed for run in runs for gate in run.gates) else 0


#: Written out: importing the models takes longer than anybody waits for a completion.
BUILTIN = ("constant", "random", "longest", "overlap", "simulated")


def _list_ready_made() -> list[str]:
    """Return the names of the ready-made tasks, without reading any of their files."""
    # `importlib.resources` would import the package `spec`, and completing a line would take a
    # second.
    folder = Path(__file__).resolve().parents[1] / "spec" / "benchmarks"
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _list_runs() -> list[str]:
    names = sorted(path.parent.name for path in Path("runs").glob("*/run.json"))
    return ["latest", *names] if names else []


def _complete(
    list_names: Callable[[], Iterable[str]], also: str = ""
) -> Callable[..., list[CompletionItem]]:
    """Return what click calls to complete a word: by names that begin so, and by what the shell
    knows.
    """

    def complete(
        _context: click.Context, _parameter: click.Parameter, begun: str
    ) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in list_names() if name.startswith(begun)]
        return [*found, CompletionItem(begun, type=also)] if also else found

    return complete


complete_ready_made = _complete(_list_ready_made)
complete_task = _complete(_list_ready_made, "file")
complete_model = _complete(
    lambda: [*(f"builtin/{name}" for name in BUILTIN), *(f"{one}/" for one in PROVIDERS)]
)
complete_run = _complete(_list_runs, "dir")

#: How other tools call what is here: their flags, and what to write; only where the command has
#: that.
FOREIGN = {
    "-n -l -L --limit --max-samples --filter-first-n --num-examples": (
        "did you mean `--num-samples`?"
    ),
    "-t --tasks --task --benchmarks --benchmark": "a task is named without a flag: "
    "`answerkey run TASK`",
    "--datasets --data --input-data": "did you mean `--dataset`?",
    "-m --models": "did you mean `--model`?",
    "-o --output --output-path --output-dir --log-dir --work-dir": "did you mean `--out`?",
    "--num-fewshot --fewshot --nshot --shots --few-shot --n-shot -f": """\
for a ready-made task write `--config shots=5`; in a task file write in `solver`:
examples: {dataset: DATASET_KEY, num_examples: 5}
and above the question in `input_messages`:
- {role: user, content: "{{ example.question }}", for_each: examples}
- {role: assistant, content: "{{ example.answer }}", for_each: examples}""",
    "--model-args --gen-kwargs --generation-config --temperature --max-tokens --top-p -M": (
        "parameters follow the model's name: `--model 'NAME?temperature=0&max_tokens=16'`"
    ),
    "--base-url --api-base --api-url --model-base-url": (
        "the address is part of the name: `--model http://HOST/v1#NAME`"
    ),
    "--api-key": "keys are environment values, such as `OPENAI_API_KEY`; `--env FILE` reads them "
    "from a file",
    "--batch-size --max-connections --max-concurrency --num-concurrent --concurrency "
    "--parallel -b -j": """\
answerkey finds what the endpoint takes, up to 64 requests at once; for fewer write `model.yaml`:
key: my-model
display_name: My model
max_concurrent_requests: 8
config: {connection_type: provider_connection, provider_id: openai, model_key: gpt-4.1-nano}
and run with `--model model.yaml`""",
    "--epochs --repeats --num-trials --trials --n-trials": """\
write in `definition` of the task file:
trials: {num_trials: 5}""",
    "--system --system-prompt --system-message --system-instruction": """\
write as the first of `input_messages` in the task file:
- {role: system, content: "Answer with the letter alone."}""",
    "--no-cache --use-cache": "did you mean `--cache-policy`?",
    "--trust-remote-code": "did you mean `--trust-code`?",
    "--shuffle --shuffle-choices --shuffle-options": """\
to show the options in another order write in `definition` of the task file:
choice_order: {options: "{{ sample.options }}", orders: shuffled}
to draw samples at random write `--num-samples 100 --subsampling random`""",
    "--random": "did you mean `--subsampling`?",
    "--threshold --min-score --fail-below": "did you mean `--fail-under`?",
}


def translate_option(name: str, known: Iterable[str]) -> str | None:
    """Return what to write for an option of another tool.

    None for one that no tool has, or that is not here. `known` are the options of the command.
    """
    wanted = name.replace("_", "-")
    for flags, text in FOREIGN.items():
        if wanted in flags.split() and set(re.findall(r"--[a-z-]+", text)) <= set(known):
            return text
    return None


def command(name: str, *examples: str) -> Callable[[Command], click.Command]:
    """Return what makes a command of a function: it is given a console, and its help ends with the
    examples.

    Each of these begins with `answerkey`, which is left out here.
    """
    lines = [f"answerkey {one}" for one in examples]
    epilog = f"Example: {lines[0]}" if len(lines) == 1 else "\n  ".join(("\b\nExamples:", *lines))
    flags = {
        ("--json", "as_json"): "Print one JSON object on stdout, nothing else.",
        ("-v", "--verbose"): "Show more, and the traceback of an internal error.",
        ("-q", "--quiet"): "Print only data and errors.",
    }

    def make(function: Command) -> click.Command:
        @wraps(function)
        def speak(
            *args: object, as_json: bool, verbose: bool, quiet: bool, **options: object
        ) -> int | None:
            outer = click.get_current_context().obj or {}
            verbose, quiet = (
                verbose or outer.get("verbose", False),
                quiet or outer.get("quiet", False),
            )
            return function(Console(as_json, verbose, quiet), *args, **options)

        made = click.command(name, epilog=epilog)(speak)
        made.params += [
            click.Option(words, is_flag=True, help=text) for words, text in flags.items()
        ]
        return made

    return make


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, shown in the order given."""

    def add(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def pairs_option(name: str, form: str, example: str, *more: str, **options: Any) -> Decorator:  # noqa: ANN401 - click's
    """Return a repeatable option of the form `name=value` that becomes a mapping.

    The last of a name wins. The value may be empty, and means none then.
    """

    def read(
        _context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]
    ) -> dict[str, str]:
        found = {}
        for pair in pairs:
            key, mark, value = pair.partition("=")
            if not (key.strip() and mark):
                message = f"`{name} {pair}` is not of the form `{form}`"
                hint = f"write `{name} {example.format(pair)}`"
                raise SpecError("E119", message, hint=hint)
            found[key.strip()] = value
        return found

    return click.option(name, *more, multiple=True, callback=read, **options)


# Read before the others: `--prompt` adds to it.
CONFIG = pairs_option(
    "--config",
    "name=value",
    "k=4",
    metavar="K=V",
    help="Set a config value; repeatable.",
    is_eager=True,
)
COLUMN = pairs_option(
    "--column",
    "PART=NAME",
    "truth={}",
    "columns",
    metavar="PART=NAME",
    help="Name a column of a data file: `truth=answer:0`, `passage=` for none; repeatable.",
)
TASK = option("--task", "NAME", "Task of the log, if it has several; default: all of them.")
SCORE = option("--score", "NAME", "Score of the log to compare with, if it has several.")
SINGLE_ANSWERS = click.option(
    "--single-answers",
    is_flag=True,
    help="Leave out the log's questions with several right letters.",
)
ENV = option(
    "--env", "FILE", "Read environment values from FILE, not from the `.env` beside the project."
)
