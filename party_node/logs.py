"""Structured logs: one JSON object a line, names and counts, never a value of the data.

Events of Accord are logged as they are. A library's own message may hold anything, so only its level, logger and place
are kept: its text is not.
"""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

import structlog

_OURS = ("party_node", "transport", "monitoring", "runtime", "accord")
_MAX_BYTES, _KEPT = 10 * 2**20, 5


class _Foreign(logging.Handler):
    """Reports that a library logged something, without what."""

    def emit(self, record: logging.LogRecord) -> None:
        event = record.getMessage() if record.name.split(".")[0] in _OURS else "a library logged a warning"
        where = f"{record.module}:{record.lineno}"
        structlog.get_logger().log(record.levelno, event, logger=record.name, at=where)


def configure(path: Path, party: str) -> None:
    """Send the logs of this process to `path`, turned over at 10 MiB; `party` stands in every line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=_MAX_BYTES, backupCount=_KEPT)
    handler.setFormatter(logging.Formatter("%(message)s"))
    lines = logging.getLogger("accord.lines")
    lines.handlers, lines.propagate = [handler], False
    lines.setLevel(logging.INFO)
    structlog.configure(
        processors=[
            lambda logger, method, event: {"party": party, **event},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_Foreign(level=logging.WARNING)]
