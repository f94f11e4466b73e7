"""`accord demo` and `accord demo-data`: the demo consortium from raw files to reports."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from party_node.commands.common import console, show, size

if TYPE_CHECKING:
    from demo.harness import Demo

app = typer.Typer(add_completion=False)
data = typer.Typer(add_completion=False)
SOURCES = "movielens (its wheel, else its archive), wheel, archive, or synthetic (generated)"
DataOption = Annotated[str, typer.Option("--data", help=f"Where the raw data come from: {SOURCES}.")]
RootOption = Annotated[Path, typer.Option(help="Where the demo's organisations live.")]
ROOT = Path("var/demo")
ACCORD = ".venv/bin/accord"


@app.command()
def demo(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")] = None,
    source: DataOption = "movielens",
    root: RootOption = ROOT,
    keep_nodes: Annotated[bool, typer.Option(help="Leave the nodes running afterwards.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Run seeds of the arms; those after the first are simulated.")] = 1,
    results: Annotated[Path | None, typer.Option(help="Write arms.md and arms.json below this folder.")] = None,
) -> None:
    """Run both pipelines to their end on four real nodes under Airflow, and say where to look."""
    from demo.draws import DRAWS, arms
    from demo.harness import Demo
    from demo.seeds import add_seeds, over_seeds, write_results

    began = time.monotonic()
    out = console()

    def tell(text: str) -> None:
        out.print(f"{time.monotonic() - began:6.1f} s  {text}", markup=False)

    at = Demo(root.resolve(), source)
    document: dict[str, Any] = {"data": at.prepare(tell)}
    consortium = at.consortium
    try:
        tell("starting four nodes")
        consortium.start()
        document["pipelines"] = at.run(tell)
    finally:
        if not keep_nodes:
            consortium.stop()
    tell("pooled arms, on the raw files, outside every node")
    at.add_arms(document["pipelines"])
    add_seeds(consortium, at.specs(), document["pipelines"], seeds, tell)
    document["seconds"] = round(time.monotonic() - began, 1)
    _write(at, document, json_file)
    if results is not None:
        tell(f"vertical arms of {DRAWS} draws of the cold customers, in the clear")
        document["draws"] = over_seeds({seed: arms(at.raw(), seed) for seed in range(1, DRAWS + 1)})
        write_results(document, results)
    _say(at, document, nodes_run=keep_nodes)


@data.command()
def demo_data(
    source: DataOption = "movielens",
    root: RootOption = ROOT,
    seed: Annotated[int | None, typer.Option(help="Who is whose customer, and the dirt.")] = None,
) -> None:
    """Prepare the parties' raw files: one data set shared out, with the dirt of real life."""
    from demo.consortium import ROOT as CLONE
    from demo.data import prepare
    from demo.harness import SEED

    chosen = SEED if seed is None else seed
    show(prepare(source, root.resolve() / "parties", chosen, CLONE / "var" / "cache" / "download"))


def _figure(value: dict[str, float] | None) -> str:
    if value is None:
        return ""
    return f"{value['mean']:.4f}" + (f" ± {value['deviation']:.4f}" if value["n"] > 1 else "")


def _write(at: Demo, document: dict[str, Any], json_file: Path | None) -> None:
    from demo.report import write_report

    for path in {at.root / "demo.json", json_file or at.root / "demo.json"}:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    write_report(document, at.root / "report")


def _say(at: Demo, document: dict[str, Any], *, nodes_run: bool) -> None:
    from rich.table import Table

    out = console()
    for pipeline, report in document["pipelines"].items():
        arms = sorted({arm for values in report["arms"].values() for arm in values})
        table = Table("RMSE", *arms, title=f"{pipeline}: {report['status']}", box=None, title_justify="left")
        for part, values in report["arms_over_seeds"].items():
            table.add_row(part, *(_figure(values.get(arm)) for arm in arms))
        out.print(table)
        sent = sum(row["bytes"] for row in report["messages"])
        digests = {digest for digest in report["model"].values() if digest}
        out.print(f"  model  {', '.join(digests)}", markup=False)
        out.print(
            f"  sent   {size(sent)} in {sum(row['messages'] for row in report['messages'])} messages", markup=False
        )
    parties = at.root / "parties"
    store = f"sqlite:///{parties}/north_bank/mlflow.db"
    audits = [f"{ACCORD} audit verify {report['run']} --party north_bank" for report in document["pipelines"].values()]
    starts = [] if nodes_run else [f"{ACCORD} node start --party PARTY, for all four, then"]
    stops = [f"  nodes    they run; {ACCORD} node stop --party PARTY ends one"] if nodes_run else []
    ledgers = "\n           ".join(starts + audits)
    lines = [
        "\nWhere to look",
        f"  report   {at.root / 'report' / 'index.html'}",
        f"  MLflow   .venv/bin/mlflow server --backend-store-uri {store}",
        f"  ledgers  {ledgers}",
        *stops,
    ]
    out.print("\n".join(lines), markup=False, soft_wrap=True)  # whole lines, to copy
    out.print("  Airflow  make airflow", markup=False)
    out.print(f"  {document['seconds']:.0f} s in all", markup=False)
