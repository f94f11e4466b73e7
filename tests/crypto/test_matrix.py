import numpy as np
import pytest

from base.errors import CryptoError
from crypto.matrix import matvec, multi_exp
from crypto.packing import Lanes

LANES = Lanes(lane=64, fraction=10, summands=2**38)


def integers(rng, shape, dtype, low=None):
    info = np.iinfo(dtype)
    return rng.integers(info.min if low is None else low, info.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize(("x", "g"), [(np.int8, np.int16), (np.int16, np.int8), (np.int8, np.int8)])
def test_matvec_and_multi_exp_equal_the_same_products_in_the_clear(secret_key, x, g):
    rng = np.random.default_rng(7)
    m, d, k = 9, 4, 5
    P, X, G = rng.normal(0, 3, (m, k)), integers(rng, (m, d), x), integers(rng, (m, d), g)
    q = LANES.quantise(P).reshape(m, k)
    rows = secret_key.encrypt_rows(P, LANES)
    T = matvec(X, rows, fraction=5)
    assert T.lanes.fraction == 15
    assert (secret_key.decrypt_rows(T) * 2**15 == X.T.astype(np.int64) @ q).all()
    s = multi_exp(G, T, fraction=8).rerandomise()
    assert (secret_key.decrypt_rows(s) * 2**23 == G.astype(np.int64) @ (X.T.astype(np.int64) @ q)).all()


def test_extreme_multipliers_of_extreme_values_do_not_borrow_across_lanes(secret_key):
    lanes = Lanes(lane=32, summands=2**9)  # 2 rows of |x| <= 128, twice
    top = lanes.limit
    P = np.array([[top, -top, top, 0], [-top, top, top, -top]])
    X = np.array([[-128, 127, 0, 1], [-128, -128, 127, 0]], dtype=np.int8)
    assert (secret_key.decrypt_rows(matvec(X, secret_key.encrypt_rows(P, lanes))) == X.T.astype(np.int64) @ P).all()


def test_a_column_of_zeros_gives_zero_and_one_hot_columns_give_sums(secret_key):
    lanes = Lanes(lane=32, summands=2**10)
    P = np.arange(12).reshape(4, 3)
    X = np.array([[0, 1], [0, 0], [0, 1], [0, 0]], dtype=np.int8)
    assert (secret_key.decrypt_rows(matvec(X, secret_key.encrypt_rows(P, lanes))) == [[0, 0, 0], P[0] + P[2]]).all()


def test_lanes_without_room_for_the_multipliers_are_refused(secret_key):
    rows = secret_key.encrypt_rows(np.zeros((3, 2)), Lanes(lane=32, summands=383))
    with pytest.raises(CryptoError, match="too many summands"):
        matvec(np.zeros((3, 1), dtype=np.int8), rows)  # 3 · 128 = 384, whatever the values are
    with pytest.raises(CryptoError, match="too many summands"):
        multi_exp(np.zeros((2, 3), dtype=np.int8), rows)


@pytest.mark.parametrize(
    "X", [np.zeros((2, 1), np.int8), np.zeros((3, 1), np.int64), np.zeros((3, 1)), np.zeros(3, np.int8)]
)
def test_a_matrix_of_another_shape_or_type_is_refused(secret_key, X):
    rows = secret_key.encrypt_rows(np.zeros((3, 2)), LANES)
    with pytest.raises(CryptoError, match="does not fit"):
        matvec(X, rows)


def test_a_large_product_over_processes_is_the_same(secret_key, monkeypatch):
    rng = np.random.default_rng(8)
    P, X = rng.normal(0, 3, (9, 2)), integers(rng, (9, 4), np.int16)
    G = integers(rng, (6, 4), np.int8)
    rows = secret_key.encrypt_rows(P, Lanes(64, 10, 2**44))
    here = matvec(X, rows)
    monkeypatch.setattr("crypto.parallel.WORTH", 1)
    monkeypatch.setattr("crypto.parallel.usable_cores", lambda: 2)
    there = matvec(X, rows)
    assert list(there.ciphertexts) == list(here.ciphertexts)
    assert (secret_key.decrypt(multi_exp(G, there)) == secret_key.decrypt(multi_exp(G, here))).all()


@pytest.mark.parametrize("extreme", [-32768, -32640, -129, -128, 127, 128, 255, 256, 32639, 32640, 32767])
def test_signed_bytes_hold_every_multiplier(secret_key, extreme):
    rows = secret_key.encrypt_rows(np.array([[3], [-5]]), Lanes(64, 0, 2**40))
    X = np.array([[extreme], [1]], np.int16)
    assert secret_key.decrypt(matvec(X, rows)).tolist() == [3 * extreme - 5]
    T = secret_key.encrypt_rows(np.array([[3]]), Lanes(64, 0, 2**40))
    assert secret_key.decrypt(multi_exp(X, T)).tolist() == [3 * extreme, 3]
