"""`horizontal_mf` with its sums in the clear: what a round costs without protection. For measuring, on generated data.

The aggregator reads every party's w·ΔV. The component is in no catalogue, so no YAML can name it, no accord can allow
it and no node can run it; the benchmark hands it to threads of its own process.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from components import horizontal_mf
from components.contract import Component, Context, Outputs
from components.horizontal_mf import HorizontalMfParams
from crypto.packing import Lanes
from transport.message import Message, Protection, WireSchema

VALUES = WireSchema("values", {"q": pa.int16()})
MESSAGES = (
    Message("part", "data_holder", "aggregator", VALUES, Protection.PUBLIC, "EVERYTHING: a party's update, readable"),
    Message("total", "aggregator", "data_holder", VALUES, Protection.PUBLIC, "the sums that protection would show too"),
)


def data_holder(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Train with sums in the clear."""

    def total(values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str) -> np.ndarray:
        ctx.send("part", _table(lanes.quantise(values, name)))
        return np.asarray(np.ldexp(ctx.recv("total")["q"].to_numpy().astype(np.float64), -lanes.fraction))

    return horizontal_mf.train(ctx, params, horizontal_mf.load(ctx, params), total)


def aggregator(ctx: Context, params: HorizontalMfParams) -> Outputs:
    """Add what it reads."""
    for _ in range(params.rounds):
        parts = [ctx.recv("part", from_=party)["q"].to_numpy() for party in ctx.parties("data_holder")]
        ctx.send("total", _table(np.sum(parts, axis=0)))
    return {}


def _table(q: np.ndarray) -> pa.Table:
    return pa.table({"q": q.astype(np.int16)})


COMPONENT = Component(
    name="horizontal_mf_plain",
    roles={"data_holder": data_holder, "aggregator": aggregator},
    params=HorizontalMfParams,
    messages=MESSAGES,
    inputs=horizontal_mf.COMPONENT.inputs,
    outputs=horizontal_mf.COMPONENT.outputs,
    min_parties=horizontal_mf.COMPONENT.min_parties,
    adversary="None: whoever adds reads everything. For measuring, on data that nobody minds.",
)
