"""Records of a journal: the checksum of each, and what is done with damaged ones."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from zlib import crc32

#: No index on the key: keys are random, and each would dirty a page of its own that is written twice.
CREATE_CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    specification TEXT NOT NULL,
    sample_id TEXT NOT NULL,
    trial INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    status TEXT NOT NULL,
    source TEXT NOT NULL,
    completion TEXT NOT NULL,
    checksum INTEGER NOT NULL
)
"""
COLUMNS = "key, specification, sample_id, trial, purpose, status, source, completion, checksum"
#: SQLite keeps the last place that was ever used: how many calls were finished.
_COUNT_FINISHED = """
SELECT MAX(COALESCE((SELECT seq FROM {schema}.sqlite_sequence WHERE name = 'calls'), 0),
    COALESCE((SELECT MAX(place) FROM {schema}.calls), 0))
"""
#: Intact records are numbered anew, so that what is lost is told once.
_MEND = (
    f"""
    CREATE TEMP TABLE intact AS SELECT {COLUMNS} FROM {{schema}}.calls
    WHERE place NOT IN (SELECT value FROM json_each(?)) ORDER BY place
    """,  # noqa: S608 - constants
    "DELETE FROM {schema}.calls",
    "DELETE FROM {schema}.sqlite_sequence WHERE name = 'calls'",
    f"INSERT INTO {{schema}}.calls ({COLUMNS}) SELECT {COLUMNS} FROM intact ORDER BY rowid",  # noqa: S608 - constants
    "DROP TABLE intact",
)


def sum_record(record: Sequence[object]) -> int:
    """Return the checksum of a record, whose texts may be bytes."""
    return crc32(
        b"\0".join(
            [one if isinstance(one, bytes) else str(one).encode("utf-8", "surrogatepass") for one in record]
        )
    )


def mend_records(connection: sqlite3.Connection, schema: str = "main") -> int:
    """Return how many records of a journal are damaged or missing; remove the damaged ones."""
    damaged, intact = list[int](), 0
    factory, connection.text_factory = connection.text_factory, bytes  # damaged text need not be text
    try:
        with closing(connection.execute(f"SELECT place, {COLUMNS} FROM {schema}.calls")) as cursor:  # noqa: S608 - constants
            for place, *record, checksum in cursor:
                if sum_record(record) == checksum:
                    intact += 1
                else:
                    damaged.append(place)
    finally:
        connection.text_factory = factory
    with closing(connection.execute(_COUNT_FINISHED.format(schema=schema))) as cursor:
        lost = int(cursor.fetchone()[0]) - intact
    if lost:
        connection.execute("BEGIN IMMEDIATE").close()
        for number, statement in enumerate(_MEND):
            given = () if number else (json.dumps(damaged),)
            connection.execute(statement.format(schema=schema), given).close()
        connection.execute("COMMIT").close()
    return lost
