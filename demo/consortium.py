"""The four demo organisations as real nodes: lay out their directories, sign, start, approve, stop.

<root>/ca                   the consortium's CA
<root>/parties/<party>      the node's directory, as the organisation would have it on its own machine
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from monitoring.tracking import prepare_store
from party_node import launch
from party_node.client import NodeClient
from party_node.identity import provision, public_keys
from party_node.signing import draft, install, read_conditions, sign
from runtime.party import Home

ROOT = Path(__file__).resolve().parent.parent
PARTIES = ("north_bank", "south_bank", "west_bank", "bureau")
MLFLOW_TEMPLATE = ROOT / "var" / "cache" / "mlflow.db"


class Consortium:
    """The organisations on one machine; a context manager that starts and stops their nodes."""

    def __init__(
        self,
        root: Path,
        *,
        parties: Sequence[str] = PARTIES,
        ports: Mapping[str, int] | None = None,
        conf: Path = ROOT / "conf",
    ) -> None:
        """Live below `root`; `ports` replaces those of conf/parties."""
        self.root, self.parties = root, tuple(parties)
        self._ports, self._conf = dict(ports or {}), conf

    def directory(self, party: str) -> Path:
        """Return the node directory of a party."""
        return self.root / "parties" / party

    def home(self, party: str) -> Home:
        """Return the node directory of a party as the node reads it."""
        return Home(self.directory(party))

    def homes(self) -> dict[str, Home]:
        """Return all node directories."""
        return {party: self.home(party) for party in self.parties}

    def client(self, party: str, who: str = "cli") -> NodeClient:
        """Return a client of a party's node with one of its certificates: airflow, cli, approver, operator."""
        return launch.client(self.home(party), who)

    def lay_out(self) -> None:
        """Make every node directory: configuration, specs, keys, certificates, MLflow store; what exists stays."""
        for party in self.parties:
            directory = self.directory(party)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "party.yaml").write_text(self._party_yaml(party), encoding="utf-8")
            shutil.copytree(ROOT / "feature_specs", directory / "feature_specs", dirs_exist_ok=True)
            provision(directory, party, self.root / "ca")
            prepare_store(directory / "mlflow.db", MLFLOW_TEMPLATE)

    def sign(self, name: str = "demo") -> None:
        """Let every party sign the accord and keep its copy."""
        path = self._conf / "accords" / f"{name}.yaml"
        conditions = read_conditions(path)
        conditions["parties"] = {party: conditions["parties"][party] for party in self.parties}
        conditions["learns_alignment"] = [p for p in conditions["learns_alignment"] if p in self.parties]
        accord = draft(conditions, {party: public_keys(self.directory(party)) for party in self.parties}, str(path))
        for home in self.homes().values():
            accord = sign(accord, home)
        for home in self.homes().values():
            install(accord, home)

    def approve(self, pipeline: Path | str, text: str | None = None) -> None:
        """Let the approver of every party of the pipeline's accord approve it as it stands."""
        text = Path(pipeline).read_text(encoding="utf-8") if text is None else text
        for party in self.parties:
            with self.client(party, "approver") as client:
                client.call("approve", {"pipeline": text, "file": str(pipeline)})

    def start(self) -> None:
        """Start all nodes that do not run, at the same time, and wait until each answers."""
        homes = self.homes()
        processes = {party: launch.start(home) for party, home in homes.items()}
        for party, home in homes.items():
            launch.wait_healthy(home, processes[party])

    def stop(self) -> None:
        """Stop all nodes gracefully, at the same time."""
        launch.stop(list(self.homes().values()))

    def __enter__(self) -> Consortium:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _party_yaml(self, party: str) -> str:
        """Return the party's file of conf/parties, with this consortium's ports and parties where they differ."""
        text = (self._conf / "parties" / f"{party}.yaml").read_text(encoding="utf-8")
        if not self._ports and self.parties == PARTIES:
            return text
        conf = yaml.safe_load(text)
        addresses = {p: f"127.0.0.1:{self._ports[p]}" if p in self._ports else conf["peers"][p] for p in self.parties}
        conf |= {"peers": addresses, "listen": addresses[party], "advertise": addresses[party]}
        return yaml.safe_dump(conf, sort_keys=False)
