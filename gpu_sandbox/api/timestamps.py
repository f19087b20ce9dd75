"""When something was measured: UTC, to the second, in a form that sorts."""

from __future__ import annotations

import datetime


def utc_now() -> str:
    """As in 2026-11-21T14:03:00Z."""
    return utc_of(datetime.datetime.now(datetime.UTC).timestamp())


def utc_of(timestamp: float) -> str:
    """Of seconds since 1970."""
    moment = datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
