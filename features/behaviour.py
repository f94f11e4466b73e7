"""What people did, as shares: a Spark job that grows with the rows of behaviour and returns one row a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own pages use)

from features.indexing import positions

_ROWS = "_rows"


def flag_shares(
    spark: Any, behaviour: pa.Table, catalogue: pa.Table, flags: Sequence[str], people: pa.Array
) -> npt.NDArray[np.float64]:
    """Return (m, flags): the share of a person's rows whose item has the flag; zeros for people without rows.

    `people` (m,) are user ids. Sums are whole numbers, so the order in which Spark adds them changes nothing.
    """
    rows = spark.createDataFrame(behaviour.select(["user_id", "item_id"]))
    items = spark.createDataFrame(catalogue.select(["item_id", *flags]))
    sums = [F.sum(flag).cast("bigint").alias(flag) for flag in flags]
    per_person = rows.join(F.broadcast(items), "item_id").groupBy("user_id").agg(F.count("*").alias(_ROWS), *sums)
    found = per_person.toArrow()
    where = positions(found["user_id"], people)
    known = where >= 0
    shares = np.zeros((len(people), len(flags)))
    counts = np.column_stack([found[flag].to_numpy() for flag in flags])[known]
    shares[where[known]] = counts / found[_ROWS].to_numpy()[known][:, None]
    return shares
