"""Push-sum over a network that loses, delays, repeats and reorders, as it draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.push_sum import Integers, Node, Parcel


class LossyNetwork:
    """Nodes that push halves in steps; shares and receipts get lost, and shares come late."""

    def __init__(self, nodes: Sequence[Node], loss: float, late: float, rng: np.random.Generator) -> None:
        """`loss`: chance of a share, and of a receipt, to get lost; `late`: of a share, to arrive in a later step."""
        self.nodes, self._loss, self._late, self._rng = nodes, loss, late, rng
        self._under_way: list[Parcel] = []

    def step(self) -> None:
        """Every node pushes a half to a neighbour and sends again what it has no receipt for; then shares arrive."""
        for node in self.nodes:
            others = [other.name for other in self.nodes if other.name != node.name]
            node.push([others[self._rng.integers(len(others))]])
            self._under_way += node.unconfirmed.values()
        arriving, self._under_way = self._under_way, []
        for i in self._rng.permutation(len(arriving)):
            self._arrive(arriving[i])

    def _arrive(self, parcel: Parcel) -> None:
        if self._rng.random() < self._late:
            self._under_way.append(parcel)
        elif self._rng.random() >= self._loss:
            receipt = self.nodes[parcel.receiver].take(parcel)
            if self._rng.random() >= self._loss:
                self.nodes[parcel.sender].confirm(receipt)

    def mass(self) -> tuple[Integers, int]:
        """Return (Σs, Σw): what nodes hold, and what is under way and its receiver has not counted."""
        pushed = (parcel for node in self.nodes for parcel in node.unconfirmed.values())
        holders: list[Node | Parcel] = [*self.nodes]
        holders += [parcel for parcel in pushed if not self.nodes[parcel.receiver].has_taken(parcel.key)]
        return np.sum([one.s for one in holders], axis=0), sum(one.w for one in holders)

    def worst(self) -> float:
        """Return how far the node that is farthest off is from the average, in parts of the largest value."""
        s, w = self.mass()
        found = max(float(np.abs(node.s / max(node.w, 1) - s / w).max()) for node in self.nodes)
        return found / float(np.abs(s / w).max())
