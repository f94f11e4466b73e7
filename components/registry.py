"""The components by name. Code is trusted, YAML never becomes code: a name that is not here does not exist.

`component()` imports a module when its step runs; `catalogue()` reads what every component declares (roles, inputs,
outputs, parameters, messages) from `catalogue.json`, which `accord catalogue` writes and a test keeps true, so that an
Airflow worker checks a pipeline to the last parameter without importing numpy, torch, Spark or crypto.
"""

from __future__ import annotations

import importlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from base.errors import SpecError

if TYPE_CHECKING:
    from components.contract import Component
    from transport.message import Message

MODULES = {
    "load_tables": "components.load_tables",
    "validate_tables": "components.validate_tables",
    "align_ecdh": "components.align_ecdh",
    "align_rsa": "components.align_rsa",
    "align_keyed_hash": "components.align_keyed_hash",
    "fit_statistics": "components.fit_statistics",
    "encode_features": "components.encode_features",
    "split_ratings": "components.split_ratings",
    "split_cold": "components.split_cold",
    "split_leave_one_out": "components.split_leave_one_out",
    "load_model": "components.load_model",
    "horizontal_ease": "components.horizontal_ease",
    "horizontal_slist": "components.horizontal_slist",
    "horizontal_ials": "components.horizontal_ials",
    "horizontal_ncf": "components.horizontal_ncf",
    "horizontal_mf": "components.horizontal_mf",
    "vertical_mf": "components.vertical_mf",
    "evaluate_ratings": "components.evaluate_ratings",
    "evaluate_cold": "components.evaluate_cold",
    "evaluate_ranking": "components.evaluate_ranking",
    "register_model": "components.register_model",
}


def component(name: str) -> Component:
    """Return the component of this name; `SpecError` when there is none."""
    if name not in MODULES:
        raise SpecError("unknown component", expected=", ".join(MODULES), found=name)
    return cast("Component", importlib.import_module(MODULES[name]).COMPONENT)


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return what every component declares, as JSON, without importing one."""
    return cast(dict[str, dict[str, Any]], json.loads(files("components").joinpath("catalogue.json").read_text()))


def describe(component: Component) -> dict[str, Any]:
    """Return one component as its entry of the catalogue."""
    return {
        "version": component.version,
        "roles": sorted(component.roles),
        "inputs": dict(component.inputs),
        "optional_inputs": list(component.optional_inputs),
        "outputs": dict(component.outputs),
        "min_parties": dict(component.min_parties),
        "params": component.params.model_json_schema(),
        "adversary": component.adversary,
        "messages": [
            {
                "name": m.name,
                "from": m.sender,
                "to": m.receiver,
                "schema": m.schema.describe(),
                "protection": str(m.protection),
                "reveals": _condition(m) + m.reveals,
            }
            for m in component.messages
        ],
    }


def _condition(message: Message) -> str:
    also = [message.and_if] if message.and_if else []
    only, also_if = (
        " or ".join(f"{name}: {json.dumps(value).strip(chr(34))}" for name, value in pairs)
        for pairs in (message.only_if, also)
    )
    conditions = " and ".join(filter(None, (only, also_if)))
    return f"only with {conditions}: " if conditions else ""
