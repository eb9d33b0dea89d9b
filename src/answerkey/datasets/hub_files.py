"""Which files of a hub dataset hold a split: by what is asked for, by its card, or by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerkey.datasets.folder import is_data_file, matches
from answerkey.errors import DataError, Place, listing, suggest

#: Splits under other names, as the hub's own library knows them.
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
DEFAULT_CONFIG = "default"


@dataclass(frozen=True)
class Choice:
    """What is asked for of a dataset; `files` are names or patterns."""

    path: str
    split: str | None = None
    config: str | None = None
    folder: str | None = None
    files: tuple[str, ...] = ()

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """Return the error about a dataset that cannot be had."""
        where = Place(file=f"hf://datasets/{self.path}")
        return DataError("E214", f"dataset `{self.path}` of the hub {message}", where=where, hint=hint)


def choose_files(choice: Choice, names: Sequence[str], card: Mapping[str, Any]) -> list[str]:
    """Return the files of a split, by name; none when the repository holds no data files of it.

    `names` are all files of the repository, `card` what its page says at the top.
    """
    names = sorted(name for name in names if choice.folder is None or _is_within(name, choice.folder))
    if choice.files:
        return _match(choice, names, choice.files, "`data_files`")
    configs = _read_configs(card)
    if configs:
        return _choose_listed(choice, names, configs)
    return _choose_by_name(choice, [name for name in names if is_data_file(Path(name))])


def find_converted(choice: Choice, names: Sequence[str]) -> list[str]:
    """Return the files of a split among those that the hub made of a dataset with a loading script."""
    split = choice.split or "train"
    config = choice.config or DEFAULT_CONFIG
    found = sorted(name for name in names if name.startswith(f"{config}/{split}/"))
    if found:
        return found
    known = sorted({name.split("/")[0] for name in names if name.count("/") > 1})
    if config not in known and known:
        raise _refuse_config(choice, known)
    splits = sorted({name.split("/")[1] for name in names if name.startswith(f"{config}/")})
    raise _refuse_split(choice, splits)


def list_missing_shards(names: Iterable[str]) -> list[str] | None:
    """Return the shards that numbered files lack; None when their names do not say how many there are."""
    missing: list[str] = []
    present = set(names)
    for name in sorted(present):
        shard = _SHARD.search(name)
        if shard is None:
            return None
        for number in range(int(shard[2])):
            other = _SHARD.sub(f"-{number:05d}-of-{shard[2]}", name)
            # A hash may stand behind the number, another for each shard.
            stem = other[: shard.end()]
            if not any(one.startswith(stem) for one in present):
                missing.append(stem)
    return sorted(set(missing))


def _is_within(name: str, folder: str) -> bool:
    return name.startswith(f"{folder.strip('/')}/")


def _match(choice: Choice, names: Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        near = [name for name in names if name == pattern or matches_path(name, pattern)]
        if not near:
            there = listing([name for name in names if is_data_file(Path(name))], limit=8)
            raise choice.refuse(f"has no file `{pattern}` ({what})", f"data files there: {there}")
        found.update(dict.fromkeys(near))
    return sorted(found)


def matches_path(name: str, pattern: str) -> bool:
    """Return whether a path fits a pattern; `*` stays within a folder, `**` does not."""
    if "**" in pattern:
        return matches(name, pattern.replace("**/", "*").replace("**", "*"))
    return name.count("/") == pattern.count("/") and matches(name, pattern)


def _read_configs(card: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return what a card says: config to split to patterns; a config without splits has `train` alone."""
    configs: dict[str, dict[str, list[str]]] = {}
    listed = card.get("configs")
    for entry in listed if isinstance(listed, list) else ():
        files = entry.get("data_files") if isinstance(entry, dict) else None
        if files is None:
            continue
        base = str(entry.get("data_dir") or "")
        splits = configs.setdefault(str(entry.get("config_name", DEFAULT_CONFIG)), {})
        for split, patterns in _read_splits(files):
            splits[split] = [f"{base}/{one}" if base else one for one in patterns]
    return configs


def _read_splits(files: object) -> Iterable[tuple[str, list[str]]]:
    if isinstance(files, dict):
        yield from ((str(split), _list_texts(patterns)) for split, patterns in files.items())
    elif isinstance(files, list) and files and isinstance(files[0], dict):
        yield from ((str(one.get("split", "train")), _list_texts(one.get("path"))) for one in files)
    else:
        yield "train", _list_texts(files)


def _list_texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _choose_listed(
    choice: Choice, names: Sequence[str], configs: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    config = choice.config
    if config is None:
        config = DEFAULT_CONFIG if DEFAULT_CONFIG in configs else next(iter(configs), "")
        if len(configs) > 1 and config != DEFAULT_CONFIG:
            raise choice.refuse("has several configs", f"choose one with `name`: {listing(configs)}")
    if config not in configs:
        raise _refuse_config(choice, list(configs))
    splits = configs[config]
    split = choice.split or (next(iter(splits)) if len(splits) == 1 else "")
    if split not in splits:
        raise _refuse_split(choice, list(splits))
    return _match(choice, names, splits[split], "its card")


def _choose_by_name(choice: Choice, names: Sequence[str]) -> list[str]:
    """Return the files whose names say the split: in a folder of the config, if there is one."""
    if choice.config is not None:
        within = [name for name in names if choice.config in name.split("/")[:-1]]
        names = within or [name for name in names if _has_word(name, choice.config)]
    by_split = {split: [name for name in names if _says(name, words)] for split, words in _SPLITS.items()}
    if choice.split is not None and choice.split not in by_split:
        by_split[choice.split] = [name for name in names if _says(name, (choice.split,))]
    present = [split for split, found in by_split.items() if found]
    if not present:
        return list(names) if choice.split in {None, "train"} else []
    if choice.split is None:
        if len(present) > 1:
            raise _refuse_split(choice, present)
        return by_split[present[0]]
    if not by_split[choice.split]:
        raise _refuse_split(choice, present)
    return by_split[choice.split]


def _says(name: str, words: Sequence[str]) -> bool:
    return any(_has_word(name, word) for word in words)


def _has_word(name: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z])", name, re.IGNORECASE) is not None


def _refuse_config(choice: Choice, known: Sequence[str]) -> DataError:
    near = suggest(choice.config or "", known)
    hint = f"{near} configs: {listing(known)}" if near else f"configs: {listing(known)}"
    what = f"has no config `{choice.config}`" if choice.config else "has several configs"
    return choice.refuse(what, f"{hint}; choose one with `name`")


def _refuse_split(choice: Choice, known: Sequence[str]) -> DataError:
    near = suggest(choice.split or "", known)
    hint = f"{near} splits: {listing(known)}" if near else f"splits: {listing(known)}"
    what = f"has no split `{choice.split}`" if choice.split else "has several splits"
    return choice.refuse(what, f"{hint}; choose one with `split`")
