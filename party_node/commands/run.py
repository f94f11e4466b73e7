"""`accord run` and `accord simulate`: a whole pipeline, through nodes or in this process."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from base.errors import AccordError
from party_node.commands.common import (
    HOMES,
    HomeOption,
    HomesOption,
    JsonOption,
    console,
    find_home,
    load_pipeline,
    require_accord,
    show,
    size,
)
from party_node.exit_codes import can_go_on

if TYPE_CHECKING:
    from rich.table import Table

PipelineArgument = Annotated[
    Path, typer.Argument(help="A pipeline's YAML, for example conf/pipelines/horizontal_mf.yaml.")
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the run instead of the pipeline's.")]


def run(
    pipeline: PipelineArgument,
    home: HomeOption = None,
    homes: HomesOption = HOMES,
    seed: SeedOption = None,
    run_key: Annotated[str | None, typer.Option(help="Go on with the run of this key: finished steps stay.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline through its initiator's node and show every party's progress."""
    from rich.live import Live

    from party_node import launch
    from party_node.driver import run_steps

    loaded = load_pipeline(pipeline)
    at = find_home(loaded.spec.initiator, home, homes)
    require_accord(loaded.spec.accord, at, loaded.at(("accord",)))
    board = Board()
    out = console()
    key = run_key or f"accord-run/{uuid.uuid4().hex}"
    with launch.client(at, "cli") as client:
        with _going_on(board, key), Live(console=out, auto_refresh=False, transient=as_json) as live:

            def watch(status: Mapping[str, Any]) -> None:
                board.hear(status)
                if not as_json:
                    live.update(board.table(), refresh=True)

            name = run_steps(client, loaded.text, str(pipeline), list(loaded.spec.steps), key, seed=seed, watch=watch)
        report = client.call("report", {"run": name})
    if as_json:
        show({**report, "run_key": key, "parties": board.parties})
        return
    if not out.is_terminal:
        out.line()
    out.print(f"run {name} has succeeded; model {report['model'] or 'none'}", markup=False, soft_wrap=True)
    for step, joined in report["alignments"].items():
        out.print(f"  {step:<32}{_joined(joined)}", markup=False, soft_wrap=True)
    for metric, value in sorted(report["metrics"].items()):
        out.print(f"  {metric:<32}{value:.4f}" if isinstance(value, float) else f"  {metric:<32}{value}", markup=False)
    store = report["mlflow"]["uri"]
    out.print(f"  MLflow: mlflow server --backend-store-uri {store}", markup=False, soft_wrap=True)
    out.print(f"  ledger: accord audit verify {name} --party {at.party}", markup=False, soft_wrap=True)


def simulate(
    pipeline: PipelineArgument,
    homes: HomesOption = HOMES,
    seed: SeedOption = None,
    until: Annotated[str | None, typer.Option(help="Stop after this step.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep the artefacts in this directory.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline in this process, every party in a thread, with the parties' own keys and data."""
    from features.spec import load_all
    from party_node.accords import Accords
    from pipelines import simulate as simulation
    from pipelines.columns import require_fit
    from runtime.party import Home

    loaded = load_pipeline(pipeline)
    spec = loaded.spec
    require_accord(spec.accord, Home(homes / spec.initiator), loaded.at(("accord",)))
    accord = Accords(Home(homes / spec.initiator)).get(spec.accord)
    at = {party: Home(homes / party) for party in spec.parties}
    accord.admit(spec, loaded.at)
    require_fit(loaded, accord, load_all(at[spec.initiator].specs_directory))
    with tempfile.TemporaryDirectory() as scratch:
        done = simulation.simulate(spec, accord, at, keep or Path(scratch), seed=seed, until=until)
        digest = done.model_digest
    if as_json:
        show({"pipeline": spec.pipeline, "seconds": done.seconds, "model": digest})
        return
    out = console()
    for step, seconds in done.seconds.items():
        out.print(f"  {step:<12}{seconds:8.1f} s", markup=False)
    out.print(f"model {digest or 'none'}", markup=False)


@contextlib.contextmanager
def _going_on(board: Board, key: str) -> Iterator[None]:
    """Say, when a step fails, how to go on; a refusal before the first step leaves no run to go on with."""
    try:
        yield
    except (AccordError, KeyboardInterrupt) as error:
        if board.parties:
            typer.echo(f"\n{board.where_counted()}{_way_on(error, key)}", err=True)
        raise


def _way_on(error: BaseException, key: str) -> str:
    """Return what helps after a step has failed: a run is bound to its files, so what is repaired needs a new one."""
    if can_go_on(error):
        return f"to go on after the steps that are done, add to the command: --run-key {key}"
    return (
        "after the repair a new run is needed: the command without --run-key begins it;"
        " this run is bound to the pipeline, the terms and the data that it began with"
    )


class Board:
    """Where every step stands at every party."""

    def __init__(self) -> None:
        """Start without steps."""
        self.parties: dict[str, dict[str, Any]] = {}
        self._states: dict[str, str] = {}
        self._last: Mapping[str, Any] = {}

    def hear(self, status: Mapping[str, Any]) -> None:
        """Take a status of the node."""
        self._last = status
        self._states[status["step"]] = status["state"]
        self.parties[status["step"]] = dict(status["parties"])

    def where_counted(self) -> str:
        """Return a line that says where the metrics are that an error may name; empty unless a step has failed."""
        if self._last.get("state") != "failed":
            return ""
        run, step = self._last["run"], self._last["step"]
        return (
            f"what step {step} counted before it failed stands in each party's own MLflow: run {run}, {step}, FAILED\n"
        )

    def table(self) -> Table:
        """Return the screen: a line for each finished step, one for each party of the step that goes on."""
        from rich.table import Table

        table = Table("step", "party", "state", "progress", "rows", "out", "in", "seconds", "remaining", box=None)
        for step, parties in self.parties.items():
            for party, part in sorted(parties.items()) or [("", {"state": self._states[step]})]:
                table.add_row(step, party, *_cells(part))
        return table


def _joined(report: Mapping[str, Any]) -> str:
    """Return the join report of an alignment as people read it; what this party did not learn is not there.

    read = null + invalid + dropped_duplicates + dropped_otherwise + rows; the last but one, for rules of other columns,
    is shown where there are any.
    """
    invalid = report["invalid"]
    why = f" ({', '.join(f'{n} {rule}' for rule, n in sorted(invalid.items()))})" if invalid else ""
    counts = {"read": report["read"], "null": report["null"], "invalid": f"{sum(invalid.values())}{why}"}
    counts |= {name: report[name] for name in ("dropped_duplicates",)}
    if report["read"] is not None:
        explained = report["null"] + sum(invalid.values()) + report["dropped_duplicates"] + report["rows"]
        counts["dropped_otherwise"] = (report["read"] - explained) or None
    counts |= {name: report[name] for name in ("rows", "duplicate", "distinct", "aligned")}
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count is not None)


def _cells(part: Mapping[str, Any]) -> list[str]:
    progress, seconds = part.get("progress"), part.get("seconds") or 0.0
    done = f"{progress['done']}/{progress['total']} {progress['unit']}" if progress else ""
    remaining = ""
    if progress and part["state"] == "running" and progress["done"]:
        remaining = f"{seconds * (progress['total'] - progress['done']) / progress['done']:.0f} s"
    rows = str(part["rows"]) if part.get("rows") is not None else ""
    traffic = [size(part.get("bytes_out")), size(part.get("bytes_in"))]
    return [part["state"], done, rows, *traffic, f"{seconds:.1f}", remaining]
