"""Attacks on alignment: each succeeds on a weakened setting and fails, or stays within its bound, on what we do."""

import hashlib
import math
from dataclasses import replace

import gmpy2
import numpy as np
import pyarrow as pa
import pytest
from gmpy2 import mpz
from scipy.stats import spearmanr

from base.errors import CryptoError
from components import align_rsa
from components.signature_cache import DIGEST, HASH, RECORD, UNSEEN
from crypto.blind_rsa import Blinding, digest, tag
from crypto.keyed_hash import EphemeralKey
from crypto.rsa import E, RsaSecretKey
from features.spec import Column, FeatureSpec, IdRule
from runtime.keys import PartyKeys
from transport.body import decode

ID_SPACE = [f"{i:05d}" for i in range(20_000)]  # a small id space, as customer numbers are
PEOPLE = ID_SPACE[137:20_000:97]


@pytest.fixture(scope="module")
def key():
    return RsaSecretKey.generate(2048)


def enumerate_ids(tags, guess):
    """The ids whose guessed tag is among the tags."""
    seen = set(tags)
    return [identifier for identifier, t in zip(ID_SPACE, guess(ID_SPACE), strict=True) if t in seen]


def plain(ids):
    return [hashlib.sha256(i.encode()).digest() for i in ids]


def test_enumeration_reads_plain_hashes_and_whoever_holds_the_key_reads_keyed_ones():
    assert enumerate_ids(plain(PEOPLE), plain) == PEOPLE
    one, two = EphemeralKey(), EphemeralKey()
    tags = one.agree(two.public, b"run 1").tags(PEOPLE)
    assert enumerate_ids(tags, two.agree(one.public, b"run 1").tags) == PEOPLE  # stated: the peer can


def test_enumeration_of_keyed_hashes_fails_without_the_key_and_with_another_night_s():
    one, two, outsider = EphemeralKey(), EphemeralKey(), EphemeralKey()
    tags = one.agree(two.public, b"run 1").tags(PEOPLE)
    another_night = EphemeralKey().agree(two.public, b"run 2")  # one key agrees once
    for guess in (plain, outsider.agree(two.public, b"run 1").tags, another_night.tags):
        assert enumerate_ids(tags, guess) == []


def test_enumeration_of_rsa_tags_needs_a_signature_for_every_id_and_signatures_are_counted(threads):
    ids = {"bank": ID_SPACE[:40], "bureau": ID_SPACE[20:60]}
    stolen = []
    outcome = align(threads, ids, pad_to=64, functions={"bureau": steals(stolen)})
    tags = set(tags_of(outcome))
    (secret,) = stolen
    public = secret.public

    # Weakened: the signer's oracle without a quota reads the whole set.
    hashes = [public.hash(i.encode()) for i in ID_SPACE[:100]]
    oracle = [tag(digest(public, s), "run/step") for s in secret.sign(hashes)]
    assert [i for i, t in zip(ID_SPACE, oracle, strict=False) if t in tags] == ids["bureau"]

    # Default: hashes alone match nothing, and the receiver had as many signatures as the metric says.
    assert not {tag(digest(public, h), "run/step") for h in hashes} & tags
    assert outcome.metrics["bureau"]["signatures"] == 64


def test_tags_do_not_link_two_nights(threads):
    ids = {"bank": ID_SPACE[:40], "bureau": ID_SPACE[20:60]}
    first, second = (tags_of(align(threads, ids, run=run)) for run in ("night-1", "night-2"))
    assert not set(first) & set(second)


def test_over_a_key_s_life_the_receiver_tests_signed_ids_alone_and_a_new_key_ends_it(threads):
    """What the message table says: a signed id is tested against every stored night of its key, and no other is."""
    everyone, strangers = ID_SPACE[:40], ID_SPACE[60:80]
    tags, kept, stolen = {}, {}, []
    for run, bank, bureau, period in (
        ("n-1", everyone, [*everyone, *strangers], ""),
        *((f"n-2{n or ''}", everyone[:-1], [*everyone, *strangers], "") for n in range(UNSEEN)),  # one customer less
        ("n-3", everyone[:-1], [*everyone, *strangers], "new"),
    ):
        outcome = align(threads, {"bank": bank, "bureau": bureau}, run=run, key_period=period,
                        functions={"bureau": steals(stolen)})  # fmt: skip
        tags[run], kept[run] = set(tags_of(outcome)), kept_digests(threads, "bank", "bureau")

    def seen(ids, night):
        """The ids that the bank can test against a night with what it has stored in the first one."""
        key = stolen[0].public
        digests = {
            i: digest(key, σ) for i, σ in zip(ids, stolen[0].sign([key.hash(i.encode()) for i in ids]), strict=True)
        }
        return [i for i, d in digests.items() if d in kept["n-1"] and tag(d, f"{night}/step") in tags[night]]

    assert seen(everyone, "n-2") == everyone  # stated: also the one that is no customer any more
    assert [len(one) for one in kept.values()] == [40] * UNSEEN + [39, 39]  # an honest bank drops that one in the end
    assert seen(strangers, "n-1") == seen(strangers, "n-2") == []
    assert seen(everyone, "n-3") == []  # another key: what was stored is worth nothing
    assert not kept["n-1"] & kept["n-3"]


