"""Secrets that are sealed for the node: nothing else opens them, and no name leaves the folder."""

import errno
import os
import shutil
import stat
import tracemalloc

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from base.errors import CryptoError, EnvironmentMissing
from crypto.node_keys import NodeKeys
from party_node.opening import NAME
from runtime.keys import PartyKeys, run_secrets

NODE = NodeKeys.generate()
SECRET = b"the one secret that no file shows"


def _keys(folder, node=NODE):
    return PartyKeys("bureau", node, {}, folder)


def _file(folder, name):
    return folder / "secrets" / ".sealed" / name


@pytest.fixture
def keys(tmp_path):
    return _keys(tmp_path / "secrets")


def test_what_is_put_comes_back_is_replaced_and_forgotten(keys, tmp_path):
    assert keys.get("curve.run.align") is None
    for data in (SECRET, b"", bytes(100_000)):
        keys.put("curve.run.align", data)
        assert _keys(tmp_path / "secrets").get("curve.run.align") == data
    keys.forget("curve.run.align")
    keys.forget("curve.run.align")
    assert keys.get("curve.run.align") is None
    assert list(tmp_path.rglob("*curve*")) == []


def test_the_file_is_private_shows_nothing_and_differs_each_time(keys, tmp_path):
    keys.put("a", SECRET)
    path = _file(tmp_path, "a")
    first = path.read_bytes()
    keys.put("a", SECRET)
    assert len(first) == len(SECRET) + 28
    assert SECRET[:8] not in first
    assert path.read_bytes()[:12] != first[:12]  # the nonce
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)} == {0o700}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(SECRET) + 27), st.integers(1, 255))
def test_every_changed_byte_is_noticed(keys, tmp_path, at, flip):
    keys.put("a", SECRET)
    sealed = bytearray(_file(tmp_path, "a").read_bytes())
    sealed[at] ^= flip
    _file(tmp_path, "a").write_bytes(sealed)
    with pytest.raises(CryptoError, match="secret a of bureau") as caught:
        keys.get("a")
    assert str(_file(tmp_path, "a")) in caught.value.remedy
    assert SECRET.decode() not in str(caught.value)


@pytest.mark.parametrize("length", [0, 5, 12, 27, 28, len(SECRET) + 27])
def test_a_shortened_file_is_noticed(keys, tmp_path, length):
    keys.put("a", SECRET)
    _file(tmp_path, "a").write_bytes(_file(tmp_path, "a").read_bytes()[:length])
    with pytest.raises(CryptoError, match="secret a of bureau"):
        keys.get("a")


def test_a_file_under_another_name_or_of_another_node_does_not_open(keys, tmp_path):
    keys.put("a", SECRET)
    _file(tmp_path, "b").write_bytes(_file(tmp_path, "a").read_bytes())
    with pytest.raises(CryptoError, match="secret b of bureau"):
        keys.get("b")
    with pytest.raises(CryptoError, match="secret a of bureau"):
        _keys(tmp_path / "secrets", NodeKeys.generate()).get("a")
    assert keys.get("a") == SECRET


def test_what_is_kept_once_is_not_replaced_by_put(keys):
    keys.keep("a", lambda: b"once")
    keys.put("a", SECRET)
    keys.forget("a")
    assert keys.keep("a", lambda: b"other") == b"once"
    assert keys.get("a") is None


def killed(*_):
    raise KeyboardInterrupt


def test_a_killed_writer_leaves_nothing_after_forget_and_other_names_stay(keys, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        for name in ("a", "a.b"):
            with pytest.raises(KeyboardInterrupt):
                keys.put(name, SECRET)
    keys.put("a.b", SECRET)
    keys.forget("a")
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert [name.startswith(".a.b.") for name in left].count(True) == 1
    assert sorted(left)[1:] == ["a.b"]


def test_forgetting_does_not_look_through_all_other_secrets(keys, tmp_path, monkeypatch):
    """A cache of many segments forgets them one by one: each look would be at all of them."""
    for n in range(50):
        keys.put(f"cache.{n}", SECRET)
    seen, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.extend(os.listdir(path)) or scandir(path))
    for n in range(50):
        keys.forget(f"cache.{n}")
    assert len(seen) < 50
    assert not list(tmp_path.rglob("cache.*"))


BAD = (
    "", ".", "..", "../a", "a/../b", "/etc/passwd", "a/b", "a\\b", "a..b", ".a", ".sealed/a", "a\0", "a\n", "a b", "ä",
    "a.", "~a", "$HOME", "*", "a" * 221,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.sampled_from(BAD), st.text().filter(lambda name: not name.isalnum() or not name.isascii())))
