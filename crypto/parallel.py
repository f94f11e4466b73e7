"""Work on many big numbers, spread over processes: Python's lock makes threads useless for long loops of products.

What crosses is a public modulus, ciphertexts and a party's own integers, or one scalar as raw bytes: through a pipe
that the two processes alone have, never to a disk or a command line. Classes of secrets refuse to be pickled. Processes
are spawned, never forked (a fork would copy keys and locks of this one).
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TypeVar

import numpy as np

from base.machine import usable_cores

Answer = TypeVar("Answer")
WORTH = 200_000  # products: below that a process takes longer to start than it saves


def spread(work: Callable[..., list[Answer]], pieces: np.ndarray, products: int, *rest: object) -> list[Answer]:
    """Return work(piece, *rest) of `pieces`, split along axis 0 over the cores when there is enough to do.

    `work` is a function of a module, and its answers one list in the order of the pieces. `products` is an estimate of
    the multiplications in all.
    """
    cores = min(usable_cores(), len(pieces)) if products >= WORTH else 1
    if cores < 2:
        return work(pieces, *rest)
    parts: Sequence[np.ndarray] = np.array_split(pieces, cores)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, spawn, initializer=_end_with_parent) as pool:
        found = [pool.submit(work, part, *rest) for part in parts]
        return [answer for future in found for answer in future.result()]


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed node leaves nothing behind."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
