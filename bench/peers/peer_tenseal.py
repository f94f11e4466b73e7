"""TenSEAL, CKKS of degree 8192 (128-bit security by the homomorphic encryption standard), 4,096 values a ciphertext."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from serve import Clock, Operation, check, serve

DEGREE, MODULUS, SCALE_BITS = 8192, [60, 40, 60], 40


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Import TenSEAL and make a context with one thread."""
    import numpy as np
    import tenseal

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=MODULUS, n_threads=1)
    context.global_scale = 2**SCALE_BITS
    draw = np.random.default_rng(1)

    def end_to_end(n: int) -> Mapping[str, Any]:
        x, y = draw.normal(size=(2, -(-n // (DEGREE // 2)), DEGREE // 2))
        a, b = x.tolist(), y.tolist()
        with Clock() as clock:
            first, second = ([tenseal.ckks_vector(context, row) for row in v] for v in (a, b))
            found = [(p + q).decrypt() for p, q in zip(first, second, strict=True)]
        check(np.abs(np.array(found) - x - y).max() < 1e-5, "sums")
        return {"count": x.size, "cpu": clock.seconds, "bytes": len(first[0].serialize()) / (DEGREE // 2)}

    return {"tenseal": version("tenseal")}, {"end_to_end": end_to_end}


if __name__ == "__main__":
    serve(load)
