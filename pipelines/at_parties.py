"""Whether every party that takes part in a step has what the step reads there.

Otherwise it would fail in the middle of a run, at one party, after the others have computed and sent.
"""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING

from base.near import did_you_mean
from base.yaml_lines import KeyPath
from components.registry import catalogue
from pipelines.holders import hindrance, holders, named_holders
from pipelines.named_tables import named_tables, tables_at

if TYPE_CHECKING:
    from pipelines.load import Pipeline


def check_at_parties(pipeline: Pipeline, step: str) -> None:
    """Raise `SpecError` for the first thing that a party of the step would not find; every step is itself right."""
    _no_strangers(pipeline, step)
    _entries(pipeline, step)
    _inputs(pipeline, step)
    _tables(pipeline, step)


def _no_strangers(pipeline: Pipeline, step: str) -> None:
    """Refuse a party that a parameter names and that takes no part, or that it names twice."""
    taking_part = pipeline.spec.step_parties(step)
    for name, named in named_holders(pipeline.spec, step).items():
        if extra := sorted(set(named) - set(taking_part)):
            pipeline.fail(
                _param(step, name), f"{name} names a party that does not take part in step {step}",
                expected=", ".join(taking_part), found=", ".join(extra),
                remedy=did_you_mean(extra[0], taking_part) or f"give it a role in step {step}, or leave it out",
            )  # fmt: skip
        if twice := sorted(party for party, times in Counter(named).items() if times > 1):
            pipeline.fail(
                _param(step, name), f"{name} of step {step} names a party twice", expected="each party once",
                found=", ".join(twice), remedy=f"{name}: [{', '.join(dict.fromkeys(named))}]",
            )  # fmt: skip


def _entries(pipeline: Pipeline, step: str) -> None:
    """Refuse a parameter that lacks the entry of a party, or has one of a party that takes no part."""
    spec = pipeline.spec
    for name, schema in catalogue()[spec.steps[step].component]["params"].get("properties", {}).items():
        if not schema.get("by_party"):
            continue
        named, taking_part = set(spec.step_params(step)[name]), spec.step_parties(step)
        if lacking := [party for party in taking_part if party not in named]:
            near = difflib.get_close_matches(lacking[0], named - set(taking_part), n=1)
            meant = f"did you mean '{near[0]}' in roles, or '{lacking[0]}' here?" if near else ""
            pipeline.fail(
                _param(step, name), f"{name} of step {step} has no entry for {', '.join(lacking)}",
                expected=", ".join(taking_part), found=", ".join(sorted(named)) or "nothing",
                remedy=meant or f"add {lacking[0]}: ... here",
            )  # fmt: skip
        if extra := sorted(named - set(taking_part)):
            pipeline.fail(
                (*_param(step, name), extra[0]), f"{name} of step {step} has an entry of a party without a role in it",
                expected=", ".join(taking_part), found=", ".join(extra),
                remedy=did_you_mean(extra[0], taking_part) or f"leave it out, or give {extra[0]} a role in step {step}",
            )  # fmt: skip


def _inputs(pipeline: Pipeline, step: str) -> None:
    """Refuse an input that a step before leaves to others only."""
    spec = pipeline.spec
    optional = catalogue()[spec.steps[step].component]["optional_inputs"]
    for name, source in spec.steps[step].inputs.items():
        at, output = source.split(".")
        for party in () if name in optional else spec.step_parties(step):
            if reason := hindrance(spec, at, output, party):
                key, change = reason
                pipeline.fail(
                    ("steps", step, "inputs", name), f"{party} does not get the {output} of step {at}",
                    expected=", ".join(holders(spec, at, output)) or "nobody gets it", found=party,
                    remedy=f"{change} ({pipeline.at(key)}); or leave {party} out of step {step}",
                )  # fmt: skip


def _tables(pipeline: Pipeline, step: str) -> None:
    """Refuse a table that the party does not load before the step."""
    for use in named_tables(pipeline.spec, step):
        known = tables_at(pipeline.spec, step, use.input, use.party)
        if known is not None and use.table not in known:
            pipeline.fail(
                use.path, f"{use.party} has no such table in step {step}", expected=", ".join(known) or "no table",
                found=use.table, remedy=did_you_mean(use.table, known) or f"a table that {use.party} loads before",
            )  # fmt: skip


def _param(step: str, name: str) -> KeyPath:
    return ("steps", step, "params", name)
