"""By which rule a party's ids are written, and how many of the possible ids a peer may test."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from base.errors import ConsentError
from components.alignment import AlignParams
from components.contract import Context
from features.id_entropy import id_space
from features.spec import IdRule

SHARE = 10  # a party may test one in so many of the possible ids


def require_sparse(ctx: Context, params: AlignParams, tests: int, what: str, remedy: str) -> None:
    """Raise `ConsentError` when `tests` ids of a peer are more than a tenth of the possible ids; `what` tests them."""
    rule = id_rule(ctx, params)
    space = id_space(rule) if rule else None
    if space is not None and tests > space // SHARE:
        raise ConsentError(
            f"{what} would test a large part of all possible ids", expected=f"at most {space // SHARE}", found=tests,
            where=f"{ctx.party}, step {ctx.step}, column {params.id_column}", remedy=remedy,
        )  # fmt: skip


def id_rule(ctx: Context, params: AlignParams) -> IdRule | None:
    """Return the rule that the party's ids are written by, None where their table does not name its feature spec."""
    table: pa.Table = ctx.inputs["tables"][params.tables[ctx.party]]
    spec = (table.schema.metadata or {}).get(b"spec", b"").decode()
    return cast(IdRule, ctx.spec(spec).columns[params.id_column].normal_form) if spec else None
