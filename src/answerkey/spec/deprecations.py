"""Old names that still work, in one table: since when, what replaces them, how they are carried over.

Each warns once, with its replacement spelled out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from answerkey.errors import Place
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode, from_plain, to_plain

LATER_ERA = "the format of late 2026"

Rewrite = Callable[[MapNode, str, str], tuple[MapNode, str] | None]


@dataclass(frozen=True)
class Deprecation:
    """An old key (or an old value of a key) of one part of a file.

    `rewrite` returns the mapping in the new form and the replacement as it would be written there; None for a
    value that is wrong under any name, which is for others to say. `is_moved`: the name is not old, its place
    is.
    """

    part: str
    name: str
    since: str
    replacement: str
    rewrite: Rewrite
    value: str | None = None
    scorer: str | None = None
    is_moved: bool = False

    @property
    def title(self) -> str:
        """The old name as messages show it."""
        return self.name if self.value is None else f"{self.name}: {self.value}"

    @property
    def message(self) -> str:
        """What is old about it, and since when."""
        if self.is_moved:
            return f"`{self.title}` in `{self.part}` stands in an old place (since {self.since})"
        return f"`{self.title}` is an old name (since {self.since})"


def _column_template(node: MapNode, old: str, new: str) -> tuple[MapNode, str] | None:
    """Turn a column name into a template that reads the column."""
    entry = node.entries[old]
    column = to_plain(entry)
    quoted = str(column).replace("\\", "\\\\").replace("'", "\\'")
    template = f"{{{{ sample['{quoted}'] }}}}"
    written = f'write `{new}: "{template}"`'
    if not isinstance(column, str | int) or isinstance(column, bool):
        return node, written
    rest = node.without(old)
    return rest if new in node.entries else rest.having(new, ScalarNode(template, entry.place)), written


def _drop(node: MapNode, old: str, new: str) -> tuple[MapNode, str]:
    return node.without(old), new


def _rename_type(node: MapNode, old: str, new: str) -> tuple[MapNode, str]:
    return node.having(old, ScalarNode(new, node.entries[old].place)), f"write `{old}: {new}`"


def _rename(node: MapNode, old: str, new: str) -> tuple[MapNode, str]:
    rest = node.without(old)
    return rest if new in node.entries else rest.having(new, node.entries[old]), f"write `{new}: …`"


def _move_into_source(node: MapNode, old: str, new: str) -> tuple[MapNode, str]:
    entry = node.entries[old]
    written = f"write `source: {{type: local, file_path: {to_plain(entry)}}}`"
    rest = node.without(old)
    if new in node.entries:
        return rest, written
    source = MapNode(
        {"type": ScalarNode("local", entry.place), old: entry}, entry.place, {old: node.key_place(old)}
    )
    return rest.having(new, source), written


def _move_to_run_config(node: MapNode, old: str, new: str) -> tuple[MapNode, str]:
    """Keep the value under the name that the loader reads: the run's own `run_config` wins over it."""
    entry = node.entries[old]
    written = f"write `run_config: {{{new}: {to_plain(entry)}}}`"
    return node, written


def _read_mode(node: MapNode, old: str, new: str) -> tuple[MapNode, str] | None:
    entry = node.entries[old]
    if to_plain(entry) not in ("debug", "full"):
        return None
    is_debug = to_plain(entry) == "debug"
    rest = node.without(old)
    if is_debug and new not in node.entries:
        rest = rest.having(new, from_plain(DEBUG_SAMPLES, entry.place))
    written = f"write `run_config: {{num_samples: {DEBUG_SAMPLES}}}`" if is_debug else "leave it out"
    return rest, written


DEBUG_SAMPLES = 10

DEPRECATIONS: tuple[Deprecation, ...] = (
    Deprecation(
        "scorer",
        "ground_truth_choice_field",
        "scorers read templates",
        "ground_truth_choice",
        _column_template,
        scorer="string_equals_mcqa",
    ),
    Deprecation(
        "scorer",
        "choices_field",
        "scorers read templates",
        "choices",
        _column_template,
        scorer="string_equals_mcqa",
    ),
    Deprecation("definition", "type", LATER_ERA, "benchmark_task", _rename_type, value="declarative_task"),
    Deprecation(
        "task",
        "evaluated_entity_type",
        "tasks have a `definition`",
        "leave it out: a task with a `solver` evaluates a model, one without evaluates the dataset",
        _drop,
    ),
    Deprecation("specification", "entity_key", "specifications have a `model_key`", "model_key", _rename),
    Deprecation(
        "definition",
        "evaluated_entity_type",
        LATER_ERA,
        "leave it out: a task with a `solver` evaluates a model, one without evaluates the dataset",
        _drop,
    ),
    Deprecation(
        "dataset choice",
        "fast_subset_size",
        LATER_ERA,
        "it is ignored; write `run_config: {num_samples: …}`",
        _drop,
    ),
    Deprecation("dataset", "file_path", LATER_ERA, "source", _move_into_source, is_moved=True),
    Deprecation("evaluation", "mode", LATER_ERA, "num_samples", _read_mode),
    Deprecation("evaluation", "num_samples", LATER_ERA, "num_samples", _move_to_run_config, is_moved=True),
    Deprecation("evaluation", "subsampling", LATER_ERA, "subsampling", _move_to_run_config, is_moved=True),
    Deprecation("evaluation", "cache_policy", LATER_ERA, "cache_policy", _move_to_run_config, is_moved=True),
)


def carry_over(node: Node, part: str, findings: Findings, *, scorer: str | None = None) -> Node:
    """Return a part of a file with its old names in their new form; each old name is a notice."""
    if not isinstance(node, MapNode):
        return node
    written = node.entries
    for entry in DEPRECATIONS:
        if entry.part == part and entry.scorer == scorer and _applies(entry, written):
            place = node.key_place(entry.name)
            has_both = entry.replacement in written and entry.replacement != entry.name
            rewritten = entry.rewrite(node, entry.name, entry.replacement)
            if rewritten is not None:
                node = rewritten[0]
                _announce(entry, rewritten[1], place, findings, has_both=has_both)
    return node


def _applies(entry: Deprecation, written: Mapping[str, Node]) -> bool:
    node = written.get(entry.name)
    return node is not None and (entry.value is None or to_plain(node) == entry.value)


def _announce(
    entry: Deprecation, replacement: str, where: Place, findings: Findings, *, has_both: bool
) -> None:
    if has_both:
        new = entry.replacement
        message = f"`{entry.title}` is an old name, and `{new}` is given too: `{new}` is used"
        findings.notice(message, where, f"remove `{entry.name}`")
        return
    findings.notice(entry.message, where, replacement)
