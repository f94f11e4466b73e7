"""`accord node start | stop | status`."""

from __future__ import annotations

import typer

from party_node.commands.common import HOMES, HomeOption, HomesOption, JsonOption, PartyOption, console, find_home, show

app = typer.Typer(help="Start, stop and look at a node.", no_args_is_help=True)


@app.command()
def start(party: PartyOption = None, home: HomeOption = None, homes: HomesOption = HOMES) -> None:
    """Start a node in the background and wait until it answers."""
    from party_node import launch

    at = find_home(party, home, homes)
    launch.wait_healthy(at, launch.start(at))
    console().print(f"{at.party} listens at {at.conf.listen}; logs in {at.path('logs')}", markup=False)


@app.command()
def stop(party: PartyOption = None, home: HomeOption = None, homes: HomesOption = HOMES) -> None:
    """Stop a node gracefully: running steps end with an error that every party sees."""
    from party_node import launch

    at = find_home(party, home, homes)
    launch.stop([at])
    console().print(f"{at.party} has stopped", markup=False)


@app.command()
def status(
    party: PartyOption = None, home: HomeOption = None, homes: HomesOption = HOMES, as_json: JsonOption = False
) -> None:
    """Show what goes on, how this node stands with each peer, and what it refused lately."""
    from party_node import launch

    at = find_home(party, home, homes)
    with launch.client(at, "operator") as node:
        answer = node.call("node")
    if as_json:
        show(answer)
        return
    out = console()
    head = f"{answer['party']}: version {answer['version']}, wire {answer['wire_version']}"
    out.print(f"{head}, pid {answer['pid']}, worker {answer['worker'] or 'not started'}", markup=False)
    for name, peer in answer["peers"].items():
        text = f"answers, version {peer['version']}" if peer["ok"] else _describe(peer["error"])
        out.print(f"  peer {name:<16}{text}", markup=False)
    for job in answer["going_on"]:
        out.print(f"  {job['state']:<9} {job['job']}", markup=False)
    for refusal in answer["refused"][-5:]:
        out.print(f"  refused {refusal['caller']} {refusal['method']}: {_describe(refusal['error'])}", markup=False)


def _describe(error: dict[str, str]) -> str:
    return f"{error['what']} (exit code {error['code']})"
