"""The exchange on its own, as other alignments use it: a cardinality pass before their own protocol."""

import numpy as np
import pytest
from align_steps import align
from hypothesis import given
from hypothesis import strategies as st

from base.errors import Cancelled, ConsentError, CryptoError, DataError
from components import cardinality_pass
from components.alignment import AlignParams
from components.alignment_ids import own_ids
from components.alignment_sizes import SIZE_MESSAGES, exchange_sizes
from components.cardinality_pass import PASS_MESSAGES, be_counted, count_common
from components.contract import Component
from components.curve_buckets import by_bucket
from components.curve_exchange import Exchange
from crypto.curve import check_points, from_column

PEOPLE = [f"person {i:04d}" for i in range(300)]


def receiver(ctx, params):
    ids = own_ids(ctx, params)
    sizes = exchange_sizes(ctx, params, ids)
    exchanges = {s: Exchange(ctx, params, ids, (ctx.party, s), m) for s, m in sizes.items()}
    common = count_common(ctx, params, ids, exchanges)
    for exchange in exchanges.values():
        exchange.close()
    return {"common": common}


def sender(ctx, params):
    ids = own_ids(ctx, params)
    ((peer, theirs),) = exchange_sizes(ctx, params, ids).items()
    exchange = Exchange(ctx, params, ids, (peer, ctx.party), theirs)
    be_counted(ctx, params, ids, exchange)
    exchange.close()
    return {}


PASS = Component(
    name="count", roles={"receiver": receiver, "sender": sender}, params=AlignParams,
    messages=(*SIZE_MESSAGES, *PASS_MESSAGES),
)  # fmt: skip


def run(threads, ids, part=PASS, functions=None, name="run", **params):
    return align(
        threads, part, ids, params={"pad_to": 8, "cardinality_pass": True} | params, run=name, functions=functions
    )


def names(outcome, party):
    return [parcel.header.name for parcel in outcome.parcels[party]]


@pytest.mark.parametrize("buckets", [1, 4])
def test_a_pass_counts_with_each_sender(threads, monkeypatch, buckets):
    monkeypatch.setattr(cardinality_pass, "SMALLEST", 1)
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100], "shop": PEOPLE[50:70]}
    outcome = run(threads, ids, buckets=buckets)
    assert outcome.errors == {}
    assert outcome.outputs["bank"]["common"] == {"bureau": 40, "shop": 10}
    assert names(outcome, "bureau") == ["size", *["masked", "answer"] * buckets]
    assert names(outcome, "bank").count("passed") == 2


def test_one_sender_with_too_few_stops_all(threads):
    ids = {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100], "shop": PEOPLE[50:70]}
    outcome = run(threads, ids, min_overlap=11)
    assert isinstance(outcome.errors["bank"], DataError)
    assert "10" not in str(outcome.errors["bank"])
    assert {type(outcome.errors[p]) for p in ("bureau", "shop")} == {Cancelled}
    assert "passed" not in names(outcome, "bank")


def test_small_buckets_are_not_counted(threads):
    outcome = run(threads, {"bank": PEOPLE[:60], "bureau": PEOPLE[20:100]}, buckets=2)
    assert any("too small to be counted" in str(error) for error in outcome.errors.values())


