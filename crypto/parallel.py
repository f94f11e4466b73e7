"""Work on many big numbers, spread over processes: Python's lock makes threads useless for long loops of products.

What crosses is a public modulus, ciphertexts and a party's own integers, or one scalar as raw bytes: through a pipe
that the two processes alone have, never to a disk or a command line. Classes of secrets refuse to be pickled. Processes
are spawned, never forked (a fork would copy keys and locks of this one), on first use, and stay for the next call: a
spawned process imports for a second or so. They end with this one, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.connection import wait
from typing import TypeVar

import numpy as np

from base.errors import CryptoError
from base.machine import usable_cores

Answer = TypeVar("Answer")
WORTH = 200_000  # products: below that a process takes longer to start than it saves


def spread(work: Callable[..., list[Answer]], pieces: np.ndarray, products: int, *rest: object) -> list[Answer]:
    """Return work(piece, *rest) of `pieces`, split along axis 0 over the cores when there is enough to do.

    `work` is a function of a module, and its answers one list in the order of the pieces. `products` is an estimate of
    the multiplications in all.
    """
    cores = usable_cores()
    if products < WORTH or min(cores, len(pieces)) < 2:
        return work(pieces, *rest)
    parts: Sequence[np.ndarray] = np.array_split(pieces, min(cores, len(pieces)))
    try:
        found = [_workers().submit(work, part, *rest) for part in parts]
        return [answer for future in found for answer in future.result()]
    except BrokenProcessPool:
        release()
        raise CryptoError("a process that helped with large numbers died", remedy="look for lack of memory") from None


def release() -> None:
    """End the processes; the next call of `spread` starts others."""
    if _workers.cache_info().currsize:
        _workers().shutdown()
    _workers.cache_clear()


@cache
def _workers() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(usable_cores(), multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed node leaves nothing behind."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
