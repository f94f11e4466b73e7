"""One secret scalar times many points of Curve25519, in this process or in several.

X25519 of `cryptography` (OpenSSL; RFC 7748, section 5) is constant time in the scalar and clamps it: the result lies in
the subgroup of prime order. It keeps the interpreter's lock, so threads gain nothing; processes do, for batches that
take longer than the second or so in which they start. A worker gets the scalar as 32 raw bytes through a pipe that it
alone reads: no secret class is pickled, and nothing that holds a scalar is written to disk or to a command line.
"""

from __future__ import annotations

import multiprocessing
from contextlib import ExitStack
from multiprocessing.connection import Connection

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from base.errors import CryptoError

WIDTH = 32  # bytes of a u coordinate, little-endian


def as_points(data: bytes) -> np.ndarray:
    """Return n u coordinates (n·32 bytes) as an array (n, 32) uint8 over the same memory, read-only."""
    return np.frombuffer(data, np.uint8).reshape(-1, WIDTH)


def multiply(key: X25519PrivateKey, points: np.ndarray, processes: int = 1) -> np.ndarray:
    """Return scalar·point for points (n, 32) uint8, in the same order; `CryptoError` for points of small order."""
    if processes < 1:
        raise CryptoError("a number of processes is not usable", expected="1 or more", found=processes)
    if processes == 1:
        return as_points(_exchange_all(key, points.tobytes()))
    return as_points(_spread(key.private_bytes_raw(), np.array_split(points, processes)))


def _exchange_all(key: X25519PrivateKey, points: bytes) -> bytes:
    exchange, load = key.exchange, X25519PublicKey.from_public_bytes
    try:
        return b"".join([exchange(load(points[i : i + WIDTH])) for i in range(0, len(points), WIDTH)])
    except ValueError:
        raise CryptoError("a multiple of a point is zero", expected="no points of small order") from None


def _spread(scalar: bytes, parts: list[np.ndarray]) -> bytes:
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        connections = []
        for _ in parts:
            ours, theirs = context.Pipe()
            stack.enter_context(ours)
            worker = context.Process(target=_work, args=(theirs,), daemon=True)
            worker.start()
            theirs.close()  # else a worker that died would never end the wait for it
            stack.callback(worker.join)
            stack.callback(worker.terminate)
            connections.append(ours)
        try:
            for connection, part in zip(connections, parts, strict=True):
                connection.send_bytes(scalar)
                connection.send_bytes(part.tobytes())
            return b"".join([connection.recv_bytes() for connection in connections])
        except (EOFError, OSError):
            raise CryptoError("a process that multiplies points ended early", remedy="use processes=1") from None


def _work(connection: Connection) -> None:
    key = X25519PrivateKey.from_private_bytes(connection.recv_bytes())
    connection.send_bytes(_exchange_all(key, connection.recv_bytes()))
