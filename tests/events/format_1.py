"""A log of the first format, as an engine of that time would have begun it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from events.connect import APPLICATION_ID, PAGE_BYTES, schema_sql, views_sql

__all__ = ["begin_format_1"]


def begin_format_1(path: Path) -> None:
    """Make the file. Whoever opens it goes on in its format."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA page_size={PAGE_BYTES}; BEGIN; {schema_sql(1)}{views_sql()}"
            f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=1; COMMIT;"
        )
