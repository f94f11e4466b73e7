"""EASE and SLIST with noise: whole people, clipped, no thresholds before the sum, and a budget instead of an epoch."""

import numpy as np
import opacus.accountants.analysis.rdp  # noqa: F401, torch comes along: before the deadline of a step runs
import pyarrow as pa
import pytest
from hypothesis import given
from small_histories import bank_histories, histories

from base.errors import ConsentError
from components.horizontal_ease import HorizontalEaseParams
from components.private_items import noisy_statistics
from components.private_sum import Privacy
from components.released_statistics import Own
from crypto.packing import Lanes
from models import ease, slist
from models.symmetric import enough_ridge, from_upper, upper

BANKS = ("east", "north", "south")
ROLES = {"data_holder": BANKS, "aggregator": ("bureau",)}
ITEMS = 12
LIMIT = {"epsilon": 150.0, "delta": 1e-6}
DP = {"epsilon": 60.0, "delta": 1e-6, "clip": 8.0, "data_set": "ratings"}


def own(bank, people=60):
    """A bank's histories, the last item hardly anybody's."""
    rng = np.random.default_rng(BANKS.index(bank))
    chance = np.append(np.linspace(0.8, 0.2, ITEMS - 1), 0.05)
    return histories([rng.permutation(np.flatnonzero(rng.random(ITEMS) < chance)) for _ in range(people)], ITEMS)


def inputs(banks):
    found = {}
    for bank, h in banks.items():
        train = pa.table({"user": h.user, "item": h.item, "rating": np.ones(len(h), np.float32)})
        people = pa.table({"user_id": [f"{bank}{u}" for u in range(h.users)]})
        items = pa.table({"item_id": [f"{i:03}" for i in range(ITEMS)]})
        found[bank] = {"ratings": {"train": train, "users": people, "items": items}}
    return found


@pytest.fixture
def run(threads):
    threads.privacy, threads.budgets = {"ratings": LIMIT}, {}
    banks = {bank: own(bank) for bank in BANKS}

    def one(kind, night, dp=DP, **params):
        given = {"reg": 20.0, "complete": False, "dp": dp, **params}
        return threads(f"horizontal_{kind}", ROLES, inputs(banks), given, run=f"private-{kind}-{night}")

    return one, banks


@given(bank_histories(max_banks=1))
def test_what_people_add_makes_the_statistics(banks):
    (h,), decays = banks, slist.Decays()
    half = h.items * (h.items + 1) // 2
    for people, size, expected in (
        (ease.contributions(h), half, upper(ease.statistics(h))),
        (slist.contributions(h, decays), 2 * half + h.items**2, _flat(slist.statistics(h, decays))),
    ):
        total = np.zeros(size)
        for place, values in people:
            assert len(np.unique(place)) == len(place)
            total[place] += values
        np.testing.assert_allclose(total, expected, atol=1e-9)


def _flat(statistics):
    G, SS, ST = statistics
    return np.concatenate([upper(G), upper(SS), ST.ravel()])


@pytest.mark.parametrize("kind", ["ease", "slist"])
def test_with_little_noise_all_hold_the_model_of_all_people(run, kind):
    train, banks = run
    outcome = train(kind, 1)
    assert outcome.errors == {}
    models = [outcome.outputs[bank]["model"]["B"] for bank in BANKS]
    for other in models[1:]:
        np.testing.assert_array_equal(other, models[0])
    if kind == "ease":
        G = sum(ease.statistics(h) for h in banks.values())
        exact = ease.solve(G, enough_ridge(G, 20.0))
    else:
        every = [sum(each) for each in zip(*(slist.statistics(h, slist.Decays()) for h in banks.values()), strict=True)]
        exact = slist.solve(*every, 20.0, 0.5)
    same = np.corrcoef(models[0][:-2, :-2].ravel(), exact[:-2, :-2].ravel())[0, 1]
    assert same > 0.8
    assert not np.allclose(models[0], exact, atol=1e-6)


def test_nights_are_bound_by_the_budget_and_not_by_an_epoch(run):
    train, _ = run
    assert train("ease", 2).errors == {}
    second = train("ease", 3)  # what is refused without noise, though nothing has changed but the noise
    assert second.errors == {}
    refused = train("ease", 4, dp=DP | {"epsilon": 100.0})
    assert any(isinstance(error, ConsentError) for error in refused.errors.values())
    assert "masked" not in [parcel.header.name for bank in BANKS for parcel in refused.parcels[bank]]


def test_without_noise_the_same_people_leave_once_whatever_went_out_with_noise(run):
    train, _ = run
    assert train("ease", 5, epoch="open", dp=DP).errors == {}
    assert train("ease", 6, epoch="open", dp=None).errors == {}


class Alone:
    """A context of one party that keeps what it charged."""

    def __init__(self):
        self.charged = []

    def parties(self, role):
        return BANKS

    def charge(self, data_set, release, name):
        self.charged.append(release)

    def metric(self, name, value, round_number=None):
        pass

    def require(self, condition, what, **more):
        assert condition, what


@pytest.mark.parametrize("complete", [False, True])
def test_nothing_is_left_out_before_the_sum_and_noise_is_taken_out_after(complete):
    h, sent = own("east"), []
    G = ease.statistics(h)
    rare = ITEMS - 1
    assert 0 < h.raters[rare] < 10

    def add(values, lanes, *_):
        sent.append(values)
        return values  # the other banks have nobody

    add.contributed = True

    params = HorizontalEaseParams(dp=DP | {"clip": 40.0}, complete=complete)
    given = Own(h, h, "0" * 64), ease.contributions(h), (G,), Lanes(32, 8, 3)
    copy = noisy_statistics(
        Alone(), params, Privacy(**DP | {"clip": 40.0}), add, *given, lambda v: (from_upper(v, ITEMS),), ITEMS * 13 // 2
    )
    noise = sent[0] - upper(G)
    assert np.abs(noise).max() > 0
    assert np.all(from_upper(sent[0], ITEMS)[rare] != 0) or np.std(noise) > 0.5
    (found,) = copy.statistics
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert 0.5 < copy.share <= 1
    if complete:
        np.testing.assert_array_equal(found, G)  # its own people's, exact, and nothing of the others, who are nobody
    else:
        assert 0 < np.linalg.matrix_rank(found) < ITEMS
        assert np.corrcoef(found.ravel(), G.ravel())[0, 1] > 0.7
