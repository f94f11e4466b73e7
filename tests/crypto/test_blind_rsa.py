"""Blind signatures: textbook ones after unblinding, for one batch, checked by the receiver."""

import math

import pytest

from base.errors import CryptoError, StateError
from crypto.blind_rsa import Blinding, digest, tag
from crypto.rsa import E


def test_blind_signatures_are_the_textbook_signatures(rsa_key, hashes):
    p, q = (int(x) for x in rsa_key._primes)
    d = pow(E, -1, math.lcm(p - 1, q - 1))
    blinding = Blinding(rsa_key.public, hashes)
    rsa_key.public.check(blinding.blinded)
    assert not set(blinding.blinded) & set(hashes)
    assert blinding.unblind(rsa_key.sign(blinding.blinded)) == [pow(int(h), d, p * q) for h in hashes]
    assert rsa_key.sign(hashes) == [pow(int(h), d, p * q) for h in hashes]


def test_blinding_is_fresh(rsa_key, hashes):
    assert not set(Blinding(rsa_key.public, hashes).blinded) & set(Blinding(rsa_key.public, hashes).blinded)


def test_a_wrong_or_missing_signature_is_refused_by_the_receiver(rsa_key, hashes):
    for spoil in (lambda s: s[:-1], lambda s: [s[0] + 1, *s[1:]], lambda s: s[::-1]):
        blinding = Blinding(rsa_key.public, hashes)
        with pytest.raises(CryptoError):
            blinding.unblind(spoil(rsa_key.sign(blinding.blinded)))


def test_tags_differ_by_run_and_signature(rsa_key, hashes):
    tags = {tag(digest(rsa_key.public, h), run) for h in hashes for run in ("run-1", "run-2")}
    assert len(tags) == 10
    assert {len(t) for t in tags} == {32}


def test_blinding_factors_serve_one_batch(rsa_key, hashes):
    blinding = Blinding(rsa_key.public, hashes)
    signed = rsa_key.sign(blinding.blinded)
    blinding.unblind(signed)
    with pytest.raises(StateError, match="used before"):
        blinding.unblind(signed)
