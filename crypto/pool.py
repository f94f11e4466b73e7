"""Ready encryptions of zero, made while their party waits for others: then encrypting is one product a ciphertext.

Each is taken out once and never comes back. A pool belongs to one key of one process; a restored process starts with an
empty one, so none is ever used twice.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gmpy2 import mpz

from crypto.secret import Secret


class Pool(Secret):
    """Obfuscators of one key."""

    def __init__(self, make: Callable[[int], list[mpz]]) -> None:
        """Take the function that makes `count` fresh n-th residues modulo n²."""
        self._make = make
        self._ready: deque[mpz] = deque()
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._ready)

    def take(self, count: int) -> list[mpz]:
        """Return `count` fresh obfuscators, ready ones first."""
        if self._process != os.getpid():  # a fork has a copy of what its parent uses
            self._ready, self._process = deque(), os.getpid()
        found: list[mpz] = []
        while self._ready and len(found) < count:
            found.append(self._ready.popleft())
        return found + self._make(count - len(found))

    @contextmanager
    def filling(self, level: int) -> Iterator[None]:
        """While the block waits for something else, fill the pool up to `level`; stops within one obfuscator."""
        done = threading.Event()
        errors: list[BaseException] = []

        def fill() -> None:
            try:
                while not done.is_set() and len(self._ready) < level:
                    self._ready.extend(self._make(1))
            except BaseException as error:  # handed to the thread that waits
                errors.append(error)

        thread = threading.Thread(target=fill, name="obfuscators", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if errors:
            raise errors[0]
