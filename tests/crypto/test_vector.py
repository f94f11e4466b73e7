import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from gmpy2 import jacobi, mpz

from base.errors import CryptoError
from crypto.layout import Layout, draw_mask, signed
from crypto.packing import LANE_BITS, Lanes
from crypto.paillier import CiphertextVector, PublicKey, total
from crypto.residues import Residues
from crypto.vector import METADATA

LANES = Lanes(16, 4, 3)


@pytest.fixture(scope="module")
def vector(secret_key):
    return secret_key.encrypt(np.arange(300) / 16, LANES)


def changed(table, **meta):
    return table.replace_schema_metadata(
        table.schema.metadata | {k.encode(): v if isinstance(v, bytes) else str(v) for k, v in meta.items()}
    )


def with_ciphertext(table, number, width=512):
    cells = [number.to_bytes(width, "big"), *table["c"].to_pylist()[1:]]
    return pa.table([pa.array(cells, pa.binary(width))], names=["c"]).replace_schema_metadata(table.schema.metadata)


def test_a_vector_travels_as_one_column_of_full_width(vector, secret_key):
    table = vector.to_table()
    assert table.column_names == ["c"]
    assert table.schema.field("c").type == pa.binary(512)
    assert table.num_rows == 3  # 300 values, 127 to a ciphertext
    assert tuple(k.decode() for k in table.schema.metadata) == METADATA
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    again = CiphertextVector.from_table(back, secret_key.public, LANES)
    assert list(again.ciphertexts) == list(vector.ciphertexts)
    assert secret_key.decrypt(again).tolist() == (np.arange(300) / 16).tolist()


def test_another_key_or_layout_is_refused(vector, secret_key, other_key):
    table = vector.to_table()
    with pytest.raises(CryptoError, match="under another key"):
        CiphertextVector.from_table(table, other_key.public)
    for other in (Lanes(16, 5, 3), Lanes(16, 4, 2), Lanes(32, 4, 3)):
        with pytest.raises(CryptoError, match="another layout"):
            CiphertextVector.from_table(table, secret_key.public, other)
    assert CiphertextVector.from_table(table, secret_key.public).lanes == LANES


@pytest.mark.parametrize(
    "meta",
    [
        {"weight": 4},
        {"weight": 0},
        {"length": 10},
        {"length": 400},
        {"columns": 0},
        {"columns": 128},
        {"length": "x"},
        {"length": -1},
        {"lane": "1e9"},
        {"weight": "9" * 31},
        {"extra": 1},
        {"length": b"\xff"},
    ],
)
def test_metadata_that_do_not_fit_are_refused(vector, secret_key, meta):
    with pytest.raises(CryptoError):
        CiphertextVector.from_table(changed(vector.to_table(), **meta), secret_key.public)


def test_ciphertexts_that_are_no_units_modulo_n_squared_are_refused(vector, secret_key):
    n, nn = int(secret_key.public.n), int(secret_key.public.nn)
    p = int(secret_key._halves[0].p)
    for number in (0, nn, nn + 1, n, p, 5 * p):
        with pytest.raises(CryptoError):
            CiphertextVector.from_table(with_ciphertext(vector.to_table(), number), secret_key.public)
    with pytest.raises(CryptoError, match="another width"):
        CiphertextVector.from_table(with_ciphertext(vector.to_table().slice(0, 1), 1, 511), secret_key.public)
    nulls = pa.table([pa.array([None] * 3, pa.binary(512))], names=["c"])
    with pytest.raises(CryptoError):
        CiphertextVector.from_table(nulls.replace_schema_metadata(vector.to_table().schema.metadata), secret_key.public)
    CiphertextVector.from_table(with_ciphertext(vector.to_table(), 1), secret_key.public)


def test_a_flipped_bit_is_noticed_when_it_is_decrypted(vector, secret_key):
    for bit in (0, 2000, 4090):
        number = int(vector.ciphertexts[0]) ^ 1 << bit
        table = with_ciphertext(vector.to_table(), number)
        with pytest.raises(CryptoError):
            secret_key.decrypt(CiphertextVector.from_table(table, secret_key.public, LANES))


