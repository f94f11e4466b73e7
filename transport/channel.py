"""A channel adds names, schemas, the message table, deadlines and the ledger to a carrier of bytes."""

from __future__ import annotations
