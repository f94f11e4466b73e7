"""Large sets of ids on Spark: put into buckets, worked on, one Parquet file a bucket.

The executors get ids and the function `work` with what it closes over, for example a secret scalar as raw bytes. So the
cluster must be the party's own: a key there is as safe as its executors. Unless the master is local, Spark must encrypt
what it sends (`spark.network.crypto.enabled` or `spark.ssl.rpc.enabled`), or nothing is sent. Files are written by the
driver alone: executors need no disk in common with it, and see no file of the node.

Memory, beside the ids that are given: `SLICE` ids are on the way at a time, in Python as two copies of an id, its point
and 12 bytes, in the JVM as one or two more; then a row group waits in each open file. A reader holds one bucket.
"""

from __future__ import annotations

import hashlib
import resource
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from base.errors import EnvironmentMissing, StateError
from base.files import refused

Work = Callable[[list[str]], np.ndarray]  # n ids -> (n, w) uint8; Spark sends it to the executors
SLICE = 1 << 19  # ids in one job
_FILES = 256  # open files of the node beside those of the buckets
_ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")


def bucket_numbers(ids: Sequence[str], salt: bytes, buckets: int) -> list[int]:
    """Return the bucket of each id: BLAKE2b of 8 bytes with the salt (16 bytes), modulo the number of buckets."""
    blake2b = hashlib.blake2b
    return [int.from_bytes(blake2b(i.encode(), digest_size=8, salt=salt).digest(), "big") % buckets for i in ids]


def partition(
    spark: Any,
    ids: pa.Array,
    buckets: int,
    salt: bytes,
    work: Work,
    width: int,
    folder: Path,
    progress: Callable[[int, int, str], None] = lambda done, total, unit: None,
    at_once: int = SLICE,
) -> None:
    """Write work(ids) to `folder`, bucket by bucket, for `read_bucket`; the folder is empty and private.

    ids       (N,) text without nulls; the row of an id is its place here
    width     w, bytes of a point
    progress  told after each slice, as `Context.progress`

    `EnvironmentMissing` when the machine lacks open files or room on the disk, or the cluster encryption. When `work`
    fails or returns another form, Spark's `PythonException` says so: kind and line of the error, never an id.
    """
    _require_encryption(spark)
    _require_files(buckets)
    form = pa.schema([("row", pa.int64()), ("point", pa.binary(width))])
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}  # points look random
    judge = _executor(salt, buckets, work, width)
    with _refused_at(folder), ExitStack() as files:
        writers = [files.enter_context(pq.ParquetWriter(_file(folder, b), form, **options)) for b in range(buckets)]
        for start in range(0, len(ids), at_once):
            texts = ids.slice(start, at_once)
            numbers = pa.array(np.arange(start, start + len(texts)), pa.int64())
            frame = spark.createDataFrame(pa.table({"row": numbers, "id": texts.cast(pa.string())}))
            done = frame.mapInArrow(judge, "row long, bucket int, point binary").toArrow()
            _write(done.sort_by([("bucket", "ascending"), ("row", "ascending")]), numbers, writers, form)
            progress(start + len(texts), len(ids), "ids")


def read_bucket(folder: Path, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows (n,) int64 ascending, points (n, w) uint8) of bucket b; n may be 0."""
    table = pq.read_table(_file(folder, b))
    points = table["point"].combine_chunks()
    data = np.frombuffer(points.buffers()[1] or b"", np.uint8)[: len(points) * points.type.byte_width]
    return table["row"].to_numpy(), data.reshape(-1, points.type.byte_width)


@contextmanager
def _refused_at(folder: Path) -> Iterator[None]:
    """Say where the machine refused to write: Arrow's errors name no file, and closing a file writes too."""
    try:
        yield
    except OSError as error:
        raise refused(error, folder) from error


def _executor(salt: bytes, buckets: int, work: Work, width: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what runs in the cluster: record batches (row, id) in, (row, bucket, point) out."""

    def judge(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch.column("id").to_pylist()
        points = _worked(work, texts, width)
        offsets = pa.py_buffer(np.arange(0, (len(texts) + 1) * width, width, dtype=np.int32))
        binary = pa.Array.from_buffers(pa.binary(), len(texts), [None, offsets, pa.py_buffer(points.tobytes())])
        columns = [batch.column("row"), pa.array(bucket_numbers(texts, salt, buckets), pa.int32()), binary]
        return pa.RecordBatch.from_arrays(columns, names=["row", "bucket", "point"])

    return lambda batches: map(judge, batches)


def _worked(work: Work, texts: list[str], width: int) -> np.ndarray:
    """Return work(texts), checked; what it raises may hold an id and Spark prints it: its kind and line remain."""
    try:
        points = work(texts)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        raise StateError(f"the work on ids failed: {type(error).__name__}", where=where) from None
    if points.dtype != np.uint8 or points.shape != (len(texts), width):
        raise StateError("the work on ids has another form", expected=f"(n, {width}) uint8", found=points.dtype)
    return points


def _write(table: pa.Table, rows: pa.Array, writers: list[Any], form: pa.Schema) -> None:
    """Append each bucket's part of a slice, sorted by bucket and row; every row of the slice is there once."""
    if not np.array_equal(np.sort(table["row"].to_numpy()), rows.to_numpy()):
        raise StateError("Spark returned other rows", expected=len(rows), found=len(table))
    cuts = np.searchsorted(table["bucket"].to_numpy(), np.arange(len(writers) + 1))
    parts = table.select(["row", "point"]).cast(form)
    for b, writer in enumerate(writers):
        if cuts[b] < cuts[b + 1]:
            writer.write_table(parts.slice(cuts[b], cuts[b + 1] - cuts[b]))


def _file(folder: Path, b: int) -> Path:
    return folder / f"bucket-{b}.parquet"


def _require_files(buckets: int) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and buckets + _FILES > most:
        raise EnvironmentMissing(
            "too few files may be open at once for so many buckets", expected=buckets + _FILES, found=most,
            remedy=f"start the node with ulimit -n {buckets + _FILES}, or take fewer buckets",
        )  # fmt: skip


def _require_encryption(spark: Any) -> None:
    if spark.sparkContext.master.startswith("local"):
        return
    if all(spark.conf.get(option, "false") != "true" for option in _ENCRYPTED):
        raise EnvironmentMissing(
            "the Spark cluster does not encrypt what it sends, and ids and a secret would be sent",
            expected=" or ".join(f"{option}: true" for option in _ENCRYPTED),
            found="neither",
            remedy="set it under spark.options in party.yaml, and at the cluster",
        )