@example("../../outside")
def test_a_name_leads_nowhere_else(keys, tmp_path, name):
    """Any text at all: it is refused, or it is one file in the folder of sealed secrets."""
    try:
        keys.put(name, SECRET)
    except CryptoError:
        for call in (keys.get, keys.forget, lambda name: keys.keep(name, bytes)):
            with pytest.raises(CryptoError, match="not a name"):
                call(name)
        assert name not in ("a", "a.b")
    else:
        assert name not in BAD
        assert _file(tmp_path, name).parent.resolve() == (tmp_path / "secrets" / ".sealed").resolve()
        assert keys.get(name) == SECRET
    assert {path.name for path in tmp_path.iterdir()} <= {"secrets"}


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True)
RUNS = st.from_regex(NAME, fullmatch=True).filter(str.isascii)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(RUNS, NAMES), min_size=2, max_size=2, unique=True))
def test_a_secret_of_one_run_and_step_is_never_that_of_another(keys, tmp_path, both):
    """What a node lets in as a run and a step makes a name, whatever the initiator chose, and no two make one."""
    for n, (run, step) in enumerate(both):
        keys.put(f"curve.{run}.{step}", bytes([n]))
    assert [keys.get(f"curve.{run}.{step}") for run, step in both] == [b"\0", b"\1"]
    for run, step in both:
        keys.forget(f"curve.{run}.{step}")
    assert not [path for path in (tmp_path / "secrets").rglob("*") if path.is_file()]


def test_the_longest_name_of_a_run_a_step_and_a_party_fits(keys):
    name = f"curve.{'R' * 89}.{'s' * 64}.{'p' * 50}"
    keys.put(name, SECRET)
    assert keys.get(name) == SECRET


def test_large_data_take_one_more_copy_and_no_third(keys):
    data = bytes(32 << 20)
    tracemalloc.start()
    keys.put("large", data)
    put = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert put < 1.2 * len(data)
    assert keys.get("large") == data


def test_secrets_of_a_run_lie_in_a_folder_that_goes_with_it(tmp_path):
    keys = _keys(tmp_path / "secrets")
    keys.put("run/20261130T1-x/curve.align.bureau", b"scalar")
    keys.put("rsa.bureau", b"stays")
    assert keys.get("run/20261130T1-x/curve.align.bureau") == b"scalar"
    assert keys.get("run/20261130T1-y/curve.align.bureau") is None
    shutil.rmtree(run_secrets(tmp_path / "secrets", "20261130T1-x"))
    assert keys.get("run/20261130T1-x/curve.align.bureau") is None
    assert keys.get("rsa.bureau") == b"stays"
    for name in (
        "peer/../x",
        "peer/a/b/c",
        "peer/a",
        "run/../x",
        "run/a/b/c",
        "other/a/b",
        "run/a",
        "/run/a/b",
        "run//b",
        "run/.a/b",
        "a/b",
    ):
        with pytest.raises(CryptoError, match="not a name"):
            keys.put(name, b"")


def test_all_of_a_peer_goes_at_once_whatever_its_names(keys, tmp_path, monkeypatch):
    names = ["peer/shop/key.2048", "peer/shop/key.3072", "peer/shop/receiver.x.1.0", "peer/shop/period"]
    for name in (*names, "peer/shop2/key.2048", "shop"):
        keys.put(name, SECRET)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            keys.put("peer/shop/key.4096", SECRET)
    keys.forget_peer("shop")
    keys.forget_peer("shop")
    assert [keys.get(name) for name in (*names, "peer/shop2/key.2048", "shop")] == [None] * 4 + [SECRET] * 2
    assert not list((tmp_path / "secrets" / ".peers").glob("shop/*"))
    for name in ("..", "", "a/b", "."):
        with pytest.raises(CryptoError, match="not a name"):
            keys.forget_peer(name)


def test_a_full_disk_leaves_the_secret_that_was_there(keys, monkeypatch):
    keys.put("a", SECRET)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "x")))
        for call in (lambda: keys.put("a", b"other"), lambda: keys.keep("b", lambda: b"once")):
            with pytest.raises(EnvironmentMissing, match="No space left on device"):
                call()
    assert keys.get("a") == SECRET
    keys.put("a", b"other")
    assert keys.get("a") == b"other"
    assert keys.keep("b", lambda: b"once") == b"once"


def test_what_a_party_keeps_for_all_accords_is_apart_from_what_it_keeps_for_one(tmp_path):
    node = NodeKeys.generate()
    pilot, live = (PartyKeys("bureau", node, {}, tmp_path / name, tmp_path / ".party") for name in ("pilot", "live"))
    assert pilot.keep("party/owner", lambda: b"pilot") == live.keep("party/owner", lambda: b"live") == b"pilot"
    assert pilot.keep("owner", lambda: b"p") != live.keep("owner", lambda: b"l")
    with pytest.raises(CryptoError):
        pilot.keep("party/../owner", lambda: b"x")
