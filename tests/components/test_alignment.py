"""What every alignment has in common."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import CryptoError, DataError
from components import alignment_ids, alignment_matches
from components.alignment import AlignParams
from components.alignment_ids import capacity, own_ids
from components.alignment_matches import common_to_all, receive_matched, send_matched
from components.alignment_report import finish
from components.alignment_sizes import exchange_sizes
from components.contract import require
from features.indexing import aligned_ids

TEXTS = st.lists(st.text(max_size=3), max_size=40)


class Party:
    """As much of a context as the shared part of an alignment needs."""

    def __init__(self, column=(), *, party="bank", senders=("bureau",), report=None):
        chunks = pa.chunked_array([pa.array(part, pa.string()) for part in (column[:2], column[2:])], pa.string())
        self.inputs = {"tables": {"t": pa.table({"id": chunks})}} | ({"report": report} if report else {})
        self.party, self.run, self.step, self.attempt, self.metrics = party, "run", "step", 1, {}
        self.role = "receiver" if party == "bank" else "sender"
        self._parties = {"receiver": ("bank",), "sender": senders}
        self.keys, self.messages = self, []

    def parties(self, role):
        return self._parties[role]

    def require(self, condition, what, **more):
        require(condition, what, where=self.party, **more)

    def metric(self, name, value):
        self.metrics[name] = value

    # An envelope that shows nothing but its context, and a channel to itself.
    def wrap(self, party, secret, context):
        return context + b"|" + secret

    def unwrap(self, party, sealed, context):
        if not sealed.startswith(context + b"|"):
            raise CryptoError("a sealed secret does not open")
        return sealed[len(context) + 1 :]

    def send(self, name, table, to):
        self.messages.append(table)

    def recv(self, name, from_):
        return self.messages.pop(0)


def params(**more):
    return AlignParams(tables={"bank": "t", "bureau": "t"}, id_column="id", pad_to=4, **more)


# Own ids.


@settings(deadline=None)
@given(column=TEXTS, buckets=st.integers(1, 5))
def test_ids_are_distinct_and_sorted_and_each_is_in_one_bucket(column, buckets):
    ctx = Party(column)
    ids = own_ids(ctx, params(on_duplicates="all", buckets=buckets))
    values, counts = ids.values.to_pylist(), Counter(column)
    assert values == sorted(counts)
    assert ids.first.tolist() == [column.index(i) for i in values]
    assert ids.count.tolist() == [counts[i] for i in values]
    assert ids.padded % 4 == 0
    assert max(len(values), 1) <= ids.padded < len(values) + 4 + (not values)
    assert sorted(row for b in range(buckets) for row in ids.bucket(b)) == list(range(len(values)))


def test_a_bucket_is_the_same_at_every_party_and_another_in_every_run():
    everyone = [f"person {i}" for i in range(300)]

    def buckets(ctx):
        ids = own_ids(ctx, params(buckets=5))
        return {ids.values[int(row)].as_py(): b for b in range(5) for row in ids.bucket(b)}

    bank, bureau, later = Party(everyone), Party(everyone[100:], party="bureau"), Party(everyone)
    later.run = "night-2"
    first, second = buckets(bank), buckets(later)
    assert first.items() >= buckets(bureau).items()
    assert 180 < sum(first[i] != second[i] for i in everyone) < 290  # 240 of 300 by chance


def test_nulls_and_duplicates_are_refused_and_their_number_stays_here():
    """A peer reads the error."""
    for column, name in ((["jane", *[None] * 37], "null"), (["jane", "joe"] * 37, "duplicate")):
        ctx = Party(column)
        with pytest.raises(DataError, match=r"null|more than one row") as refused:
            own_ids(ctx, params())
        assert "jane" not in str(refused.value)
        assert not any(c.isdigit() for c in str(refused.value))
        assert ctx.metrics == {name: 37 if name == "null" else 2}
    with pytest.raises(DataError, match="no table to align"):
        own_ids(Party(["7"], party="shop"), params())


def test_buckets_hold_what_chance_puts_there_and_no_more_than_memory_allows(monkeypatch):
    rng = np.random.default_rng(0)
    for padded, buckets in ((1000, 1), (1000, 7), (100_000, 400), (64, 64)):
        fullest = max(np.bincount(rng.integers(buckets, size=padded)).max() for _ in range(200))
        assert (
            fullest <= capacity(padded, buckets) <= padded / buckets + 8 * math.sqrt(padded / buckets) + 9
            or buckets == 1
        )
    assert capacity(1000, 1) == 1000
    with pytest.raises(DataError, match="too large") as refused:
        own_ids(Party([str(i) for i in range(300_000)]), params())
    assert "buckets: 3 or more" in str(refused.value)
    monkeypatch.setattr(alignment_ids, "capacity", lambda padded, buckets: 5)
    with pytest.raises(DataError, match="fuller than chance"):
        own_ids(Party([str(i) for i in range(40)]), params(buckets=4))


@pytest.mark.parametrize(
    ("wrong", "expected", "found"),
    [
        ({"tables": {"bank": "people"}}, "t", "people"),
        ({"id_column": "nr"}, "id", "nr"),
        ({"tables": {}}, "bank", "none"),
    ],
)
def test_a_wrong_name_is_named(wrong, expected, found):
    how = params().model_copy(update=wrong)
    with pytest.raises(DataError) as refused:
        own_ids(Party(["7"]), how)
    assert expected in refused.value.expected
    assert (refused.value.found, refused.value.where) == (found, "bank")
    assert refused.value.remedy


def test_a_column_of_numbers_is_no_column_of_ids():
    ctx = Party()
    ctx.inputs = {"tables": {"t": pa.table({"id": [1, 2]})}}
    with pytest.raises(DataError, match="no text") as refused:
        own_ids(ctx, params())
    assert refused.value.remedy


# Who learns.


def test_all_learn_unless_some_are_named_or_nobody_may():
    ctx = Party(senders=("bureau", "shop"))
    assert params().learners(ctx) == ("bank", "bureau", "shop")
    assert params(reveal_to=("shop",)).learners(ctx) == ("shop",)
    assert params(cardinality_only=True, reveal_to=("bank",)).learners(Party()) == ()
    with pytest.raises(DataError, match="does not take part"):
        params(reveal_to=("shop",)).learners(Party())
    with pytest.raises(DataError, match="one sender alone"):
        params(cardinality_only=True).learners(ctx)
    ctx._parties["receiver"] = ("bank", "shop")
    with pytest.raises(DataError, match="one receiver") as refused:
        params().learners(ctx)
    assert refused.value.remedy


@given(sets=st.lists(st.lists(st.integers(0, 20)), min_size=1, max_size=4))
def test_common_to_all_is_the_intersection(sets):
    found = common_to_all({str(i): np.array(rows, np.int64) for i, rows in enumerate(sets)})
    assert found.tolist() == sorted(set.intersection(*map(set, sets)))


# Sizes.


def test_sizes_are_heard_as_capacities_and_another_number_of_buckets_is_refused():
    ctx = Party()
    ids = SimpleNamespace(padded=8, rule=bytes(32))
    assert exchange_sizes(ctx, params(buckets=2), ids) == {"bureau": capacity(8, 2)}
    for padded, buckets in ((8, 3), (0, 2), (-4, 2)):
        ctx.send = lambda name, table, to: None
        told = pa.table({"padded": [padded], "buckets": [buckets], "rule": [bytes(32)]})
        ctx.recv = lambda name, from_, told=told: told
        with pytest.raises(DataError, match="sizes of bureau"):
            exchange_sizes(ctx, params(buckets=2), ids)


def test_sizes_that_are_empty_or_twice_are_refused():
    ids = SimpleNamespace(padded=8, rule=bytes(32))
    for rows in (0, 2):
        ctx = Party()
        ctx.send = lambda name, table, to: None
        told = pa.table({"padded": [8] * rows, "buckets": [1] * rows, "rule": [bytes(32)] * rows})
        ctx.recv = lambda name, from_, told=told: told
        with pytest.raises(DataError, match="sizes of bureau") as refused:
            exchange_sizes(ctx, params(), ids)
        assert (refused.value.found, bool(refused.value.remedy)) == (f"{rows} rows", True)


# Matches.


def sender(count):
    ctx = Party(party="bureau")
    return ctx, SimpleNamespace(values=range(count), points=12)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 8, 9])
def test_matches_come_in_pieces_and_whole(monkeypatch, count):
    monkeypatch.setattr(alignment_matches, "PIECE", 4)
    ctx, ids = sender(9)
    wanted = np.arange(count)[::-1] * 5
    send_matched(ctx, "bureau", wanted, 12)
    sizes = [len(table["sealed"][0].as_py()) for table in ctx.messages]
    assert len(sizes) == 4
    np.testing.assert_array_equal(receive_matched(ctx, ids, ("bank", "bureau")), wanted)
    assert not ctx.messages
    # Who is not told gets as many bytes, and neither number can be read from outside.
    send_matched(ctx, "bureau", None, 12)
    assert [len(table["sealed"][0].as_py()) for table in ctx.messages] == sizes
    assert receive_matched(ctx, ids, ("bank",)) is None


def seal(ctx, *numbers, piece=0, data=None):
    data = np.array(numbers, "<i8").tobytes() if data is None else data
    context = f"accord alignment 1/run/step/1/{piece}".encode()
    return pa.table({"sealed": pa.array([ctx.wrap("bureau", data, context)], pa.binary())})


@pytest.mark.parametrize(
    ("first", "error"),
    [
        ((5, 0, 1, 2, 3, 4, *[-1] * 7), "another number"),  # more than the sender has ids
        ((1, 0, 1, *[-1] * 10), "another number"),
        ((2, 0, 1), "another number"),  # not padded
        ((2, 0, 1, *[-1] * 11), "another number"),
        ((-1,), "another number"),
        ((-1, 0, *[-1] * 11), "another number"),
        ((-2, *[-1] * 12), "another number"),
        ((1 << 62, *[-1] * 12), "another number"),
        ((), "another form"),
    ],
)
def test_matches_of_another_number_are_refused(first, error):
    ctx, ids = sender(4)
    ctx.messages.append(seal(ctx, *first))
    with pytest.raises(CryptoError, match=error):
        receive_matched(ctx, ids, ("bank", "bureau"))


def test_pieces_in_another_order_or_of_another_form_are_refused(monkeypatch):
    monkeypatch.setattr(alignment_matches, "PIECE", 4)
    ctx, ids = sender(9)
    ctx.messages += [seal(ctx, 4, 0, 1, 2), seal(ctx, 3, -1, -1, -1, piece=0)]  # a piece that comes twice
    with pytest.raises(CryptoError, match="does not open"):
        receive_matched(ctx, ids, ("bank", "bureau"))
    ctx.messages = [seal(ctx, 4, 0, 1, 2), seal(ctx, data=b"1234567", piece=1)]
    with pytest.raises(CryptoError, match="another form"):
        receive_matched(ctx, ids, ("bank", "bureau"))


# The report.


def test_the_report_counts_and_names_no_id():
    column = ["jane", "joe", "jane", "ann"]
    validated = {"t": {"read": 9, "dropped": {"id.null": 2, "id.too_long": 3, "other.null": 7}}}
    ctx = Party(column, report=validated)
    how = params(on_duplicates="all")
    ids = own_ids(ctx, how)
    outputs = finish(ctx, how, ids, np.array([2, 0]), None)
    assert outputs["alignment"].to_pydict() == {"row": [2, 0], "index": [0, 1], "first": [1, 3]}
    assert aligned_ids(ctx.inputs["tables"]["t"]["id"], outputs["alignment"]).to_pylist() == ["joe", "ann"]
    with pytest.raises(DataError, match="another table"):
        aligned_ids(pa.chunked_array([["ann", "jane", "jim"]]), outputs["alignment"])
    assert outputs["report"] == {
        "table": "t", "read": 9, "null": 2, "invalid": {"too_long": 3}, "dropped_duplicates": 0,
        "rows": 4, "distinct": 3, "duplicate": 1,
        "padded": 4, "buckets": 1, "aligned": 2, "rows_joined": 2,
    }  # fmt: skip
    assert finish(ctx, how, ids, np.array([1]), None)["report"]["rows_joined"] == 2
    assert finish(ctx, params(), ids, np.array([1]), None)["report"]["rows_joined"] == 1
    assert ctx.metrics == {"ids": 3, "duplicate": 1, "aligned": 1}
    assert not any(name in str(outputs["report"]) for name in column)


def test_who_does_not_learn_the_alignment_has_a_report_without_it():
    for overlap in (None, 5):
        ctx = Party(["7"])
        outputs = finish(ctx, params(), own_ids(ctx, params()), None, overlap)
        assert set(outputs) == {"report"}
        assert (outputs["report"]["aligned"], outputs["report"]["rows_joined"], outputs["report"]["read"]) == (
            overlap,
            None,
            None,
        )
        assert ("aligned" in ctx.metrics) == (overlap is not None)
