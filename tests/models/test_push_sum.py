"""Push-sum: mass is conserved whatever the network does, and every node comes to the average."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.lossy_network import LossyNetwork
from models.push_sum import GUARD, WEIGHT, Node, schedule, to_digits, total_of


def start(K, size, rng):
    return [Node(k, rng.integers(-(2**29), 2**29, size)) for k in range(K)]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.floats(0, 0.9), st.floats(0, 0.9), st.integers(0, 12), st.integers(0, 2**32))
def test_mass_is_conserved_to_the_last_unit_under_any_loss_delay_and_order(K, loss, late, steps, seed):
    rng = np.random.default_rng(seed)
    nodes = start(K, 5, rng)
    network = LossyNetwork(nodes, loss, late, rng)
    s, w = network.mass()
    for _ in range(steps):
        network.step()
        now = network.mass()
        assert (now[0] == s).all()
        assert now[1] == w == K * WEIGHT


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.lists(st.tuples(st.integers(0, 7), st.sampled_from("plrc"), st.integers(0, 99))))
def test_mass_is_conserved_under_any_sequence_of_what_can_happen(K, events):
    nodes = start(K, 3, np.random.default_rng(1))
    network = LossyNetwork(nodes, 0, 0, np.random.default_rng(2))
    before, under_way, receipts = network.mass(), [], []
    for n, what, pick in events:
        node = nodes[n % K]
        if what == "p":
            under_way += node.push([k for k in range(K) if k != node.name][: 1 + pick % (K - 1)])
        elif what == "r" and under_way:  # again and again, in any order
            parcel = under_way[pick % len(under_way)]
            receipts.append(nodes[parcel.receiver].take(parcel))
        elif what == "c" and receipts:
            receipt = receipts[pick % len(receipts)]
            nodes[receipt[0]].confirm(receipt)
        elif what == "l" and under_way:
            under_way.pop(pick % len(under_way))  # lost; its sender still has it
        now = network.mass()
        assert (now[0] == before[0]).all()
        assert now[1] == before[1]


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("K", [4, 16, 64])
def test_every_node_comes_to_the_average_in_steps_of_the_order_of_log_n(K, loss):
    rng = np.random.default_rng(K)
    nodes = start(K, 20, rng)
    average = np.mean([node.s for node in nodes], axis=0) / 2**GUARD
    network = LossyNetwork(nodes, loss, 0.1, rng)
    for _ in range(int(4 * np.log2(K) + 16)):
        network.step()
    worst = max(np.abs(node.average() - average).max() for node in nodes)
    assert worst < 2**15 * 1e-3  # of the range of a digit


def test_without_weights_or_when_lost_shares_are_gone_the_average_is_wrong():
    """The two mistakes that push-sum exists to avoid: they are far outside the bound of the test above."""
    rng = np.random.default_rng(3)
    nodes = start(16, 20, rng)
    average = np.mean([node.s for node in nodes], axis=0) / 2**GUARD
    network = LossyNetwork(nodes, 0.2, 0.1, rng)
    for _ in range(32):
        for node in nodes:
            node.unconfirmed.clear()  # what is lost is not sent again
        network.step()
    unweighted = [node.s / 2**GUARD for node in nodes]
    assert min(np.abs(s - average).max() for s in unweighted) > 2**15 * 1e-2
    assert sum(node.w for node in nodes) < 0.5 * 16 * WEIGHT


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 8, 16, 40, 85])
def test_after_the_schedule_every_node_has_the_exact_sum(K):
    rng = np.random.default_rng(K)
    extremes = [-(2**15), 2**15 - 1, 0, -1, 1]
    q = [np.concatenate([extremes, rng.integers(-(2**15), 2**15, 100)]) for _ in range(K)]
    nodes = [Node(k, to_digits(q[k], 16)) for k in range(K)]
    steps = schedule(K, np.random.default_rng(7))
    assert sum(map(len, steps)) <= max(0, K - 1)
    for shifts in steps:
        parcels = [p for node in nodes for p in node.push([(node.name + r) % K for r in shifts])]
        for parcel in parcels:
            nodes[parcel.sender].confirm(nodes[parcel.receiver].take(parcel))
    for node in nodes:
        assert node.unconfirmed == {}
        assert (np.abs(node.s) < 2**31).all()
        np.testing.assert_array_equal(total_of(node.average(), K, 16), sum(q))


def test_halves_are_pushed_where_they_take_fewer_messages_than_telling_everyone():
    assert schedule(1, np.random.default_rng(1)) == ()
    assert schedule(3, np.random.default_rng(1)) == ((1, 2),)
    many = schedule(64, np.random.default_rng(1))
    assert {len(shifts) for shifts in many} == {1}
    assert len(many) < 63


@given(st.sampled_from([8, 10, 16, 24, 32, 64]), st.data())
def test_digits_give_back_any_sum_that_a_lane_holds(bits, data):
    bound = 2 ** (bits - 1)
    a, b = data.draw(st.integers(-bound // 2, bound // 2 - 1)), data.draw(st.integers(-bound // 2, bound // 2 - 1))
    digits = [to_digits(np.array([v], np.int64), bits) for v in (a, b)]
    assert all((np.abs(d) <= 2**30).all() for d in digits)
    assert total_of((digits[0] + digits[1]) / 2 / 2**GUARD, 2, bits).tolist() == [a + b]
