"""Sums with noise: what is drawn is what is charged, nobody counts for more than the bound, nothing leaves unpaid."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import opacus.accountants.analysis.rdp  # noqa: F401, torch comes along: before the deadline of a step runs
import pytest
from pydantic import ValidationError
from scipy.signal import fftconvolve
from scipy.stats import kstwobign

from base.errors import ConsentError, CryptoError, DataError
from components.contract import Component
from components.private_sum import Dp, Privacy, PrivateTotal
from components.secure_sum import SumParams, add_once, open_total, sum_messages
from crypto.budget import Release, epsilon
from crypto.packing import Lanes
from runtime.spending import releases

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
SIZE, BITS = 20_000, 4
PEOPLE = {"east": [([0, 2], [3.0, 4.0])], "north": [([1], [0.5]), ([1, 19], [0.25, -1.0])], "south": []}
DP = {"epsilon": 1.0, "delta": 1e-6, "clip": 2.0, "data_set": "ratings"}


class NoisyParams(SumParams):
    dp: Dp = None
    lane: int = 32
    size: int = SIZE
    fail: bool = False


def data_holder(ctx, params):
    total = open_total(ctx, params, paid=True)

    def lost(*_):
        raise DataError("the machine went down", found="nothing sent")

    private = PrivateTotal(ctx, params, params.dp, lost if params.fail else total)
    people = [(np.array(place), np.array(values)) for place, values in ctx.inputs["people"]]
    found = private(people, params.size, Lanes(params.lane, BITS, len(BANKS)), 0, bytes(32), "people")
    return {"noisy": vars(found)}


PART = Component(
    "noisy", {"data_holder": data_holder, "aggregator": add_once}, NoisyParams, sum_messages("a noisy sum"),
    inputs={"people": "contributions"}, optional_inputs=("people",), outputs={"noisy": "all of it"},
)  # fmt: skip


@pytest.fixture
def noisy(threads, request):
    """Run the step with a budget of its own: `noisy(dp={...}, **params)` -> outcome."""
    threads.privacy, threads.budgets = {"ratings": {"epsilon": 2.5, "delta": 1e-6}}, {}

    def run(attempt=1, dp=None, **params):
        inputs = {bank: {"people": people} for bank, people in PEOPLE.items()}
        given = {"dp": DP | (dp or {}), "key_bits": 2048, **params}
        return threads(
            PART,
            ROLES,
            inputs,
            given,
            run=f"noisy-{sha256(request.node.name.encode()).hexdigest()[:16]}",
            attempt=attempt,
        )

    return run


def charged(threads, bank="east"):
    return releases(threads.budgets[bank].read("ratings")[1])


def weights(release):
    """The distribution of one share as `Release` states it, normalised, over far more than it reaches."""
    x = np.arange(-60 * release.scale, 60 * release.scale + 1.0)
    p = np.exp(-(x**2) / (2.0 * release.scale**2) if release.mechanism == "gaussian" else -np.abs(x) / release.scale)
    return p / p.sum()


def distance(draws, p):
    """√N times the largest distance of the empirical distribution from the stated one (Kolmogorov and Smirnov)."""
    reach = len(p) // 2
    below = np.cumsum(p)
    counts = np.bincount(draws.astype(np.int64) + reach, minlength=len(p))
    return np.sqrt(len(draws)) * np.abs(np.cumsum(counts) / len(draws) - below).max()


@pytest.mark.parametrize(
    ("mechanism", "protection"), [("gaussian", "secagg"), ("gaussian", "plain"), ("laplace", "secagg")]
)
def test_the_noise_of_a_total_is_the_sum_of_the_shares_that_were_charged(threads, noisy, mechanism, protection):
    outcome = noisy(dp={"mechanism": mechanism}, protection=protection)
    assert outcome.errors == {}
    found = {bank: outcome.outputs[bank]["noisy"] for bank in BANKS}
    (release,) = charged(threads)
    assert release.shares == (2 if (mechanism, protection) == ("gaussian", "secagg") else 1)
    share = weights(release)
    total = fftconvolve(fftconvolve(share, share), share)
    exact = sum(each["exact"] for each in found.values())
    noise = np.ldexp(found["east"]["total"] - exact, BITS)
    worst = kstwobign.isf(1e-6)
    assert distance(noise, total) < worst
    assert distance(np.ldexp(found["east"]["own"] - found["east"]["exact"], BITS), share) < worst
    # The test has teeth: two shares, or noise for another ε, are told apart.
    assert distance(noise, fftconvolve(share, share)) > worst
    assert found["east"]["deviation"] == pytest.approx(np.std(noise) / 2**BITS, rel=0.05)
    assert {each["total"].tobytes() for each in found.values()} == {found["east"]["total"].tobytes()}


def test_nobody_adds_more_than_the_bound_and_what_is_charged_keeps_within_epsilon(threads, noisy):
    outcome = noisy()
    east, north = (outcome.outputs[bank]["noisy"]["exact"] for bank in ("east", "north"))
    assert np.linalg.norm(east) == pytest.approx(2.0, abs=2.0**-BITS)  # from a norm of 5
    assert np.linalg.norm(east) <= 2.0
    np.testing.assert_allclose(east[[0, 2]], [1.2, 1.6], atol=2.0**-BITS)
    assert north[[1, 19]].tolist() == [0.75, -1.0]
    assert not outcome.outputs["south"]["noisy"]["exact"].any()
    (release,) = charged(threads)
    assert (release.clip, release.dimension) == (2.0 * 2**BITS, SIZE)
    assert epsilon([release], DP["delta"]) <= 1.0 < epsilon([replace(release, scale=release.scale - 1)], DP["delta"])


def test_more_colluders_get_more_noise_and_too_many_are_refused(threads, noisy):
    noisy()
    (few,) = charged(threads)
    threads.budgets.clear()
    assert noisy(attempt=2, dp={"colluders": 1}).errors == {}
    (more,) = charged(threads)
    assert (few.shares, more.shares) == (2, 1)
    assert more.scale == pytest.approx(few.scale * 2**0.5, rel=0.05)
    assert isinstance(noisy(attempt=3, dp={"colluders": 2}).errors["east"], CryptoError)


@pytest.mark.parametrize("protection", ["secagg", "paillier"])
def test_a_round_that_is_done_again_has_fresh_noise_and_is_charged_again(threads, noisy, protection):
    size = {"size": 20}  # ciphertexts of 20,000 values are slow
    first, second = (noisy(attempt, protection=protection, **size) for attempt in (1, 2))
    assert first.errors == second.errors == {}
    assert not np.array_equal(*(each.outputs["east"]["noisy"]["own"] for each in (first, second)))
    assert len(charged(threads)) == 2


def test_a_budget_is_charged_before_anything_leaves_also_when_nothing_then_does(threads, noisy):
    assert isinstance(noisy(fail=True).errors["east"], DataError)
    assert [release.times for release in charged(threads)] == [1]
    assert noisy(attempt=2).errors == {}
    assert len(charged(threads)) == 2  # fresh noise is charged again
    spent = epsilon(charged(threads), DP["delta"])
    assert 1 < spent <= 2.5
    outcome = noisy(attempt=3, dp={"epsilon": 2.4})
    assert all(isinstance(outcome.errors[bank], ConsentError) for bank in BANKS if bank in outcome.errors)
    assert "masked" not in [parcel.header.name for bank in BANKS for parcel in outcome.parcels[bank]]
    assert epsilon(charged(threads), DP["delta"]) == spent


def test_without_terms_no_noisy_sum(threads, noisy):
    threads.privacy = {}
    outcome = noisy()
    assert all(
        isinstance(error, ConsentError | DataError) or "failed at" in str(error) for error in outcome.errors.values()
    )
    assert any("spend no privacy" in str(error) for error in outcome.errors.values())
    assert not outcome.outputs.get("east")


def test_lanes_that_the_noise_would_fill_are_refused_and_cost_nothing(threads, noisy):
    outcome = noisy(lane=10, dp={"epsilon": 0.1})
    assert any("no room for the noise" in str(error) for error in outcome.errors.values())
    assert charged(threads) == ()


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 1}, {"clip": 0}, {"mechanism": "none"}, {"data_set": "A"}])
def test_what_states_no_privacy_is_refused(wrong):
    with pytest.raises(ValidationError):
        Privacy(**DP | wrong)


def test_rounds_share_the_epsilon_of_a_step():
    def cost(sums):
        ctx = type("Ctx", (), {"parties": lambda self, role: BANKS})()
        private = PrivateTotal(ctx, SumParams(), Privacy(**DP), None, sums)
        return private.release(10, BITS)

    one, many = cost(1), cost(20)
    assert (many.times, many.shares) == (1, 2)
    assert isinstance(many, Release)
    assert epsilon([many] * 20, DP["delta"]) <= 1.0 < epsilon([many] * 21, DP["delta"])
    assert many.scale > 4 * one.scale


def test_where_parties_may_drop_out_the_shares_of_those_that_stay_are_enough():
    parties = [f"bank_{n}" for n in range(6)]
    ctx = type("Ctx", (), {"parties": lambda self, role: parties})()

    def shares(**how):
        return PrivateTotal(ctx, SumParams(**how), Privacy(**DP | {"colluders": 1}), None).release(10, BITS).shares

    assert shares() == 4
    assert shares(on_dropout="continue", colluders=1) == 2  # a total may be over four


def test_who_is_late_has_added_nothing_to_what_it_takes_off_again():
    class Late:
        contributed = False

        def __call__(self, values, *_):
            return 0 * values

    class Ctx:
        def parties(self, role):
            return BANKS

        def metric(self, *_):
            pass

        def charge(self, *_):
            pass

        def require(self, condition, *_, **__):
            assert condition

    late = PrivateTotal(Ctx(), SumParams(), Privacy(**DP), Late())
    found = late([(np.array([1]), np.array([1.0]))], 5, Lanes(32, BITS, 3), 0, bytes(32), "late")
    assert not found.own.any()
    assert found.exact[1] == 1.0
