"""What an aggregator of ciphertexts does to a sum (`components.paillier_sum`), through channels and doors.

More of this kind, each against what it needs weakened: `tests/attacks/test_sums.py`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from base.errors import AccordError
from bench.attacks_crossing import ROLES
from bench.attacks_data import ADVERSARY, FOREIGN, Found
from bench.parties import run_step
from bench.sets import BANKS
from components import paillier_sum
from components.contract import Component, Context, Outputs, Params
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, total

LANES, BITS, SIZE = Lanes(16, 4, len(BANKS)), 2048, 130  # two ciphertexts
VICTIM = FOREIGN[-1]


def holder(ctx: Context, params: Params) -> Outputs:
    """Sum once."""
    return {"sum": paillier_sum.Summer(ctx, BITS).total(ctx.inputs["v"], LANES, 0, b"model")}


def forger(ctx: Context, params: Params) -> Outputs:
    """Pass three times the victim's part off as the total: its weight is that of three parts."""
    key = PublicKey.from_bytes(ctx.recv("public_key", from_=ADVERSARY)["key"][0].as_py())
    parts = {bank: CiphertextVector.from_table(ctx.recv("part", from_=bank), key) for bank in BANKS}
    consents = [ctx.recv("consent", from_=bank) for bank in BANKS]
    ctx.send("total", total([parts[VICTIM]] * len(BANKS)).to_table())
    ctx.send("consents", pa.concat_tables(consents))
    return {}


PART = Component("sums", {"data_holder": holder, "aggregator": forger}, Params, paillier_sum.sum_messages("the sum"))


def _unchecked(rows: np.ndarray, checks: np.ndarray, size: int) -> np.ndarray:
    """Weakened: nobody looks at the check lanes."""
    return rows[:, : rows.shape[1] - checks.shape[1] * checks.shape[2]].ravel()[:size]


def lone_contributor(seed: int) -> Found:
    """Share of a party's values that another reads from a total that is that party's part alone."""
    rng = np.random.default_rng(seed)
    inputs: dict[str, dict[str, Any]] = {bank: {"v": rng.integers(-99, 99, SIZE) / 16} for bank in BANKS}

    def read() -> float:
        try:
            found = run_step(PART, ROLES, inputs, {}).outputs[ADVERSARY]["sum"]
        except AccordError:
            return 0.0
        return float(np.mean(np.asarray(found) / len(BANKS) == inputs[VICTIM]["v"]))

    with ExitStack() as stack:
        stack.enter_context(patch.object(paillier_sum, "_checked", _unchecked))
        weakened = read()
    return Found(weakened, read(), 0.0)
