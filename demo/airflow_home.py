"""A directory in which Airflow runs: its configuration, its keys, its database.

A fresh metadata database takes Airflow about five seconds to migrate; it is made once for a version of Airflow and
copied from then on.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from base.errors import EnvironmentMissing
from base.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
DATABASE = "airflow.db"


@dataclass(frozen=True)
class AirflowHome:
    """`home` belongs to one Airflow; `connection` is what `AIRFLOW_CONN_ACCORD_NODE` says (paths, no key)."""

    home: Path
    connection: Mapping[str, Any]
    dags: Path = ROOT / "dags"
    port: int = 8080

    def environment(self) -> dict[str, str]:
        """Return the variables of every process of this Airflow."""
        url = f"http://127.0.0.1:{self.port}"
        settings = {
            "CORE__DAGS_FOLDER": self.dags,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": 4,
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,  # on loopback, for the person at this machine
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home.resolve() / DATABASE}",
            "LOGGING__BASE_LOG_FOLDER": self.home.resolve() / "logs",
            "LOGGING__JSON_LOGS": True,
            "API__HOST": "127.0.0.1",
            "API__PORT": self.port,
            "API__BASE_URL": url,
            # A trigger that fires while the deferred task's supervisor lingers would disturb the resumed task.
            "WORKERS__MIN_HEARTBEAT_INTERVAL": 1,
            "DAG_PROCESSOR__REFRESH_INTERVAL": 10,
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 10,
            **self._keys(),
        }
        variables = {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
        # DAG files and the provider are read from this clone, whatever the working directory is.
        return {
            **os.environ,
            **variables,
            "AIRFLOW_HOME": str(self.home.resolve()),
            "AIRFLOW_CONN_ACCORD_NODE": json.dumps({"conn_type": "accord_node", **self.connection}),
            "PYTHONPATH": str(ROOT),
        }

    def prepare(self, fresh: bool = False) -> None:
        """Make the directory and its database; `fresh` forgets all earlier runs."""
        if fresh and self.home.exists():
            shutil.rmtree(self.home)
        self.home.mkdir(parents=True, exist_ok=True)
        if not (self.home / DATABASE).exists():
            shutil.copyfile(self._template(), self.home / DATABASE)

    def _keys(self) -> dict[str, str]:
        path = self.home / "keys.json"
        if not path.exists():
            keys = {
                "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "API__SECRET_KEY": secrets.token_hex(32),
                "API_AUTH__JWT_SECRET": secrets.token_hex(64),
            }
            write_whole(path, json.dumps(keys).encode(), private=True)
        return dict(json.loads(path.read_text()))

    def _template(self) -> Path:
        path = ROOT / "var" / "airflow" / f"metadata-{version('apache-airflow-core')}.db"
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            database = Path(folder) / DATABASE
            variables = {"AIRFLOW_HOME": folder, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}"}
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            done = subprocess.run(
                command, env={**self.environment(), **variables}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise EnvironmentMissing(
                    "Airflow cannot make its database",
                    found=(done.stderr or done.stdout)[-2000:],
                    remedy="make setup installs the versions of constraints.txt",
                )
            database.replace(path)
        return path
