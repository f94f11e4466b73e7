"""The shared side of a model and how a round moves it: by Σ_j a_j·ΔV_j of item rows and Σ_j b_j·Δθ_j of layers.

a_j = w_j/W·s_j/s and b_j = n_j/N·s_j/s, where s_j is the part of its local steps that a party took and s their mean,
both public. No divisor of a single row travels: with s_j ≠ s_k it would tell how W is made up.

Values travel as integers of few bits. Their scale is a power of two that follows the largest step of the round before,
which everybody knows; what does not fit is clipped and counted. Integers of fewer than 12 bits are rounded at random so
that the mean stays: a small change would else never arrive.

    V  item rows (I, c)    θ  layers (D,)    W = Σ_j w_j (I,)    N = Σ_j n_j
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from components.contract import Arrays
from models.row_average import exponent_for, portions, to_fixed

FIRST_STEP = 0.5  # what a first round is expected to move at most, in units of the model
COARSE = 1 << 11  # up to this limit values are rounded at random
STALENESS = 0.5  # α: a change that is d rounds late counts (1 + d)^−α (Xie et al. 2019, FedAsync, eq. 4)
KEPT = 0.5  # of a party's own change to a row that waits for its turn: parties would drift apart, or learn too slowly


@dataclass
class Shared:
    """What all parties have in common."""

    V: np.ndarray  # (I, c)
    θ: np.ndarray  # (D,), D may be 0


@dataclass
class RoundAverage:
    """The shared side after round t, at one party."""

    shared: Shared
    W: np.ndarray  # (I,)
    w: np.ndarray  # the party's own (I,)
    n: int  # training rows of the party
    N: int
    counts: Arrays = field(default_factory=dict)  # of the first sum
    t: int = 0
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # averaged in round t
    largest: np.ndarray = field(default_factory=lambda: np.full(2, FIRST_STEP))  # step of V and of θ in round t
    saturated: int = 0  # values clipped in round t
    late: Shared | None = None  # the party's own a·ΔV and b·Δθ that came too late for their sum
    delay: int = 0  # rounds since the first of them
    schedule: Arrays = field(default_factory=dict)  # levels of the rounds, where they followed the clock
    limit: int = 0  # largest |q| of a value on its way in round t
    _sent: tuple[np.ndarray, np.ndarray] | None = None

    def resumed(self, now: Shared) -> Shared:
        """Return what a party goes on from: the rows averaged last, and half of what it has learned of the others."""
        V = self.shared.V + KEPT * (now.V - self.shared.V)
        V[self.rows] = self.shared.V[self.rows]
        return Shared(V, self.shared.θ)

    def own(self, now: Shared, rows: np.ndarray, steps: float, limit: int, rng: np.random.Generator) -> np.ndarray:
        """Return what the party adds to the sum of a round over `rows`, int64 within ±limit; `steps` is s_j/s."""
        self.limit = limit
        self.rows, a, b = rows, portions(self.w[rows], self.W[rows]) * steps, self.n / max(self.N, 1) * steps
        self._sent = a[:, None] * (now.V[rows] - self.shared.V[rows]), b * (now.θ - self.shared.θ)
        numerators, weight = self._sent, (1.0 + self.delay) ** -STALENESS
        if self.late is not None:
            numerators = numerators[0] + weight * self.late.V[rows], numerators[1] + weight * self.late.θ
        coarse = rng if self.limit <= COARSE else None
        found = [to_fixed(x.ravel(), e, self.limit, coarse) for x, e in zip(numerators, self._exponents(), strict=True)]
        self.saturated = sum(clipped for _, clipped in found)
        return np.concatenate([q for q, _ in found])

    def take(self, total: np.ndarray, t: int) -> None:
        """Move V and θ by a total over the parties, in the same way everywhere."""
        V, θ, (to_V, to_θ) = self.shared.V[self.rows], self.shared.θ, self._exponents()
        v, layers = np.split(total.astype(np.float64), [V.size])
        moved, layers = V + np.ldexp(v, -to_V).reshape(V.shape), θ + np.ldexp(layers, -to_θ)
        steps = np.array([np.abs(moved - V).max(initial=0), np.abs(layers - θ).max(initial=0)])
        self.largest = np.where(steps > 0, steps, self.largest)
        self.shared.V[self.rows], self.shared.θ, self.t = moved, layers, t

    def settle(self, contributed: bool) -> None:
        """Keep the own change of this round for the next contribution if it came too late, else forget late ones."""
        assert self._sent is not None
        if not contributed:
            late = self.late or Shared(np.zeros_like(self.shared.V), np.zeros_like(self.shared.θ))
            late.V[self.rows] += self._sent[0]
            self.late, self.delay = Shared(late.V, late.θ + self._sent[1]), self.delay + 1
        elif self.late is not None:  # rows that were not in this round go on waiting
            self.late.V[self.rows], self.late.θ[:] = 0, 0
            self.late, self.delay = (self.late, self.delay + 1) if self.late.V.any() else (None, 0)

    def to_arrays(self) -> Arrays:
        """Return what a checkpoint holds."""
        late = {} if self.late is None else {"late": self.late.V, "late_layers": self.late.θ}
        return {
            "V": self.shared.V, "layers": self.shared.θ, "rows": self.rows, "largest": self.largest,
            "round": np.array([self.t, self.delay]), **late,
        }  # fmt: skip

    def restore(self, arrays: Arrays) -> None:
        """Take back what `to_arrays` gave."""
        self.shared = Shared(arrays["V"], arrays["layers"])
        self.rows, self.largest, (self.t, self.delay) = arrays["rows"], arrays["largest"], arrays["round"].tolist()
        self.late = Shared(arrays["late"], arrays["late_layers"]) if "late" in arrays else None

    def _exponents(self) -> tuple[int, int]:
        to_V, to_θ = (exponent_for(x, self.limit) for x in self.largest)
        return to_V, to_θ
