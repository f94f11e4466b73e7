"""Parties that open and close runs, each by its own directory and database, without a node."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from party_node.accords import Accords
from party_node.approvals import Approvals
from party_node.attempt_rows import AttemptRows
from party_node.attempts import Attempts
from party_node.closing import Closing
from party_node.database import Database
from party_node.identity import public_keys
from party_node.ledger_store import SqlLedgerStore
from party_node.live_attempts import LiveAttempts
from party_node.opening import Opening
from party_node.runs import Runs
from party_node.signing import draft, install, read_conditions, sign
from pipelines.plan import RunPlan
from transport.inbox import DirectoryInbox
from transport.ledger import Ledger

PARTIES = ("north_bank", "south_bank", "bureau")
FILE = "conf/pipelines/small.yaml"
SMALL = (Path(__file__).parents[1] / "party_node" / "small.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class RunParty:
    """What one party's node has to do with runs."""

    approvals: Approvals
    runs: Runs
    opening: Opening
    closing: Closing


def run_party(consortium, party):
    home = consortium.home(party)
    accords, database = Accords(home), Database(home.url(home.conf.database))
    approvals = Approvals(home, database, accords)
    runs = Runs(home, database, accords, approvals)
    closing = Closing(party, runs, Ledger(accords, SqlLedgerStore(database)))
    return RunParty(approvals, runs, Opening(home, database, accords, approvals, runs), closing)


def attempts_of(home, database, runs, worker):
    """The parts of a node that have to do with attempts; the worker is the test's."""
    rows, inbox = AttemptRows(database, home.party), DirectoryInbox(home.path("inbox"))
    live = LiveAttempts(home.party, rows, inbox, worker)
    attempts = Attempts(home, runs, SqlLedgerStore(database), rows, live)
    return SimpleNamespace(attempts=attempts, rows=rows, live=live, inbox=inbox, worker=worker)


def ask(parties, run="r1", text=SMALL, seed=7):
    template = parties["north_bank"].approvals.template(text, FILE)[2]
    return {"run": run, "text": text, "file": FILE, "seed": seed, "template": template.model_dump(mode="json")}


def plan(parties, body, **changes):
    prepared = {party: at.opening.prepare("north_bank", body) for party, at in parties.items()}
    fields = {
        "run": body["run"],
        "template": prepared["north_bank"]["template"],
        "seed": body["seed"],
        "commitments": {party: answer["commitment"] for party, answer in prepared.items()},
    }
    return RunPlan(**{**fields, **changes})


def open_all(parties, run="r1"):
    made = plan(parties, ask(parties, run)).model_dump(mode="json")
    signatures = {p: at.opening.accept("north_bank", {"plan": made})["signature"] for p, at in parties.items()}
    for at in parties.values():
        at.opening.open("north_bank", {"run": run, "signatures": signatures})
    return signatures


def sign_anew(organisations, parties=PARTIES, **changes):
    """Replace the accord by one with these changes, signed by `parties`."""
    conditions = {**read_conditions(organisations._conf / "accords" / "demo.yaml"), **changes}
    conditions["parties"] = {party: conditions["parties"][party] for party in PARTIES}
    conditions["learns_alignment"] = changes.get("learns_alignment", ["north_bank", "bureau"])
    accord = draft(conditions, {p: public_keys(organisations.directory(p)) for p in PARTIES}, "demo.yaml")
    for party in parties:
        accord = sign(accord, organisations.home(party))
    for party in PARTIES:
        install(accord, organisations.home(party))
