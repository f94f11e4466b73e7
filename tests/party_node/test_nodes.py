"""Real nodes over mutual TLS: a small pipeline to its end, and every way in which a peer can fail to be one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from mlflow import MlflowClient

from base.errors import (
    AccordError,
    ApprovalMissing,
    ConsentError,
    DataError,
    MessageRefused,
    PeerDown,
    PeerForeign,
    SpecMismatch,
    StateError,
    WireVersionMismatch,
)  # fmt: skip
from party_node import launch
from party_node.client import NodeClient
from party_node.database import Attempt, Database
from party_node.driver import run_steps
from party_node.identity import provision
from party_node.policy import METHODS

pytestmark = pytest.mark.node
FILE = "conf/pipelines/small.yaml"
SMALL = Path(__file__).with_name("small.yaml").read_text(encoding="utf-8")
STEPS = ["load", "align"]
MESSAGES = {"size", "key", "new", "blinded", "signed", "working", "tags", "matched"}
SECONDS = 60  # a refusal takes seconds, not a time-out of minutes; generous for a busy machine


def run(consortium, steps=STEPS, text=SMALL, key=None):
    heard = []
    with consortium.client("north_bank", "airflow") as client:
        name = run_steps(client, text, FILE, steps, key or f"test/{time.time_ns()}", seed=None, watch=heard.append)
        return name, heard, client.call("report", {"run": name})


def refusals(consortium, party):
    with consortium.client(party, "operator") as client:
        return client.call("node")["refused"]


def attempt_error(home, name, attempt):
    with Database(home.url(home.conf.database)).read() as session:
        return session.get_one(Attempt, (name, "align", attempt)).error


def cli(consortium, *arguments):
    command = [sys.executable, "-c", "from party_node.cli import main; main()", *arguments]
    env = {**os.environ, "ACCORD_HOMES": str(consortium.root / "parties")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=120)


def test_a_pipeline_runs_at_all_parties_and_both_ends_can_prove_it(nodes):
    name, heard, report = run(nodes)
    assert [heard[0]["step"], heard[-1]["step"]] == STEPS
    assert set(heard[-1]["parties"]) == {"north_bank", "bureau"}
    assert all(part["bytes_out"] > 0 and part["bytes_in"] > 0 for part in heard[-1]["parties"].values())
    assert report["state"] == "closed"
    assert report["steps"]["align"]["metrics"]["aligned"] == 105
    assert {m["name"] for m in report["messages"]} == MESSAGES
    crossed = sum(m["messages"] for m in report["messages"])
    assert report["ledger"]["signed_by"] == ["bureau", "south_bank"]
    for party in ("north_bank", "bureau"):
        with nodes.client(party, "operator") as client:
            audit = client.call("audit", {"run": name})
        other = {"north_bank": "bureau", "bureau": "north_bank"}[party]
        assert audit["peers"][other] == {"clean": True, "matched": crossed, "error": None, "findings": []}


def test_the_command_line_runs_it_and_verifies(nodes, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    done = cli(nodes, "run", str(path), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["state"] == "closed"
    assert set(report["parties"]["align"]) == {"north_bank", "bureau"}
    assert cli(nodes, "audit", "verify", report["run"], "--party", "south_bank").returncode == 0
    status = cli(nodes, "node", "status", "--party", "bureau")
    assert "peer north_bank" in status.stdout
    shown = cli(nodes, "run", str(path), "--run-key", report["run_key"]).stdout
    assert "model none" in shown
    assert "null 0, invalid 0, dropped_duplicates 0, rows 115, duplicate 0, distinct 115, aligned 105\n" in shown
    again = cli(nodes, "run", str(path), "--json", "--run-key", report["run_key"])
    assert json.loads(again.stdout)["run"] == report["run"]  # finished steps are not run again
    path.write_text(SMALL.replace("min_overlap: 100", "min_overlap: 101"), encoding="utf-8")
    other = cli(nodes, "run", str(path), "--run-key", report["run_key"])
    assert other.returncode == StateError.code
    assert "another pipeline or seed than this run began with" in other.stderr
    assert "--run-key" not in other.stderr.replace("without --run-key a new run begins", "")


def test_what_a_failed_step_has_counted_can_be_read_where_the_command_says(nodes, tmp_path):
    path, data = tmp_path / "small.yaml", nodes.home("north_bank").path("data", "half_ratings.csv")
    path.write_text(SMALL.replace("on_duplicates: all", "on_duplicates: refuse"), encoding="utf-8")
    nodes.approve(FILE, path.read_text())
    kept = data.read_text()
    data.write_text(kept + "".join(kept.splitlines(keepends=True)[1:4]))  # three people stand in two rows
    try:
        failed = cli(nodes, "run", str(path))
    finally:
        data.write_text(kept)
    assert failed.returncode == DataError.code
    assert "see the metric duplicate" in failed.stderr
    assert "a new run is needed" in failed.stderr
    assert "add to the command: --run-key" not in failed.stderr
    name = re.search(r"each party's own MLflow: run (\S+), align, FAILED", failed.stderr)[1]
    with nodes.client("north_bank") as client:
        report = client.call("report", {"run": name})
    assert report["steps"]["align"]["metrics"] == {"duplicate": 3.0}

    mlflow = MlflowClient(report["mlflow"]["uri"])
    experiment = mlflow.get_experiment_by_name("small").experiment_id
    wanted = f"tags.`accord.run` = '{name}' and tags.`accord.step` = 'align' and attributes.status = 'FAILED'"
    until = time.monotonic() + SECONDS
    while not (found := mlflow.search_runs([experiment], wanted)):  # written after the node has been told
        assert time.monotonic() < until
        time.sleep(0.2)
    assert found[0].data.metrics["duplicate"] == 3
    assert found[0].data.tags["accord.attempt"] == "1"


def test_a_changed_ledger_is_found(nodes):
    import sqlite3

    name, _, _ = run(nodes)
    database = sqlite3.connect(nodes.home("bureau").path("node.db"), timeout=30)
    with database:
        database.execute("DELETE FROM ledger WHERE run = ? AND position = 4", (name,))
    database.close()
    with nodes.client("north_bank", "operator") as client:
        found = client.call("audit", {"run": name})["peers"]["bureau"]
    assert not found["clean"]


def test_an_edited_yaml_is_refused_with_the_line_to_type(nodes, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("min_overlap: 100", "min_overlap: 101"), encoding="utf-8")
    refused = cli(nodes, "run", str(path))
    assert refused.returncode == ApprovalMissing.code
    assert f"accord approve {path} --party north_bank" in refused.stderr
    with nodes.client("north_bank", "approver") as client:
        client.call("approve", {"pipeline": path.read_text(), "file": str(path)})
    refused = cli(nodes, "run", str(path))
    assert refused.returncode == ApprovalMissing.code
    assert f"accord approve {path} --party bureau" in refused.stderr
    assert refusals(nodes, "bureau")[-1]["error"]["code"] == ApprovalMissing.code
    for party in ("bureau", "south_bank"):
        assert cli(nodes, "approve", str(path), "--party", party).returncode == 0
    assert cli(nodes, "run", str(path)).returncode == 0


@pytest.mark.parametrize("who", ["airflow", "cli", "approver", "operator"])
def test_every_method_over_the_wire_is_closed_to_other_roles(nodes, who):
    role = nodes.home("north_bank").conf.clients[f"north_bank.{who}"]
    with nodes.client("north_bank", who) as client:
        for method, rule in METHODS.items():
            if role not in rule.roles:
                with pytest.raises(ConsentError):
                    client.call(method, {})


def test_a_client_of_another_party_is_nobody_here(nodes):
    home = nodes.home("north_bank")
    keys = nodes.home("bureau").path("keys")
    port = int(home.conf.listen.rpartition(":")[2])
    for name in ("bureau.cli", "bureau.operator"):
        files = keys / "ca.crt", keys / "clients" / f"{name}.crt", keys / "clients" / f"{name}.key"
        with NodeClient("127.0.0.1", port, *files, "north_bank") as client:
            for method in METHODS:
                with pytest.raises(ConsentError):
                    client.call(method, {})


def test_a_peer_without_a_token_is_refused_everything(nodes):
    keys = nodes.home("bureau").path("keys")
    port = int(nodes.home("north_bank").conf.listen.rpartition(":")[2])
    with NodeClient("127.0.0.1", port, keys / "ca.crt", keys / "tls.crt", keys / "tls.key", "north_bank") as client:
        for method, rule in METHODS.items():
            if rule.peers:
                with pytest.raises(PeerForeign, match="token"):
                    client.call(method, {"wire": 1, "run": "r"})


def test_no_other_call_of_flight_is_answered(nodes):
    from pyarrow import flight

    home = nodes.home("north_bank")
    keys = home.path("keys")
    host, name = home.conf.listen, "north_bank.operator"
    client = flight.FlightClient(
        f"grpc+tls://{host}",
        tls_root_certs=(keys / "ca.crt").read_bytes(),
        cert_chain=(keys / "clients" / f"{name}.crt").read_bytes(),
        private_key=(keys / "clients" / f"{name}.key").read_bytes(),
        override_hostname="north_bank",
    )
    descriptor = flight.FlightDescriptor.for_command(b"{}")
    calls = [
        lambda: list(client.list_flights()),
        lambda: list(client.list_actions()),
        lambda: client.get_flight_info(descriptor),
        lambda: client.do_get(flight.Ticket(b"x")).read_all(),
        lambda: client.do_put(descriptor, pa.schema([]))[0].close(),
        lambda: client.do_exchange(descriptor)[1].read_all(),
    ]
    for call in calls:
        with pytest.raises((flight.FlightError, pa.ArrowException, NotImplementedError)) as error:
            call()
        assert "Traceback" not in str(error.value)
    assert client.get_schema(descriptor).schema.names == []
    client.close()


@pytest.mark.parametrize("body", [{}, {"job": 5}, {"job": None}])
def test_a_malformed_call_gets_an_error_without_a_traceback(nodes, body):
    with nodes.client("north_bank", "cli") as client, pytest.raises((MessageRefused, StateError)) as error:
        client.call("status", body)
    assert "Traceback" not in str(error.value)
    assert ".py" not in str(error.value)


def test_a_killed_worker_fails_the_attempt_and_the_next_one_has_a_fresh_worker(nodes):
    slow = SMALL.replace("key_bits: 2048", "key_bits: 4096")  # a new key of 4,096 bits takes a while
    nodes.approve(FILE, slow)
    key = f"test/{time.time_ns()}"
    killed = []

    def watch(status):
        if status["step"] == "align" and status["state"] == "running" and not killed:
            with nodes.client("bureau", "operator") as client:
                killed.append(client.call("node")["worker"])
            os.kill(killed[0], signal.SIGKILL)

    with nodes.client("north_bank") as client:
        with pytest.raises(AccordError, match="worker process ended") as error:
            run_steps(client, slow, FILE, STEPS, key, seed=None, watch=watch)
        assert (error.value.party, error.value.code, error.value.found) == ("bureau", 30, "SIGKILL")
        first = error.value.to_wire()
        name = run_steps(client, slow, FILE, STEPS, key, seed=None, watch=lambda status: None)
        assert client.call("report", {"run": name})["steps"]["align"]["attempt"] == 2
    with nodes.client("bureau") as client:
        assert client.call("report", {"run": name})["steps"]["align"]["attempt"] == 2
    for party in ("north_bank", "bureau"):  # the same error stands at every party
        assert attempt_error(nodes.home(party), name, 1) == first


def test_two_runs_at_once_do_not_wait_for_each_other_for_ever(nodes):
    import threading

    done, errors = [], []

    def one():
        try:
            done.append(run(nodes)[2]["state"])
        except AccordError as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert (done, errors) == (["closed"] * 3, [])


def test_a_cancel_stops_all_parties(nodes):
    slow = SMALL.replace("key_bits: 2048", "key_bits: 4096").replace("seed: 7", "seed: 8")
    nodes.approve(FILE, slow)
    shutil.rmtree(
        nodes.home("bureau").path("secrets"), ignore_errors=True
    )  # so that the bureau has to make its long key again
    with nodes.client("north_bank") as client:
        run_key = f"test/{time.time_ns()}"
        run_steps(client, slow, FILE, ["load"], run_key, seed=None, watch=lambda status: None)
        body = {"pipeline": slow, "file": FILE, "step": "align", "key": run_key + "/1", "run_key": run_key}
        job = client.call("submit", body)
        assert client.call("cancel", {"job": job["job"], "key": run_key + "/1"})["cancelled"]
        until = time.monotonic() + SECONDS
        while (answer := client.call("status", {"job": job["job"]}))["state"] != "cancelled":
            assert time.monotonic() < until
            time.sleep(0.1)
    assert answer["error"]["what"] == "north_bank.cli cancelled the step"
    with nodes.client("bureau", "operator") as client:
        while client.call("node")["going_on"]:
            assert time.monotonic() < until
            time.sleep(0.1)


# From here on a test breaks a node and mends it again.


@pytest.fixture
def broken_bureau(nodes):
    """The bureau, stopped; its directory is put back and its node started afterwards."""
    home = nodes.home("bureau")
    keep = home.root.with_name("bureau.kept")
    launch.stop([home])
    shutil.copytree(home.root, keep)
    yield nodes
    launch.stop([home])
    shutil.rmtree(home.root)
    keep.rename(home.root)
    nodes.start()


def timed(consortium, error, **expected):
    began = time.monotonic()
    with pytest.raises(error) as found:
        run(consortium)
    assert time.monotonic() - began < SECONDS
    for name, value in expected.items():
        assert getattr(found.value, name) == value
    return found.value


def test_a_peer_that_is_down(broken_bureau):
    assert "bureau" in timed(broken_bureau, PeerDown).what
    assert cli(broken_bureau, "doctor", "--party", "north_bank").returncode == 80


def test_a_peer_with_a_foreign_certificate_is_named_at_both_ends(broken_bureau, tmp_path):
    home = broken_bureau.home("bureau")
    for path in [home.path("keys", "ca.crt"), *home.path("keys").rglob("*.key"), *home.path("keys").rglob("*.crt")]:
        path.unlink(missing_ok=True)
    provision(home.root, "bureau", tmp_path / "another_ca")
    launch.wait_healthy(home, launch.start(home))
    assert "bureau" in timed(broken_bureau, PeerForeign, code=32).what
    for party, other in (("north_bank", "bureau"), ("bureau", "north_bank")):
        with broken_bureau.client(party, "operator") as client:
            state = client.call("node")["peers"][other]
        assert state["error"]["code"] == PeerForeign.code, (party, state)


def test_a_peer_with_another_wire_version_is_named_at_both_ends(broken_bureau):
    home = broken_bureau.home("bureau")
    program = "import transport.message as m; m.WIRE_VERSION = 2; from party_node.node import main; main()"
    with home.path("logs", "node.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", program, str(home.root)], stdout=log, stderr=log)
    try:
        launch.wait_healthy(home, process)
        error = timed(broken_bureau, WireVersionMismatch, code=33, party="bureau")
        assert (error.expected, error.found) == ("wire version 2", "wire version 1")
        assert refusals(broken_bureau, "bureau")[-1]["error"]["code"] == 33
        with broken_bureau.client("bureau", "operator") as client:
            assert client.call("node")["peers"]["north_bank"]["error"]["code"] == 33
    finally:
        process.terminate()
        process.wait(30)


def test_a_peer_with_another_feature_spec_is_named_at_both_ends(broken_bureau):
    home = broken_bureau.home("bureau")
    spec = home.path("feature_specs", "user.yaml")
    spec.write_text(spec.read_text().replace("on_null: drop", "on_null: refuse", 1))
    launch.wait_healthy(home, launch.start(home))
    error = timed(broken_bureau, SpecMismatch, code=34, party="bureau")
    assert "feature spec user" in error.what
    assert refusals(broken_bureau, "bureau")[-1]["error"]["code"] == 34


def test_a_peer_that_has_not_signed_refuses(broken_bureau):
    home = broken_bureau.home("bureau")
    path = home.path("accords", "demo.json")
    document = json.loads(path.read_text())
    del document["signatures"]["south_bank"]
    path.write_text(json.dumps(document))
    launch.wait_healthy(home, launch.start(home))
    with pytest.raises(AccordError) as error:
        run(broken_bureau)
    assert error.value.party == "bureau"


def test_a_killed_node_loses_nothing(broken_bureau):
    home = broken_bureau.home("bureau")
    launch.wait_healthy(home, launch.start(home))
    name, _, _ = run(broken_bureau)
    process = launch.running(home)
    workers = process.children()
    process.kill()
    _, alive = psutil.wait_procs([process, *workers], timeout=SECONDS)
    assert not alive  # the worker ends with its node
    assert "bureau" in timed(broken_bureau, PeerDown).what
    launch.wait_healthy(home, launch.start(home))
    assert run(broken_bureau)[2]["state"] == "closed"
    with broken_bureau.client("bureau") as client:
        assert client.call("report", {"run": name})["state"] == "closed"


def test_a_graceful_stop_in_the_middle_of_a_step_is_told_to_every_party(broken_bureau):
    home = broken_bureau.home("bureau")
    shutil.rmtree(home.path("secrets"), ignore_errors=True)
    launch.wait_healthy(home, launch.start(home))
    slow = SMALL.replace("key_bits: 2048", "key_bits: 4096").replace("seed: 7", "seed: 9")
    broken_bureau.approve(FILE, slow)
    stopped = []

    def watch(status):
        if status["step"] == "align" and status["state"] == "running" and not stopped:
            stopped.append(launch.running(home))
            stopped[0].terminate()

    with broken_bureau.client("north_bank") as client, pytest.raises(AccordError) as error:
        run_steps(client, slow, FILE, STEPS, f"test/{time.time_ns()}", seed=None, watch=watch)
    assert error.value.code in (30, 31)
    assert "bureau" in str(error.value)
    psutil.wait_procs(stopped, timeout=SECONDS)
    assert launch.running(home) is None
    assert not home.path(launch.PID_FILE).exists()
