import stat

import pytest
from cryptography import x509

from base.errors import CryptoError, EnvironmentMissing, PeerForeign
from party_node import identity


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "north_bank"
    identity.provision(folder, "north_bank", tmp_path / "ca")
    return folder


def test_the_party_is_the_first_name_and_hosts_follow(home):
    pem = (home / "keys" / "tls.crt").read_bytes()
    assert identity.certificate_name(pem) == "north_bank"
    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(n.value) for n in names] == ["north_bank", "localhost", "127.0.0.1"]
    identity.self_test(home, "north_bank")


@pytest.mark.parametrize("client", identity.CLIENTS)
def test_a_client_certificate_has_the_client_name_and_cannot_serve(home, client):
    pem = (home / "keys" / "clients" / f"north_bank.{client}.crt").read_bytes()
    assert identity.certificate_name(pem) == f"north_bank.{client}"
    uses = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


def test_keys_are_closed_to_others_and_provision_changes_nothing_that_exists(home, tmp_path):
    files = sorted(p for p in (home / "keys").rglob("*") if p.suffix in (".key", ".pem"))
    assert len(files) == 1 + len(identity.CLIENTS) + 2
    assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    before = {p: p.read_bytes() for p in (home / "keys").rglob("*") if p.is_file()}
    identity.provision(home, "north_bank", tmp_path / "ca")
    assert {p: p.read_bytes() for p in (home / "keys").rglob("*") if p.is_file()} == before


def test_the_public_keys_of_a_node_hold_no_private_one(home):
    public = identity.public_keys(home)
    assert public == identity.make_node_keys(home)
    assert set((home / "keys" / "public.json").read_text().replace('"', " ").split()) & {"signing", "agreement"}
    assert len(public.signing) == len(public.agreement) == 32


def test_a_real_organisation_keeps_its_key(tmp_path):
    ca, key = tmp_path / "ca", tmp_path / "own" / "tls.key"
    identity.make_authority(ca)
    csr = identity.request(key, "west_bank", ["node.west.example", "10.0.0.7"])
    assert b"PRIVATE" not in csr
    crt = identity.sign_request(ca, csr, "west_bank")
    assert identity.certificate_name(crt) == "west_bank"
    assert x509.load_pem_x509_certificate(crt).public_key() == x509.load_pem_x509_csr(csr).public_key()


def test_the_keeper_of_the_ca_says_the_name(tmp_path):
    identity.make_authority(tmp_path / "ca")
    csr = identity.request(tmp_path / "a.key", "west_bank")
    with pytest.raises(PeerForeign, match="not the one expected"):
        identity.sign_request(tmp_path / "ca", csr, "north_bank")


@pytest.mark.parametrize("other", ["north_bank", "North_Bank", "north_bank."])
def test_a_request_that_names_a_second_party_is_refused(tmp_path, other):
    # Such a certificate would pass for the second party when it serves: callers check the server by name.
    identity.make_authority(tmp_path / "ca")
    csr = identity.request(tmp_path / "a.key", "west_bank", ["localhost", other])
    with pytest.raises(PeerForeign, match="second party"):
        identity.sign_request(tmp_path / "ca", csr, "west_bank")


@pytest.mark.parametrize("name", ["", "North", "a/b", "north_bank.", ".cli", "a.b.c", "x" * 65, "-a"])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(PeerForeign):
        identity.request(tmp_path / "a.key", name)


def test_self_test_names_each_fault(home, tmp_path):
    with pytest.raises(PeerForeign, match="first name"):
        identity.self_test(home, "south_bank")
    (home / "keys" / "tls.key").chmod(0o644)
    with pytest.raises(EnvironmentMissing, match="read by others") as error:
        identity.self_test(home, "north_bank")
    assert "chmod 600" in error.value.remedy
    (home / "keys" / "tls.key").chmod(0o600)
    (home / "secrets").mkdir()
    for name in ("keys/signing.pem", "keys/party.secret", "secrets/rsa.north_bank.3072"):
        (home / name).touch()
        (home / name).chmod(0o640)
        with pytest.raises(EnvironmentMissing, match="read by others"):
            identity.self_test(home, "north_bank")
        (home / name).chmod(0o600)
    (home / "keys" / "signing.pem").chmod(0o640)
    with pytest.raises(CryptoError, match="open to others"):
        identity.make_node_keys(home)
    (home / "keys" / "tls.crt").unlink()
    with pytest.raises(EnvironmentMissing, match="no certificate"):
        identity.self_test(home, "north_bank")


def test_an_expired_certificate_is_named(home, tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "_LEAF_DAYS", -1 / 48)  # half an hour ago
    (home / "keys" / "tls.crt").unlink()
    identity.provision(home, "north_bank", tmp_path / "ca")
    with pytest.raises(PeerForeign, match="out of date"):
        identity.self_test(home, "north_bank")
