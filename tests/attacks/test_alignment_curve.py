"""Attacks on alignment by curve and by keyed hash: each reads something from a weakened setting, and not from ours."""

import hashlib
import math
from dataclasses import replace

import gmpy2
import numpy as np
import pyarrow as pa
import pytest
from canaries import forms
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import spearmanr

from base.canonical import digest
from base.errors import ConsentError, DataError, StateError
from components import (
    align_ecdh,
    align_keyed_hash,
    alignment_ids,
    alignment_sizes,
    cardinality_pass,
    curve_exchange,
)
from components.alignment_ids import capacity
from components.registry import component
from crypto.curve import CurveSecret, P, from_column, hash_to_curve, tag_bytes, tags, to_column
from crypto.keyed_hash import EphemeralKey, TagKey
from crypto.ladder import as_points, multiply
from features.id_partition import bucket_numbers
from features.idnorm import normalise
from features.spec import Column, FeatureSpec, IdRule
from transport.body import decode

ID_SPACE = [f"{i:06d}" for i in range(20_000)]  # a small id space, as customer numbers are
BANK, BUREAU = ID_SPACE[:12_000:40], ID_SPACE[4_000:16_000:40]  # 300 each, 200 in common
COMMON = set(BANK) & set(BUREAU)
NUMBERS = IdRule(type="integer", width=6)
WRITTEN = digest(NUMBERS.model_dump(mode="json"))  # as the hash to the curve takes it
CHANCE = 5 / math.sqrt(200)  # five standard deviations of a rank correlation of 200


def specs(rule):
    column = Column(type="id", owner=("data_holder",), sensitivity="internal", rule=rule)
    return {"t": FeatureSpec(name="t", description="people", key=("id",), columns={"id": column})}


def align(threads, how, ids=None, *, rule=NUMBERS, allow=True, functions=None, run="run", **params):
    """Align the bank (receiver) and the bureau; keyed hashes of small numbers only because `allow` says so."""
    ids = ids or {"bank": BANK, "bureau": BUREAU}
    functions = functions or {}

    def role(party):
        def function(ctx, params):
            ctx = replace(ctx, services=replace(ctx.services, spec=specs(rule).__getitem__))
            return functions.get(party, component(how).roles[ctx.role])(ctx, params)

        return function

    given = {"tables": dict.fromkeys(ids, "t"), "id_column": "id", "min_overlap": 1, "pad_to": 1, "max_tests": 10**9}
    given |= {"allow_low_entropy": allow} if how == "align_keyed_hash" else {}
    inputs = {p: {"tables": {"t": pa.table({"id": v}).replace_schema_metadata({"spec": "t"})}} for p, v in ids.items()}
    return threads(how, {"receiver": ("bank",), "sender": ("bureau",)}, inputs, given | params,
                   functions={p: role(p) for p in ids}, run=run)  # fmt: skip


def sent(outcome, how, party, name):
    """The values of a party's messages of this name, in the order in which they left: an outsider before TLS."""
    (declared,) = {m.schema.name: m for m in component(how).messages if m.name == name}.values()
    return [
        value for p in outcome.parcels[party] if p.header.name == name
        for value in decode(p.body, declared).column(0).to_pylist()
    ]  # fmt: skip


def people(outcome, party, ids):
    return [ids[row] for row in outcome.outputs[party]["alignment"]["row"].to_pylist()]


# Trying every id.


def holds_the_key(into):
    """An honest receiver that keeps the key of the attempt."""

    def function(ctx, params):
        agree = EphemeralKey.agree

        def keeping(self, peer, context):
            into.append(agree(self, peer, context))
            return into[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EphemeralKey, "agree", keeping)
            return align_keyed_hash.receiver(ctx, params)

    return function


def tried(key, seen):
    return [i for i, tag in zip(ID_SPACE, key.tags(ID_SPACE), strict=True) if tag in seen]


