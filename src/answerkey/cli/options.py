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
    """Return an option with a value; `text` is its help, and `names` is what the function calls it."""
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
    """Write the files of a project into a folder, all or none, and return them; E119 when one is there.

    The first line of a YAML file leads editors to its schema, which is written, too.
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
    """Take `--junit` and `--summary` out of the options and yield what writes the files that are asked for.

    One that cannot be written is E119, before anything is asked. An error on the way is told in them, too.
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
        if names:
            _write_files(outcome, **names)

    try:
        yield write
    except AnswerkeyError as error:
        write(error)
        raise


def _write_files(
    outcome: Sequence[Run] | AnswerkeyError, *, junit: str | None = None, summary: str | None = None
) -> None:
    from answerkey.reports import markdown
    from answerkey.runs import write_output

    error = outcome if isinstance(outcome, AnswerkeyError) else None
    runs = () if isinstance(outcome, AnswerkeyError) else outcome
    if junit is not None:
        text = markdown.write_junit_fault(error) if error else markdown.write_junit(runs)
        write_output(Path(junit), lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
    if summary is not None:
        page = markdown.write_summary_fault(error) if error else markdown.write_step_summary(runs)
        with Path(summary).open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(page)


def find_baseline(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options with the folders of the runs that they name, as for `show`."""
    from answerkey.reports.view import find_run

    named = {name: options[name] for name in ("baseline", "not_worse_than")}
    found = {key: None if name is None else str(find_run(str(name)).path) for key, name in named.items()}
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
    # `importlib.resources` would import the package `spec`, and completing a line would take a second.
    folder = Path(__file__).resolve().parents[1] / "spec" / "benchmarks"
    return sorted(path.stem for path in folder.glob("*.yaml"))


def _list_runs() -> list[str]:
    names = sorted(path.parent.name for path in Path("runs").glob("*/run.json"))
    return ["latest", *names] if names else []


def _complete(list_names: Callable[[], Iterable[str]], also: str = "") -> Callable[..., list[CompletionItem]]:
    """Return what click calls to complete a word: by names that begin so, and by what the shell knows."""

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in list_names() if name.startswith(begun)]
        return [*found, CompletionItem(begun, type=also)] if also else found

    return complete


complete_ready_made = _complete(_list_ready_made)
complete_task = _complete(_list_ready_made, "file")
complete_model = _complete(
    lambda: [*(f"builtin/{name}" for name in BUILTIN), *(f"{one}/" for one in PROVIDERS)]
)
complete_run = _complete(_list_runs, "dir")

#: How other tools call what is here: their flags, and what to write; only where the command has that.
FOREIGN = {
    "-n -l -L --limit --max-samples --filter-first-n --num-examples": "did you mean `--num-samples`?",
    "-t --tasks --task --benchmarks --benchmark": "a task is named without a flag: `answerkey run TASK`",
    "--datasets --data --input-data": "did you mean `--dataset`?",
    "-m --models": "did you mean `--model`?",
    "-o --output --output-path --output-dir --log-dir --work-dir": "did you mean `--out`?",
    "--num-fewshot --fewshot --nshot -f": (
        "few-shot examples are `examples` of the task's solver, of a ready-made task `--config shots=5`"
    ),
    "--model-args --gen-kwargs --generation-config --temperature --max-tokens --top-p -M": (
        "parameters follow the model's name: `--model 'NAME?temperature=0&max_tokens=16'`"
    ),
    "--base-url --api-base --api-url --model-base-url": (
        "the address is part of the name: `--model http://HOST/v1#NAME`"
    ),
    "--api-key": "keys are environment values, such as `OPENAI_API_KEY`; `--env FILE` reads them from a file",
    "--batch-size --max-connections --max-concurrency --num-concurrent -b -j": (
        "how many requests are under way is `max_concurrent_requests` of a model file: `--model FILE`"
    ),
    "--epochs --repeats --num-trials": "trials are `trials: {num_trials: N}` of a task or run file",
    "--no-cache --use-cache": "did you mean `--cache-policy`?",
    "--trust-remote-code": "did you mean `--trust-code`?",
    "--shuffle --random": "did you mean `--subsampling`?",
    "--threshold --min-score --fail-below": "did you mean `--fail-under`?",
}


def translate_option(name: str, known: Iterable[str]) -> str | None:
    """Return what to write for an option of another tool; None for one that no tool has, or that is not here.

    `known` are the options of the command.
    """
    wanted = name.replace("_", "-")
    for flags, text in FOREIGN.items():
        if wanted in flags.split() and set(re.findall(r"--[a-z-]+", text)) <= set(known):
            return text
    return None


#: Options as the verbs take them: name to value.
Chosen = dict[str, Any]


def with_console(function: Command) -> Command:
    """Add `--json`, `-v` and `-q`, and hand the command a `Console` as its first argument."""

    @wraps(function)
    def speak(*args: object, as_json: bool, verbose: bool, quiet: bool, **options: object) -> int | None:
        outer = click.get_current_context().obj or {}
        console = Console(as_json, verbose or outer.get("verbose", False), quiet or outer.get("quiet", False))
        return function(console, *args, **options)

    return add_options(
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object on stdout, nothing else."
        ),
        click.option(
            "-v", "--verbose", is_flag=True, help="Show more, and the traceback of an internal error."
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print only data and errors."),
    )(speak)


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, shown in the order given."""

    def add(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def pairs_option(name: str, form: str, example: str, *more: str, **options: Any) -> Decorator:  # noqa: ANN401 - click's
    """Return a repeatable option of the form `name=value` that becomes a mapping; the last of a name wins.

    The value may be empty, and means none then.
    """

    def read(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for pair in pairs:
            key, mark, value = pair.partition("=")
            if not (key.strip() and mark):
                message = f"`{name} {pair}` is not of the form `{form}`"
                raise SpecError("E119", message, hint=f"write `{name} {example}`")
            found[key.strip()] = value
        return found

    return click.option(name, *more, multiple=True, callback=read, **options)


def _set_prompt(context: click.Context, _option: click.Parameter, name: str | None) -> None:
    if name is not None:
        context.params["config"]["prompt"] = name


# Read before the others: `--prompt` adds to it.
CONFIG = pairs_option(
    "--config", "name=value", "k=4", metavar="K=V", help="Set a config value; repeatable.", is_eager=True
)
PROMPT = option(
    "--prompt",
    "NAME",
    "Wording of a ready-made task's prompt: helm, lm-eval, official; short for `--config prompt=NAME`.",
    expose_value=False,
    callback=_set_prompt,
)
COLUMN = pairs_option(
    "--column",
    "PART=NAME",
    "truth=answer_idx",
    "columns",
    metavar="PART=NAME",
    help="Name a column of a data file: `truth=answer:0`, `passage=` for none; repeatable.",
)
SAVE = option("--save", "DIR", "Also write a data file as a project of YAML files that does the same.")
DIGITS = option("--digits", "N", "Print N digits; shares as fractions.", type=click.IntRange(min=0, max=17))
CLUSTER_OPTIONS = (
    option("--cluster-by", "COLUMN", "Column of samples that belong together, such as a passage."),
    click.option("--uncorrected", is_flag=True, help="Leave out the correction C/(C-1) for few clusters."),
)
ENV = option("--env", "FILE", "Read environment values from FILE, not from the `.env` beside the project.")
OUTSIDE = click.option("--allow-outside", is_flag=True, help="Allow FILE to use files outside its folder.")
OUT = option("--out", "DIR", "Folder of the run; default `runs/<time>-<key>`.")
ENGINE, ENGINE_AGAIN = (
    option(
        "--engine",
        "NAME",
        f"local or ray: where shards are evaluated{as_before}.",
        type=click.Choice(["local", "ray"]),
        default=default,
    )
    for default, as_before in (("local", ""), (None, "; as before unless given"))
)
RAY_ADDRESS = option("--ray-address", "ADDRESS", "With `--engine ray`: the cluster, HOST:PORT or auto.")
ALLOW_FAILED = option(
    "--allow-failed",
    "N|N%",
    "Accept up to N (or N %) FAILED samples, and score the rest.",
)
TRUST = click.option(
    "--trust-code", is_flag=True, help="Run the task's Python snippets, and trust them from now on."
)
ALLOW_HOST = option(
    "--allow-host",
    "HOST",
    "Allow FILE to send your keys to this host; repeatable.",
    "allow_hosts",
    multiple=True,
)
COPY = click.option("--copy", is_flag=True, help="Copy recorded completions into the run folder.")

DATASET = option("--dataset", "FILE", "Dataset to use in place of the one in FILE.")
PRICE = option(
    "--price",
    "IN:OUT",
    "Price of a million prompt and completion tokens in USD; `:CACHED` for cached ones.",
)
ROW_OPTIONS = (
    COLUMN,
    option("--num-samples", "N", "Use only N samples.", type=click.IntRange(min=1)),
    option(
        "--subsampling",
        "HOW",
        "head or random: which N samples to use.",
        type=click.Choice(["head", "random"]),
    ),
    option("--seed", "N", "Seed of random subsampling.", type=int),
    ENV,
    OUTSIDE,
)

READ_AS = option(
    "--as",
    "WHAT",
    "log or data: what FILE is, where it may be both.",
    "read_as",
    type=click.Choice(["log", "data"]),
)
TASK_OPTIONS = (
    CONFIG,
    PROMPT,
    DATASET,
    option("--completions", "FILE", "Score the completions recorded in this file."),
    option(
        "--completion-column",
        "NAME",
        "Column of completions, such as `completions.my-model`; repeatable, one run each.",
        "completion_columns",
        multiple=True,
    ),
    click.option(
        "--split-thinking",
        is_flag=True,
        default=None,
        help="Take thinking blocks such as `<think>…</think>` out of recorded completions.",
    ),
    *ROW_OPTIONS,
    ALLOW_HOST,
)
CALL_OPTIONS = (
    option(
        "--cache-policy",
        "POLICY",
        "reuse (default), update or no-cache: how to use the cache of earlier calls.",
        type=click.Choice(["reuse", "update", "no-cache"]),
    ),
    option("--max-calls", "N", "Make at most N calls, then stop.", type=click.IntRange(min=0)),
    option("--max-cost", "USD", "Stop before the calls cost more than this.", type=click.FloatRange(min=0)),
    PRICE,
)
LIVE_OPTIONS = (
    click.option(
        "--batch/--no-batch",
        default=None,
        help="Send the calls through the provider's batch API, which is slower and cheaper.",
    ),
    *CALL_OPTIONS,
    click.option(
        "--stop-on-nonsense/--no-stop-on-nonsense",
        default=None,
        help="Stop also if the first 20 replies are all alike or cut off; or not even if most are INVALID.",
    ),
)
DOCTOR_OPTIONS = (
    option("--timeout", "SECONDS", "Seconds for one call; default 20.", "seconds", default=20.0),
    option("--max-cost", "USD", "Spend at most this; default 0.01.", default=0.01),
    *(PRICE, CONFIG, DATASET, COLUMN, ENV, OUTSIDE, ALLOW_HOST, TRUST),
)
RUN_OPTIONS = (OUT, ENGINE, RAY_ADDRESS, ALLOW_FAILED, TRUST, COPY)
RESCORE_OPTIONS = (
    CONFIG,
    OUT,
    ALLOW_FAILED,
    TRUST,
    COPY,
    ENGINE,
    RAY_ADDRESS,
    ENV,
    OUTSIDE,
    ALLOW_HOST,
    *CALL_OPTIONS,
)
RESUME_OPTIONS = (ENGINE_AGAIN, RAY_ADDRESS, ALLOW_FAILED, TRUST, ENV, ALLOW_HOST, *LIVE_OPTIONS)
