"""The name that a person may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a remedy that says the known name nearest to `word`, or None when none is near."""
    match = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean '{match[0]}'?" if match else None
