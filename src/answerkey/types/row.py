"""One row of a dataset; apart from the tables, so that templates are rendered without the column library."""

from __future__ import annotations


class Row(dict[str, object]):
    """One dataset row as `{{ sample }}` sees it: column name to value."""
