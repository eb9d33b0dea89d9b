"""The gates of a run as `run.json` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from answerkey.types import Gate, GateCheck, GateStatus

NOT_COMPLETE = "the run is not complete"


def describe_gates(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Return gates as plain values; what is not known is left out."""
    return [
        _drop_unknown(asdict(gate) | {"checks": [_drop_unknown(asdict(one)) for one in gate.checks]})
        for gate in gates
    ]


def _drop_unknown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != {}}


def read_gates(manifest: Mapping[str, Any]) -> tuple[Gate, ...]:
    """Return the gates of a run; of one that never came to its end, its rules, none of them decided."""
    if "gates" in manifest:
        return tuple(map(_read_gate, manifest["gates"]))
    return tuple(
        leave_open(policy["key"], rule, NOT_COMPLETE)
        for policy in manifest.get("policies") or ()
        for rule in policy["rules"]
    )


def leave_open(policy: str, rule: Mapping[str, Any], note: str) -> Gate:
    """Return the gate of a rule, as the files state it, that is not decided."""
    return Gate(
        policy=policy,
        rule=rule["key"],
        status=GateStatus.NOT_DECIDED,
        definition=rule["definition"],
        display_name=rule["display_name"],
        description=rule.get("description"),
        note=note,
    )


def _read_gate(stored: Mapping[str, Any]) -> Gate:
    known = {one.name for one in fields(Gate)}
    values = {name: value for name, value in stored.items() if name in known}
    checks = tuple(map(_read_check, stored.get("checks") or ()))
    return Gate(**values | {"status": GateStatus(stored["status"]), "checks": checks})


def _read_check(stored: Mapping[str, Any]) -> GateCheck:
    known = {one.name for one in fields(GateCheck)}
    values = {name: value for name, value in stored.items() if name in known}
    low_high = stored.get("interval")
    interval = None if low_high is None else (low_high[0], low_high[1])
    return GateCheck(**values | {"status": GateStatus(stored["status"]), "interval": interval})
