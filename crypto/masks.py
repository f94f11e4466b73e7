"""Masked words: fixed-point numbers packed in 64-bit words, to which pads that only their holders know are added.

A seed of 32 bytes becomes a pad by AES-256 in counter mode (NIST SP 800-38A, §6.5) from counter 0: Bonawitz et al.
2017, §3.3, "PRG". ASSUMPTION: AES-256 is a pseudorandom permutation; a seed serves one pad (the caller's promise). The
seed of two parties comes from X25519 and HKDF-SHA-256 (`agreement`) over both public keys as they were sent. RFC 7748,
section 7: eight keys (P plus a point of small order) and other spellings of them have one Diffie-Hellman value, so who
copies a's key in another form has, with every party, the value that a has; the bytes make it another seed. ASSUMPTION:
the Diffie-Hellman oracle assumption on Curve25519, which DDH and HKDF as a random oracle give.

Words are uint64 modulo 2^64 for every lane: 2, 4, 8 lanes of 32, 16, 8 bits, 2 of 24, 6 of 10 (in words of 32 bits no
lane would do better). A lane holds q + 2^(b−1), so it is never negative and the sum of at most `lanes.summands` never
reaches its neighbour. Value i stands in word i mod W, lane i div W: lanes are slices of the vector, so no pass over it
is strided. One more word is zero in every vector, the check word: when a pad that is not known is left over in a sum it
is uniform, so it is zero once in 2^64. It says nothing else: whoever adds to a data word changes no other word, and
what is added has to be noticed by what is signed (`secagg`: each party signs H(y) of all vectors).

    q  round(v·2^f), |q| < 2^(b−1), as in `packing.Lanes`
    W  words without the check word: ceil(size / lanes of a word)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from base.errors import CryptoError
from crypto.agreement import frame, hkdf, x25519
from crypto.packing import Lanes

_CHUNK = 1 << 15  # words worked on at a time: buffers of 256 KiB stay in the processor's cache
_ZEROS = bytes(8 * _CHUNK)
_EXACT = 100  # v·2^f is exact or out of range in float32 up to this f; above it Lanes.quantise does it in float64


def pair_seed(private: X25519PrivateKey, public: bytes, context: bytes) -> bytes:
    """Return s_uv, 32 bytes, the same at both ends for one `context`; it tells nothing about other contexts.

    `public` as it was sent, byte by byte: another form of the same key gives another seed.
    """
    publics = sorted([private.public_key().public_bytes_raw(), public])
    return hkdf(x25519(private, public), frame(b"accord secagg pair 2", context, *publics))


def words_of(lanes: Lanes, size: int) -> int:
    """Return how many words a vector of `size` values takes, the check word among them."""
    if lanes.lane > 64 or size < 1:
        raise CryptoError("no lanes of words", expected="lanes up to 64 bits, a value or more", found=lanes.lane)
    return -(-size // (64 // lanes.lane)) + 1


def pack(values: np.ndarray, lanes: Lanes, name: str = "vector") -> np.ndarray:
    """Return the words (W + 1,) uint64 of values of any shape; `CryptoError` by name for NaN, infinity, overflow."""
    flat = np.ascontiguousarray(values).ravel()
    W = words_of(lanes, flat.size) - 1
    if flat.dtype not in (np.float32, np.float64) or lanes.fraction > _EXACT:
        flat = lanes.quantise(flat, name)
    words, q, scaled = np.zeros(W + 1, np.uint64), np.empty(_CHUNK, np.int64), np.empty(_CHUNK, flat.dtype)
    for i in range(0, W, _CHUNK):
        for lane in range(64 // lanes.lane):
            part = flat[lane * W + i : lane * W + min(i + _CHUNK, W)]
            if part.size and not _quantise(part, lanes, scaled[: part.size], q[: part.size]):
                lanes.quantise(flat, name)
            fields = q[: part.size].view(np.uint64)
            fields <<= np.uint64(lane * lanes.lane)
            words[i : i + part.size] |= fields
    return words


def _quantise(part: np.ndarray, lanes: Lanes, scaled: np.ndarray, q: np.ndarray) -> bool:
    """Write q + 2^(b−1) without an array of another size; False when a value does not fit, or is NaN or infinity."""
    bound = 1 << (lanes.value_bits - 1)
    if part.dtype == np.int64:  # quantised and checked by Lanes.quantise
        np.add(part.view(np.uint64), np.uint64(bound), out=q.view(np.uint64))  # 2^63 is no int64
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        np.rint(np.multiply(part, 2.0**lanes.fraction, out=scaled), out=scaled)
    if not (scaled.min() > -bound and scaled.max() < bound):  # a NaN fails both
        return False
    np.copyto(q, scaled, casting="unsafe")
    q += bound
    return True


def add_pads(words: np.ndarray, plus: Iterable[bytes], minus: Iterable[bytes]) -> None:
    """Add to `words`, in place and modulo 2^64, the pads of the seeds `plus`; subtract those of `minus`."""
    pads = [(_keystream(seed), np.add) for seed in plus] + [(_keystream(seed), np.subtract) for seed in minus]
    pad = np.empty(_CHUNK + 2, np.uint64)  # update_into asks for a block more than it writes
    room = pad.view(np.uint8).data
    for i in range(0, words.size, _CHUNK):
        part = words[i : i + _CHUNK]
        for stream, apply in pads:
            stream.update_into(memoryview(_ZEROS)[: 8 * part.size], room)
            apply(part, pad[: part.size].astype("<u8", copy=False), out=part)


def unpack(words: np.ndarray, lanes: Lanes, size: int, contributors: int) -> np.ndarray:
    """Return Σ v (size,): float64, or int64 without fraction bits; `CryptoError` when the pads have not cancelled.

    Noticed surely: a set bit outside the lanes, a lane that `contributors` summands cannot give. A pad that is left
    over, with probability 1 − 2^−64, by the check word. Not noticed: what is added to a data word within its lane.
    """
    W, bound = words_of(lanes, size) - 1, 1 << (lanes.value_bits - 1)
    per, q = 64 // lanes.lane, np.zeros(W * (64 // lanes.lane), np.int64)
    fields = q.view(np.uint64).reshape(per, W)
    for lane in range(per):
        np.right_shift(words[:W], np.uint64(lane * lanes.lane), out=fields[lane])
        fields[lane] &= np.uint64((1 << lanes.lane) - 1)
    spare = words[:W] >> np.uint64(per * lanes.lane) if per * lanes.lane < 64 else np.zeros(1)
    padding = q[size:].any()
    q = q[:size]
    q.view(np.uint64)[:] -= np.uint64(contributors * bound % (1 << 64))
    most = contributors * lanes.limit
    if words[W] or spare.any() or padding or int(q.max()) > most or int(q.min()) < -most:
        raise CryptoError(
            "the masks of a sum do not cancel", expected=f"the masked vectors of {contributors} parties in one round",
            remedy="the parties differ in round, roster, model or rows, or a vector or seed was changed",
        )  # fmt: skip
    return np.ldexp(q.astype(np.float64), -lanes.fraction) if lanes.fraction else q


def digest(words: np.ndarray) -> bytes:
    """Return the SHA-256 of the words as they travel, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(words, "<u8").data).digest()


def _keystream(seed: bytes) -> CipherContext:
    if len(seed) != 32:
        raise CryptoError("a seed has another length", expected="32 bytes", found=len(seed))
    return Cipher(AES256(seed), CTR(bytes(16))).encryptor()
