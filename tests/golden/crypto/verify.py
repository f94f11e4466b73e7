"""Check the golden vectors without a line of the crypto package: Python's integers, hashlib, pycryptodome and phe.

Run it alone (`python tests/golden/crypto/verify.py`) or through tests/crypto/test_golden.py.
"""

import hashlib
import hmac
import json
import math
from fractions import Fraction
from pathlib import Path

import phe
from Crypto.Cipher import AES

HERE = Path(__file__).parent


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def hexes(texts):
    return [int(text, 16) for text in texts]


def split(secret, width):
    data = bytes.fromhex(secret)
    return int.from_bytes(data[:width], "big"), int.from_bytes(data[width : 2 * width], "big")


def product(bases, exponents, modulus):
    result = 1
    for base, exponent in zip(bases, exponents, strict=True):
        result = result * pow(base, exponent, modulus) % modulus
    return result


def lanes(m, n, lane, columns):
    """The signed lanes of a plaintext, one by one from the lowest."""
    m = m - n if m > n // 2 else m
    found = []
    for _ in range(columns):
        low = m % (1 << lane)
        low = low - (1 << lane) if low >> (lane - 1) else low
        found.append(low)
        m = (m - low) >> lane
    assert m == 0
    return found


def verify_paillier():
    v = load("paillier")
    p, q = split(v["secret"], 128)
    n, lane, columns, scale = p * q, v["layout"]["lane"], v["layout"]["columns"], 2 ** v["layout"]["fraction"]
    assert p % 4 == q % 4 == 3
    assert n.bit_length() == 2048
    private = phe.PaillierPrivateKey(phe.PaillierPublicKey(n), p, q)
    quantised = [[round(x * scale) for x in row] for row in v["values"]]
    for row, packed, r, c in zip(quantised, map(int, v["packed"]), hexes(v["r"]), hexes(v["ciphertexts"]), strict=True):
        assert packed == sum(x * 2 ** (lane * i) for i, x in enumerate(row))
        assert c == (1 + packed * n) * pow(r, n, n * n) % (n * n)
        assert lanes(private.raw_decrypt(c), n, lane, columns) == row
    T, s = hexes(v["T"]), hexes(v["s"])
    verify_products(v["X"], hexes(v["ciphertexts"]), T, n * n)
    verify_products(list(zip(*v["G"], strict=True)), T, s, n * n)
    plain = [[sum(row[d] * x[k] for row, x in zip(v["X"], quantised, strict=True)) for k in range(3)] for d in range(2)]
    for ciphertexts, expected, values in (
        (T, plain, v["T_values"]),
        (
            s,
            [[sum(g * t[k] for g, t in zip(row, plain, strict=True)) for k in range(3)] for row in v["G"]],
            v["s_values"],
        ),
    ):
        assert [lanes(private.raw_decrypt(c), n, lane, columns) for c in ciphertexts] == expected
        assert values == [[x / scale for x in row] for row in expected]


def verify_products(matrix, bases, results, modulus):
    """results_d = Π_u bases_u^matrix_ud."""
    for d, result in enumerate(results):
        assert result == product(bases, [row[d] for row in matrix], modulus)


def frame(*parts):
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def verify_blind_rsa():
    v = load("blind_rsa")
    p, q = split(v["secret"], 128)
    n, e, width = p * q, 65537, 256
    d = pow(e, -1, math.lcm(p - 1, q - 1))
    key_id = hashlib.sha256(b"accord rsa key 1" + n.to_bytes(width, "big")).digest()

    def full_domain_hash(message):
        seed, data, counter = frame(b"accord rsa fdh 1", key_id, message), b"", 0
        while len(data) < width + 16:
            data += hashlib.sha256(seed + counter.to_bytes(4, "big")).digest()
            counter += 1
        return int.from_bytes(data[: width + 16], "big") % n

    rows = zip(
        v["ids"], hexes(v["hashes"]), hexes(v["factors"]), hexes(v["blinded"]), hexes(v["signed"]),
        hexes(v["signatures"]), v["tags"], strict=True,
    )  # fmt: skip
    for identifier, h, r, blinded, signed, signature, tag in rows:
        assert h == full_domain_hash(identifier.encode())
        assert blinded == h * pow(r, e, n) % n
        assert signed == pow(blinded, d, n)
        assert signature == pow(h, d, n) == signed * pow(r, -1, n) % n
        data = frame(b"accord rsa tag 1", v["run"].encode(), signature.to_bytes(width, "big"))
        assert tag == hashlib.sha256(data).hexdigest()
    for i, root in enumerate(hexes(v["roots"])):
        assert pow(root, e, n) == full_domain_hash(b"accord rsa proof 1/%d" % i)
    assert len(v["roots"]) == 8


