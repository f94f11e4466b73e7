import numpy as np
import phe
import pytest

from base.errors import CryptoError
from crypto.interop_phe import (
    public_from_phe,
    public_to_phe,
    secret_from_phe,
    secret_to_phe,
    vector_from_phe,
    vector_to_phe,
)
from crypto.packing import Lanes
from crypto.paillier import SecretKey

LANES = Lanes(32, 8, 4)
VALUES = np.array([0.0, 1.5, -2.25, 1000.0])


@pytest.fixture(scope="module")
def phe_keys():
    return phe.generate_paillier_keypair(n_length=2048)


def test_our_vectors_are_read_added_and_sent_back_by_phe(secret_key):
    numbers = vector_to_phe(secret_key.public.encrypt_rows(VALUES[:, None], LANES))
    private = secret_to_phe(secret_key)
    assert [private.decrypt(x) for x in numbers] == VALUES.tolist()
    doubled = [x + x for x in numbers]
    back = vector_from_phe(doubled, secret_key.public, LANES, weight=2)
    assert secret_key.decrypt(back).tolist() == (2 * VALUES).tolist()


def test_phe_s_numbers_are_read_and_added_here(phe_keys):
    public, private = phe_keys
    key = secret_from_phe(private)
    assert key.public == public_from_phe(public)
    assert not key.public.djn
    numbers = [public.encrypt(float(v), precision=2**-8) for v in VALUES]
    vector = vector_from_phe(numbers, key.public, LANES)
    assert key.decrypt(vector).tolist() == VALUES.tolist()
    total = vector.add(key.encrypt_rows(VALUES[:, None], LANES)).rerandomise()
    assert [private.decrypt(x) for x in vector_to_phe(total)] == (2 * VALUES).tolist()


def test_an_imported_key_encrypts_with_r_to_the_n_on_both_sides_and_comes_back(phe_keys):
    public, private = phe_keys
    key = secret_from_phe(private)
    again = SecretKey.from_bytes(key.to_bytes())
    assert again.public == key.public
    for vector in (public_from_phe(public).encrypt(VALUES, LANES), again.encrypt(VALUES, LANES)):
        assert key.decrypt(vector).tolist() == VALUES.tolist()
    assert public_to_phe(key.public) == public


def test_what_phe_cannot_say_is_refused(secret_key, phe_keys):
    public, _ = phe_keys
    with pytest.raises(CryptoError, match="no lanes"):
        vector_to_phe(secret_key.encrypt(VALUES, LANES))
    with pytest.raises(CryptoError, match="no lanes"):
        vector_to_phe(secret_key.encrypt_rows(VALUES[:, None], Lanes(32, 6, 4)))
    with pytest.raises(CryptoError, match="another exponent"):
        vector_from_phe([public.encrypt(1.5)], public_from_phe(public), LANES)
    with pytest.raises(CryptoError, match="another key"):
        vector_from_phe([public.encrypt(1.5, precision=2**-8)], secret_key.public, LANES)
