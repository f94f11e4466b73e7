"""What may leave a bank in statistics that are summed: not of few people, and once in an epoch of the accord.

Sums of co-occurrences speak about people: a Gram matrix with rare items is peeled into whole histories, and the
difference of two nights' sums is what the people between them did. So each bank, BEFORE the sum, leaves out items with
fewer than `min_raters` own people and pairs with fewer than `min_pairs`; and a bank's key store remembers over what the
statistics of an epoch went out. Within an epoch the same statistics may go out again (a run that is repeated), over the
same roster, thresholds and seed; anything else is refused until the parties sign the next epoch. One accord of a party
lets out statistics over a catalogue: with two, each would have epochs of its own.

The words for a report: thresholded; not differentially private; all banks but one together learn the last one's
thresholded statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from base.canonical import digest, digest_bytes
from base.errors import ConsentError
from components.contract import Context
from components.declared import Label
from components.private_sum import Dp
from components.secure_sum import SumParams
from components.split_tables import catalogue_digest, histories
from models.histories import Histories
from models.symmetric import Floats
from models.thresholds import enough_raters

NOT_PROTECTED = (
    "Not protected: what the totals say, thresholded and not differentially private; totals leave once in an epoch of "
    "the accord. With dp (ease, slist): nothing thresholded, noise for one person at one party, as the budget allows."
)
Statistics = tuple[Floats, ...]  # matrices (I, I)


class ReleaseParams(SumParams):
    """What leaves in sums."""

    min_raters: Annotated[int, Ge(1)] = 10  # own people behind an item, or the bank leaves it out
    epoch: Label = ""  # the accord's: statistics leave once in it
    complete: bool = True  # the bank's own copy knows what the bank itself left out: better for its people


class PairParams(ReleaseParams):
    """What leaves in sums over pairs of items."""

    min_pairs: Annotated[int, Ge(1)] = 3  # own people behind a pair of items, or the bank leaves it out
    dp: Dp = None  # noise on one release, paid by a budget: then no epoch, and what is left out is chosen after the sum


@dataclass(frozen=True)
class Own:
    """What a bank brings."""

    histories: Histories  # all training rows
    kept: Histories  # those that statistics may be about
    catalogue: str  # digest of the sorted item ids

    def bound(self, *more: str) -> bytes:
        """Return what a sum is bound to: the catalogue, and what else a round depends on."""
        return bytes.fromhex(digest([self.catalogue, *more]))


def release(ctx: Context, params: ReleaseParams, component: str, *more: str) -> Own:
    """Return the own histories; `ConsentError` when this epoch's statistics went out over something else.

    `more`: what the component's statistics depend on besides the histories and the parameters. Call it when the sum is
    open (`open_total`), so that an attempt that meets nobody uses up no epoch.
    """
    tables = ctx.inputs["ratings"]
    h = histories(tables)
    if isinstance(params, PairParams) and params.dp is not None:  # by a budget, whatever the epoch (`private_items`)
        return Own(h, h, catalogue_digest(tables))
    own = Own(h, enough_raters(h, params.min_raters), catalogue_digest(tables))
    _one_accord(ctx, own.catalogue)
    data = [digest_bytes(np.ascontiguousarray(column).tobytes()) for column in (h.user, h.item)]
    _once(ctx, params.epoch, "data", [own.catalogue, *data, *ctx.parties("data_holder"), params.min_raters])
    if isinstance(params, PairParams):
        # One threshold for all that sum pairs: with two, the difference shows the pairs between them.
        _once(ctx, params.epoch, "pairs", [params.min_pairs])
    _once(ctx, params.epoch, component, [*params.model_dump(mode="json").items(), *more])
    return own


def as_arrays(h: Histories) -> dict[str, np.ndarray]:
    """Return the party's own histories as its part of a model keeps them, to score its people: items, oldest first."""
    return {"history": h.item, "start": h.start}


def _one_accord(ctx: Context, catalogue: str) -> None:
    """Refuse a second accord over one catalogue: its epochs would let out what this one's hold back.

    Another catalogue, be it by one item, counts as another: whoever signs the second accord has to see that.
    """
    token = ctx.keys.keep("release.accord", lambda: ctx.secret_bytes(16))
    if ctx.keys.keep(f"party/release.{catalogue}", lambda: token) != token:
        raise ConsentError(
            "another accord of this party lets out statistics over this catalogue", expected="one accord for them",
            found="a second one", where=f"{ctx.party}, step {ctx.step}",
            remedy="release under that accord; when it has ended, the operator removes its record (runbook, epochs)",
        )  # fmt: skip


def _once(ctx: Context, epoch: str, what: str, record: list[object]) -> None:
    """Keep what went out, as a salted digest, or compare it with what is kept."""
    salt = ctx.keys.keep("release.salt", lambda: ctx.secret_bytes(16))
    salted = bytes.fromhex(digest([salt.hex(), *map(str, record)]))
    if ctx.keys.keep(f"release.{epoch or 'first'}.{what}", lambda: salted) != salted:
        raise ConsentError(
            "statistics of this epoch left the house over something else", expected="the same people, thresholds and "
            "parameters until the next epoch", found="a change", where=f"{ctx.party}, step {ctx.step}",
            remedy="a difference of two releases is somebody's history: agree on a new epoch in the accord",
        )  # fmt: skip
