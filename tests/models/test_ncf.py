import numpy as np
import pytest

from models import ncf, ncf_training, negatives, popularity, ranking
from models.histories import Histories

ITEMS, USERS = 12, 6
FORMS = {"gmf": ncf.Form(3, 0, ()), "mlp": ncf.Form(0, 2, (3, 2)), "neumf": ncf.Form(3, 2, (3, 2))}


def tastes(users=60, items=60, groups=4, seed=0):
    """Histories of people who each like the items of one group and take few others; and an item held out of each."""
    rng = np.random.default_rng(seed)
    likes = rng.random((users, items)) < np.where(
        np.arange(users)[:, None] % groups == np.arange(items) % groups, 0.8, 0.02
    )
    held = np.array([rng.choice(np.flatnonzero(row & (np.arange(items) % groups == u % groups)))
                     for u, row in enumerate(likes)])  # fmt: skip
    likes[np.arange(users), held] = False
    user, item = np.nonzero(likes)
    return Histories(user.astype(np.int32), item.astype(np.int32), users, items), held


def fresh(form, users=USERS, items=ITEMS, seed=0, deviation=0.5):
    rng = np.random.default_rng(seed)
    rows = (ncf.start_rows(rng, n, form, deviation) for n in (items, users))
    return ncf.Model(form, ncf.start_layers(rng, form), *rows)


def by_hand(model, u, i):
    """Eq. 8-12 for one pair, row by row, with the layers of the paper."""
    form = model.form
    k, p, q = form.factors, model.P[u], model.V[i]
    φ = [p[n] * q[n] for n in range(k)]
    layers, h = form.cut(model.θ)
    a = np.concatenate([p[k:], q[k:]])
    for W, b in layers:
        a = np.array([max(0.0, float(row @ a) + c) for row, c in zip(W, b, strict=True)])
    return float(h @ np.array([*φ, *a]))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_gradients_are_those_of_finite_differences(form, loss):
    model, rng = fresh(form, seed=3), np.random.default_rng(1)
    model.θ += 0.1  # biases away from 0, where the rectifier has a corner
    user, items = np.array([0, 2, 2, 5]), rng.integers(0, ITEMS, (4, 4))  # a user and an item more than once
    met, gradients = ncf_training.gradient(model, user, items, loss)
    s = np.array([[by_hand(model, u, i) for i in row] for u, row in zip(user, items, strict=True)])
    each = np.log1p(np.exp(np.column_stack([-s[:, 0], s[:, 1:]]) if loss == "bce" else s[:, 1:] - s[:, :1]))
    assert met == pytest.approx(each.mean())
    for array, found in zip((model.θ, model.V, model.P), gradients, strict=True):
        expected = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            kept, sides = array[place], []
            for step in (1e-6, -1e-6):
                array[place] = kept + step
                sides.append(ncf_training.gradient(model, user, items, loss)[0])
            array[place] = kept
            expected[place] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(found, expected, atol=1e-8)
        assert np.any(expected != 0)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_scores_are_those_of_the_paper(form, monkeypatch):
    monkeypatch.setattr(ncf, "CELLS", 2 * ITEMS * 4)  # blocks of people
    model, users = fresh(form), np.array([5, 0, 3, 3, 1])
    expected = [[by_hand(model, u, i) for i in range(ITEMS)] for u in users]
    np.testing.assert_allclose(ncf.scores(model, users), expected, atol=1e-12)
    assert model.V.shape[1] == form.columns == form.factors + form.embedding


def test_a_step_is_adams_by_hand():
    x = np.array([1.0, 1.0])
    adam = ncf_training.Adam((x,), 0.1)
    adam.step((np.array([0.5, -2.0]),))
    np.testing.assert_allclose(x, [0.9, 1.1], atol=1e-6)  # the first step is η in the sign of the gradient
    adam.step((np.array([0.0, -2.0]),))
    # m̂ = .9·.1·.5 / (1 − .81), v̂ = .999·.001·.25 / (1 − .999²)
    down = 0.1 * (0.045 / 0.19) / np.sqrt(0.00024975 / 0.001999)
    np.testing.assert_allclose(x, [0.9 - down, 1.2], atol=1e-6)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_it_learns_tastes_that_popularity_does_not_know_and_the_same_bits_again(form, loss):
    h, held = tastes()
    form, bits = ncf.Form(4 * form.factors, 4 * form.embedding, form.layers and (8, 8)), []
    for _ in range(2):
        rng = np.random.default_rng(2)
        model = fresh(form, h.users, h.items, deviation=0.1)
        adam = ncf_training.Adam((model.θ, model.V, model.P), 0.02)
        for _ in range(12):
            order = rng.permutation(len(h))
            met = ncf_training.epoch(model, h, order, negatives.draw(rng, h, h.user[order], 4), adam, loss, 64)
        bits.append((met, model.θ.tobytes(), model.V.tobytes(), model.P.tobytes()))
    assert bits[0] == bits[1]
    everyone = np.arange(h.users)
    rivals = ranking.without(h.matrix().toarray() == 0, held)
    hits = [ranking.hit_ratio(ranking.ranks(s, held, rivals), 10).mean()
            for s in (ncf.scores(model, everyone), popularity.scores(h.raters, h, everyone))]  # fmt: skip
    assert hits[0] > hits[1] + 0.3


def test_layers_start_spread_as_their_sizes_say_and_biases_at_0():
    form = ncf.Form()
    layers, h = form.cut(ncf.start_layers(np.random.default_rng(0), form))
    assert [W.shape for W, _ in layers] == [(32, 64), (16, 32), (8, 16)]
    assert all(not b.any() for _, b in layers)
    assert layers[0][0].std() == pytest.approx(np.sqrt(2 / 96), rel=0.1)
    assert h.shape == (24,)
    assert h.all()
