import numpy as np
import pyarrow as pa
import pytest

from base.errors import CryptoError
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, total
from crypto.vector import METADATA

LANES = Lanes(16, 4, 3)


@pytest.fixture(scope="module")
def vector(secret_key):
    return secret_key.encrypt(np.arange(300) / 16, LANES)


def changed(table, **meta):
    return table.replace_schema_metadata(table.schema.metadata | {k.encode(): str(v) for k, v in meta.items()})


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
    assert again.ciphertexts == vector.ciphertexts
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
    wide = vector.add_plain(noise << 10, bits=14)  # 2^14 is two summands of 14 bits, sign included
    assert wide.weight == 3
    with pytest.raises(CryptoError, match="too many summands"):
        vector.add_plain(noise, bits=15)
    with pytest.raises(CryptoError, match="do not fit"):
        vector.add_plain(noise, bits=2)
    with pytest.raises(CryptoError, match="do not fit"):
        vector.add_plain(noise[:-1], bits=3)


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
    assert np.abs(found - (np.arange(100) + 0.5) / 100).max() < 1.95 / 10  # Kolmogorov-Smirnov, p = 0.001
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