def x25519(scalar, u):
    """RFC 7748, §5."""
    k = (int.from_bytes(scalar, "little") & ~7 & ~(1 << 255)) | 1 << 254
    return ladder(k, u).to_bytes(32, "little")


def ladder(k, u):
    """RFC 7748, §5: the Montgomery ladder, in Python's integers; 0 for the point at infinity."""
    prime = 2**255 - 19
    x1, x2, z2, x3, z3, swap = u, 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a % prime, c * b % prime, a * a % prime, b * b % prime
        x3, z3 = pow(da + cb, 2, prime), x1 * pow(da - cb, 2, prime) % prime
        x2, z2 = aa * bb % prime, (aa - bb) * (aa + 121665 * (aa - bb)) % prime
    if swap:
        x2, z2 = x3, z3
    return x2 * pow(z2, prime - 2, prime) % prime


def hkdf(secret, info):
    """RFC 5869 with an empty salt, one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def verify_hashes():
    v = load("hashes")
    north, south = (bytes.fromhex(v["scalars"][name]) for name in ("north", "south"))
    publics = sorted([x25519(north, 9), x25519(south, 9)])
    shared = x25519(north, int.from_bytes(x25519(south, 9), "little"))
    key = hkdf(shared, frame(b"accord keyed hash 1", v["context"].encode(), *publics))
    assert v["tags"] == [hmac.digest(key, i.encode(), "sha256").hex() for i in v["ids"]]
    assert v["pair_key"] == hkdf(shared, frame(b"accord pair key 1", v["context"].encode(), *publics)).hex()


def on_curve(u):
    """Euler's criterion: u^3 + 486662u^2 + u is a square modulo 2^255 - 19, and not 0."""
    prime = 2**255 - 19
    return pow(u**3 + 486662 * u**2 + u, (prime - 1) // 2, prime) == 1


def verify_curve():
    v = load("curve")
    run, rule, points = v["run"].encode(), v["rule"].encode(), v["points"]
    rows = zip(v["ids"], *(points[name] for name in ("hashed", "north", "south", "west")), v["tags"], strict=True)
    for identifier, *chain, tag in rows:
        seed, counter, u = frame(b"accord curve hash 1", run, rule, identifier.encode()), 0, 0
        while not (on_curve(u) and u < 2**255 - 19):
            digest = hashlib.sha256(seed + counter.to_bytes(4, "big")).digest()
            counter, u = counter + 1, int.from_bytes(digest, "little") % 2**255
        expected = [u.to_bytes(32, "little")]
        for name in ("north", "south", "west"):
            expected.append(x25519(bytes.fromhex(v["scalars"][name]), int.from_bytes(expected[-1], "little")))
        assert chain == [point.hex() for point in expected]
        assert tag == hashlib.sha256(frame(b"accord curve tag 1", run, expected[-1])).hexdigest()[:12]  # 44 bits


class Words:
    """AES-256-CTR by pycryptodome, one word of 64 bits at a time."""

    def __init__(self, key):
        self.aes = AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0)

    def below(self, m, n):
        """n words modulo m; words at or past the last multiple of m are replaced together, as often as it takes."""
        words = [self.one() for _ in range(n)]
        while over := [i for i in range(n) if words[i] >= 2**64 // m * m]:
            for i in over:
                words[i] = self.one()
        return [w % m for w in words]

    def one(self):
        return int.from_bytes(self.aes.encrypt(bytes(8)), "little")

    def fair(self, gammas, denominator):
        """Algorithm 1 for fractions γ <= 1, all that still run in one pass: K is odd where the coin shows heads."""
        K, running, heads = 1, list(range(len(gammas))), [False] * len(gammas)
        while running:
            drawn = self.below(denominator * K, len(running))
            stopped = [i for i, u in zip(running, drawn, strict=True) if Fraction(u, denominator) >= gammas[i]]
            for i in stopped:
                heads[i] = K % 2 == 1
            running, K = [i for i in running if i not in stopped], K + 1
        return heads

    def exp_minus(self, gammas, denominator):
        """Algorithm 1 for any γ: ⌊γ⌋ coins of e^−1 first."""
        running, step = list(range(len(gammas))), 0
        while due := [i for i in running if gammas[i] // 1 > step]:
            lost = [i for i, head in zip(due, self.fair([Fraction(1)] * len(due), 1), strict=True) if not head]
            running, step = [i for i in running if i not in lost], step + 1
        heads = self.fair([gammas[i] % 1 for i in running], denominator)
        return [i for i, head in zip(running, heads, strict=True) if head]


def laplace_draws(words, t, n):
    """Algorithm 2 (s = 1): as many candidates as draws are missing, until none is."""
    draws = []
    while len(draws) < n:
        U = words.below(t, n - len(draws))
        U = [U[i] for i in words.exp_minus([Fraction(u, t) for u in U], t)]
        V, running = [0] * len(U), list(range(len(U)))
        while running:
            running = [running[i] for i in words.exp_minus([Fraction(1)] * len(running), 1)]
            for i in running:
                V[i] += 1
        signs = words.below(2, len(U))
        draws += [(u + t * v) * (1 - 2 * b) for u, v, b in zip(U, V, signs, strict=True) if (b, u + t * v) != (1, 0)]
    return draws


def gaussian_draws(words, sigma, n):
    """Algorithm 3 with proposals of scale σ."""
    draws = []
    while len(draws) < n:
        Y = laplace_draws(words, sigma, n - len(draws))
        bias = [(abs(y) - Fraction(sigma**2, sigma)) ** 2 / (2 * sigma**2) for y in Y]
        draws += [Y[i] for i in words.exp_minus(bias, 2 * sigma**2)]
    return draws


def verify_noise():
    v = load("noise")
    for name, sample in (("laplace", laplace_draws), ("gaussian", gaussian_draws)):
        for scale, draws in zip(v["scales"], v[name], strict=True):
            assert draws == sample(Words(bytes.fromhex(v["key"])), scale, len(draws))


def keystream(seed, words):
    data = AES.new(seed, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(8 * words))
    return [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(words)]


def verify_secagg():
    v = load("secagg")
    lane, scale, context = v["lanes"]["lane"], 2 ** v["lanes"]["fraction"], bytes.fromhex(v["context"])
    bound, per = 2 ** (lane - 2 - 1), 64 // lane  # three summands take two bits
    secret = {u: bytes.fromhex(text) for u, text in v["scalars"].items()}
    seeds = {u: bytes.fromhex(text) for u, text in v["seeds"].items()}
    vectors = {u: bytes.fromhex(text) for u, text in v["vectors"].items()}
    width = -(-len(v["total"]) // per)
    for u, y in vectors.items():
        words = [0] * (width + 1)
        for i, x in enumerate(v["values"][u]):
            words[i % width] += (round(x * scale) + bound) << (lane * (i // width))
        pads = [(1, keystream(seeds[u], width + 1))]
        for w in secret.keys() - {u}:
            shared = x25519(secret[u], int.from_bytes(x25519(secret[w], 9), "little"))
            pad = keystream(hkdf(shared, frame(b"accord secagg pair 1", context)), width + 1)
            pads.append((1 if w < u else -1, pad))
        words = [(word + sum(sign * pad[i] for sign, pad in pads)) % 2**64 for i, word in enumerate(words)]
        assert y == b"".join(word.to_bytes(8, "little") for word in words)
    parts = [part for u in sorted(vectors) for part in (u.encode(), hashlib.sha256(vectors[u]).digest())]
    assert v["list"] == hashlib.sha256(frame(context, *parts)).hexdigest()
    assert v["total"] == [sum(column) for column in zip(*v["values"].values(), strict=True)]
    p, f = 2**256 + 297, hexes(v["polynomial"])
    for x, share in enumerate(map(bytes.fromhex, v["shares"]), start=1):
        assert (share[0], int.from_bytes(share[1:], "big")) == (x, sum(c * pow(x, i, p) for i, c in enumerate(f)) % p)
    # Lagrange at 0 through x = 2, 3, 4: weights 6, -8, 3.
    y = [int.from_bytes(bytes.fromhex(share)[1:], "big") for share in v["shares"]]
    assert int(v["rebuilt"], 16) == (6 * y[1] - 8 * y[2] + 3 * y[3]) % p == f[0] == int(v["scalars"]["east"], 16)


VERIFIERS = {
    "paillier": verify_paillier,
    "blind_rsa": verify_blind_rsa,
    "hashes": verify_hashes,
    "secagg": verify_secagg,
    "curve": verify_curve,
    "noise": verify_noise,
}

if __name__ == "__main__":
    for verify in VERIFIERS.values():
        verify()
