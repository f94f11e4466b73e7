"""Big numbers of one width in one contiguous buffer: what travels, and what Arrow shares without a copy.

Numbers are big-endian, `width` bytes each. A sequence is made from its numbers or from its buffer; the other form is
made when somebody asks for it, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import pyarrow as pa
from gmpy2 import mpz

from base.errors import CryptoError


class Residues(Sequence[mpz]):
    """An immutable sequence of integers in [0, 256^width)."""

    def __init__(self, width: int, numbers: Iterable[mpz] | None = None, data: pa.Buffer | None = None) -> None:
        """Take the numbers, or a buffer of n·width bytes that nobody changes."""
        self.width = width
        if data is not None:
            self.data = data
        if numbers is not None:
            self.numbers = tuple(numbers)

    @cached_property
    def numbers(self) -> tuple[mpz, ...]:
        """The numbers."""
        view, w = memoryview(self.data), self.width
        return tuple(mpz(int.from_bytes(view[i : i + w], "big")) for i in range(0, len(view), w))

    @cached_property
    def data(self) -> pa.Buffer:
        """The buffer; OverflowError for a number that is wider."""
        return pa.py_buffer(b"".join(int(x).to_bytes(self.width, "big") for x in self.numbers))

    def to_arrow(self) -> pa.FixedSizeBinaryArray:
        """Return an Arrow array over the same memory."""
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.width), len(self), [None, self.data])

    @classmethod
    def from_arrow(cls, column: pa.ChunkedArray, width: int) -> Residues:
        """Return the numbers of a column, over its own memory where it is one chunk; `CryptoError` for another kind."""
        if column.type != pa.binary(width) or column.null_count:
            raise CryptoError("numbers of another width", expected=width, found=column.type)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if not len(array):
            return cls(width, ())
        return cls(width, data=array.buffers()[1].slice(array.offset * width, len(array) * width))

    def __len__(self) -> int:
        return len(self.numbers) if "numbers" in self.__dict__ else self.data.size // self.width

    def __iter__(self) -> Iterator[mpz]:
        return iter(self.numbers)

    @overload
    def __getitem__(self, index: int) -> mpz: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[mpz, ...]: ...
    def __getitem__(self, index: int | slice) -> mpz | tuple[mpz, ...]:
        """Return one number, or several."""
        return self.numbers[index]

    def __repr__(self) -> str:
        return f"<{len(self)} numbers of {8 * self.width} bits>"
