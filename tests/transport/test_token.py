import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import AccordError, PeerForeign
from transport import token as module
from transport.message import MessageKey
from transport.token import LIFE_SECONDS, SKEW_SECONDS, MemoryNonceCache, accept, issue


@pytest.fixture
def signers(kit):
    return kit.key_rings("north", "bureau", "south")


@pytest.fixture
def nonces():
    return MemoryNonceCache()


def made(signers, **more):
    return issue(signers["north"], **{"audience": "bureau", "method": "put", "run": "run-1", **more}).decode()


def test_a_token_says_who_calls_whom_for_what(signers, nonces):
    token = accept(signers["bureau"], nonces, made(signers, step="train", attempt=2))
    assert (token.issuer, token.audience) == ("north", "bureau")
    assert token.nonce not in repr(token)
    token.require("put", "run-1", "train", 2)
    token.require_key("put", MessageKey("run-1", "train", 2, "part", "north", "bureau", 0))
    for call in (
        ("get", "run-1", "train", 2),
        ("put", "run-2", "train", 2),
        ("put", "run-1", "x", 2),
        ("put", "run-1", "train", 1),
    ):
        with pytest.raises(PeerForeign, match="for another call"):
            token.require(*call)


def test_a_token_is_good_once_and_two_tokens_differ(signers, nonces):
    first, second = made(signers), made(signers)
    assert first != second
    accept(signers["bureau"], nonces, first)
    accept(signers["bureau"], nonces, second)
    with pytest.raises(PeerForeign, match="used before"):
        accept(signers["bureau"], nonces, first)


def test_only_the_named_party_accepts_it(signers, nonces):
    with pytest.raises(PeerForeign, match="for another party"):
        accept(signers["south"], nonces, made(signers))


@pytest.mark.parametrize(
    ("age", "good"),
    [(0, True), (LIFE_SECONDS, True), (-SKEW_SECONDS + 1, True), (LIFE_SECONDS + SKEW_SECONDS + 2, False),
     (-SKEW_SECONDS - 2, False)],
)  # fmt: skip
def test_a_token_lives_shortly(signers, nonces, monkeypatch, age, good):
    text = made(signers)
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + age)
    if good:
        accept(signers["bureau"], nonces, text)
    else:
        with pytest.raises(PeerForeign, match="expired or is not yet valid") as caught:
            accept(signers["bureau"], nonces, text)
        assert "NTP" in caught.value.remedy


def test_a_changed_or_self_signed_token_is_refused(signers, nonces):
    data, signature = made(signers).split(".")
    document = json.loads(base64.urlsafe_b64decode(data))
    for change in ({"run": "run-2"}, {"issuer": "south"}, {"attempt": 7}, {"issuer": "nobody"}):
        forged = base64.urlsafe_b64encode(json.dumps({**document, **change}).encode()).decode()
        with pytest.raises(PeerForeign, match="did not sign"):
            accept(signers["bureau"], nonces, f"{forged}.{signature}")


def test_a_nonce_must_be_long(signers, nonces, monkeypatch):
    monkeypatch.setattr(module.secrets, "token_hex", lambda n: "")
    with pytest.raises(PeerForeign, match="no proper nonce"):
        accept(signers["bureau"], nonces, made(signers))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300) | st.binary(max_size=200).map(lambda b: base64.b64encode(b).decode() + ".QUJD"))
def test_any_text_ends_in_our_error(signers, nonces, text):
    with pytest.raises(AccordError):
        accept(signers["bureau"], nonces, text)


@pytest.mark.parametrize("text", ["", ".", "a.b.c", "ä.ä", "A" * 5000 + ".A", "e30=.e30="])
def test_unreadable_texts(signers, nonces, text):
    with pytest.raises(AccordError):
        accept(signers["bureau"], nonces, text)


def test_an_expired_nonce_is_forgotten(monkeypatch):
    cache = MemoryNonceCache()
    cache.spend("north", "n", 100)
    cache.spend("north", "n", 100)  # long expired: its token is refused by its age
    end = int(module.time.time()) + 50
    cache.spend("north", "m", end)
    cache.spend("south", "m", end)
    with pytest.raises(PeerForeign):
        cache.spend("north", "m", end)