def test_two_attempts_of_a_run_do_not_show_which_tags_are_padding(threads):
    ids = {"bank": ID_SPACE[:40], "bureau": ID_SPACE[20:60]}
    first, second = (set(tags_of(align(threads, ids, run="again", attempt=a))) for a in (1, 2))
    # Weakened: padding drawn anew in each attempt; what stays is the exact set of people.
    weak = [set(sorted(first)[:40]) | {bytes([a]) * 32} for a in (1, 2)]
    assert len(weak[0] & weak[1]) == 40
    assert first == second


def test_a_night_shows_batches_and_not_how_many_came(threads):
    shapes = set()
    align(threads, {"bank": ID_SPACE[:100], "bureau": ID_SPACE[:100]}, run="base", pad_to=64, key_period="churn")
    for night, new in enumerate((0, 1, 60)):
        ids = ID_SPACE[:100] + ID_SPACE[1000 * (night + 1) :][:new]
        outcome = align(threads, {"bank": ids, "bureau": ids}, run=f"churn-{new}", pad_to=64, key_period="churn")
        shapes.add(tuple(sorted((p.header.name, p.header.rows, p.header.size)
                                for parcels in outcome.parcels.values() for p in parcels
                                if p.header.name in ("new", "blinded", "signed", "working"))))  # fmt: skip
    assert len(shapes) == 1


def test_what_leaves_before_tls_has_no_id_and_no_plain_hash_of_one(threads):
    ids = {"bank": ID_SPACE[:300], "bureau": ID_SPACE[100:420]}
    outcome = align(threads, ids, run="capture", pad_to=64)
    captured = b"".join(bytes(p.body) for parcels in outcome.parcels.values() for p in parcels)
    hashes = [hashlib.new(name, i.encode()).digest() for i in ID_SPACE[:420] for name in ("md5", "sha1", "sha256")]
    assert any(secret in captured + b"00007" for secret in (b"00007", *hashes))  # the search finds what is there
    assert not any(secret in captured for secret in (*hashes, *(i.encode() for i in ID_SPACE[:420])))


def test_a_crt_fault_gives_the_key_away_unless_the_signature_is_checked(key, monkeypatch):
    n, primes = int(key.public.n), set(key._primes)
    h = key.public.hash(b"id")
    half = RsaSecretKey._half
    faulty = lambda self, bases, i: [x ^ 1 if i else x for x in half(self, bases, i)]  # noqa: E731

    # Weakened: the same computation without the check. One factor of n in one faulty signature.
    halves = [half(key, [h], 0)[0], half(key, [h], 1)[0] ^ 1]
    leaked = key._join(*halves) % n
    assert math.gcd(int(pow(leaked, E, n) - h), n) in primes

    # Default: nothing leaves.
    monkeypatch.setattr(RsaSecretKey, "_half", faulty)
    with pytest.raises(CryptoError, match="kept back") as refusal:
        key.sign([h])
    assert not any(str(p) in str(refusal.value) for p in primes)


def test_what_the_signer_sees_fits_every_id_alike(key):
    # Weakened: without the factor the signer reads the id from what it signs.
    hashes = {i: key.public.hash(i.encode()) for i in ID_SPACE[:200]}
    assert [i for i, h in hashes.items() if h == hashes["00007"]] == ["00007"]
    # Default: for every id there is one factor that explains what it sees.
    (seen,) = Blinding(key.public, [hashes["00007"]]).blinded
    n = key.public.n
    for h in list(hashes.values())[:20]:
        (r,) = key.sign([seen * gmpy2.invert(h, n) % n])
        assert h * gmpy2.powmod(r, E, n) % n == seen


