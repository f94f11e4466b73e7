import pytest

from crypto.paillier import SecretKey
from crypto.rsa import RsaSecretKey


@pytest.fixture(scope="session")
def secret_key():
    return SecretKey.generate(2048)


@pytest.fixture(scope="session")
def other_key():
    return SecretKey.generate(2048)


@pytest.fixture(scope="session")
def rsa_key():
    return RsaSecretKey.generate(2048)


@pytest.fixture(scope="session")
def hashes(rsa_key):
    return [rsa_key.public.hash(b"id %d" % i) for i in range(5)]
