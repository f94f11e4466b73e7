"""The arms over several run seeds: mean and deviation, by encrypted simulations beside the harness's own arms.

A seed draws another split, other cold customers and other starts. Each simulation gets the parties' directories as they
were before their first run, since a node counts what it has given out and would refuse the next one.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from base.machine import describe_machine
from demo.arms import Arms, compare, track
from demo.consortium import Consortium
from pipelines.accord import read_accord
from pipelines.simulate import simulate
from pipelines.spec import PipelineSpec

KEPT = ("party.yaml", "feature_specs", "keys", "data", "accords")
Summary = dict[str, dict[str, dict[str, float]]]  # part -> arm -> mean, deviation, n


def arms_of_seed(consortium: Consortium, spec: PipelineSpec, seed: int) -> Arms:
    """Return the arms of a run with another seed, encrypted and in this process."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Consortium(Path(scratch))
        for party in consortium.parties:
            for name in KEPT:
                _copy(consortium.directory(party) / name, copy.directory(party) / name)
        accord = read_accord(copy.directory(spec.initiator) / "accords" / f"{spec.accord}.json")
        done = simulate(spec, accord, copy.homes(), Path(scratch) / "stores", seed=seed)
        return compare(copy, spec, done.artefact("evaluate", "metrics", spec.initiator), seed)


def summarise(by_seed: Sequence[Arms]) -> Summary:
    """Return mean and standard deviation of every arm over the seeds."""
    found: Summary = {}
    for part, arms in by_seed[0].items():
        for arm in arms:
            values = [each[part][arm] for each in by_seed]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            found.setdefault(part, {})[arm] = {"mean": statistics.mean(values), "deviation": spread, "n": len(values)}
    return found


def add_seeds(
    consortium: Consortium, specs: Mapping[str, PipelineSpec], reports: Mapping[str, dict[str, Any]], count: int,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Add `arms_by_seed` and `arms_over_seeds` to the reports: the run's own seed and `count` − 1 further ones."""
    for pipeline, report in reports.items():
        spec = specs[pipeline]
        by_seed = {spec.seed: report["arms"]}
        for seed in range(spec.seed + 1, spec.seed + count):
            tell(f"{pipeline} with seed {seed}, simulated")
            by_seed[seed] = arms_of_seed(consortium, spec, seed)
            track(consortium.root / "harness", pipeline, f"{report['run']}-seed-{seed}", by_seed[seed])
        report |= over_seeds(by_seed)


def over_seeds(by_seed: Mapping[int, Arms]) -> dict[str, Any]:
    """Return the arms of each seed and their summary, as the results file holds them."""
    return {
        "arms_by_seed": {str(seed): arms for seed, arms in by_seed.items()},
        "arms_over_seeds": summarise(list(by_seed.values())),
    }


def write_results(document: Mapping[str, Any], folder: Path) -> None:
    """Write `arms.json` and `arms.md`: what the documents may quote, with the machine and the data it came from."""
    folder.mkdir(parents=True, exist_ok=True)
    pipelines = document["pipelines"].items()
    found = {name: {key: report.get(key) for key in ("arms_over_seeds", "arms_by_seed", "aligned")}
             for name, report in pipelines}  # fmt: skip
    if draws := document.get("draws"):
        found["vertical_mf, further draws of the cold customers, exact integers in the clear"] = draws
    result = {**describe_machine(), "data": document["data"]["source"], "pipelines": found}
    (folder / "arms.json").write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (folder / "arms.md").write_text("\n".join(_page(result)) + "\n", encoding="utf-8")


def _page(result: Mapping[str, Any]) -> list[str]:
    machine = f"{result['date']}, {result['cpu']}, {result['cores']} cores"
    lines = [
        "# Arms: alone, federated, pooled",
        "",
        "Written by `make results`. RMSE, mean ± deviation over run seeds.",
        f"{result['data']} data; {machine}.",
    ]
    for name, report in result["pipelines"].items():
        parts = report["arms_over_seeds"]
        arms = sorted({arm for values in parts.values() for arm in values})
        seeds = ", ".join(report["arms_by_seed"])
        lines += [
            "",
            f"## {name} (seeds {seeds})",
            "",
            f"| part | {' | '.join(arms)} |",
            "| --- " * (len(arms) + 1) + "|",
        ]
        for part, values in parts.items():
            cells = [f"{v['mean']:.4f} ± {v['deviation']:.4f}" if (v := values.get(arm)) else "" for arm in arms]
            lines.append(f"| {part} | {' | '.join(cells)} |")
    return lines


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
