"""When training ends: by the loss on all parties' held-out rows, summed in the vector of the round that follows.

Prechelt (1998), "Early Stopping - But When?": the best model so far is kept, and `patience` rounds without a better one
end the training. The loss of each round speaks about the held-out rows of all parties together, at least `min_count` of
each: one more release. Its digits are added one by one, so sums of extreme digits show a party's own digit. The model
after the very last round is judged by nobody; it is taken when the one before it was the best so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from components.contract import Arrays
from models.row_average import from_digits, to_digits

BITS = 44  # of a loss on its way
UNITS = 100  # a loss travels in hundredths


@dataclass
class HeldOut:
    """The losses so far, and the best model; `on` is the step's `early_stopping`."""

    on: bool
    base: int  # digits of one party's number are below it
    rows: int  # held-out rows of all parties
    best: dict[str, np.ndarray] = field(default_factory=dict)  # of the party, at the least loss
    least: float = np.inf
    waited: int = 0  # rounds since the least loss
    _judged: dict[str, np.ndarray] = field(default_factory=dict)

    def own(self, loss: Callable[[], float], arrays: Callable[[], Arrays]) -> np.ndarray:
        """Return the own loss as digits, of the model that a round starts from, whose `arrays` are kept meanwhile."""
        if not self.on:
            return np.empty(0, np.int64)
        self._judged = {name: np.array(array) for name, array in arrays().items()}
        return to_digits(round(UNITS * loss()), self.base, -(-BITS // (self.base.bit_length() - 1)))

    def take(self, total: np.ndarray) -> dict[str, float]:
        """Compare the loss per row of all parties with the least so far; return it as a metric."""
        if not self.on:
            return {}
        loss = from_digits(total, self.base) / UNITS / max(self.rows, 1)
        self.waited = 0 if loss < self.least else self.waited + 1
        if loss < self.least:
            self.least, self.best = loss, self._judged
        return {"held_out_loss": loss}

    def to_arrays(self) -> Arrays:
        """Return what a checkpoint holds."""
        return {**self.best, "least": np.array(self.least), "waited": np.array(self.waited)} if self.on else {}

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""
        if not self.on:
            return
        self.best = {name: array for name, array in arrays.items() if name not in ("least", "waited")}
        self.least, self.waited = float(arrays["least"]), int(arrays["waited"])
