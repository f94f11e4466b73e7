"""Check the golden vectors without a line of the crypto package: Python's integers, hashlib, pycryptodome and phe.

Run it alone (`python tests/golden/crypto/verify.py`) or through tests/crypto/test_golden.py.
"""

import hashlib
import hmac
import json
import math
from fractions import Fraction
from functools import partial
from pathlib import Path

import phe
from Crypto.Cipher import AES
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

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
    verify_answers(v, n, lane * columns)


def verify_answers(v, n, bits):
    """Sums of segments, rows side by side, and rows with a mask above their lanes."""
    a, b, c = hexes(v["ciphertexts"])
    nn, secret = n * n, bytes.fromhex(v["mask_secret"])
    assert hexes(v["segments"]) == [b, a * c % nn]
    assert hexes(v["joined"]) == [a * pow(b, 2**bits, nn) * pow(c, 4**bits, nn) % nn]
    for i, (plain, masked) in enumerate(zip((a, b, c), hexes(v["masked"]), strict=True)):
        drawn = HKDF(secret, 2048 // 8 + 16, b"", SHA256, context=frame(b"accord mask 1", i.to_bytes(8, "big")))
        R = 1 + int.from_bytes(drawn, "big") % ((n >> bits) - 1)
        assert masked == plain * (1 + (R << bits) * n) % nn


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

    def full_domain_hash(message, label=b"accord rsa fdh 1"):
        seed, data, counter = frame(label, key_id, message), b"", 0
        while len(data) < width + 16:
            data += hashlib.sha256(seed + counter.to_bytes(4, "big")).digest()
            counter += 1
        return int.from_bytes(data[: width + 16], "big") % n

    rows = zip(
        v["ids"], hexes(v["hashes"]), hexes(v["factors"]), hexes(v["blinded"]), hexes(v["signed"]),
        hexes(v["signatures"]), v["digests"], v["tags"], strict=True,
    )  # fmt: skip
    for identifier, h, r, blinded, signed, signature, digest, tag in rows:
        assert h == full_domain_hash(identifier.encode())
        assert blinded == h * pow(r, e, n) % n
        assert signed == pow(blinded, d, n)
        assert signature == pow(h, d, n) == signed * pow(r, -1, n) % n
        kept = hashlib.sha256(signature.to_bytes(width, "big")).digest()
        assert digest == kept.hex()
        assert tag == hashlib.sha256(frame(b"accord rsa tag 2", v["run"].encode(), kept)).hexdigest()
    for i, root in enumerate(hexes(v["roots"])):
        assert pow(root, e, n) == full_domain_hash(b"%d" % i, b"accord rsa proof 2")
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


def shared_value(a, b):
    return x25519(a, int.from_bytes(x25519(b, 9), "little"))


def pair_seed(a, b, context):
    publics = sorted([x25519(a, 9), x25519(b, 9)])
    return hkdf(shared_value(a, b), frame(b"accord secagg pair 2", context, *publics))


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
            pads.append((1 if w < u else -1, keystream(pair_seed(secret[u], secret[w], context), width + 1)))
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


def sha(*parts):
    return hashlib.sha256(frame(*parts)).digest()


def raw(texts):
    return {u: bytes.fromhex(text) for u, text in texts.items()}


def by_name(parts):
    return [part for u in sorted(parts) for part in (u.encode(), parts[u])]


def verify_secagg_run(file):
    """A whole round: what each party signs, seals, adds, lists, reveals and remembers, from what each drew."""
    v = load(file)
    roster, t, there = v["roster"], v["threshold"], sorted(v["vectors"])
    signers = {
        u: eddsa.new(ECC.construct(curve="Ed25519", seed=seed), "rfc8032") for u, seed in raw(v["nodes"]).items()
    }
    c, s, b, model, rows = raw(v["c"]), raw(v["s"]), raw(v["b"]), bytes.fromhex(v["model"]), bytes.fromhex(v["rows"])
    C, S = ({u: x25519(key, 9) for u, key in keys.items()} for keys in (c, s))
    lane, fraction, summands = (v["lanes"][name] for name in ("lane", "fraction", "summands"))
    size = len(v["total"])

    # 1. Terms and adverts.
    terms = frame(v["run"].encode(), f"({t or 0}, {v['colluders']})".encode(), *(u.encode() for u in roster))
    attempt = frame(terms, str(v["attempt"]).encode())
    signed = {u: signers[u].sign(frame(b"accord secagg advert 1", attempt, u.encode(), C[u])) for u in roster}
    assert v["adverts"] == {u: {"public": C[u].hex(), "signature": signed[u].hex()} for u in roster}
    layout = f"({v['round']}, Lanes(lane={lane}, fraction={fraction}, summands={summands}), {size})"
    lasting = sha(terms, model, rows, layout.encode())
    context = sha(attempt, lasting, sha(*(signed[u] for u in roster), *(C[u] for u in roster)))

    # 2. Offers: each share is a value of the polynomial at the receiver's place, sealed for it alone.
    shares = {}
    if t is None:
        assert (s, v["offers"], v["polynomials"]) == (c, {}, {u: [] for u in roster})
    else:
        shares = verify_offers(v, signers, c, C, s, S, b, context)
        context = sha(context, *by_name(S))

    # 3. Masked vectors: all that made an offer count, who dropped after it too.
    bound, per = 2 ** (lane - (summands - 1).bit_length() - 1), 64 // lane
    width, vectors = -(-size // per), raw(v["vectors"])
    packed = {}
    for u in there:
        words = [0] * (width + 1)
        for i, x in enumerate(v["values"][u]):
            words[i % width] += (round(x * 2**fraction) + bound) << (lane * (i // width))
        packed[u] = little(words)
        pads = [(1 if w < u else -1, keystream(pair_seed(s[u], s[w], context), width + 1)) for w in roster if w != u]
        pads.append((1, keystream(b[u], width + 1)))
        assert vectors[u] == little([word + sum(sign * pad[i] for sign, pad in pads) for i, word in enumerate(words)])

    # 4. The list, what opens the sum, and what is remembered for later attempts.
    listed = sha(context, *by_name({u: hashlib.sha256(y).digest() for u, y in vectors.items()}))
    for u in there:
        signature = signers[u].sign(frame(b"accord secagg consent 1", u.encode(), listed))
        assert v["consents"][u] == {"listed": listed.hex(), "signature": signature.hex()}
        assert v["reveals"][u] == {
            "seed": b[u].hex() if t is None else "",
            "self_shares": {} if t is None else {w: shares[w, u][34:].hex() for w in there},
            "key_shares": {} if t is None else {w: shares[w, u][:34].hex() for w in roster if w not in there},
        }
        kept = raw(v["kept"][u])
        values, names = hashlib.sha256(packed[u]).digest(), [w.encode() for w in there]
        claimed(v, kept.pop(place(v, ("round", v["round"]))), sha(lasting, values))
        if t is not None:  # of whom: in this run, and for ever with these values
            claimed(v, kept.pop(place(v, ("survivors", v["round"]))), sha(lasting, *names))
            assert kept.pop(f"secagg.list.{sha(sha(model, rows, layout.encode()), values).hex()}") == sha(*names)
        assert kept.keys() == {place(v, ("attempt", i + 1)) for i in range(v["attempt"])}
        assert {len(token) for token in kept.values()} == {32}
    assert v["total"] == [sum(column) for column in zip(*(v["values"][u] for u in there), strict=True)]


def claimed(v, record, over):
    """What a round was over, in which attempt, and a random token."""
    assert record[:40] == over + v["attempt"].to_bytes(8, "big")
    assert len(record) == 72


def verify_offers(v, signers, c, C, s, S, b, context):
    """Return (share of s_u, share of b_u) of every u at every w, as bytes."""
    p, shares = 2**256 + 297, {}
    for u in v["roster"]:
        offer, polynomials = v["offers"][u], [hexes(f) for f in v["polynomials"][u]]
        assert [f[0] for f in polynomials] == [int.from_bytes(secret, "big") for secret in (s[u], b[u])]
        assert {len(f) for f in polynomials} == {v["threshold"]}
        signature = signers[u].sign(frame(b"accord secagg offer 1", context, u.encode(), S[u]))
        assert (offer["context"], offer["public"], offer["signature"]) == (context.hex(), S[u].hex(), signature.hex())
        assert offer["sealed"].keys() == set(v["roster"]) - {u}
        for x, w in enumerate(v["roster"], start=1):
            points = (sum(a * pow(x, i, p) for i, a in enumerate(f)) % p for f in polynomials)
            shares[u, w] = b"".join(bytes([x]) + y.to_bytes(33, "big") for y in points)
            if w != u:
                info = frame(b"accord secagg shares 2", context, S[u], u.encode(), C[u], w.encode(), C[w])
                aes = AES.new(hkdf(shared_value(c[u], c[w]), info), AES.MODE_GCM, nonce=bytes(12))
                assert offer["sealed"][w] == b"".join(aes.encrypt_and_digest(shares[u, w])).hex()
    return shares


def little(words):
    return b"".join((word % 2**64).to_bytes(8, "little") for word in words)


def place(v, claim):
    return "secagg." + sha(v["run"].encode(), repr(claim).encode()).hex()


VERIFIERS = {
    "paillier": verify_paillier,
    "blind_rsa": verify_blind_rsa,
    "hashes": verify_hashes,
    "secagg": verify_secagg,
    "secagg_stop": partial(verify_secagg_run, "secagg_stop"),
    "secagg_continue": partial(verify_secagg_run, "secagg_continue"),
    "curve": verify_curve,
    "noise": verify_noise,
}

if __name__ == "__main__":
    for verify in VERIFIERS.values():
        verify()
