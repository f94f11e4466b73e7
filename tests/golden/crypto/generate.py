"""Write the golden vectors of the crypto package; run from the root: `python -m tests.golden.crypto.generate`.

Inputs are fixed (keys are made once and then read back from the files), so a second run changes nothing. What stands
in the files is checked by `verify.py`, which shares no line with the package.
"""

import hashlib
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from gmpy2 import mpz

from crypto import masks, secagg, secagg_claims, shamir
from crypto.blind_rsa import digest, tag
from crypto.curve import CurveSecret, hash_to_curve, tag_bytes, tags
from crypto.keyed_hash import EphemeralKey
from crypto.matrix import matvec, multi_exp
from crypto.node_keys import NodeKeys
from crypto.noise import Stream, discrete_gaussian, discrete_laplace
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, SecretKey
from crypto.residues import Residues
from crypto.rsa import E, RsaSecretKey
from crypto.secagg_public import Terms, Total, list_digest

HERE = Path(__file__).parent
IDS = ["7", "05", "ü", "customer 12"]


def number(name, bits):
    """A fixed number of `bits` bits: SHA-256 in counter mode over a name."""
    data = b"".join(hashlib.sha256(f"{name}/{i}".encode()).digest() for i in range(-(-bits // 256)))
    return int.from_bytes(data, "big") >> (-bits % 256)


def paillier():
    path = HERE / "paillier.json"
    key = SecretKey.from_bytes(bytes.fromhex(json.loads(path.read_text())["secret"])) if path.exists() else None
    key = key or SecretKey.generate(2048)
    n, nn, lanes = key.public.n, key.public.nn, Lanes(lane=64, fraction=10, summands=2**36)
    values = np.array([[1.5, -2.25, 0.0], [-1000.125, 3.0, 7.5], [0.1, -0.1, 32767.0]])
    packed = lanes.pack(lanes.quantise(values), 3)
    r = [number(f"r/{i}", 2048) % int(n) for i in range(3)]
    ciphertexts = tuple((1 + m * n) * mpz(pow(x, int(n), int(nn))) % nn for m, x in zip(packed, r, strict=True))
    rows = CiphertextVector(lanes, 9, 3, 1, key.public, Residues(512, ciphertexts))
    X = np.array([[1, -128], [0, 127], [1, 5]], dtype=np.int8)
    G = np.array([[-32768, 32767], [0, 1], [300, -7], [1, 1]], dtype=np.int16)
    T = matvec(X, rows)
    s = multi_exp(G, T)
    return {
        "secret": key.to_bytes().hex(),
        "layout": {"lane": 64, "fraction": 10, "columns": 3},
        "values": values.tolist(),
        "packed": [str(m) for m in packed],
        "r": [f"{x:x}" for x in r],
        "ciphertexts": [f"{int(c):x}" for c in ciphertexts],
        "X": X.tolist(),
        "T": [f"{int(c):x}" for c in T.ciphertexts],
        "T_values": key.decrypt_rows(T).tolist(),
        "G": G.tolist(),
        "s": [f"{int(c):x}" for c in s.ciphertexts],
        "s_values": key.decrypt_rows(s).tolist(),
        "segments": [f"{int(c):x}" for c in rows.segment_sum(np.array([1, 0, 1]), 2).ciphertexts],
        "joined": [f"{int(c):x}" for c in rows.compress().ciphertexts],
        "mask_secret": number("mask", 256).to_bytes(32, "big").hex(),
        "masked": [f"{int(c):x}" for c in rows.mask_above(number("mask", 256).to_bytes(32, "big")).ciphertexts],
    }


def blind_rsa():
    path = HERE / "blind_rsa.json"
    key = RsaSecretKey.from_bytes(bytes.fromhex(json.loads(path.read_text())["secret"])) if path.exists() else None
    key = key or RsaSecretKey.generate(2048)
    hashes = [key.public.hash(i.encode()) for i in IDS]
    factors = [number(f"blinding/{i}", 2048) % int(key.public.n) for i in range(len(IDS))]
    n = key.public.n
    blinded = [h * pow(r, E, int(n)) % n for h, r in zip(hashes, factors, strict=True)]
    signatures = key.sign(hashes)
    return {
        "secret": key.to_bytes().hex(),
        "ids": IDS,
        "run": "run-1",
        "hashes": [f"{int(x):x}" for x in hashes],
        "factors": [f"{x:x}" for x in factors],
        "blinded": [f"{int(x):x}" for x in blinded],
        "signed": [f"{int(x):x}" for x in key.sign(blinded)],
        "signatures": [f"{int(x):x}" for x in signatures],
        "digests": [digest(key.public, x).hex() for x in signatures],
        "tags": [tag(digest(key.public, x), "run-1").hex() for x in signatures],
        "roots": [f"{int(x):x}" for x in key.prove()],
    }


def hashes_and_pairs():
    scalars = {name: number(name, 256).to_bytes(32, "big") for name in ("north", "south")}
    north, south = (X25519PrivateKey.from_private_bytes(scalars[name]) for name in ("north", "south"))
    one = EphemeralKey()
    one._private, one.public = north, north.public_key().public_bytes_raw()
    peer = NodeKeys(Ed25519PrivateKey.from_private_bytes(scalars["south"]), south).public
    keys = NodeKeys(Ed25519PrivateKey.from_private_bytes(scalars["north"]), north)
    return {
        "scalars": {name: scalar.hex() for name, scalar in scalars.items()},
        "ids": IDS,
        "context": "run-1",
        "tags": [t.hex() for t in one.agree(peer.agreement, b"run-1").tags(IDS)],
        "pair_key": keys.pair_key(peer, "run-1").hex(),
    }


def curve():
    names, run, rule, width = ("north", "south", "west"), "run-1", "rule 1", tag_bytes(len(IDS), len(IDS))
    scalars, points = {name: number(name, 256).to_bytes(32, "big") for name in names}, {}
    masked = hash_to_curve(IDS, run, rule)
    points["hashed"] = masked
    for name in names:
        secret = CurveSecret(run, rule)
        secret._key = X25519PrivateKey.from_private_bytes(scalars[name])
        masked = secret.mask(IDS, run) if name == "north" else secret.mask_again(masked, run)
        points[name] = masked
    return {
        "scalars": {name: scalar.hex() for name, scalar in scalars.items()},
        "ids": IDS,
        "run": run,
        "rule": rule,
        "points": {name: [bytes(row).hex() for row in rows] for name, rows in points.items()},
        "tags": [bytes(row).hex() for row in tags(masked, run, width)],
    }


def noise():
    key, scales = number("noise", 256).to_bytes(32, "big"), [1, 3, 1000, 2**24]
    return {
        "key": key.hex(),
        "scales": scales,
        "laplace": [discrete_laplace(t, 50, stream=Stream(key)).tolist() for t in scales],
        "gaussian": [discrete_gaussian(s, 50, stream=Stream(key)).tolist() for s in scales],
    }


def secagg_pads():
    lanes, names = Lanes(lane=10, fraction=3, summands=3), ("east", "north", "south")
    context = number("context", 256).to_bytes(32, "big")
    scalars = {name: number(f"mask/{name}", 256).to_bytes(32, "big") for name in names}
    seeds = {name: number(f"self/{name}", 256).to_bytes(32, "big") for name in names}
    keys = {name: X25519PrivateKey.from_private_bytes(scalars[name]) for name in names}
    values = {name: [(number(f"{name}/{i}", 8) - 127.5 + 0.5) / 8 for i in range(20)] for name in names}
    vectors = {}
    for u in names:
        pairs = {v: masks.pair_seed(keys[u], keys[v].public_key().public_bytes_raw(), context) for v in names if v != u}
        vectors[u] = masks.pack(np.array(values[u]), lanes)
        masks.add_pads(vectors[u], [seeds[u], *(pairs[v] for v in pairs if v < u)], [pairs[v] for v in pairs if v > u])
    total = sum(vectors.values())
    masks.add_pads(total, [], seeds.values())
    digests = {u: masks.digest(y) for u, y in vectors.items()}
    f = [int.from_bytes(scalars["east"], "big"), number("f/1", 256), number("f/2", 256)]
    shares = [shamir.Share(x, shamir.evaluate(f, x)) for x in range(1, 6)]
    return {
        "lanes": {"lane": 10, "fraction": 3, "summands": 3},
        "context": context.hex(),
        "scalars": {name: scalar.hex() for name, scalar in scalars.items()},
        "seeds": {name: seed.hex() for name, seed in seeds.items()},
        "values": values,
        "vectors": {u: y.astype("<u8").tobytes().hex() for u, y in vectors.items()},
        "list": list_digest(context, digests).hex(),
        "polynomial": [f"{c:x}" for c in f],
        "shares": [share.to_bytes().hex() for share in shares],
        "rebuilt": shamir.reconstruct(shares[1:4], 3).hex(),
        "total": masks.unpack(total, lanes, 20, 3).tolist(),
    }


class FixedNode:
    """A party's node whose keys, store and randomness are numbers of its name."""

    def __init__(self, party):
        self.party, self.store, self.drawn, self.polynomials = party, {}, 0, []
        self.seed = number(f"node/{party}", 256).to_bytes(32, "big")
        self._signing = Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, data):
        return self._signing.sign(data)

    def verify(self, party, data, signature):
        FixedNode(party)._signing.public_key().verify(signature, data)

    def keep(self, name, make):
        return self.store.setdefault(name, make())

    def draw(self):
        self.drawn += 1
        return number(f"drawn/{self.party}/{self.drawn}", 256).to_bytes(32, "big")

    def polynomial(self, secret, t):
        self.polynomials.append([secret, *(int.from_bytes(self.draw(), "big") for _ in range(t - 1))])
        return self.polynomials[-1]

    def do(self, work, *args):
        """Call a method of the party while all that it draws comes from this node."""
        generate = SimpleNamespace(generate=lambda: X25519PrivateKey.from_private_bytes(self.draw()))
        system = SimpleNamespace(urandom=lambda _: self.draw())
        with (
            patch.object(secagg, "os", system),
            patch.object(secagg_claims, "os", system),
            patch.object(secagg, "X25519PrivateKey", generate),
            patch.object(shamir, "polynomial", self.polynomial),
        ):
            return work(*args)


def secagg_run(terms, there):
    """Round 3 of an attempt, all of it; who is not `there` drops out after its offer."""
    lanes, size, model, rows = Lanes(16, 4, 4), 10, number("model", 256), number("rows", 256)
    nodes = {u: FixedNode(u) for u in terms.roster}
    parties = {u: node.do(secagg.Party, terms, u, node) for u, node in nodes.items()}
    adverts = {u: party.advert for u, party in parties.items()}
    offers = {}
    for u, party in parties.items():
        party.meet(adverts)
        digests = (x.to_bytes(32, "big") for x in (model, rows))
        offers[u] = nodes[u].do(party.begin, 3, *digests, lanes, size)
    values = {u: [(number(f"{u}/{i}", 8) - 128) / 16 for i in range(size)] for u in terms.roster}
    sent = None if terms.threshold is None else offers
    rounds, vectors = {u: party._round for u, party in parties.items()}, {}
    total = Total(terms, lanes, size, sent)
    for u in there:
        vectors[u] = nodes[u].do(parties[u].mask, np.array(values[u]), sent)
        total.add(u, vectors[u])
    consents = {u: nodes[u].do(parties[u].agree, total.survivors) for u in there}
    reveals = {u: parties[u].reveal(consents) for u in there}
    return {
        "run": terms.run,
        "attempt": terms.attempt,
        "roster": list(terms.roster),
        "threshold": terms.threshold,
        "colluders": terms.colluders,
        "round": 3,
        "lanes": {"lane": 16, "fraction": 4, "summands": 4},
        "model": f"{model:064x}",
        "rows": f"{rows:064x}",
        "nodes": {u: node.seed.hex() for u, node in nodes.items()},
        "c": {u: party._key.private_bytes_raw().hex() for u, party in parties.items()},
        "s": {u: one.key.private_bytes_raw().hex() for u, one in rounds.items()},
        "b": {u: one.b.hex() for u, one in rounds.items()},
        "polynomials": {u: [[f"{c:x}" for c in f] for f in node.polynomials] for u, node in nodes.items()},
        "adverts": {u: {"public": one.public.hex(), "signature": one.signature.hex()} for u, one in adverts.items()},
        "offers": {
            u: {
                "context": one.context.hex(),
                "public": one.public.hex(),
                "signature": one.signature.hex(),
                "sealed": {v: data.hex() for v, data in one.sealed.items()},
            }
            for u, one in (sent or {}).items()
        },
        "values": values,
        "vectors": {u: y.astype("<u8").tobytes().hex() for u, y in vectors.items()},
        "consents": {u: {"listed": x.listed.hex(), "signature": x.signature.hex()} for u, x in consents.items()},
        "reveals": {
            u: {
                "seed": one.seed.hex(),
                "self_shares": {v: s.to_bytes().hex() for v, s in sorted(one.self_shares.items())},
                "key_shares": {v: s.to_bytes().hex() for v, s in sorted(one.key_shares.items())},
            }
            for u, one in reveals.items()
        },
        "kept": {u: {name: nodes[u].store[name].hex() for name in sorted(nodes[u].store)} for u in there},
        "total": total.unmask(reveals).tolist(),
    }


VECTORS = {
    "paillier": paillier,
    "blind_rsa": blind_rsa,
    "hashes": hashes_and_pairs,
    "secagg": secagg_pads,
    "secagg_stop": partial(secagg_run, Terms("run-1/fit", 2, ("east", "north", "south")), ("east", "north", "south")),
    "secagg_continue": partial(
        secagg_run, Terms("run-1/fit", 2, ("east", "north", "south", "west"), 3, 1), ("east", "south", "west")
    ),
    "curve": curve,
    "noise": noise,
}

if __name__ == "__main__":
    for name, make in VECTORS.items():
        text = json.dumps(make(), indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n")
