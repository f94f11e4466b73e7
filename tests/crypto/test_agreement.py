import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from base.errors import CryptoError
from crypto.agreement import frame, hkdf, x25519

H = bytes.fromhex


# RFC 5869, appendix A.1 to A.3.
@pytest.mark.parametrize(
    ("secret", "salt", "info", "length", "okm"),
    [
        (
            H("0b" * 22),
            H("000102030405060708090a0b0c"),
            H("f0f1f2f3f4f5f6f7f8f9"),
            42,
            H("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"),
        ),
        (
            bytes(range(0x50)),
            bytes(range(0x60, 0xB0)),
            bytes(range(0xB0, 0x100)),
            82,
            H(
                "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
                "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"
            ),
        ),
        (
            H("0b" * 22),
            b"",
            b"",
            42,
            H("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
        ),
    ],
)
def test_hkdf_gives_the_vectors_of_rfc_5869(secret, salt, info, length, okm):
    assert hkdf(secret, info, salt=salt, length=length) == okm


def test_x25519_gives_the_vectors_of_rfc_7748():
    # §5.2, first vector, and §6.1.
    scalar = H("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    u = H("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    out = H("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    assert x25519(X25519PrivateKey.from_private_bytes(scalar), u) == out
    bob = H("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice_public = H("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    shared = H("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert x25519(X25519PrivateKey.from_private_bytes(bob), alice_public) == shared


@pytest.mark.parametrize("u", [bytes(32), b"\x01" + bytes(31), b"", bytes(31)])
def test_x25519_refuses_points_of_small_order_and_of_another_length(u):
    with pytest.raises(CryptoError, match="not usable"):
        x25519(X25519PrivateKey.generate(), u)


def test_framing_tells_parts_apart():
    assert frame(b"ab", b"c") != frame(b"a", b"bc")
    assert frame(b"") != frame()
