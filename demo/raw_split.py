"""Raw files of the demo, cleaned and split as the federated run does it: for the arms that only the harness may train.

The rules of the feature specs clean the files and the pipelines' own split components draw from the streams of the run
seed, so every arm is tested on the rows that the federated run is tested on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from components.contract import Component, Context, require
from features.indexing import alignment_table, ids_digest, positions, sorted_ids
from features.rules import REASON, ROW, judge
from features.spec import FeatureSpec, load_all
from pipelines.spec import PipelineSpec
from runtime.execute import parse_params
from runtime.randomness import Randomness

Tables = Mapping[str, pa.Table]
SPECS = {
    "ratings": "interaction", "half_ratings": "interaction", "behaviour": "interaction", "catalogue": "item",
    "people": "user",
}  # fmt: skip


@dataclass
class HarnessContext:
    """What a component that sends nothing needs of a context."""

    spec: PipelineSpec
    step: str
    seed: int
    secret: bytes = b""  # of the party whose private choices are drawn again
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def shared_rng(self, name: str) -> np.random.Generator:
        """Return the public stream of the step."""
        return self._streams.shared(name)

    def private_rng(self, name: str) -> np.random.Generator:
        """Return the party's private stream of the step."""
        return self._streams.private(name)

    def metric(self, name: str, value: float, round_number: int | None = None) -> None:
        """Nobody listens."""

    def require(self, condition: bool, what: str, *, expected: object, found: object, remedy: str = "") -> None:
        """Raise `DataError` unless the condition holds."""
        require(condition, what, expected=expected, found=found, where=f"harness, step {self.step}", remedy=remedy)

    def run(self, part: Component, role: str) -> Mapping[str, Any]:
        """Return the outputs of the step."""
        params = parse_params(part, self.spec.steps[self.step].params, f"step {self.step}")
        return part.roles[role](cast(Context, self), params)

    @property
    def _streams(self) -> Randomness:
        return Randomness(self.seed, f"{self.spec.pipeline}/{self.step}", self.secret)


def clean_tables(party: Path, names: tuple[str, ...]) -> dict[str, pa.Table]:
    """Return a party's raw files by the rules of their specs: what breaks one is gone, of a key the first row stays."""
    specs = load_all(party / "feature_specs")
    return {name: _clean(party / "data" / f"{name}.csv", specs[SPECS[name]]) for name in names}


def alignment(step: HarnessContext, mine: pa.Table, theirs: pa.Table) -> pa.Table:
    """Return what the receiver of `align_rsa` ends with: rows in common, in the order that its private stream draws."""
    own = sorted_ids(mine["user_id"])
    common = np.flatnonzero(positions(pa.chunked_array([own]), sorted_ids(theirs["user_id"])) >= 0)
    rows = step.private_rng("alignment").permutation(np.stack([common, common], axis=1))[:, 0]
    return alignment_table(rows, ids_digest(own))


def _clean(file: Path, spec: FeatureSpec) -> pa.Table:
    text = pa.csv.ConvertOptions(column_types=dict.fromkeys(spec.columns, pa.string()), strings_can_be_null=False)
    raw = pa.csv.read_csv(file, convert_options=text).select(list(spec.columns)).combine_chunks()
    raw = raw.append_column(ROW, pa.array(range(len(raw)), pa.int64()))
    judged = pa.Table.from_batches([judge(batch, spec) for batch in raw.to_batches()])
    good = judged.filter(pc.is_null(judged[REASON]))
    first = good.group_by(list(spec.key)).aggregate([(ROW, "min")])[f"{ROW}_min"]
    return good.filter(pc.is_in(good[ROW], value_set=first.combine_chunks())).select(list(spec.columns))
