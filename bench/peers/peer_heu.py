"""sf-heu, scheme ZPaillier (Damgård-Jurik-Nielsen randomness): with its own batch encoder, and given our packing.

Its batch encoder puts two floats into a plaintext, the most it offers. Given our packing, it gets whole plaintexts of
63 lanes of 32 bits, made and taken apart with numpy here, which its users would have to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from serve import Clock, Operation, check, serve

BITS, LANES, LANE_BYTES = 2048, 63, 4
FRACTION = 20


class Heu:
    """A key and its encoders."""

    def __init__(self) -> None:
        """Import heu."""
        import numpy as np
        from heu import numpy as hnp
        from heu import phe

        kit = hnp.setup(phe.SchemaType.ZPaillier, BITS)
        self.versions = {"sf-heu": version("sf-heu")}
        self._np, self._hnp, self._draw = np, hnp, np.random.default_rng(1)
        self._encryptor, self._decryptor, self._evaluator = kit.encryptor(), kit.decryptor(), kit.evaluator()
        self._big, self._integers, self._batch = (
            kit.bigint_encoder(), kit.integer_encoder(1), kit.batch_float_encoder(10**6, 32)
        )  # fmt: skip
        self._kept: dict[str, Any] = {}

    def _pack(self, values: Any) -> Any:
        np = self._np
        q = np.rint(np.ldexp(values, FRACTION)).astype(np.int64) + (1 << 30)  # no sign; two of them fit a lane
        rows = q.astype("<u4").reshape(-1, LANES)
        return np.array([int.from_bytes(row.tobytes(), "little") for row in rows], dtype=object)

    def _unpack(self, plain: Any) -> Any:
        data = self._np.frombuffer(plain.to_bytes(LANES * LANE_BYTES, "little"), "<u4")
        return self._np.ldexp(data.astype(self._np.float64) - (1 << 31), -FRACTION)

    def encrypt(self, n: int) -> Mapping[str, Any]:
        """Encrypt n packed plaintexts; kept for `add` and `one_hot`."""
        plain = self._hnp.array(self._pack(self._draw.normal(size=n * LANES)), self._big)
        with Clock() as clock:
            self._kept["c"] = self._encryptor.encrypt(plain)
        return {"count": n, "cpu": clock.seconds}

    def decrypt(self, n: int) -> Mapping[str, Any]:
        """Decrypt n packed plaintexts."""
        c = self._encryptor.encrypt(self._hnp.array(self._pack(self._draw.normal(size=n * LANES)), self._big))
        with Clock() as clock:
            self._decryptor.decrypt(c)
        return {"count": n, "cpu": clock.seconds}

    def add(self, n: int) -> Mapping[str, Any]:
        """Add n ciphertexts, array by array."""
        times = -(-n // self._kept["c"].size)
        with Clock() as clock:
            for _ in range(times):
                self._evaluator.add(self._kept["c"], self._kept["c"])
        return {"count": times * self._kept["c"].size, "cpu": clock.seconds}

    def end_to_end(self, n: int) -> Mapping[str, Any]:
        """Encrypt n values twice with the batch encoder, add, decrypt."""
        x, y = self._draw.normal(size=(2, n // 2, 2))
        with Clock() as clock:
            first, second = (self._encryptor.encrypt(self._hnp.array(v, self._batch)) for v in (x, y))
            found = self._decryptor.decrypt(self._evaluator.add(first, second)).to_numpy(self._batch)
        check(self._np.abs(found.reshape(x.shape) - x - y).max() < 1e-5, "sums of the batch encoder")
        return {"count": x.size, "cpu": clock.seconds, "bytes": len(first.serialize()) / x.size}

    def packed(self, n: int) -> Mapping[str, Any]:
        """The same with our packing."""
        x, y = self._draw.normal(size=(2, n // LANES * LANES))
        with Clock() as clock:
            first, second = (self._encryptor.encrypt(self._hnp.array(self._pack(v), self._big)) for v in (x, y))
            found = self._unpack(self._decryptor.decrypt(self._evaluator.add(first, second)))
        check(self._np.abs(found - x - y).max() < 1e-5, "sums of packed plaintexts")
        return {"count": x.size, "cpu": clock.seconds, "bytes": len(first.serialize()) / x.size}

    def matvec(self, m: int, d: int) -> Mapping[str, Any]:
        """Multiply 16-bit X^T (d, m) with m encrypted rows."""
        if "rows" not in self._kept or self._kept["rows"].size != m:
            plain = self._hnp.array(self._draw.integers(-(2**15), 2**15, (m, 1)), self._integers)
            self._kept["rows"] = self._encryptor.encrypt(plain)
        X = self._hnp.array(self._draw.integers(-32767, 32768, (d, m)), self._integers)
        with Clock() as clock:
            self._evaluator.matmul(X, self._kept["rows"])
        return {"count": m * d, "cpu": clock.seconds}

    def one_hot(self, n: int, segments: int) -> Mapping[str, Any]:
        """Add rows into segments."""
        ids = self._draw.integers(0, segments, n)
        c = self._kept["c"]
        chosen = [(self._np.flatnonzero(ids == s) % c.size).tolist() for s in range(segments)]
        with Clock() as clock:
            self._evaluator.batch_select_sum(c, chosen)
        return {"count": n, "cpu": clock.seconds}


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Return versions and operations."""
    peer = Heu()
    operations = (peer.encrypt, peer.decrypt, peer.add, peer.end_to_end, peer.matvec, peer.one_hot, peer.packed)
    return peer.versions, {operation.__name__: operation for operation in operations}


if __name__ == "__main__":
    serve(load)
