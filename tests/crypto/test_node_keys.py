import copy
import pickle

import pytest

from base.errors import CryptoError, PeerForeign
from crypto.node_keys import NodeKeys, NodePublicKeys


@pytest.fixture(scope="module")
def nodes():
    return [NodeKeys.generate() for _ in range(3)]


def test_a_signature_verifies_for_its_data_and_node_alone(nodes):
    north, south, _ = nodes
    signature = north.sign(b"data")
    assert len(signature) == 64
    north.public.verify("north", b"data", signature)
    for key, data, sig in [
        (north, b"Data", signature),
        (south, b"data", signature),
        (north, b"data", bytes([signature[0] ^ 1]) + signature[1:]),
        (north, b"data", b""),
    ]:
        with pytest.raises(PeerForeign, match="north"):
            key.public.verify("north", data, sig)


def test_a_wrapped_secret_opens_for_its_receiver_sender_and_context_alone(nodes):
    north, south, west = nodes
    sealed = north.wrap(south.public, b"secret", b"run 1")
    assert len(sealed) == len(b"secret") + 48
    assert south.unwrap(north.public, sealed, b"run 1") == b"secret"
    for opener, sender, context in [(west, north, b"run 1"), (south, west, b"run 1"), (south, north, b"run 2")]:
        with pytest.raises(CryptoError):
            opener.unwrap(sender.public, sealed, context)


def test_every_changed_byte_of_a_wrapped_secret_is_noticed(nodes):
    north, south, _ = nodes
    sealed = north.wrap(south.public, b"secret", b"")
    for i in range(len(sealed)):
        # X25519 ignores the top bit of a point, but the key is derived from all 32 bytes as they were sent.
        with pytest.raises(CryptoError):
            south.unwrap(north.public, sealed[:i] + bytes([sealed[i] ^ 0x80]) + sealed[i + 1 :], b"")
    for short in (b"", sealed[:31], sealed[:32], sealed[:40]):
        with pytest.raises(CryptoError):
            south.unwrap(north.public, short, b"")


def test_two_wraps_of_one_secret_differ(nodes):
    north, south, _ = nodes
    assert north.wrap(south.public, b"s", b"") != north.wrap(south.public, b"s", b"")


def test_a_node_can_seal_for_itself(nodes):
    north = nodes[0]
    assert north.unwrap(north.public, north.wrap(north.public, b"s", b"c"), b"c") == b"s"


def test_the_pair_key_is_common_to_two_nodes_and_new_for_each_run(nodes):
    north, south, west = nodes
    assert north.pair_key(south.public, "run-1") == south.pair_key(north.public, "run-1")
    keys = {
        north.pair_key(south.public, "run-1"),
        north.pair_key(south.public, "run-2"),
        north.pair_key(west.public, "run-1"),
        south.pair_key(west.public, "run-1"),
    }
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}


def test_key_files_are_private_and_come_back(nodes, tmp_path):
    nodes[0].save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["agreement.pem", "signing.pem"]
    assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o600}
    assert NodeKeys.load(tmp_path).public == nodes[0].public
    with pytest.raises(FileExistsError):
        nodes[1].save(tmp_path)


def test_an_open_key_file_and_another_kind_of_key_are_refused(nodes, tmp_path):
    nodes[0].save(tmp_path)
    (tmp_path / "signing.pem").chmod(0o640)
    with pytest.raises(CryptoError, match="open to others"):
        NodeKeys.load(tmp_path)
    (tmp_path / "signing.pem").write_bytes((tmp_path / "agreement.pem").read_bytes())
    (tmp_path / "signing.pem").chmod(0o600)
    with pytest.raises(CryptoError, match="another kind of key"):
        NodeKeys.load(tmp_path)


def test_public_keys_travel_as_json_and_malformed_ones_are_refused(nodes):
    public = nodes[0].public
    assert NodePublicKeys.from_document(public.to_document()) == public
    for broken in ({}, {"signing": "zz", "agreement": "00"}, {"signing": "00" * 31, "agreement": "00" * 32}):
        with pytest.raises(CryptoError):
            NodePublicKeys.from_document(broken)


def test_private_keys_are_never_shown_pickled_or_copied(nodes):
    assert repr(nodes[0]) == "<NodeKeys, not shown>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CryptoError, match="neither pickled nor copied"):
            leak(nodes[0])