def test_the_holder_of_a_keyed_hash_s_key_reads_the_whole_list_and_nobody_else_does(threads):
    keys = []
    outcome = align(threads, "align_keyed_hash", functions={"bank": holds_the_key(keys)}, pad_to=128)
    seen = set(sent(outcome, "align_keyed_hash", "bureau", "tags"))
    assert len(seen) == 384

    # Weakened: the accord allows it for numbers of six digits. The bank has 200 of these people, and reads 300.
    assert tried(keys[0], seen) == BUREAU

    # Outside: with the public keys, a key of one's own, the key of another night.
    publics = [sent(outcome, "align_keyed_hash", p, "key")[0] for p in ("bank", "bureau")]
    outsider = [EphemeralKey().agree(public, b"context") for public in publics]
    align(threads, "align_keyed_hash", functions={"bank": holds_the_key(keys)}, run="another-night")
    for key in (*outsider, TagKey(publics[0]), keys[-1]):
        assert tried(key, seen) == []
    # The sender cannot try anything on the receiver: no tag comes from there.
    assert not [p for p in outcome.parcels["bank"] if p.header.name == "tags"]


def test_a_small_id_space_is_refused_by_default_before_anything_is_sent(threads):
    outcome = align(threads, "align_keyed_hash", allow=False)
    assert all(isinstance(error, ConsentError) for error in outcome.errors.values())
    assert outcome.parcels == {"bank": [], "bureau": []}


