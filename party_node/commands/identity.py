"""`accord provision`, `accord csr`, `accord sign-csr`: who a node is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from party_node.commands.common import HOMES, HomeOption, HomesOption, console

CaOption = Annotated[Path, typer.Option("--ca", help="Directory of the consortium's CA (ca.key, ca.crt).")]
HostsOption = Annotated[list[str] | None, typer.Option("--host", help="Host name or address of the node; repeatable.")]


def provision(
    party: str,
    homes: HomesOption = HOMES,
    home: HomeOption = None,
    ca: CaOption = Path("var/demo/ca"),
    conf: Annotated[Path | None, typer.Option(help="Its party.yaml; default conf/parties/PARTY.yaml.")] = None,
    host: HostsOption = None,
) -> None:
    """Lay out a node directory with keys and certificates of a demo CA; a real party uses csr and sign-csr."""
    from party_node import identity
    from runtime.party import Home

    root = home or homes / party
    _lay_out(root, conf or Path("conf/parties") / f"{party}.yaml")
    identity.provision(root, party, ca, host or [])
    identity.self_test(root, Home(root).party)
    console().print(f"{root}: keys and certificates are there. Next: accord sign, accord node start", markup=False)


def csr(
    party: str,
    homes: HomesOption = HOMES,
    home: HomeOption = None,
    conf: Annotated[Path | None, typer.Option(help="Its party.yaml; default conf/parties/PARTY.yaml.")] = None,
    host: HostsOption = None,
) -> None:
    """Make a node's own keys and certificate requests; no key leaves this machine."""
    from party_node import identity

    root = home or homes / party
    _lay_out(root, conf or Path("conf/parties") / f"{party}.yaml")
    identity.make_node_keys(root)
    folder = root / "keys"
    requests = {folder / "tls.key": (party, [*identity.LOCAL_HOSTS, *(host or [])])}
    requests |= {folder / "clients" / f"{party}.{c}.key": (f"{party}.{c}", []) for c in identity.CLIENTS}
    for key, (name, hosts) in requests.items():
        key.with_suffix(".csr").write_bytes(identity.request(key, name, hosts))
    out = console()
    out.print(f"Send to whoever keeps the CA: {folder}/**/*.csr", markup=False)
    out.print(f"Put what comes back beside each as .crt, and the CA's certificate at {folder}/ca.crt", markup=False)
    out.print(f"Send to the other parties, for the accord: {folder}/public.json", markup=False)


def sign_csr(
    request: Annotated[Path, typer.Argument(help="A .csr file.")],
    name: Annotated[str, typer.Option(help="The party or client that it must be for; you say so, not the file.")],
    ca: CaOption = Path("var/demo/ca"),
    out: Annotated[Path | None, typer.Option(help="Where the certificate goes; default beside the request.")] = None,
) -> None:
    """Sign a certificate request with the consortium's CA."""
    from party_node import identity

    identity.make_authority(ca)
    path = out or request.with_suffix(".crt")
    path.write_bytes(identity.sign_request(ca, request.read_bytes(), name))
    console().print(f"{path}: certificate of {name}", markup=False)


def _lay_out(root: Path, conf: Path) -> None:
    """Put party.yaml and the feature specs in place unless they are there."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (root / "party.yaml").exists():
        shutil.copyfile(conf, root / "party.yaml")
    if not (root / "feature_specs").exists():
        shutil.copytree("feature_specs", root / "feature_specs")
