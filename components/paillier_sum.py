"""Secure sum under Paillier: every data_holder learns Σ_j v_j and no v_j; the aggregator adds what it cannot read.

Paillier (1999, scheme 1) on packed vectors. The first data_holder (by name) makes a key pair for this attempt and seals
the private key for the other data_holders; the aggregator has the public key. With its part each party signs a digest
of everything that the round depends on (run, step, attempt, round, roster, key, layout, `bound`). A key holder
decrypts a total only with the signatures of all over the digest that it has itself: an aggregator that shows parties
different models or rosters gets no plaintext. One sum for each round of an attempt; a later attempt may repeat a round
only for the same roster and the same `bound` (else the difference of two totals is one party's vector).

In every ciphertext each party also fills check lanes of its own with numbers that only key holders can compute. A total
in which a party's numbers do not stand exactly once is refused: it is not the sum of one part of each party.

Adversary: semi-honest, static. The aggregator together with one data_holder reads every party's vector. All
data_holders but one together read the last one's: it is what their own parts leave of the total. An aggregator that
deviates (parts left out, repeated, exchanged) gets no total past the check, but for 1 in 2^24 tries; it can add numbers
of its own choosing, as a party can to its part. Not protected: what the total says; fewer than three parties are
refused.

    v_j  vector of party j, any shape, in fixed point of `Lanes`
    r_j  check numbers of party j, in lanes where all others have zeros
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from base.canonical import digest, digest_bytes
from base.errors import ConsentError, CryptoError, SpecMismatch, StateError
from components.contract import Context
from crypto.agreement import frame
from crypto.packing import Lanes
from crypto.paillier import CiphertextVector, PublicKey, SecretKey, total
from crypto.secagg_public import MIN_PARTIES
from crypto.vector import METADATA
from transport.message import FIXED_BINARY, Message, Protection, WireSchema

CHECK_BITS = 24  # an aggregator's chance to pass the check is below 2^-24
CIPHERTEXTS = WireSchema("ciphertexts", {"c": FIXED_BINARY}, METADATA)
PUBLIC_KEY = WireSchema("public_key", {"key": pa.binary()})
SEALED = WireSchema("sealed", {"sealed": pa.binary()})
CONSENTS = WireSchema(
    "consents", {"party": pa.string(), "round": pa.int32(), "context": pa.binary(32), "signature": pa.binary(64)}
)


def sum_messages(reveals: str) -> tuple[Message, ...]:
    """Return the rows of a message table for `Summer` and `relay`; `reveals` says what the total tells."""
    # fmt: off
    return (
        #       name           from           to             schema       protection                  what it reveals
        Message("public_key",  "data_holder", "aggregator",  PUBLIC_KEY,  Protection.PUBLIC,          "nothing: a public key of this attempt"),  # noqa: E501
        Message("wrapped_key", "data_holder", "data_holder", SEALED,      Protection.WRAPPED,         "the attempt's private key, with which the receiver reads totals"),  # noqa: E501
        Message("part",        "data_holder", "aggregator",  CIPHERTEXTS, Protection.PAILLIER,        "the length: the aggregator has no private key"),  # noqa: E501
        Message("consent",     "data_holder", "aggregator",  CONSENTS,    Protection.PUBLIC,          "a signature over a digest of the round"),  # noqa: E501
        Message("total",       "aggregator",  "data_holder", CIPHERTEXTS, Protection.PAILLIER_ANSWER, reveals),
        Message("consents",    "aggregator",  "data_holder", CONSENTS,    Protection.PUBLIC,          "the signatures of all parties"),  # noqa: E501
    )
    # fmt: on


class Summer:
    """A data_holder's side of the sums of one step."""

    def __init__(self, ctx: Context, bits: int = 3072, paid: bool = False) -> None:
        """Agree on the attempt's key pair; `ConsentError` with fewer than three data_holders. `paid`: `masked_sum`."""
        self._ctx = ctx
        self._counted = [ctx.run, ctx.step, *([ctx.attempt] if paid else [])]
        self._roster = ctx.parties("data_holder")
        if len(self._roster) < MIN_PARTIES:
            raise ConsentError(
                "a sum of so few parties shows each what the other sent", expected=MIN_PARTIES, found=len(self._roster)
            )
        self._key = _make_key(ctx, bits) if ctx.party == self._roster[0] else _receive_key(ctx, self._roster[0])
        self._rounds: set[int] = set()

    def total(
        self, values: np.ndarray, lanes: Lanes, round_number: int, bound: bytes, name: str = "vector"
    ) -> np.ndarray:
        """Return Σ_j values_j, flat, the same at every data_holder.

        `bound` is a digest of what the round depends on (the model received, the selection of rows); it must be the
        same at every party. Raises `StateError` for a second sum of a round, `SpecMismatch` when parties disagree on
        what the sum is over, `CryptoError` for values outside the lanes (see `Lanes.clip`).
        """
        # 1. One sum for each round.
        context = self._claim(round_number, bound, lanes, values)

        # 2. The protected part, and the signature without which nobody decrypts.
        checks = self._checks(context, lanes, values.size)
        own, columns = self._roster.index(self._ctx.party), lanes.capacity(self._key.public.bits)
        rows = _with_checks(values, checks, own, columns)
        self._ctx.send("part", self._key.encrypt_rows(rows, lanes, name).to_table())
        self._ctx.send("consent", _consent(self._ctx, round_number, context))

        # 3. The total of all, if all meant this sum and it is made of one part of each. Waiting is time to get ready
        # for the next round, which is as large as a rule.
        with self._key.pool.filling(len(rows)):
            answer = self._ctx.recv("total")
        vector = CiphertextVector.from_table(answer, self._key.public, lanes)
        self._check_consents(self._ctx.recv("consents"), context)
        if (vector.length, vector.columns, vector.weight) != (rows.size, rows.shape[1], len(self._roster)):
            raise CryptoError("a total is not of all parts", expected=f"{rows.size} lanes of {len(self._roster)} parts")
        return _checked(self._key.decrypt_rows(vector), checks, values.size)

    def _claim(self, round_number: int, bound: bytes, lanes: Lanes, values: np.ndarray) -> bytes:
        """Return the context of a round that has not been summed before; `StateError` otherwise.

        The key store also remembers the own values: two totals would tell by how much these have changed.
        """
        ctx = self._ctx
        lasting = [ctx.run, ctx.step, round_number, *self._roster, bound.hex(), repr(lanes), values.size]
        record = bytes.fromhex(digest([*lasting, digest_bytes(np.asarray(values, np.float64).tobytes())]))
        kept = ctx.keys.keep(f"sum.{digest([*self._counted, round_number])}", lambda: record)
        if round_number in self._rounds or kept != record:
            raise StateError(
                "a second sum of one round would show a party's part", expected="one sum for each round",
                found=f"round {round_number} again", remedy="start a new run",
            )  # fmt: skip
        self._rounds.add(round_number)
        return bytes.fromhex(digest([*lasting, ctx.attempt, self._key.public.fingerprint]))

    def _checks(self, context: bytes, lanes: Lanes, size: int) -> np.ndarray:
        """Return r (ciphertexts, parties, lanes) in units of the lanes: key holders know it, the aggregator does not.

        Every ciphertext has its own, so none can be exchanged for another or come from one party alone.
        """
        most = min(lanes.limit, 2**31 - 1)
        each = -(-CHECK_BITS // most.bit_length())
        data = lanes.capacity(self._key.public.bits) - each * len(self._roster)
        if data < 1:
            raise CryptoError(
                "a ciphertext has no room for values beside the check lanes",
                expected=f"more than {each * len(self._roster)} lanes", found=data + each * len(self._roster),
                remedy="a longer key, or shorter lanes",
            )  # fmt: skip

        def drawn(row: int, party: str) -> np.ndarray:
            info = frame(b"accord sum check 1", context, party.encode(), row.to_bytes(8, "big"))
            return np.frombuffer(self._key.derive(info, 8 * each), ">u8") % np.uint64(2 * most + 1)

        found = [[drawn(row, party) for party in self._roster] for row in range(-(-size // data))]
        r = np.array(found, np.int64).reshape(-1, len(self._roster), each) - most
        return np.ldexp(r.astype(np.float64), -lanes.fraction) if lanes.fraction else r

    def _check_consents(self, consents: pa.Table, context: bytes) -> None:
        rows = consents.to_pylist()
        if tuple(row["party"] for row in rows) != self._roster:
            raise ConsentError("a total without the consent of all", expected=len(self._roster), found=len(rows))
        for row in rows:
            self._ctx.keys.verify(row["party"], _signed(row["party"], row["context"]), row["signature"])
        differing = [row["party"] for row in rows if row["context"] != context]
        if differing:
            raise SpecMismatch(
                "the parties do not agree on what a sum is over", expected="one model, catalogue and roster",
                found=f"another context at {', '.join(differing)}", remedy="compare the inputs of this step",
            )  # fmt: skip


def relay(ctx: Context, rounds: Iterable[int], after: Callable[[int], None] = lambda round_number: None) -> None:
    """Add the parts of `rounds` sums in the order of the parties' names, return the totals, then call `after`."""
    roster, done = ctx.parties("data_holder"), set[int]()
    key = PublicKey.from_bytes(ctx.recv("public_key", from_=roster[0])["key"][0].as_py())
    for _ in rounds:
        # 2. A part and a consent from everyone, for a round that was not summed before.
        parts, consents = [], []
        for party in roster:
            parts.append(CiphertextVector.from_table(ctx.recv("part", from_=party), key))
            consents.append(ctx.recv("consent", from_=party))
        numbers = {row["round"] for table in consents for row in table.to_pylist()}
        if len(numbers) != 1 or numbers & done or any(part.weight != 1 for part in parts):
            raise StateError("the parts are not of one new round", found=f"rounds {sorted(numbers)}")
        done |= numbers

        # 3.
        ctx.send("total", total(parts).to_table())
        ctx.send("consents", pa.concat_tables(consents))
        after(*numbers)


def _with_checks(values: np.ndarray, checks: np.ndarray, own: int, columns: int) -> np.ndarray:
    """Return a row for each ciphertext: values, then check lanes, zero but for party `own`'s.

    They are the top lanes, so a part that somebody shifted leaves the ciphertext.
    """
    mine = np.zeros_like(checks)
    mine[:, own] = checks[:, own]
    ciphertexts, width = len(checks), checks.shape[1] * checks.shape[2]
    data = np.zeros((ciphertexts, columns - width), values.dtype)
    data.flat[: values.size] = values.ravel()
    return np.hstack([data, mine.reshape(ciphertexts, width)])


def _checked(rows: np.ndarray, checks: np.ndarray, size: int) -> np.ndarray:
    """Return the total's values; `CryptoError` unless every party's check numbers stand in it exactly once."""
    data, found = np.split(rows, [rows.shape[1] - checks.shape[1] * checks.shape[2]], axis=1)
    wrong = np.unique(np.nonzero(found.reshape(checks.shape) != checks)[0])
    values = data.ravel()
    if len(wrong) or values[size:].any():
        raise CryptoError(
            "a total is not the sum of one part of each party", expected="every party's check numbers, once",
            found=f"others in {len(wrong)} of {len(checks)} ciphertexts", remedy="ask the aggregator",
        )  # fmt: skip
    return values[:size]


def _make_key(ctx: Context, bits: int) -> SecretKey:
    key = SecretKey.generate(bits)
    ctx.send("public_key", pa.table({"key": pa.array([key.public.to_bytes()], pa.binary())}))
    for party in ctx.parties("data_holder"):
        if party != ctx.party:
            sealed = ctx.keys.wrap(party, key.to_bytes(), _key_context(ctx))
            ctx.send("wrapped_key", pa.table({"sealed": pa.array([sealed], pa.binary())}), to=party)
    return key


def _receive_key(ctx: Context, maker: str) -> SecretKey:
    sealed = ctx.recv("wrapped_key", from_=maker)["sealed"][0].as_py()
    return SecretKey.from_bytes(ctx.keys.unwrap(maker, sealed, _key_context(ctx)))


def _key_context(ctx: Context) -> bytes:
    return f"accord sum key 1/{ctx.run}/{ctx.step}/{ctx.attempt}".encode()


def _consent(ctx: Context, round_number: int, context: bytes) -> pa.Table:
    signature = ctx.keys.sign(_signed(ctx.party, context))
    values = ([ctx.party], [round_number], [context], [signature])
    kinds = CONSENTS.columns.items()
    return pa.table({name: pa.array(value, kind) for value, (name, kind) in zip(values, kinds, strict=True)})


def _signed(party: str, context: bytes) -> bytes:
    return b"accord sum consent 1/" + party.encode() + b"/" + context
