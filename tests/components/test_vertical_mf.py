"""The exchange of two parties under encryption equals the same integers in the clear, exactly."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from base.errors import ConsentError, CryptoError, DataError
from components import vertical_mf
from crypto.node_keys import NodeKeys
from crypto.paillier import CiphertextVector, SecretKey
from models import vertical as mf
from models import vertical_fixed as fixed
from runtime.checkpoint import FileCheckpoint
from runtime.context import Services, StepContext
from runtime.keys import PartyKeys
from runtime.randomness import Randomness
from transport.channel import Channel
from transport.door import Door, PlanGuard
from transport.ledger import Ledger, MemoryLedgerStore
from transport.memory import MemoryExchange, MemoryInbox

ROLES = {"label_holder": ("bank",), "feature_holder": ("bureau",)}
SMALL = {"embedding_size": 2, "key_bits": 2048, "sweeps": 3}
MESSAGES = vertical_mf.COMPONENT.messages


class Silent:
    """An observer that keeps the metrics."""

    def __init__(self):
        self.metrics = {}

    def metric(self, name, value, round_number):
        self.metrics[name] = value

    def progress(self, done, total, unit):
        pass


@dataclass
class Pair:
    """Two parties with key stores below `root`; the same root is the same two nodes on another night."""

    root: Path
    run: str = "run"
    contexts: dict = field(default_factory=dict)

    def contexts_for(self, inputs, seed):
        exchange = MemoryExchange()
        nodes = {party: NodeKeys.generate() for party in ("bank", "bureau")}
        for role, (party,) in ROLES.items():
            keys = PartyKeys(party, nodes[party], {p: k.public for p, k in nodes.items()}, self.root / party)
            ledger = Ledger(keys, MemoryLedgerStore())
            guard = PlanGuard(self.run, {"train": (MESSAGES, ROLES)})
            carrier = exchange.join(Door(guard, ledger, MemoryInbox()))
            channel = Channel(party, role, ROLES, self.run, "train", 1, MESSAGES, carrier, ledger, deadline_seconds=60)
            services = Services(keys, b"secret of " + party.encode(), *[lambda *_: None] * 3)
            yield role, StepContext(
                run=self.run, step="train", attempt=1, party=party, role=role, roles=ROLES, inputs=inputs[role],
                services=services, randomness=Randomness(seed, "vertical_mf/train", services.party_secret),
                channel=channel, checkpoint=FileCheckpoint(self.root / "checkpoints"), observer=Silent(),
            )  # fmt: skip

    def train(self, inputs, seed=1, **params):
        parsed = vertical_mf.VerticalMfParams(**{**SMALL, **params})
        self.contexts = dict(self.contexts_for(inputs, seed))
        with ThreadPoolExecutor(2) as pool:
            futures = {r: pool.submit(vertical_mf.COMPONENT.roles[r], c, parsed) for r, c in self.contexts.items()}
            failure = futures["feature_holder"].exception()
            if failure is not None:  # the label_holder would wait for its deadline
                self.contexts["label_holder"].channel.cancelled = lambda: failure
                raise failure
            return futures["label_holder"].result(), futures["feature_holder"].result(), parsed


def inputs(seed, m=40, n=15, d=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    V = X @ rng.normal(size=(d, 3)) * 0.2
    full = 3.5 + V[:, :1] + V[:, 1:] @ rng.normal(size=(2, n)) + rng.normal(0, 0.2, (m, n))
    seen = rng.random((m, n)) < 0.5
    seen[:4] = False  # customers without ratings
    user, item = np.nonzero(seen)
    columns = {"user": user.astype(np.int32), "item": item.astype(np.int32), "rating": full[seen].astype(np.float32)}
    people = pa.table({"user": np.arange(m, dtype=np.int32), "cold": np.zeros(m, np.int32)})
    items = pa.table({"item_id": [str(i) for i in range(n)]})
    ratings = {"train": pa.table(columns), "people": people, "items": items}
    return {"label_holder": {"ratings": ratings}, "feature_holder": {"features": {"X": X}}}


def in_one_process(given, label, held, params):
    """The same algorithm without encryption: (exact integers, floating point), both as s before calibration."""
    train = given["label_holder"]["ratings"]["train"]
    ratings = mf.Ratings(*(train[c].to_numpy() for c in ("user", "item", "rating")), (40, 15))
    alone = mf.Factors(float(label["mu"]), label["b_alone"], label["Q_alone"], label["P_alone"])
    P = mf.user_factors(alone, ratings, np.zeros((40, 3)), params.reg_target).P
    P_hat, σ, _ = fixed.round_factors(P)
    X_hat, _ = fixed.round_features(given["feature_holder"]["features"]["X"])
    exact = fixed.exchange_plain(P_hat, X_hat, fixed.round_map(X_hat, params.scales), held["noise"])
    real = X_hat / 2**fixed.X_FRACTION
    floating = mf.ridge_map(real, params.reg_map) @ (real.T @ P)
    return (
        exact * 2.0**-params.scales.fraction * σ,
        floating,
        fixed.bound(P_hat, X_hat, params.scales) * σ,
        alone,
        ratings,
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_encrypted_equals_the_same_integers_in_the_clear(tmp_path, seed):
    given = inputs(seed)
    label, held, params = Pair(tmp_path).train(given, seed)
    exact, floating, bound, alone, ratings = in_one_process(given, label["model"], held["model"], params)
    calibration = mf.calibrate(alone, ratings, exact)
    s = mf.scaled(exact, calibration)
    refit = mf.refit(alone, ratings, s, mf.Ridge(params.reg_user_refit, params.reg_item, params.reg_bias), 3)
    for name, expected in {"s": s, "P": refit.P, "Q": refit.Q, "b_item": refit.b, "calibration": calibration}.items():
        assert label["model"][name].tobytes() == expected.tobytes(), name
    assert np.all(np.abs(exact - floating) <= bound)
    assert np.abs(s[:4]).min() > 0  # customers without ratings are scored


def test_the_same_seed_and_secrets_give_the_same_model_on_fresh_nodes(tmp_path):
    given = inputs(1)
    a, b = (Pair(tmp_path / name).train(given)[:2] for name in "ab")
    for part_a, part_b in zip(a, b, strict=True):
        for name, value in part_a["model"].items():
            assert value.tobytes() == part_b["model"][name].tobytes(), name
    assert a[1]["sealed"]["c"] != b[1]["sealed"]["c"]


def test_a_new_person_is_scored_from_the_sealed_part(tmp_path):
    """[[T]] stays usable: one more row of G from the kept inverse, decrypted by the label_holder's kept key."""
    given = inputs(2)
    _, held, params = Pair(tmp_path).train(given)
    (path,) = (tmp_path / "bank").glob("vertical_mf.key.*")
    secret = SecretKey.from_bytes(path.read_bytes())
    T = secret.decrypt_rows(CiphertextVector.from_table(held["sealed"], secret.public))
    x = np.clip(np.rint(given["feature_holder"]["features"]["X"][7] * 32), -127, 127) / 32
    s_new = (x @ held["model"]["inverse"]) @ T
    G = held["model"]["G"][7] / 2.0**params.scales.g
    np.testing.assert_allclose(s_new, G @ T, atol=1e-3)


