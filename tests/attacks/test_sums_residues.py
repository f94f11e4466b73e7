"""What the holder of a secret key reads from ciphertexts beyond their plaintexts, and that blinding ends it."""

import itertools

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz

from crypto.matrix import matvec
from crypto.packing import Lanes
from crypto.paillier import SecretKey

LANES = Lanes(32, 0, 2**12)
PEOPLE = 8


@pytest.fixture(scope="module")
def key():
    return SecretKey.generate(2048)


def residues(key, vector):
    """The n-th residues of ciphertexts: what is left when the plaintext, which the key holder reads, is divided out."""
    n, nn = key.public.n, key.public.nn
    plain = key.decrypt_packed(vector.ciphertexts)
    return [c * gmpy2.invert(1 + m * n, nn) % nn for c, m in zip(vector.ciphertexts, plain, strict=True)]


def explained(key, rows, answer):
    """All 0/1 columns that explain the answer's residue as a product of the residues that the key holder sent."""
    sent, (seen,), nn = residues(key, rows), residues(key, answer), key.public.nn
    found = []
    for guess in itertools.product((0, 1), repeat=PEOPLE):
        product = mpz(1)
        for z in itertools.compress(sent, guess):
            product = product * z % nn
        if product == seen:
            found.append(guess)
    return found


def test_the_residue_of_an_answer_names_the_column_unless_it_is_rerandomised(key):
    column = (1, 0, 0, 1, 1, 0, 1, 0)
    # All rows are equal: the plaintext of the answer tells how many people have the attribute, and not who.
    rows = key.encrypt_rows(np.full((PEOPLE, 2), 5), LANES)
    answer = matvec(np.array(column, dtype=np.int8)[:, None], rows)
    assert key.decrypt(answer).tolist() == [20, 20]
    assert explained(key, rows, answer) == [column]  # weakened: sent as computed
    assert explained(key, rows, answer.rerandomise()) == []


def chi_square(numbers, modulus, bins=16):
    counts = np.bincount([int(bins * (x % modulus) // modulus) for x in numbers], minlength=bins)
    expected = len(numbers) / bins
    return float(((counts - expected) ** 2 / expected).sum())


LIMIT = 60.0  # χ² with 15 degrees of freedom: beyond it 1 in 4 million


@pytest.mark.parametrize("own", [False, True])
def test_residues_are_uniform_modulo_n_and_each_prime(key, own):
    zeros = [mpz(0)] * 512
    drawn = key.encrypt_packed(zeros) if own else key.public.encrypt_packed(zeros)
    for modulus in (key.public.nn, key.public.n, *(half.p for half in key._halves)):
        assert chi_square(drawn, modulus) < LIMIT
    assert chi_square([mpz(1)] * 512, key.public.n) > LIMIT  # teeth: randomness left out


def test_rerandomised_ciphertexts_of_one_vector_are_uniform_and_independent(key):
    vector = key.encrypt_rows(np.ones((1, 1)), LANES)
    drawn = [vector.rerandomise().ciphertexts[0] for _ in range(512)]
    assert chi_square(drawn, key.public.nn) < LIMIT
    assert chi_square([a * gmpy2.invert(b, key.public.nn) for a, b in itertools.pairwise(drawn)], key.public.nn) < LIMIT
    assert chi_square(list(vector.ciphertexts) * 512, key.public.nn) > LIMIT


def test_a_residue_masked_over_all_of_z_n_is_uniform_and_one_masked_a_little_is_not(key):
    n, top = key.public.n, mpz(LANES.limit) << 900
    rng = gmpy2.random_state(5)

    def answers(width):
        masks = [gmpy2.mpz_random(rng, width) for _ in range(256)]
        c = [
            a * b % key.public.nn
            for a, b in zip(key.public.encrypt_packed([top] * 256), key.public.encrypt_packed(masks), strict=True)
        ]
        plain = key.decrypt_packed(c)
        assert [(m - r) % n for m, r in zip(plain, masks, strict=True)] == [top] * 256
        return plain

    assert chi_square(answers(n), n) < LIMIT
    assert chi_square(answers(mpz(1) << 64), n) > LIMIT