def test_blinded_numbers_are_uniform(key):
    hashes = [key.public.hash(b"the same id")] * 1024
    bins = np.bincount([int(16 * x // key.public.n) for x in Blinding(key.public, hashes).blinded], minlength=16)
    assert ((bins - 64) ** 2 / 64).sum() < 60  # χ² with 15 degrees of freedom: beyond it 1 in 4 million
    assert np.count_nonzero(np.bincount([int(16 * x // key.public.n) for x in hashes], minlength=16)) == 1


def test_the_order_of_an_alignment_says_nothing_about_rows(threads):
    ids = {"bank": ID_SPACE[:300], "bureau": ID_SPACE[100:420]}
    outcome = align(threads, ids, pad_to=64)
    bound = 4 / math.sqrt(200)  # four standard deviations of a rank correlation of 200
    for party in ids:
        rows = outcome.outputs[party]["alignment"]["row"].to_numpy()
        assert len(rows) == 200
        assert abs(spearmanr(rows, np.arange(200)).statistic) < bound
        assert spearmanr(np.sort(rows), np.arange(200)).statistic == pytest.approx(1)  # as it was before the shuffle
    # Tags come in the order of their bytes: no trace of the sender's order.
    assert tags_of(outcome) == sorted(tags_of(outcome))


def test_sizes_show_no_more_than_a_multiple_of_pad_to(threads):
    shapes = set()
    for size in (130, 190):
        ids = {"bank": ID_SPACE[:size], "bureau": ID_SPACE[:size]}
        outcome = align(threads, ids, pad_to=64, key_period=f"size-{size}")  # each a first night
        sent = [p for parcels in outcome.parcels.values() for p in parcels if p.header.name != "matched"]
        shapes.add(tuple(sorted((p.header.name, p.header.rows, p.header.size) for p in sent)))
    assert len(shapes) == 1


def test_a_sender_s_small_or_repeated_numbers_are_never_signed(key):
    h = key.public.hash(b"id")
    for bad in ([mpz(0)], [mpz(1)], [key.public.n - 1], [h, h]):
        with pytest.raises(CryptoError):
            key.public.check(bad)


SPEC = FeatureSpec(
    name="t", description="people", key=("id",),
    columns={"id": Column(type="id", owner=("data_holder",), sensitivity="internal", rule=IdRule())},
)  # fmt: skip


def at_a_node(function):
    """The role at a node that has the spec."""
    return lambda ctx, params: function(replace(ctx, services=replace(ctx.services, spec=lambda _: SPEC)), params)


def align(threads, ids, run="run", pad_to=32, key_period="", functions=None, **more):
    params = {"tables": {"bank": "t", "bureau": "t"}, "id_column": "id", "key_bits": 2048, "pad_to": pad_to}
    table = {p: pa.table({"id": members}).replace_schema_metadata({"spec": "t"}) for p, members in ids.items()}
    inputs = {party: {"tables": {"t": table[party]}} for party in ids}
    roles = {"receiver": ("bank",), "sender": ("bureau",)}
    functions = {"bank": align_rsa.receiver, "bureau": align_rsa.sender} | (functions or {})
    outcome = threads(
        "align_rsa", roles, inputs, params | {"min_overlap": 1, "key_period": key_period}, run=run,
        functions={party: at_a_node(function) for party, function in functions.items()}, **more
    )  # fmt: skip
    assert outcome.errors == {}
    return outcome


def steals(into):
    """The sender's role, whose key somebody takes out of its memory."""

    def function(ctx, params):
        outputs = align_rsa.sender(ctx, params)
        into.append(RsaSecretKey.from_bytes(ctx.keys.get("peer/bank/key.2048")))
        return outputs

    return function


def kept_digests(threads, party, peer):
    """The digests of signatures that a party keeps, opened with its own node key."""
    keys = PartyKeys(party, threads._nodes[party], {}, threads.folder / party)
    names = [f"peer/{peer}/{f.name}" for f in (threads.folder / party / ".peers" / peer).glob("*.[0-9]*.[0-9]*")]
    data = b"".join(keys.get(name) for name in names)
    return {data[i + HASH : i + HASH + DIGEST] for i in range(0, len(data), RECORD)}


def tags_of(outcome):
    """The tags as they leave the sender."""
    (parcel,) = (p for p in outcome.parcels["bureau"] if p.header.name == "tags")
    (message,) = (m for m in align_rsa.MESSAGES if m.name == "tags")
    return decode(parcel.body, message)["tag"].to_pylist()
