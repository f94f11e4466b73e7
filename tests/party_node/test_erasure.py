"""What is kept for a peer goes on an operator's word: a fresh key, nothing of the old one, and no test for nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_parties import attempts_of

from base.errors import ConsentError, EnvironmentMissing, MessageRefused, StateError
from crypto.rsa import RsaSecretKey
from party_node.accords import Accords
from party_node.database import Database, Run
from party_node.driver import run_steps
from party_node.erasure import Erasure
from party_node.policy import Caller
from party_node.runs import Runs
from runtime.services import party_keys

FILE = "conf/pipelines/small.yaml"
SMALL = Path(__file__).with_name("small.yaml").read_text(encoding="utf-8")
LIMITED = SMALL + "      max_signatures: 256\n"
FIRST = 128  # signatures for 115 ids in batches of 64
KEY = "peer/north_bank/key.2048"
OPERATOR = Caller("bureau.operator", "operator", peer=False)


def keys_of(consortium, party="bureau"):
    return party_keys(consortium.home(party), {}, "demo")


class OpenRuns(Runs):
    def require_open(self, run, peer):
        return self.get(run)


@pytest.fixture
def bureau(organisations):
    """A node's parts without its port and worker, with secrets for two peers and what was counted."""
    home = organisations.home("bureau")
    database, accords = Database(home.url(home.conf.database)), Accords(home)
    runs = OpenRuns(home, database, accords, None)
    attempts = attempts_of(home, database, runs, None).attempts
    attempts.database = database
    keys = keys_of(organisations)
    for peer in ("north_bank", "south_bank", "left_bank"):
        for name in ("key.2048", "sender.abc.head", "sender.abc.0.0"):
            keys.put(f"peer/{peer}/{name}", name.encode())
    keys.keep("signatures.north_bank.0", lambda: b"64 run/align/1")
    keys.put("run/r1/signing.align.north_bank", bytes(16))
    yield Erasure(home, accords, attempts), keys, attempts
    database.close()


def asked(*peers, confirmed=True, accord="demo"):
    return {"accord": accord, "peers": list(peers), "confirmed": confirmed}


def test_what_is_kept_for_a_peer_goes_and_all_else_stays(bureau):
    erasure, keys, _ = bureau
    told = erasure.erase(OPERATOR, asked("north_bank", confirmed=False))
    assert told["peers"]["north_bank"]["files"] == 3
    assert told["max_signatures"] == 1_000_000
    assert len(keys.kept_for("north_bank")) == 3  # it was only told
    assert erasure.erase(OPERATOR, asked("north_bank")) == told
    assert keys.kept_for("north_bank") == []
    assert keys.get(KEY) is None
    assert len(keys.kept_for("south_bank")) == len(keys.kept_for("left_bank")) == 3
    assert keys.keep("signatures.north_bank.0", bytes) == b"64 run/align/1"
    assert keys.get("run/r1/signing.align.north_bank") == bytes(16)
    again = erasure.erase(OPERATOR, asked("north_bank"))["peers"]
    assert again == {"north_bank": {"files": 0, "bytes": 0}}


def test_for_a_person_it_goes_for_every_peer_also_for_one_that_has_left(bureau):
    erasure, keys, _ = bureau
    assert list(erasure.erase(OPERATOR, asked())["peers"]) == ["left_bank", "north_bank", "south_bank"]
    assert [keys.kept_for(peer) for peer in ("left_bank", "north_bank", "south_bank")] == [[], [], []]


def test_an_accord_that_is_over_does_not_keep_what_was_made_under_it(bureau, organisations):
    erasure, keys, _ = bureau
    path = organisations.home("bureau").path("accords", "demo.json")
    path.write_text(path.read_text().replace("2036-12-31", "2026-01-02"))
    erasure.erase(OPERATOR, asked("north_bank"))
    assert keys.kept_for("north_bank") == []


def test_a_misspelt_peer_is_told_which_is_meant(bureau):
    with pytest.raises(ConsentError) as caught:
        bureau[0].erase(OPERATOR, asked("nort_bank"))
    assert caught.value.where == "accord demo, --peer"
    assert caught.value.remedy == "did you mean 'north_bank'?"


@pytest.mark.parametrize(
    "body",
    [
        asked("nobody"), asked("bureau"), asked("north_bank", "nobody"), asked("../x"), asked(accord="other"),
        asked(accord="../demo"),
    ],
)  # fmt: skip
def test_a_word_that_names_nothing_erases_nothing(bureau, body):
    erasure, keys, _ = bureau
    with pytest.raises(ConsentError):
        erasure.erase(OPERATOR, body)
    assert len(keys.kept_for("north_bank")) == 3


def test_only_the_word_itself_confirms(bureau):
    erasure, keys, _ = bureau
    for word in ("true", 1, None, "no"):
        erasure.erase(OPERATOR, {**asked("north_bank"), "confirmed": word})
    assert len(keys.kept_for("north_bank")) == 3