def test_a_repeated_run_is_the_same_view_and_another_seed_is_refused(tmp_path):
    """d = 12 allows 4 numbers a person: one view of k+1 = 3, and no second."""
    given, pair = inputs(3), Pair(tmp_path)
    first = pair.train(given)[0]["model"]["s"]
    again = pair.train(given)[0]["model"]["s"]
    assert first.tobytes() == again.tobytes()
    with pytest.raises(ConsentError, match="no further view"):
        pair.train(given, seed=2)


def test_changed_columns_are_another_view(tmp_path):
    """Else one difference of two answers with the same noise would show a change to the last bit."""
    given, pair = inputs(3), Pair(tmp_path)
    pair.train(given)
    given["feature_holder"]["features"]["X"][5, 2] += 0.5
    with pytest.raises(ConsentError):
        pair.train(given)


def test_too_few_columns_are_refused_before_anything_is_released(tmp_path):
    with pytest.raises(ConsentError):
        Pair(tmp_path).train(inputs(1, d=8))
    assert not list((tmp_path / "bureau").glob("view.*"))


def test_other_people_at_the_two_ends_are_refused(tmp_path):
    given = inputs(1)
    given["feature_holder"]["features"]["X"] = given["feature_holder"]["features"]["X"][:-1]
    with pytest.raises((DataError, CryptoError)):
        Pair(tmp_path).train(given)


def test_too_many_columns_are_refused(tmp_path):
    with pytest.raises(DataError, match="columns"):
        Pair(tmp_path).train(inputs(1), max_columns=11)
