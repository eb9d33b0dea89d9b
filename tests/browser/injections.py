"""Texts that would run, load or restyle something if a page took them for more than text.

Each tries one way out of the place it is put in: an element's text, an attribute, a script, a block
of JSON, a style sheet, an address, a template. Those that run call `alert`, those that load ask
`injected.invalid`.
"""

from __future__ import annotations

import json
from pathlib import Path

GROUPS: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
INJECTIONS = tuple(text for texts in GROUPS.values() for text in texts)
