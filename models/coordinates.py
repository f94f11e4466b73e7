"""Which item rows a round is about: the same at every party, so no index travels and lanes line up under masks.

Shared coordinates in turn: the shared rows stand in one public order, drawn once for a run, and every round takes the
next m of them, from the start again at the end. Each party's own largest changes (top-k, Lin et al. 2018, "Deep
Gradient Compression") would tell the others which rows moved at whom.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def rows_in_turn(order: Rows, share: float, t: int) -> Rows:
    """Return the rows of round t = 1, 2, ... in ascending order, ⌈share·n⌉ of the n in `order`; 0 < share <= 1."""
    m = int(np.ceil(share * len(order)))
    return np.sort(np.take(order, np.arange((t - 1) * m, t * m), mode="wrap"))
