"""Nodes that are killed by kill -9 in the middle of an alignment, again and again: the run ends as if undisturbed.

Real processes, mutual TLS. Each attempt of a run is killed at another place, and the next one goes on with the same run
key, as the runbook says.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from killable import KillableNodes

from base.errors import AccordError
from components.alignment_ids import capacity
from party_node.driver import run_steps
from runtime.artifacts import Store
from runtime.checkpoint import FileCheckpoint
from transport.chain import IN, OUT, Entry

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]
BANK, BUREAU = PARTIES = ("north_bank", "bureau")
FILE, BUCKETS = "conf/pipelines/crash.yaml", 7
PIPELINE = """\
pipeline: crash
accord: demo
seed: 7
initiator: north_bank
roles:
  data_holder: [north_bank, bureau]
  receiver: [north_bank]
  sender: [bureau]
steps:
  load:
    component: load_tables
    params: {data_sets: {north_bank: [half_ratings], bureau: [people]}}
  align:
    component: COMPONENT
    inputs: {tables: load.tables}
    params:
      tables: {north_bank: half_ratings, bureau: people}
      id_column: user_id
      on_duplicates: all
      pad_to: 32
"""
IDS = {
    BANK: [f"C{n:07d}" for n in [*range(160), *range(0, 160, 3)]],  # some rate twice
    BUREAU: [f"C{n:07d}" for n in range(180, 30, -1)],
}
COMMON = {f"C{n:07d}" for n in range(31, 160)}


@pytest.fixture(scope="module")
def nodes(fresh):
    """Two nodes that can be killed, each with a table of its own."""
    consortium = fresh("crash")
    for party, name, rest in ((BANK, "half_ratings", "7,3,880000000"), (BUREAU, "people", "30,F,none,12345")):
        head = {BANK: "user_id,item_id,rating,timestamp", BUREAU: "user_id,age,sex,occupation,zip"}[party]
        lines = [head, *(f"{each},{rest}" for each in IDS[party])]
        (consortium.directory(party) / "data" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    with KillableNodes(consortium, PARTIES) as running:
        yield running


class Alignment:
    """One run of the pipeline, attempt by attempt."""

    def __init__(self, nodes, component, *params):
        self.nodes, self.consortium, self.key = nodes, nodes.consortium, f"crash/{component}"
        self.text = PIPELINE.replace("COMPONENT", component) + "".join(f"      {line}\n" for line in params)
        for party in PARTIES:
            with self.consortium.client(party, "approver") as client:
                client.call("approve", {"pipeline": self.text, "file": FILE})
        self.run = self.go_on("load")

    def go_on(self, *steps):
        """Start these steps of the run, or start them again; return the run's name."""
        with self.consortium.client(BANK) as client:
            return run_steps(client, self.text, FILE, list(steps), self.key, seed=None, watch=lambda status: None)

    def killed(self, party, place):
        """Go on until a party's node is killed there; it is started again."""
        self.nodes.halt(party, place)
        with ThreadPoolExecutor(1) as pool:
            going_on = pool.submit(self.go_on, "align")
            self.nodes.kill(party, going_on)
            assert isinstance(going_on.exception(), AccordError)

    def done(self):
        """Return how many buckets both parties have done."""
        folders = (self.consortium.home(p).path("store", "checkpoints", self.run, "align") for p in PARTIES)
        return 1 + max(set.intersection(*(set(FileCheckpoint(folder).rounds()) for folder in folders)))

    def messages(self, party, direction, name):
        """Return (attempt, number in the attempt, digest) of the messages of this name in the party's ledger."""
        with self.consortium.client(party, "operator") as client:
            entries = map(Entry.from_document, client.call("ledger", {"run": self.run})["entries"])
        found = [e.statement for e in entries if (e.direction, e.statement.key.name) == (direction, name)]
        return [(each.key.attempt, each.key.seq, each.digest) for each in found]

    def aligned(self, party):
        """Return the party's ids by aligned index."""
        store = Store(self.consortium.home(party).path("store"))
        table = store.load(store.read_outputs(self.run, "align")["alignment"])
        assert table["index"].to_pylist() == list(range(len(table)))
        found = [IDS[party][row] for row in table["first"].to_pylist()]
        assert [sorted(set(IDS[party]))[row] for row in table["row"].to_pylist()] == found
        return found

    def has_ended_well(self, attempts):
        """Assert a plain join in one order, ledgers that agree, and nothing left of attempts that died."""
        bank, bureau = (self.aligned(party) for party in PARTIES)
        assert bank == bureau
        assert len(bank) == len(COMMON)
        assert set(bank) == COMMON
        for party in PARTIES:
            with self.consortium.client(party, "operator") as client:
                report, audit = (client.call(what, {"run": self.run}) for what in ("report", "audit"))
            assert (report["state"], report["steps"]["align"]["attempt"]) == ("closed", attempts)
            assert all(peer["clean"] for peer in audit["peers"].values())
            home = self.consortium.home(party)
            for left in ("store/checkpoints", "store/spill", "secrets/demo/.runs", "inbox"):
                assert not [path for path in home.path(left, self.run).rglob("*") if path.is_file()]

    def spent(self, party, purse):
        """Return what the party has counted in a purse, over the life of the accord."""
        slots = self.consortium.home(party).path("secrets", "demo").glob(f"{purse}.*")
        return [int(slot.read_text().split()[0]) for slot in slots]


