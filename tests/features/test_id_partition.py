"""On Spark every id is once, in the bucket and with the point that the plain path gives it."""

import hashlib
import resource
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException

from base.errors import AccordError, EnvironmentMissing
from features.id_partition import bucket_numbers, partition, read_bucket

SALT = bytes(range(16))
WIDTH = 33
LIBSODIUM = 16887158705429222260
IDS = [f"customer {n:05d} é" for n in range(3000)]


def points(key):
    """A stand-in for masking: a keyed hash, whose key travels in the closure."""
    return lambda ids: np.frombuffer(
        b"".join(hashlib.blake2b(i.encode(), digest_size=WIDTH, key=key).digest() for i in ids), np.uint8
    ).reshape(-1, WIDTH)


@pytest.mark.spark
@pytest.mark.parametrize(("at_once", "kind"), [(1 << 19, pa.string()), (700, pa.large_string())])
def test_spark_gives_what_the_plain_path_gives(spark, tmp_path, at_once, kind):
    told, key = [], b"k" * 32
    ids = pa.array(["before", *IDS], kind).slice(1)  # an array that does not begin at its buffer's start
    partition(spark, ids, 7, SALT, points(key), WIDTH, tmp_path, lambda *row: told.append(row), at_once)
    wanted = np.array(bucket_numbers(IDS, SALT, 7))
    plain = points(key)(IDS)
    everyone = []
    for b in range(7):
        rows, found = read_bucket(tmp_path, b)
        assert rows.dtype == np.int64
        np.testing.assert_array_equal(rows, np.flatnonzero(wanted == b))  # ascending, as a stable sort has them
        np.testing.assert_array_equal(found, plain[rows])
        everyone.extend(rows.tolist())
    assert sorted(everyone) == list(range(len(IDS)))
    assert told[-1] == (len(IDS), len(IDS), "ids")
    assert len(told) == -(-len(IDS) // at_once)


@pytest.mark.spark
@pytest.mark.parametrize("ids", [[], ["one"]])
def test_a_bucket_without_ids_is_there_and_empty(spark, tmp_path, ids):
    partition(spark, pa.array(ids, pa.string()), 3, SALT, points(b"k"), WIDTH, tmp_path)
    sizes = []
    for b in range(3):
        rows, found = read_bucket(tmp_path, b)
        assert found.shape == (len(rows), WIDTH)
        assert found.dtype == np.uint8
        sizes.append(len(rows))
    assert sorted(sizes) == [0, 0, len(ids)]


def _fails(ids):
    raise KeyError(ids[0])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("work", "told"),
    [
        (_fails, "the work on ids failed: KeyError"),
        (lambda ids: np.zeros((len(ids), WIDTH - 1), np.uint8), "another form"),
        (lambda ids: np.zeros((len(ids) - 1, WIDTH), np.uint8), "another form"),
        (lambda ids: np.zeros((len(ids), WIDTH)), "another form"),
    ],
)
def test_work_that_fails_or_returns_another_form_stops_and_no_id_is_told(spark, tmp_path, work, told):
    with pytest.raises(PythonException, match=told) as caught:
        partition(spark, pa.array(IDS[:10]), 2, SALT, work, WIDTH, tmp_path)
    assert "customer" not in str(caught.value)


def test_more_buckets_than_files_may_be_open_are_refused_with_a_remedy(tmp_path):
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(EnvironmentMissing, match="ulimit -n"):
        partition(_Cluster("local[2]"), pa.array(IDS), most, SALT, points(b"k"), WIDTH, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("at_once", [1 << 19, 700])  # refused at the end of a file, or before
def test_a_full_disk_is_named_with_its_place_and_no_id(spark, tmp_path, at_once):
    full, room = tmp_path / "full", tmp_path / "room"
    for folder in (full, room):
        folder.mkdir()
    (full / "bucket-1.parquet").symlink_to("/dev/full")
    with pytest.raises(EnvironmentMissing, match="No space left on device") as caught:
        partition(spark, pa.array(IDS), 3, SALT, points(b"k"), WIDTH, full, at_once=at_once)
    assert caught.value.where == str(full)
    assert "make room" in caught.value.remedy
    assert "customer" not in str(caught.value)
    partition(spark, pa.array(IDS), 3, SALT, points(b"k"), WIDTH, room, at_once=at_once)
    assert sum(len(read_bucket(room, b)[0]) for b in range(3)) == len(IDS)


@dataclass
class _Cluster:
    """What is asked of a session before anything is sent."""

    master: str
    conf: dict = field(default_factory=dict)

    @property
    def sparkContext(self):
        return self

    def createDataFrame(self, table):
        raise _Sent


class _Sent(Exception):
    pass


@pytest.mark.parametrize("master", ["spark://10.0.0.1:7077", "yarn", "k8s://https://10.0.0.1"])
def test_nothing_is_sent_to_a_cluster_in_clear(tmp_path, master):
    for conf in ({}, {"spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "false"}):
        with pytest.raises(EnvironmentMissing, match="does not encrypt") as caught:
            partition(_Cluster(master, conf), pa.array(IDS), 2, SALT, points(b"k"), WIDTH, tmp_path)
        assert isinstance(caught.value, AccordError)
    for option in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"):
        with pytest.raises(_Sent):
            partition(_Cluster(master, {option: "true"}), pa.array(IDS), 2, SALT, points(b"k"), WIDTH, tmp_path)


def test_the_bucket_of_an_id_is_the_same_in_every_version():
    """The value is libsodium's: `crypto_generichash_blake2b_salt_personal`, 8 bytes, no key, zero personalisation."""
    assert bucket_numbers(["ä1"], SALT, 1 << 64) == [LIBSODIUM]
    assert bucket_numbers(["ä1"], SALT, 1000) == [LIBSODIUM % 1000]
    assert set(bucket_numbers(IDS, SALT, 7)) == set(range(7))