def test_a_bank_that_holds_its_scalar_reads_nothing_beyond_what_it_sent(threads):
    """On the curve an id is tested by a point that the bureau answers, and such points are counted."""
    kept = []

    class Keeping(curve_exchange.Exchange):
        def __init__(self, *args):
            super().__init__(*args)
            kept.append((self.peer, self._run.scalar, self._run.name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(align_ecdh, "Exchange", Keeping)
        outcome = align(threads, "align_ecdh")
    ((secret, run),) = ((secret, run) for peer, secret, run in kept if peer == "bureau")
    points = as_points(b"".join(sent(outcome, "align_ecdh", "bureau", "masked")))
    both = set(map(bytes, tags(multiply(secret._key, points), run, tag_bytes(300, 300))))
    answers = sent(outcome, "align_ecdh", "bureau", "answer")
    assert len(both & set(answers)) == 200  # what the protocol shows
    mine = multiply(secret._key, np.ascontiguousarray(hash_to_curve(BANK, run, WRITTEN)))
    assert set(map(bytes, mine)) == set(sent(outcome, "align_ecdh", "bank", "masked"))  # the guesses below are as these
    # Weakened: hashes that the bureau would send without its scalar are read at once.
    bare = set(map(bytes, hash_to_curve(BUREAU, run, WRITTEN)))
    own = hash_to_curve(ID_SPACE, run, WRITTEN)
    assert [i for i, point in zip(ID_SPACE, own, strict=True) if bytes(point) in bare] == BUREAU
    # Default: neither the hash of an id nor its multiple by the bank's scalar meets a point or a tag of the bureau.
    seen = set(map(bytes, points)) | both | set(answers)
    missing = [n for n, i in enumerate(ID_SPACE) if i in set(BUREAU) - COMMON]
    masked = multiply(secret._key, np.ascontiguousarray(own[missing]))
    for guess in (own, masked, tags(masked, run, tag_bytes(300, 300))):
        assert not {bytes(row) for row in guess} & seen


def test_a_raw_hash_as_coordinate_shows_a_bit_of_the_id_whatever_the_scalar_is():
    """The bit is which of two groups a point lies in; nights add bits, for who can be followed, up to one person."""

    def raw(ids, night):
        rows = [hashlib.sha256(f"{night}/{i}".encode()).digest() for i in ids]
        return as_points(b"".join(r[:31] + bytes([r[31] & 127]) for r in rows))

    def bits(points):
        us = [int.from_bytes(bytes(p), "little") for p in points]
        return np.array([gmpy2.jacobi(u * (u * (u + 486662) + 1), P) for u in us])

    target, left = ID_SPACE[4242], {"raw": np.ones(2_000, bool), "ours": np.ones(2_000, bool)}
    candidates = ID_SPACE[3_000:5_000]
    for night in range(24):
        key = X25519PrivateKey.generate()
        seen = bits(multiply(key, raw([target], night)))
        left["raw"] &= bits(raw(candidates, night)) == seen
        secret = CurveSecret(f"night {night}", "id")
        masked = bits(secret.mask([target], f"night {night}"))
        left["ours"] &= bits(hash_to_curve(candidates, f"night {night}", "id")) == masked
    assert left["raw"][candidates.index(target)]
    assert left["raw"].sum() <= 3  # weakened: of 2,000 people
    assert left["ours"].all()  # default: nobody is ruled out


# A count.


def reads_the_permuted(into, own_scalars):
    """A receiver that looks each of its ids up in the permuted answer; it deviates if each id has its own scalar."""

    def function(ctx, params):
        ids = alignment_ids.own_ids(ctx, params)
        (m,) = alignment_sizes.exchange_sizes(ctx, params, ids).values()
        run, names = "/".join((ctx.run, ctx.step, "bank", "bureau")), ids.values.to_pylist()
        one, width = CurveSecret(run, ids.rule.hex()), tag_bytes(len(names), m)
        secrets = [CurveSecret(run, ids.rule.hex()) if own_scalars else one for _ in names]
        points = np.concatenate([s.mask([name], run) for s, name in zip(secrets, names, strict=True)])
        ctx.send("masked", pa.table({"point": to_column(points)}), "bureau")
        theirs = from_column(ctx.recv("masked", "bureau")["point"]).copy()
        answer = set(map(bytes, from_column(ctx.recv("answer", "bureau")["tag"], width)))
        for secret, name in zip(secrets, names, strict=True):
            if set(map(bytes, tags(multiply(secret._key, theirs), run, width))) & answer:
                into.add(name)
        raise DataError("seen enough")

    return function


def test_a_permuted_answer_hides_who_from_a_receiver_that_follows_the_protocol_alone(threads):
    """That is why the accord names the receiver as a learner, also where only the number is told."""
    ids = {"bank": BANK[80:120], "bureau": BUREAU[:40]}  # 20 in common
    common = set(ids["bank"]) & set(ids["bureau"])
    assert len(common) == 20
    for own_scalars, seen in ((False, set(ids["bank"])), (True, common)):
        found = set()
        functions = {"bank": reads_the_permuted(found, own_scalars)}
        align(threads, "align_ecdh", ids, functions=functions, cardinality_only=True)
        assert found == seen  # with one scalar each id could be any of the 20


# Buckets.


def ruled_out(sizes, salt, ids=ID_SPACE):
    """The ids that cannot be among those of a party whose buckets have these sizes."""
    return {i for i, b in zip(ids, bucket_numbers(ids, salt, len(sizes)), strict=True) if not sizes[b]}


@pytest.mark.parametrize(("how", "more"), [("align_ecdh", {}), ("align_keyed_hash", {"cardinality_pass": True})])
def test_an_empty_bucket_would_prove_that_somebody_is_no_customer(threads, monkeypatch, how, more):
    monkeypatch.setattr(cardinality_pass, "SMALLEST", 0)  # real ids: some buckets have none
    salts, number = [], alignment_ids.bucket_salt
    monkeypatch.setattr(alignment_ids, "bucket_salt", lambda ctx: salts.append(number(ctx)) or salts[-1])
    few = {"bank": BANK[:60], "bureau": BUREAU[:60]}
    few["bank"][0] = few["bureau"][0]
    outcome = align(threads, how, few, buckets=64, **more)
    assert outcome.errors == {}
    assert len(set(salts)) == 1  # public, the same at both

    # Weakened: the same buckets without padding; a good part of all people is known not to be there.
    sizes = np.bincount(bucket_numbers(few["bureau"], salts[0], 64), minlength=64)
    assert len(ruled_out(sizes, salts[0])) > len(ID_SPACE) / 4
    assert not ruled_out(sizes, salts[0]) & set(few["bureau"])

    # Default: buckets of one size, which follows from N alone.
    for party in few:
        seen = [p.header.rows for p in outcome.parcels[party] if p.header.name == "masked"]
        assert seen == [capacity(60, 64)] * 64
        assert ruled_out(seen, salts[0]) == set()


# Order.


class Unshuffled:
    """A context whose party shuffles nothing."""

    def __init__(self, ctx):
        self._ctx = ctx

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def private_rng(self, name):
        return self

    def permutation(self, what):
        return np.arange(what) if isinstance(what, int) else what


def weak(how):
    return {p: lambda ctx, params: component(how).roles[ctx.role](Unshuffled(ctx), params) for p in ("bank", "bureau")}


def correlation(values):
    return abs(spearmanr(values, np.arange(len(values))).statistic)


@pytest.mark.parametrize("how", ["align_ecdh", "align_keyed_hash"])
def test_the_order_of_an_alignment_says_nothing_about_rows(threads, monkeypatch, how):
    def seen(functions):
        outcome = align(threads, how, functions=functions)
        assert outcome.errors == {}
        assert set(people(outcome, "bank", BANK)) == COMMON
        return [correlation(outcome.outputs[p]["alignment"]["row"].to_numpy()) for p in ("bank", "bureau")]

    assert max(seen({})) < CHANCE
    # Weakened: nothing is shuffled, and tags stand in the order of ids.
    monkeypatch.setattr(TagKey, "tags", lambda _, ids: [i.encode().ljust(32, b".") for i in ids])
    assert seen(weak(how)) == pytest.approx([1, 1])
    # The receiver's shuffle is enough, whatever the order of tags is.
    assert max(seen({})) < CHANCE


def places(threads, functions, run):
    """Where the bureau's points of the people in common stand in what it sends, by id, as the bank finds out."""
    found = []

    def meet(ctx, exchanges, b):
        matches = curve_exchange.meet(ctx, exchanges, b)
        found.extend(zip(exchanges["bureau"].rows(matches["bureau"][:, 0]), matches["bureau"][:, 1], strict=True))
        return matches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(align_ecdh, "meet", meet)
        assert align(threads, "align_ecdh", functions=functions, run=run).errors == {}
    assert len(found) == len(COMMON)
    return [place for _, place in sorted(found)]


def test_the_order_of_points_says_nothing_about_rows_and_is_another_every_night(threads):
    seen = [places(threads, weak("align_ecdh"), run) for run in ("weak-1", "weak-2")]
    assert correlation(seen[0]) == pytest.approx(1)
    assert seen[0] == seen[1]  # weakened: who stands where is as good as a name
    first, second = (places(threads, {}, run) for run in ("night-1", "night-2"))
    assert correlation(first) < CHANCE
    assert abs(spearmanr(first, second).statistic) < CHANCE


def test_the_order_of_tags_says_nothing_about_rows(threads, monkeypatch):
    def at(keys):
        outcome = align(threads, "align_keyed_hash", functions={"bank": holds_the_key(keys)})
        tags = sent(outcome, "align_keyed_hash", "bureau", "tags")
        return outcome, [tags.index(tag) for tag in keys[-1].tags(sorted(COMMON))]

    outcome, default = at([])
    assert outcome.errors == {}
    assert correlation(default) < CHANCE

    def unsorted(ctx, tags):
        ctx.send("tags", pa.table({"tag": to_column(tags)}))
        return np.arange(len(tags))

    monkeypatch.setattr(align_keyed_hash, "send_tags", unsorted)
    outcome, weakened = at([])
    assert correlation(weakened) == pytest.approx(1)
    assert "not sorted" in str(outcome.errors["bank"])  # an honest receiver stops there


# What an outsider captures.


RAW = {p: [f" c{48_120_000 + 7 * n + k:09d}" for n in range(60)] for p, k in (("bank", 0), ("bureau", 3))}
RAW["bureau"][:20] = RAW["bank"][:20]
CUSTOMERS = IdRule(type="integer", prefix="C", width=9, case="upper")


def captured(outcome, how):
    """All bytes that left the parties, before TLS: headers, bodies, and what is in the bodies when unpacked."""
    declared = {(m.name, m.sender): m for m in component(how).messages}
    roles, found = {"bank": "receiver", "bureau": "sender"}, []
    for party, parcels in outcome.parcels.items():
        for p in parcels:
            table = decode(p.body, declared[p.header.name, roles[party]]).combine_chunks()
            columns = [c for batch in table.to_batches() for c in batch.columns]
            found += [repr(p.header).encode(), p.body, *(bytes(b) for c in columns for b in c.buffers() if b)]
    return b"\n".join(found)


def leaks(data, secrets):
    return {raw for raw, found in secrets.items() if any(form in data for form in found)}


def plain_hashes(ctx, params):
    """A bureau that sends hashes of its ids for points: anybody can try ids on them."""
    ids = alignment_ids.own_ids(ctx, params)
    alignment_sizes.exchange_sizes(ctx, params, ids)
    hashes = [hashlib.sha256(i.encode()).digest() for i in ids.values.to_pylist()]
    ctx.send("masked", pa.table({"point": pa.array(hashes, pa.binary(32))}))
    raise DataError("seen enough")


@pytest.mark.parametrize(
    ("how", "more"),
    [("align_ecdh", {}), ("align_ecdh", {"cardinality_pass": True}), ("align_keyed_hash", {"cardinality_pass": True})],
)
def test_what_leaves_before_tls_holds_no_id_in_any_form(threads, how, more):
    ids = {p: normalise(pa.array(texts), CUSTOMERS)[0].to_pylist() for p, texts in RAW.items()}
    secrets = {raw: forms(raw, CUSTOMERS) for texts in RAW.values() for raw in texts}
    assert len(secrets) == 100
    outcome = align(threads, how, ids, rule=CUSTOMERS, pad_to=64, **more)
    assert outcome.errors == {}
    data = captured(outcome, how)
    assert leaks(data, secrets) == set()
    # Nor the hash to the curve, which whoever knows the run's name can compute.
    written = digest(CUSTOMERS.model_dump(mode="json"))
    bare = hash_to_curve(sorted({*ids["bank"], *ids["bureau"]}), "run/step/bank/bureau", written)
    assert not [1 for row in bare if bytes(row) in data]

    # The search finds each form of each kind where it is.
    for raw, found in list(secrets.items())[:3]:
        for form in found:
            assert leaks(data + b"." + form + b".", {raw: {form}}) == {raw}


def test_plain_hashes_in_a_parcel_are_found(threads):
    ids = {p: normalise(pa.array(texts), CUSTOMERS)[0].to_pylist() for p, texts in RAW.items()}
    outcome = align(threads, "align_ecdh", ids, rule=CUSTOMERS, pad_to=20, functions={"bureau": plain_hashes})
    secrets = {raw: forms(raw, CUSTOMERS) for raw in RAW["bureau"]}
    assert leaks(captured(outcome, "align_ecdh"), secrets) == set(RAW["bureau"])


# Two nights.


STAYED = BUREAU[30:]
NIGHTS = {"night-1": BUREAU, "night-2": [*STAYED, *ID_SPACE[1:31]]}


def test_points_do_not_link_two_nights(threads):
    # Weakened: a scalar and a hash that are kept for two nights. Whoever captures both sees who stayed and how many.
    kept = CurveSecret("kept", "id")
    weakened = [set(map(bytes, kept.mask(ids, "kept"))) for ids in NIGHTS.values()]
    assert len(weakened[0] & weakened[1]) == len(STAYED)

    seen = []
    for run, bureau in NIGHTS.items():
        outcome = align(threads, "align_ecdh", {"bank": BANK, "bureau": bureau}, run=run)
        assert outcome.errors == {}
        seen += [set(sent(outcome, "align_ecdh", p, "masked")) for p in ("bank", "bureau")]
        seen.append(set(sent(outcome, "align_ecdh", "bureau", "answer")))
    assert len(set.union(*seen)) == sum(map(len, seen)) == 6 * 300

    # A scalar alone that is kept is not enough, and is refused: the hash has the run's name in it.
    scalar = kept.to_bytes()
    nights = [CurveSecret.from_bytes(scalar, run, "id").mask(ids, run) for run, ids in NIGHTS.items()]
    assert not set(map(bytes, nights[0])) & set(map(bytes, nights[1]))
    with pytest.raises(StateError, match="second run"):
        kept.mask(BANK, "night-2")


def test_tags_of_keyed_hashes_do_not_link_two_nights(threads):
    kept = TagKey(bytes(32))  # weakened: one key for two nights, as two parties with a common password have
    weakened = [set(kept.tags(ids)) for ids in NIGHTS.values()]
    assert len(weakened[0] & weakened[1]) == len(STAYED)

    seen = []
    for run, bureau in NIGHTS.items():
        outcome = align(threads, "align_keyed_hash", {"bank": BANK, "bureau": bureau}, run=run)
        assert outcome.errors == {}
        seen.append(set(sent(outcome, "align_keyed_hash", "bureau", "tags")))
    assert [len(one) for one in seen] == [300, 300]
    assert not seen[0] & seen[1]