# Who is killed, where, and how many buckets are done by then. The numbers of messages begin anew in each attempt.
CRASHES = [
    (BUREAU, "send answer 2", 2),
    (BANK, "read answer 1", 3),
    (BANK, "cut masked 1", 4),
    (BUREAU, "delivered masked 1", 5),
]


def test_a_curve_alignment_survives_kills_and_repeats_no_bucket_that_was_done(nodes):
    run = Alignment(nodes, "align_ecdh", f"buckets: {BUCKETS}")
    starts = [0]
    for party, place, done in CRASHES:
        run.killed(party, place)
        starts.append(run.done())
        assert starts[-1] == done, place
    run.go_on("align")
    run.has_ended_well(attempts=1 + len(CRASHES))

    for party in PARTIES:
        sent, buckets = {}, {}
        for attempt, number, digest in run.messages(party, OUT, "masked"):
            bucket = starts[attempt - 1] + number
            buckets.setdefault(attempt, []).append(bucket)
            assert sent.setdefault(bucket, digest) == digest  # byte by byte as before: the peer learns nothing new
        assert sorted(sent) == list(range(BUCKETS))
        assert len(set(sent.values())) == BUCKETS
        assert buckets[len(starts)] == list(range(starts[-1], BUCKETS))
    last = [number for attempt, number, _ in run.messages(BANK, IN, "answer") if attempt == len(starts)]
    assert len(last) == BUCKETS - starts[-1]
    points = BUCKETS * capacity(160, BUCKETS)
    assert run.spent(BANK, "tests.bureau") == run.spent(BUREAU, "tests.north_bank") == [points]  # kills cost none


def test_an_rsa_alignment_survives_kills_in_mid_batch_and_signs_again_only_what_was_lost(nodes):
    run = Alignment(nodes, "align_rsa", "key_bits: 2048")
    run.killed(BUREAU, "send signed 2")  # counted, and never sent
    run.killed(BANK, "read signed 1")  # arrived, and not kept
    run.go_on("align")
    run.has_ended_well(attempts=3)

    by_attempt = {
        (party, name): Counter(attempt for attempt, _, _ in run.messages(party, OUT, name))
        for party, name in ((BANK, "blinded"), (BUREAU, "signed"), (BUREAU, "working"))
    }
    assert by_attempt[BUREAU, "signed"] == {1: 3, 2: 2, 3: 2}
    assert by_attempt[BANK, "blinded"][3] == 2  # of five batches, two are kept of the first attempt, one of the second
    assert by_attempt[BUREAU, "working"][3] == 1
    assert sum(run.spent(BUREAU, "signatures.north_bank")) == (5 + 2) * 32
