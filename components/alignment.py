"""What every alignment has in common: whose ids, in which buckets, who learns what, and the report.

One receiver and one or more senders (a star): the receiver aligns with each sender, so it learns every pairwise
intersection; what is common to ALL becomes the alignment. Each sender that may learn it (`reveal_to`) is sent the
positions of its own people in one order that the receiver draws.

Ids are put into buckets by a hash that all parties share, and every bucket is padded to one size that follows from the
padded number of ids: so no bucket, and no empty one, says anything about an id. A bucket is what is in memory at a
time, and where a further attempt goes on.

    ids   distinct, sorted; `row` = position among them      N   their number, padded to a multiple of `pad_to`
    B     buckets, the same at all parties (a parameter)     cap  points in each bucket: N/B and room for chance
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from annotated_types import Ge, Le

from components.contract import Context, Params
from components.declared import ByParty, TableName, column_of, held_by

INPUTS = {"tables": "validated tables, ids in normal form", "report": "validate_tables' report: counts by rule"}
OUTPUTS = {
    "alignment": "row of the party's own sorted distinct ids, aligned index, first row of the table that holds it",
    "report": "counts of the party's own ids: read, null, invalid, duplicate, distinct, aligned",
}


class AlignParams(Params):
    """Whose column is aligned, and what comes of it; all alignments take these."""

    model_config = held_by("alignment", named_by="reveal_to", unless="cardinality_only")  # as `learners` says

    tables: Annotated[Mapping[str, TableName], ByParty]  # party -> table that holds its ids
    id_column: Annotated[str, column_of("tables", "id")]  # text, normal form, no nulls
    on_duplicates: Literal["refuse", "first", "all"] = "refuse"  # an id in several rows: stop, take the first, keep all
    reveal_to: tuple[str, ...] = ()  # parties that get the alignment; none named = all that take part
    cardinality_only: bool = False  # end with the number in common: who is what only a deviating receiver learns
    min_overlap: Annotated[int, Ge(1)] = 100  # people in common; with fewer the step stops and no sender learns anyone
    cardinality_pass: bool = False  # count first: below min_overlap an honest receiver does not learn who either
    max_tests: Annotated[int, Ge(1)] = 100_000  # a peer's ids over the accord's life, padding included, all alignments
    pad_to: Annotated[int, Ge(1)] = 1024  # sizes are padded to a multiple of it
    buckets: Annotated[int, Ge(1), Le(1 << 16)] = 1  # B
    spark_above: Annotated[int, Ge(1)] = 20_000_000  # own ids; from there on Spark partitions and computes

    @property
    def counts(self) -> bool:
        """Tell whether answers are permuted: the number in common comes before anybody sees who, or instead of it."""
        return self.cardinality_pass or self.cardinality_only

    def learners(self, ctx: Context) -> tuple[str, ...]:
        """Return the parties that end with the alignment; `DataError` for parameters that do not fit the parties."""
        receivers, senders = ctx.parties("receiver"), ctx.parties("sender")
        ctx.require(len(receivers) == 1, "an alignment has one receiver", expected="one", found=len(receivers),
                    remedy="one party in the role receiver; the others are senders")  # fmt: skip
        ctx.require(
            not self.cardinality_only or len(senders) == 1, "the number in common is counted with one sender alone",
            expected="one sender", found=len(senders), remedy="a step for each sender, or cardinality_only: false",
        )  # fmt: skip
        taking_part = (*receivers, *senders)
        unknown = set(self.reveal_to) - set(taking_part)
        ctx.require(not unknown, "reveal_to names a party that does not take part", expected=", ".join(taking_part),
                    found=", ".join(sorted(unknown)))  # fmt: skip
        return () if self.cardinality_only else self.reveal_to or taking_part
