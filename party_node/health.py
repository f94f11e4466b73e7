"""What `accord doctor` checks; each finding says what is wrong and what to do."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from base.errors import AccordError
from party_node import identity, launch
from party_node.names import TOP_LEVEL, foreign
from runtime.party import Home

DISK_GIB = 3


@dataclass(frozen=True)
class Finding:
    """One check."""

    what: str
    good: bool
    found: str
    remedy: str = ""


def machine() -> list[Finding]:
    """Check what every node needs of its machine."""
    return [_python(), _java(), _disk(Path.cwd()), _names(), _distributions()]


def node(home: Home, *, peers: bool) -> list[Finding]:
    """Check one node: configuration has been read, so certificates, keys, port, and its peers when it runs."""
    findings = [_try("certificates and keys", lambda: identity.self_test(home.root, home.party))]
    process = launch.running(home)
    findings.append(_port(home.conf.listen) if process is None else Finding("node", True, f"runs, pid {process.pid}"))
    if process is not None and peers:
        with launch.client(home, "operator") as client:
            answer = client.call("node")
        for party, state in answer["peers"].items():
            error = state.get("error") or {}
            found = "answers" if state["ok"] else f"{error['what']}; found {error['found']}"
            findings.append(
                Finding(f"peer {party}", state["ok"], found, error.get("remedy") or "see the log of that node")
            )
    return findings


def _names() -> Finding:
    found = foreign()
    remedy = "install Accord in an environment of its own"
    return Finding("package names", not found, ", ".join(found) or "all of this distribution", remedy)


def _distributions() -> Finding:
    found = importlib.metadata.packages_distributions()
    others = sorted({d for name in TOP_LEVEL for d in found.get(name, []) if d != "accord"})
    remedy = f"pip uninstall {' '.join(others)}, or an environment of its own"
    return Finding("distributions", not others, ", ".join(others) or "no other provides our names", remedy)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python 3.11", sys.version_info[:2] == (3, 11), found, "install Python 3.11 and run make setup")


def _java() -> Finding:
    remedy = "install a JRE 17 (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to one"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return Finding("Java 17", False, "no java", remedy)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    version = re.search(r'version "(\d+)', said)
    return Finding("Java 17", bool(version and int(version[1]) >= 17), version[1] if version else "unknown", remedy)


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path).free / 2**30
    return Finding("disk", free >= DISK_GIB, f"{free:.1f} GiB free", f"free {DISK_GIB} GiB at {path}")


def _port(listen: str) -> Finding:
    host, _, port = listen.rpartition(":")
    with socket.socket() as probe:
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            return Finding(
                "port", False, f"{listen}: {error.strerror}", "change listen in party.yaml, or free the port"
            )
    return Finding("port", True, f"{listen} is free")


def _try(what: str, check: Callable[[], None]) -> Finding:
    try:
        check()
    except AccordError as error:
        found = f"{error.what} ({error.found})" if error.found else error.what
        return Finding(what, False, found, error.remedy or "")
    return Finding(what, True, "fit")
