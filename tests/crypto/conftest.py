import pytest

from crypto.paillier import SecretKey


@pytest.fixture(scope="session")
def secret_key():
    return SecretKey.generate(2048)


@pytest.fixture(scope="session")
def other_key():
    return SecretKey.generate(2048)