def test_a_pass_counts_against_the_quota(threads, tmp_path):
    parties = type(threads)(tmp_path)
    ids = {"bank": PEOPLE[:8], "bureau": PEOPLE[:8]}
    assert run(parties, ids, max_tests=16, name="night-1").errors == {}
    assert run(parties, ids, max_tests=16, name="night-2").errors == {}
    outcome = run(parties, ids, max_tests=16, name="night-3")
    assert any(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert "answer" not in names(outcome, "bureau")


def exchange_of(ctx, params, theirs=8):
    pair = ("bank", "bureau")
    return Exchange(ctx, params, own_ids(ctx, params), pair, theirs)


def both(threads, bank, bureau=lambda ctx, params: {}, **params):
    """Run functions that need no peer, at the bank with eleven ids."""
    ids = {"bank": PEOPLE[:11], "bureau": PEOPLE[:1]}
    outcome = run(threads, ids, functions={"bank": bank, "bureau": bureau}, **params)
    assert outcome.errors == {}
    return outcome.outputs["bank"]["found"]


def test_padding_looks_like_ids(threads):
    """Points of the curve in the subgroup, all different, and nothing that tells which eleven are ids."""

    def bank(ctx, params):
        exchange = exchange_of(ctx, params)
        return {"found": [from_column(exchange.masked(0)["point"]).copy() for _ in range(2)]}

    first, second = both(threads, bank, pad_to=64)
    assert first.shape == (64, 32)
    check_points(first)
    np.testing.assert_array_equal(first, second)  # the same again: what is drawn anew would be padding


def test_places_lead_back_to_rows_and_padding_and_others_are_refused(threads):
    def bank(ctx, params):
        exchange, found = exchange_of(ctx, params), {}
        for place in range(-1, 2 * exchange.own + 1):
            try:
                found[place] = int(exchange.rows(np.array([place]))[0])
            except CryptoError:
                continue
        together = exchange.rows(np.array(list(found)))
        with pytest.raises(CryptoError, match="different places"):
            exchange.rows(np.array([next(iter(found))] * 2))
        return {"found": (found, together, exchange.rows(np.empty(0, np.int64)))}

    found, together, none = both(threads, bank, buckets=2)
    assert sorted(found.values()) == list(range(11))
    assert together.tolist() == list(found.values())
    assert len(none) == 0


def test_an_exchange_is_not_shown(threads):
    assert both(threads, lambda ctx, params: {"found": repr(exchange_of(ctx, params))}) == "<Exchange, not shown>"


def test_a_peer_s_buckets_above_the_limit_are_refused_before_its_tests_are_counted(tmp_path, threads):
    def bank(ctx, params):
        with pytest.raises(DataError, match="too large"):
            exchange_of(ctx, params, theirs=(1 << 18) + 1)
        return {"found": list((tmp_path / "bank").glob("tests.*"))}

    assert both(type(threads)(tmp_path), bank, max_tests=1 << 40) == []


def test_to_forget_many_buckets_takes_few_files(tmp_path, threads):
    """One name for each of 65,536 buckets took minutes."""
    forgotten = []

    def bank(ctx, params):
        exchange = exchange_of(ctx, params, theirs=8)
        forget, points = ctx.keys.forget, np.arange(8 * 32, dtype=np.uint8).reshape(8, 32)
        for b in (0, 255, 256, 65_535, 0):
            exchange._run.count(b, points)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(ctx.keys), "forget", lambda _, name: forgotten.append(name) or forget(name))
            exchange.close()
        return {"found": sorted(p.name for p in (tmp_path / "bank" / ".runs").rglob("*") if p.is_file())}

    assert both(type(threads)(tmp_path), bank, buckets=1 << 16, max_tests=1 << 40) == ["bound.step.bureau"]
    assert len(forgotten) == 257


def test_other_points_are_counted_by_bucket_and_again(tmp_path, threads):
    first, second = (np.full((8, 32), k, np.uint8) for k in (1, 2))

    def bank(ctx, params):
        exchange, spent = exchange_of(ctx, params), []
        for b, points in ((0, first), (0, first), (0, second), (1, first), (1, second), (0, second), (300, first)):
            exchange._run.count(b, points)
            spent.append(len(list((tmp_path / "bank").glob("tests.*"))))
        return {"found": spent}

    # Buckets as announced are paid when the exchange begins; then the same points of another bucket cost once more.
    assert both(type(threads)(tmp_path), bank, buckets=301, max_tests=1 << 40) == [1, 1, 2, 2, 3, 3, 3]


@given(places=st.lists(st.integers(0, 99)), size=st.integers(1, 30))
def test_places_by_bucket_are_a_partition(places, size):
    found = by_bucket(np.array(places, np.int64), size)
    assert [b for b, _ in found] == sorted({p // size for p in places})
    assert all(places[k] // size == b for b, here in found for k in here)
    assert sorted(k for _, here in found for k in here.tolist()) == list(range(len(places)))
