"""By which rule a party's ids are written, and how many of the possible ids a peer may test."""

from __future__ import annotations

import pyarrow as pa

from base.errors import ConsentError
from components.alignment import AlignParams
from components.contract import Context
from features.id_entropy import id_space
from features.spec import Column

SHARE = 10  # a party may test one in so many of the possible ids


def require_sparse(ctx: Context, params: AlignParams, tests: int, what: str, remedy: str) -> None:
    """Raise `ConsentError` when `tests` ids of a peer are more than a tenth of the possible ids; `what` tests them."""
    space = id_space(require_column(ctx, params).normal_form)
    if space is not None and tests > space // SHARE:
        raise ConsentError(
            f"{what} would test a large part of all possible ids", expected=f"at most {space // SHARE}", found=tests,
            where=f"{ctx.party}, step {ctx.step}, column {params.id_column}", remedy=remedy,
        )  # fmt: skip


def require_column(ctx: Context, params: AlignParams) -> Column:
    """Return what the feature spec says about the ids; `ConsentError` where the table does not name its spec.

    Nobody could say how many such ids are possible, so how large a part of them a peer tests.
    """
    column = id_column(ctx, params)
    if column is None:
        raise ConsentError(
            "a table does not say how its ids are written", expected="a table of validate_tables",
            found="no feature spec", where=f"{ctx.party}, step {ctx.step}, column {params.id_column}",
            remedy=f"validate the table first, and name what comes of it in tables.{ctx.party}",
        )  # fmt: skip
    return column


def id_column(ctx: Context, params: AlignParams) -> Column | None:
    """Return what the feature spec says about the ids, None where the table does not name its spec."""
    table: pa.Table = ctx.inputs["tables"][params.tables[ctx.party]]
    spec = (table.schema.metadata or {}).get(b"spec", b"").decode()
    return ctx.spec(spec).columns[params.id_column] if spec else None
