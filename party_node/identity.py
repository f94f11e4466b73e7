"""Who a node is: its TLS certificate, its signing and agreement keys, and the certificates of its clients.

The FIRST subject alternative name of a certificate is the name that Flight reports for a peer, so issuance puts the
party (or client) name there and hosts after it. A party's name has no dot; a client's name is `<party>.<client>`, so
that no client certificate can pass for a party. Callers check a server by its party name, never by its host; a host
therefore has a dot or is `localhost`.

`provision` makes everything with a CA of the demo. A real organisation runs `request` on its own machine and sends the
CSR to whoever keeps the consortium's CA; the key never leaves the machine.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from base.canonical import canonical_bytes
from base.errors import EnvironmentMissing, PeerForeign
from base.files import write_whole
from crypto.node_keys import FILES, NodeKeys, NodePublicKeys
from runtime.keys import party_secret

CLIENTS = ("airflow", "cli", "approver", "operator")
LOCAL_HOSTS = ("localhost", "127.0.0.1")
PARTY = re.compile(r"[a-z][a-z0-9_]{0,63}")
CLIENT = re.compile(r"[a-z][a-z0-9_]{0,63}\.[a-z][a-z0-9_]{0,63}")
_CA_DAYS, _LEAF_DAYS = 3650, 397


def make_authority(folder: Path, name: str = "Accord demo consortium") -> Path:
    """Make `ca.key` and `ca.crt` in `folder` unless they exist; return the certificate's path."""
    key_path, crt_path = folder / "ca.key", folder / "ca.crt"
    if key_path.exists() and crt_path.exists():
        return crt_path
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = _builder(subject, subject, key.public_key(), _CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    write_whole(key_path, _pem(key), private=True)
    crt_path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return crt_path


def request(key_path: Path, name: str, hosts: Sequence[str] = ()) -> bytes:
    """Return a CSR (PEM) for `name`, the first SAN, and `hosts`; the key is made at `key_path` unless it exists."""
    _check_name(name)
    if not key_path.exists():
        write_whole(key_path, _pem(ec.generate_private_key(ec.SECP256R1())), private=True)
    key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    names: list[x509.GeneralName] = [x509.DNSName(name), *map(_host, hosts)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def sign_request(ca: Path, csr_pem: bytes, name: str) -> bytes:
    """Return the certificate (PEM) for a CSR whose first SAN is `name`; the keeper of the CA says the name."""
    _check_name(name)
    csr = x509.load_pem_x509_csr(csr_pem)
    names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = _first(names)
    if not csr.is_signature_valid or found != name:
        raise PeerForeign("a certificate request is not the one expected", expected=name, found=found)
    others = [str(n.value) for n in names][1:]
    # Names are compared without regard to case, and a dot at the end means nothing.
    plain = [other.lower().rstrip(".") for other in others]
    if any(other != "localhost" and PARTY.fullmatch(other) for other in plain):
        raise PeerForeign("a certificate request names a second party", expected=f"{name} and hosts with a domain")
    ca_crt = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([] if "." in name else [ExtendedKeyUsageOID.SERVER_AUTH])]
    builder = _builder(_subject(name), ca_crt.subject, csr.public_key(), _LEAF_DAYS)  # type: ignore[arg-type]
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(names, critical=False)
    return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def provision(home: Path, party: str, ca: Path, hosts: Sequence[str] = ()) -> None:
    """Give a node its TLS certificate and one for each client, signed by the CA in `ca`; existing files stay."""
    keys = home / "keys"
    make_authority(ca)
    make_node_keys(home)
    (keys / "ca.crt").write_bytes((ca / "ca.crt").read_bytes())
    _issue(ca, keys / "tls.key", party, [*LOCAL_HOSTS, *(h for h in hosts if h not in LOCAL_HOSTS)])
    for client in CLIENTS:
        _issue(ca, keys / "clients" / f"{party}.{client}.key", f"{party}.{client}")


def make_node_keys(home: Path) -> NodePublicKeys:
    """Make the node's signing and agreement keys and its party secret unless they exist; return the public halves."""
    folder = home / "keys"
    (folder / "clients").mkdir(parents=True, exist_ok=True, mode=0o700)
    for private in (home, folder):  # the database and the store are nobody else's business either
        private.chmod(0o700)
    party_secret(folder)
    if not all((folder / name).exists() for name in FILES):
        NodeKeys.generate().save(folder)
    public = NodeKeys.load(folder).public
    write_whole(folder / "public.json", canonical_bytes(public.to_document()))
    return public


def public_keys(home: Path) -> NodePublicKeys:
    """Return what `make_node_keys` wrote for the other parties: a node's public keys."""
    path = home / "keys" / "public.json"
    if not path.exists():
        remedy = "accord provision or accord csr makes it; a real party sends this file to the others"
        raise EnvironmentMissing("a node's public keys are missing", where=str(path), remedy=remedy)
    return NodePublicKeys.from_document(json.loads(path.read_bytes()))


def certificate_name(crt_pem: bytes) -> str:
    """Return the name that a peer sees: the first subject alternative name."""
    crt = x509.load_pem_x509_certificate(crt_pem)
    return _first(crt.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def self_test(home: Path, party: str) -> None:
    """Raise unless this node's certificate says `party` first, is in date, and its keys are closed to others."""
    crt_path = home / "keys" / "tls.crt"
    if not crt_path.exists():
        remedy = f"run: accord provision {party}   (demo), or: accord csr {party} and accord sign-csr"
        raise EnvironmentMissing("the node has no certificate", where=str(crt_path), remedy=remedy)
    pem = crt_path.read_bytes()
    if (found := certificate_name(pem)) != party:
        remedy = "have it issued again: accord csr, accord sign-csr"
        raise PeerForeign(
            "the first name of the certificate is not the party", expected=party, found=found, remedy=remedy
        )
    crt, now = x509.load_pem_x509_certificate(pem), datetime.datetime.now(datetime.UTC)
    if not crt.not_valid_before_utc <= now <= crt.not_valid_after_utc:
        raise PeerForeign(
            "the certificate is out of date",
            expected="a date within its validity",
            found=f"valid until {crt.not_valid_after_utc:%Y-%m-%d}",
            where=str(crt_path),
            remedy="have it issued again: accord csr, accord sign-csr",
        )
    keys = [path for path in (home / "keys").rglob("*") if path.suffix in (".key", ".pem", ".secret")]
    for path in sorted([*keys, *(path for path in (home / "secrets").rglob("*") if path.is_file())]):
        if path.stat().st_mode & 0o077:
            raise EnvironmentMissing("a key can be read by others", where=str(path), remedy=f"chmod 600 {path}")


def _issue(ca: Path, key_path: Path, name: str, hosts: Sequence[str] = ()) -> None:
    crt_path = key_path.with_suffix(".crt")
    if not crt_path.exists():
        crt_path.write_bytes(sign_request(ca, request(key_path, name, hosts), name))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(
        now + datetime.timedelta(days=days)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _first(names: x509.SubjectAlternativeName) -> str:
    first = next(iter(names), None)
    return first.value if isinstance(first, x509.DNSName) else ""


def _check_name(name: str) -> None:
    if not (PARTY.fullmatch(name) or CLIENT.fullmatch(name)):
        raise PeerForeign(
            "not the name of a party or client", expected=f"{PARTY.pattern} or {CLIENT.pattern}", found=name
        )