def test_sums_over_keys_layouts_or_too_many_are_refused(vector, secret_key, other_key):
    with pytest.raises(CryptoError, match="two keys"):
        vector.add(other_key.encrypt(np.arange(300) / 16, LANES))
    for other in (
        secret_key.encrypt(np.zeros(299), LANES),
        secret_key.encrypt(np.zeros(300), Lanes(16, 3, 3)),
        secret_key.encrypt_rows(np.zeros((3, 100)), LANES),
    ):
        with pytest.raises(CryptoError, match="two layouts"):
            vector.add(other)
    three = total([vector] * 3)
    assert three.weight == 3
    with pytest.raises(CryptoError, match="too many summands"):
        three.add(vector)
    with pytest.raises(CryptoError, match="no vectors"):
        total([])


def test_plain_numbers_are_added_lane_by_lane_and_charged(vector, secret_key):
    noise = np.random.default_rng(2).integers(-7, 8, 300)
    added = vector.add_plain(noise, bits=3)
    assert added.weight == 2
    assert (secret_key.decrypt(added) * 16 == np.arange(300) + noise).all()
    wide = vector.add_plain(noise << 10, bits=13)  # below 2^13: one summand of 14 bits, sign included
    assert wide.weight == 2
    with pytest.raises(CryptoError, match="too many summands"):
        vector.add_plain(noise, bits=14)  # 2^14 − 1 is more than two of 2^13 − 1
    with pytest.raises(CryptoError, match="do not fit"):
        vector.add_plain(noise, bits=2)
    with pytest.raises(CryptoError, match="do not fit"):
        vector.add_plain(noise[:-1], bits=3)
    for wrong in (noise * 1.0, np.full(300, np.iinfo(np.int64).min), np.full(300, np.nan)):
        with pytest.raises(CryptoError, match="do not fit"):
            vector.add_plain(wrong, bits=3)


def test_rerandomised_vectors_decrypt_alike_and_look_different(vector, secret_key):
    again = vector.rerandomise()
    assert not set(again.ciphertexts) & set(vector.ciphertexts)
    assert (secret_key.decrypt(again) == secret_key.decrypt(vector)).all()


def high(secret_key, vector):
    """What the key's holder reads above the declared lanes, as a fraction of what there can be."""
    shift = vector.lanes.lane * vector.columns
    return np.array(
        [float((m >> shift) / (secret_key.public.n >> shift)) for m in secret_key.decrypt_packed(vector.ciphertexts)]
    )


def test_a_mask_is_uniform_above_the_lanes_and_exact_below(secret_key):
    rows = np.random.default_rng(4).integers(-(2**13) + 1, 2**13, (100, 2))
    plain = secret_key.encrypt_rows(rows, Lanes(16, 0, 3))
    masked = plain.mask_above(b"s" * 32)
    assert (secret_key.decrypt_rows(masked, masked=True) == rows).all()
    with pytest.raises(CryptoError, match="outside the lanes"):
        secret_key.decrypt_rows(masked)
    found = np.sort(high(secret_key, masked))
    assert np.abs(found - (np.arange(100) + 0.5) / 100).max() < 3.3 / 10  # Kolmogorov-Smirnov, p < 10^-9
    assert (high(secret_key, plain.mask_above(b"s" * 32)) == high(secret_key, masked)).all()
    assert (high(secret_key, plain.mask_above(b"t" * 32)) != high(secret_key, masked)).all()


@pytest.mark.parametrize("lane", [16, 64])
def test_the_largest_mask_does_not_wrap_over_the_most_lanes_and_the_largest_values(secret_key, lane, monkeypatch):
    lanes = Lanes(lane, 0, 1)
    ends = np.array([lanes.limit, -lanes.limit])
    rows = np.repeat(ends, lanes.capacity(2048)).reshape(2, -1)
    largest = (secret_key.public.n >> lane * rows.shape[1]) - 2
    monkeypatch.setattr("crypto.vector.hkdf", lambda *a, length: int(largest).to_bytes(length, "big"))
    masked = secret_key.encrypt_rows(rows, lanes).mask_above(b"s" * 32)
    assert (secret_key.decrypt_rows(masked, masked=True) == rows).all()


