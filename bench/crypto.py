"""Cryptography beside its peers, at 2048 bits, interleaved in one run and per CPU-second of all threads.

    phe, sf-heu          Paillier: operations, vectors end to end, X^T[[d]], one-hot rows
    TenSEAL              CKKS: another scheme and another assumption; reported
    openmined-psi, spu   private set intersection; ids a side over the CPU seconds of BOTH parties
    pycryptodome         blind RSA signatures id by id

Each library does what it does best with its own means; its rate is for one value, entry or id, so sizes may differ.
Keys, tables of fixed bases and the encrypted rows of X are made before and do not count. spu's default curve setting
leaves a bit of each id readable, its sound one does not (`bench/peers/peer_spu.py` says why).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.crypto_meter import BITS, Sizes
from bench.crypto_psi import Intersections
from bench.crypto_tables import tables
from bench.crypto_vectors import Vectors
from bench.frame import Case, Figure, Suite
from bench.peer import Peer, Place, notes, open_peers, peer_rate
from bench.plot import picture

OPS, VALUES, ENTRIES, ROWS, IDS = "ops/s", "values/s", "entries/s", "rows/s", "ids/s"


@contextmanager
def cases(sizes: Sizes | None = None, place: Place | None = None) -> Iterator[Suite]:
    """Yield the cases of every peer that runs, and our own figures without one."""
    sizes = sizes or Sizes()
    with open_peers(place) as (peers, found):
        sent = dict[str, float]()
        listed = _compared(Vectors(sizes, sent), Intersections(sizes, sent), _Peers(peers, sent), sizes)
        header: dict[str, Any] = {"bits": BITS, "sizes": asdict(sizes), "avx512ifma": _ifma(), "peers": found}
        header["bytes_per_item"] = sent
        yield Suite(listed, header, notes(found), lambda rows: tables(rows, sent), picture)


class _Peers:
    """Figures of peers: `count` a CPU-second of what the peer itself reports."""

    def __init__(self, peers: dict[str, Peer], sent: dict[str, float]) -> None:
        self._peers, self._sent = peers, sent

    def figure(self, key: str, asked: str, **arguments: int) -> Figure:
        """Return f() = the rate of PEER.OPERATION; `Unmeasured` when the peer does not run. Bytes go under `key`."""

        def keep(answer: Mapping[str, Any]) -> None:
            if "bytes" in answer:
                self._sent[key] = float(answer["bytes"])

        return peer_rate(self._peers, asked, keep, **arguments)


def _compared(ours: Vectors, psi: Intersections, peers: _Peers, s: Sizes) -> list[Case]:
    def case(name: str, label: str, unit: str, own: Figure, asked: str, target: str = "", **n: int) -> Case:
        return Case(name, label, unit, own, peers.figure(f"{name}: {label}", asked, **n), target or None)

    end, X, hot, curve = ours.end_to_end, ours.matvec, ours.one_hot, psi.curve
    m, d, few, ids = s.peer_rows, s.peer_columns, max(1, s.ciphertexts // 10), s.curve_ids
    return [
        case("encrypt", "phe", OPS, ours.encrypt, "phe.encrypt", n=few),
        case("encrypt", "sf-heu", OPS, ours.encrypt, "heu.encrypt", n=s.ciphertexts),
        case("decrypt", "phe", OPS, ours.decrypt, "phe.decrypt", n=few),
        case("decrypt", "sf-heu", OPS, ours.decrypt, "heu.decrypt", n=max(1, s.ciphertexts // 3)),
        case("add", "phe", OPS, ours.add, "phe.add", n=s.additions),
        case("add", "sf-heu", OPS, ours.add, "heu.add", n=s.additions),
        Case("encrypt, own key", "", OPS, ours.encrypt_own, None),
        Case("encrypt, ready pool", "", OPS, ours.encrypt_pooled, None),
        case("end to end", "phe", VALUES, end, "phe.end_to_end", ">= 300", n=s.one_by_one),
        case("end to end", "sf-heu, own encoder", VALUES, end, "heu.end_to_end", ">= 25", n=2 * s.one_by_one),
        case("end to end", "sf-heu, our packing", VALUES, end, "heu.packed", ">= 0.9", n=s.packed),
        case("end to end", "TenSEAL CKKS", VALUES, end, "tenseal.end_to_end", n=s.packed),
        Case("pairwise masks", "", VALUES, ours.pairwise_masks, None),
        case("X^T[[d]]", "phe", ENTRIES, X, "phe.matvec", ">= 8", m=m, d=d),
        case("X^T[[d]]", "sf-heu", ENTRIES, X, "heu.matvec", ">= 35", m=m, d=d),
        case("one-hot rows", "phe", ROWS, hot, "phe.one_hot", n=s.people, segments=20),
        case("one-hot rows", "sf-heu", ROWS, hot, "heu.one_hot", n=s.people, segments=20),
        case("curve PSI", "openmined-psi", IDS, curve, "openmined.psi", ">= 1.6", n=ids),
        case("curve PSI", "spu ECDH, default", IDS, curve, "spu.ecdh", ">= 0.18", n=2 * ids),
        case("curve PSI", "spu ECDH, sound", IDS, curve, "spu.ecdh_sound", ">= 4", n=max(2, ids // 2)),
        case("curve PSI", "spu ECDH, FourQ", IDS, curve, "spu.ecdh_fourq", n=2 * ids),
        case("curve PSI", "spu KKRT", IDS, curve, "spu.kkrt", n=s.transfer_ids),
        case("curve PSI", "spu RR22", IDS, curve, "spu.rr22", n=s.transfer_ids),
        case("RSA PSI", "pycryptodome", IDS, psi.rsa, "pycryptodome.psi", ">= 1.2", ids=s.rsa_ids),
    ]  # fmt: skip


def _ifma() -> bool | None:
    """Tell whether the processor has AVX-512 IFMA: spu's default curve is far faster with it."""
    info = Path("/proc/cpuinfo")
    return "avx512ifma" in info.read_text().split() if info.exists() else None
