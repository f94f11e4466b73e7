"""The exchange of two parties under encryption equals the same integers in the clear, exactly."""

import numpy as np
import pyarrow as pa
import pytest

from base.errors import ConsentError, CryptoError, DataError
from components import vertical_mf
from crypto.paillier import CiphertextVector, SecretKey
from models import vertical as mf
from models import vertical_fixed as fixed

ROLES = {"label_holder": ("bank",), "feature_holder": ("bureau",)}
SMALL = {"embedding_size": 2, "key_bits": 2048, "sweeps": 3}


class Pair:
    """Two parties with their own key stores; the same pair is the same two nodes on another night."""

    def __init__(self, threads):
        self.threads = threads

    def train(self, inputs, seed=1, **params):
        parsed = {**SMALL, **params}
        outcome = self.threads("vertical_mf", ROLES, inputs, parsed, step="train", seed=seed)
        if "bureau" in outcome.errors:
            raise outcome.errors["bureau"]
        outputs = outcome.outputs
        return outputs["bank"], outputs["bureau"], vertical_mf.VerticalMfParams(**parsed)


@pytest.fixture
def pair(threads, tmp_path):
    return Pair(type(threads)(tmp_path))


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
    return {"bank": {"ratings": ratings}, "bureau": {"features": {"X": X}}}


def in_one_process(given, label, held, params):
    """The same algorithm without encryption: (exact integers, floating point), both as s before calibration."""
    train = given["bank"]["ratings"]["train"]
    ratings = mf.Ratings(*(train[c].to_numpy() for c in ("user", "item", "rating")), (40, 15))
    alone = mf.Factors(float(label["mu"]), label["b_alone"], label["Q_alone"], label["P_alone"])
    P = mf.user_factors(alone, ratings, np.zeros((40, 3)), params.reg_target).P
    P_hat, σ, _ = fixed.round_factors(P)
    X_hat, _ = fixed.round_features(given["bureau"]["features"]["X"])
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
def test_encrypted_equals_the_same_integers_in_the_clear(pair, seed):
    given = inputs(seed)
    label, held, params = pair.train(given, seed)
    exact, floating, bound, alone, ratings = in_one_process(given, label["model"], held["model"], params)
    calibration = mf.calibrate(alone, ratings, exact)
    s = mf.scaled(exact, calibration)
    refit = mf.refit(alone, ratings, s, mf.Ridge(params.reg_user_refit, params.reg_item, params.reg_bias), 3)
    for name, expected in {"s": s, "P": refit.P, "Q": refit.Q, "b_item": refit.b, "calibration": calibration}.items():
        assert label["model"][name].tobytes() == expected.tobytes(), name
    assert np.all(np.abs(exact - floating) <= bound)
    assert np.abs(s[:4]).min() > 0  # customers without ratings are scored


def test_the_same_seed_and_secrets_give_the_same_model_on_fresh_nodes(threads, tmp_path):
    given = inputs(1)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    a, b = (Pair(type(threads)(folder)).train(given)[:2] for folder in folders)
    for part_a, part_b in zip(a, b, strict=True):
        for name, value in part_a["model"].items():
            assert value.tobytes() == part_b["model"][name].tobytes(), name
    assert a[1]["sealed"]["c"] != b[1]["sealed"]["c"]


def test_a_new_person_is_scored_from_the_sealed_part(pair, tmp_path):
    """[[T]] stays usable: one more row of G from the kept inverse, decrypted by the label_holder's kept key."""
    given = inputs(2)
    _, held, params = pair.train(given)
    (path,) = (tmp_path / "bank").glob("vertical_mf.key.*")
    secret = SecretKey.from_bytes(path.read_bytes())
    T = secret.decrypt_rows(CiphertextVector.from_table(held["sealed"], secret.public))
    x = np.clip(np.rint(given["bureau"]["features"]["X"][7] * 32), -127, 127) / 32
    s_new = (x @ held["model"]["inverse"]) @ T
    G = held["model"]["G"][7] / 2.0**params.scales.g
    np.testing.assert_allclose(s_new, G @ T, atol=1e-3)


def test_a_repeated_run_is_the_same_view_and_another_seed_is_refused(pair):
    """d = 12 allows 4 numbers a person: one view of k+1 = 3, and no second."""
    given = inputs(3)
    first = pair.train(given)[0]["model"]["s"]
    again = pair.train(given)[0]["model"]["s"]
    assert first.tobytes() == again.tobytes()
    with pytest.raises(ConsentError, match="no further numbers"):
        pair.train(given, seed=2)


def test_changed_columns_are_another_view(pair):
    """Else one difference of two answers with the same noise would show a change to the last bit."""
    given = inputs(3)
    pair.train(given)
    given["bureau"]["features"]["X"][5, 2] += 0.5
    with pytest.raises(ConsentError):
        pair.train(given)


def test_the_same_bytes_under_another_key_are_another_view(threads, tmp_path):
    """Else a label_holder would look again at the price of one view: under another key the bytes are other factors."""
    one = type(threads)(tmp_path)
    first, second = sorted((SecretKey.generate(2048).public for _ in range(2)), key=lambda key: key.n)
    sent = first.encrypt_rows(np.zeros((40, 3)), vertical_mf.VerticalMfParams(**SMALL).lanes(40)).to_table()

    def asking(key):
        def label_holder(ctx, params):
            ctx.send("key", pa.table({"key": [key.to_bytes()]}))
            metadata = {**sent.schema.metadata, b"key": key.fingerprint.encode()}
            ctx.send("factors", sent.replace_schema_metadata(metadata))
            ctx.recv("explained")
            return {}

        return one("vertical_mf", ROLES, inputs(1), SMALL, step="train", functions={"bank": label_holder})

    assert asking(first).errors == {}
    assert asking(first).errors == {}
    assert isinstance(asking(second).errors["bureau"], ConsentError)


def test_too_few_columns_are_refused_before_anything_is_released(pair, tmp_path):
    with pytest.raises(ConsentError):
        pair.train(inputs(1, d=8))
    assert not list((tmp_path / "bureau").glob("view.*"))


def test_other_people_at_the_two_ends_are_refused(pair):
    given = inputs(1)
    given["bureau"]["features"]["X"] = given["bureau"]["features"]["X"][:-1]
    with pytest.raises((DataError, CryptoError)):
        pair.train(given)


def test_too_many_columns_are_refused(pair):
    with pytest.raises(DataError, match="columns"):
        pair.train(inputs(1), max_columns=11)


def test_two_feature_holders_are_refused_at_every_end(threads):
    roles = {"label_holder": ("bank",), "feature_holder": ("bureau", "shop")}
    given = inputs(1)
    outcome = threads("vertical_mf", roles, {**given, "shop": given["bureau"]}, SMALL)
    assert isinstance(outcome.errors["bank"], DataError)
    assert outcome.errors["bank"].expected == "1"