def test_sums_of_segments_are_products_with_one_hot_columns(secret_key):
    P = np.arange(12).reshape(6, 2) - 5
    rows = secret_key.encrypt_rows(P, Lanes(32, 0, 6))
    ids = np.array([2, 0, -1, 2, 2, 0])
    found = rows.segment_sum(ids, 4)
    assert found.weight == 6  # of all rows, whatever the segments are
    assert secret_key.decrypt_rows(found).tolist() == [(P[ids == s].sum(axis=0)).tolist() for s in range(4)]
    assert secret_key.decrypt_rows(rows.sum()).tolist() == [P.sum(axis=0).tolist()]
    for wrong in (ids[:5], ids + 2, ids - 1, ids * 1.0):
        with pytest.raises(CryptoError, match="segments do not fit"):
            rows.segment_sum(wrong, 4)
    with pytest.raises(CryptoError, match="too many summands"):
        rows.sum().add(rows.sum())


@pytest.mark.parametrize(("lane", "columns"), [(64, 1), (64, 5), (96, 1), (16, 40)])
def test_compressed_rows_hold_the_same_values_in_fewer_ciphertexts(secret_key, lane, columns):
    lanes = Lanes(lane, 0, 2)
    top = min(lanes.limit, 2**52)
    P = np.random.default_rng(lane).choice([-top, -1, 0, 1, top], (31, columns))
    rows = secret_key.encrypt_rows(P, lanes)
    short = rows.add(rows).compress()
    assert short.rows == -(-31 // (lanes.capacity(2048) // columns)) < 31
    assert (secret_key.decrypt(short) == 2 * P.ravel()).all()


def test_rows_side_by_side_have_no_mask_of_their_own_above_them(secret_key):
    rows = secret_key.encrypt_rows(np.ones((4, 1)), Lanes(64, 0, 1))
    with pytest.raises(CryptoError, match="no room of their own"):
        rows.compress().mask_above(b"s" * 32)


def test_single_columns_move_to_a_shorter_lane_that_their_weight_fits(secret_key):
    P = np.array([[2**13 - 1], [-(2**13) + 1], [5]])
    rows = secret_key.encrypt_rows(P, Lanes(64, 0, 2**50))  # |q| < 2^13, one summand used
    short = rows.compress(16)
    assert (short.rows, short.lanes) == (1, Lanes(16, 0, 1))
    assert secret_key.decrypt(short).tolist() == P.ravel().tolist()
    with pytest.raises(CryptoError, match="too many summands"):
        short.add(short)
    with pytest.raises(CryptoError, match="shorter lane"):
        rows.add(rows).add(rows).add(rows).add(rows).compress(16)
    with pytest.raises(CryptoError, match="shorter lane"):
        secret_key.encrypt_rows(np.zeros((2, 2)), Lanes(64, 0, 2**50)).compress(16)


def test_a_masked_answer_is_read_by_whoever_masked_it_and_by_nobody_else(secret_key, other_key):
    values = np.array([[1.5, -2.25], [3.0, -100.0]])
    asked = secret_key.public.encrypt_rows(values, Lanes(32, 4, 1))
    answer, mask = asked.compress().mask()
    received = CiphertextVector.from_table(answer.to_table(), secret_key.public)
    with pytest.raises(CryptoError, match="outside the lanes"):
        secret_key.decrypt(received)
    whole = secret_key.residues(received, threads=2)
    assert (
        mask.unmask(Residues.from_arrow(pa.chunked_array([whole.to_arrow()]), 256)).tolist() == values.ravel().tolist()
    )
    with pytest.raises(CryptoError, match="do not belong"):
        mask.unmask(whole)  # a second time
    with pytest.raises(CryptoError, match="another key"):
        other_key.residues(received)


def test_a_fault_in_one_half_keeps_a_residue_back(secret_key, monkeypatch):
    """Whoever knows m would have p from it: gcd(x' − x, n)."""
    vector, half, faults = secret_key.encrypt(np.ones(1), LANES), type(secret_key._halves[0]), [1]
    right = half.decrypt
    monkeypatch.setattr(half, "decrypt", lambda self, c: [x + faults.pop() if faults else x for x in right(self, c)])
    with pytest.raises(CryptoError, match="kept back"):
        secret_key.residues(vector)
    assert len(secret_key.residues(vector)) == 1


def test_residues_that_somebody_changed_leave_the_lanes_once_the_mask_is_off(secret_key):
    n = secret_key.public.n
    asked = secret_key.public.encrypt_rows(np.array([[7.0]]), Lanes(16, 0, 1))
    changes = (lambda x: (x + (mpz(1) << 2030)) % n, lambda x: x ^ 1 << 2000, lambda x: n - 1 - x)
    for change in changes:
        answer, mask = asked.mask()
        with pytest.raises(CryptoError, match="outside the lanes"):
            mask.unmask(Residues(256, map(change, secret_key.residues(answer))))
    for wrong in ([], [n], [mpz(1), mpz(2)]):
        _, mask = asked.mask()
        with pytest.raises(CryptoError, match="do not belong"):
            mask.unmask(Residues(256, wrong))


def test_the_jacobi_symbol_of_an_answer_does_not_follow_the_symbol_of_what_it_was_made_from(secret_key):
    """J(c mod n) needs no key: an obfuscator of symbol +1 alone would carry one exact bit of every product."""
    n, zero = secret_key.public.n, Lanes(16, 0, 1)
    sent = secret_key.encrypt_rows(np.zeros((64, 1)), zero)

    def followed(answer):
        return sum(jacobi(a, n) == jacobi(b, n) for a, b in zip(sent.ciphertexts, answer.ciphertexts, strict=True))

    assert 12 < followed(sent.rerandomise()) < 52  # 32 ± 5σ
    assert 12 < followed(sent.mask()[0]) < 52
    weak = PublicKey(int(n))
    weak.__dict__["_turn"] = mpz(1)  # teeth: powers of h = −x² alone
    assert followed(replace(sent, key=weak).rerandomise()) == 64


def test_a_changed_ciphertext_passes_with_the_stated_chance_at_most(secret_key):
    """Other bits give a uniform plaintext; it passes when it lies in the lanes: 2^(L·c) of n, and at most 2^-15."""
    n = int(secret_key.public.n)
    for lane in LANE_BITS:
        for bits in (2048, 3072, 4096):
            assert (1 << lane * Lanes(lane).capacity(bits)) * 2**15 <= 1 << (bits - 1)
    lanes, drawn = Lanes(16, 0, 1), draw_mask(n, 200_000)
    layout = Layout(lanes, lanes.capacity(2048), lanes.capacity(2048), 1)
    offset = lanes.offset(layout.columns)
    assert sum(0 <= m + offset < 1 << 16 * layout.columns for m in signed(drawn, n)) < 25  # 6.1 at 2^-15


def test_masked_residues_are_uniform_over_10_to_the_5_draws(secret_key):
    """χ² over 256 equal parts of Z_n with 255 degrees of freedom: 1 in 10^9 is above 420 or below 140."""
    n = int(secret_key.public.n)
    fixed = secret_key.encrypt_rows(np.zeros((100, 1)), Lanes(16, 0, 1))
    plain = secret_key.residues(fixed)

    def statistic(residues):
        count = np.bincount([int(x) * 256 // n for x in residues], minlength=256)
        return float(((count - count.mean()) ** 2 / count.mean()).sum())

    drawn = [(m + r) % n for _ in range(1000) for m, r in zip(plain, draw_mask(secret_key.public.n, 100), strict=True)]
    assert len(drawn) == 10**5
    assert 140 < statistic(drawn) < 420
    short = [int(r) // 2 for r in draw_mask(secret_key.public.n, 1000)]
    assert statistic(short) > 420  # teeth: a mask from half of Z_n
    found = np.sort([float(x / n) for x in secret_key.residues(fixed.mask()[0])])
    assert np.abs(found - (np.arange(100) + 0.5) / 100).max() < 3.3 / 10  # Kolmogorov-Smirnov, p < 10^-9


def test_a_vector_shares_its_memory_with_arrow(vector, secret_key):
    table = vector.to_table()
    address = table["c"].chunk(0).buffers()[1].address
    assert address == vector.ciphertexts.data.address
    back = CiphertextVector.from_table(table, secret_key.public)
    assert back.ciphertexts.data.address == address
    assert back.to_table()["c"].chunk(0).buffers()[1].address == address
    part = CiphertextVector.from_table(changed(table.slice(1, 1), length=127), secret_key.public)
    assert part.ciphertexts.data.address == address + 512
    assert list(part.ciphertexts) == [vector.ciphertexts[1]]


def test_a_mask_is_never_shown_or_pickled(vector):
    _, mask = vector.mask()
    assert repr(mask) == "<Mask, not shown>"
    with pytest.raises(CryptoError, match="neither pickled nor copied"):
        pickle.dumps(mask)