def test_a_step_that_goes_on_is_not_robbed_of_its_key(bureau):
    erasure, keys, attempts = bureau
    for run, accord in (("r1", "demo"), ("r2", "another")):
        with attempts.database.write() as session:
            session.add(
                Run(
                    run=run, pipeline="small", accord=accord, accord_digest="a", template="t", text=SMALL,
                    file="small.yaml", seed=7, initiator="north_bank", salt="00", state="open", created=1.0,
                )
            )  # fmt: skip
    step = {"run": "r2", "step": "align", "attempt": 1}
    attempts.reserve("north_bank", step)
    erasure.erase(OPERATOR, asked("south_bank"))  # of another accord
    attempts.stop("north_bank", {**step, "error": {"code": 71, "what": "stopped"}})
    attempts.reserve("north_bank", {**step, "run": "r1"})
    with pytest.raises(StateError, match="a run of the accord goes on") as caught:
        erasure.erase(OPERATOR, asked("north_bank"))
    assert caught.value.found == "r1/align/1"
    assert "Ctrl-C at accord run" in caught.value.remedy
    assert len(keys.kept_for("north_bank")) == 3
    attempts.stop("north_bank", {**step, "run": "r1", "error": {"code": 71, "what": "stopped"}})
    erasure.erase(OPERATOR, asked("north_bank"))
    assert keys.kept_for("north_bank") == []


def test_a_machine_that_refuses_is_named(bureau, monkeypatch):
    erasure, _, _ = bureau
    monkeypatch.setattr("runtime.keys.shutil.rmtree", lambda _: (_ for _ in ()).throw(PermissionError(13, "x")))
    with pytest.raises(EnvironmentMissing, match="Permission denied"):
        erasure.erase(OPERATOR, asked("north_bank"))


# --- on running nodes


def cli(consortium, *arguments):
    command = [sys.executable, "-c", "from party_node.cli import main; main()", *arguments]
    env = {**os.environ, "ACCORD_HOMES": str(consortium.root / "parties"), "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=120)


def modulus(consortium):
    """Of the key that the bureau keeps for north_bank; public, so a failing test may show it."""
    kept = keys_of(consortium).get(KEY)
    return RsaSecretKey.from_bytes(kept).public.n


def night(consortium):
    with consortium.client("north_bank", "airflow") as client:
        key = f"test/{time.time_ns()}"
        run = run_steps(client, LIMITED, FILE, ["load", "align"], key, seed=None, watch=lambda _: None)
    with consortium.client("bureau", "operator") as client:
        return client.call("report", {"run": run})["steps"]["align"]["metrics"]["signatures"]


@pytest.mark.node
def test_the_next_night_has_a_fresh_key_and_pays_in_full(nodes):
    nodes.approve(FILE, LIMITED)
    assert night(nodes) == FIRST
    before = modulus(nodes)
    options = ("--accord", "demo", "--peer", "north_bank", "--party", "bureau")

    told = cli(nodes, "erase", *options)
    assert told.returncode == 2
    assert told.stderr == "nothing has been erased; to erase this, type the same line with --yes\n"
    for word in ("for north_bank: ", "would go", "costs", "max_signatures = 1000000", "stays", "ledgers"):
        assert word in told.stdout
    assert modulus(nodes) == before

    done = cli(nodes, "erase", *options, "--yes")
    assert done.returncode == 0, done.stderr
    assert "erased" in done.stdout
    assert keys_of(nodes).kept_for("north_bank") == []
    again = cli(nodes, "erase", *options)
    assert again.returncode == 0
    assert "nothing is kept" in again.stdout
    assert "costs" not in again.stdout
    other = cli(nodes, "erase", "--accord", "dem", "--party", "bureau")
    assert other.returncode == ConsentError.code
    assert "did you mean 'demo'?" in other.stderr
    lines = [json.loads(line) for line in nodes.home("bureau").path("logs", "node.jsonl").read_text().splitlines()]
    (act,) = [line for line in lines if line["event"] == "erased for a peer" and line["files"]]
    assert (act["accord"], act["peer"], act["operator"]) == ("demo", "north_bank", "bureau.operator")

    assert night(nodes) == FIRST  # all again, though the receiver has not erased anything
    assert modulus(nodes) != before
    assert cli(nodes, "erase", *options, "--yes").returncode == 0
    with pytest.raises(ConsentError, match="no further blind signatures"):  # 256 are counted, under two keys
        night(nodes)


@pytest.mark.node
def test_only_an_operator_erases_and_the_body_has_a_form(nodes):
    for who in ("airflow", "cli", "approver"):
        with nodes.client("bureau", who) as client, pytest.raises(ConsentError, match="policy"):
            client.call("erase", asked("north_bank"))
    with nodes.client("bureau", "operator") as client:
        for body in ({}, {"accord": "demo"}, {"accord": "demo", "peers": None, "confirmed": True}):
            with pytest.raises(MessageRefused, match="not of its form"):
                client.call("erase", body)
