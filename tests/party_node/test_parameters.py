import json
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import StringConstraints

from components.contract import Params
from components.registry import MODULES, component
from party_node import parameters


class Base(Params):
    """Two ways to say it."""

    rounds: Annotated[int, Ge(1), Le(9)] = 3  # passes, # of all
    share: Annotated[float, Gt(0), Lt(1)]


class Own(Base):
    tables: Mapping[str, str]  # party -> table
    kind: Literal["a|b", "c"] = "c"
    label: Annotated[str, StringConstraints(pattern="^[a-z]*$")] = "λ"  # of the key
    groups: Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)] = (0, 3)
    counted: bool = False
    least: Annotated[float, Ge(1)] | None = None  # in stars
    pair: tuple[int, int] = (1, 2)
    share: Annotated[float, Gt(0), Le(0.5)] = 0.1  # of people


def test_a_table_says_range_default_and_unit():
    found = list(parameters.rows(Own, Own.model_json_schema()))
    assert found == [
        "",
        *parameters.HEAD,
        "| `rounds` | whole number, at least 1, at most 9 | `3` | passes, # of all |",
        "| `share` | number, above 0, at most 0.5 | `0.1` | of people |",
        "| `tables` | for each key: text | required | party -> table |",
        '| `kind` | `"a\\|b"`, `"c"` | `"c"` |  |',
        '| `label` | text, like `^[a-z]*$` | `"λ"` | of the key |',
        "| `groups` | list of 1 or more: whole number, at least 0 | `[0, 3]` |  |",
        "| `counted` | true or false | `false` |  |",
        "| `least` | number, at least 1 or null | `null` | in stars |",
        f"| `pair` | `{json.dumps(Own.model_json_schema()['properties']['pair'])}` | `[1, 2]` |  |",
    ]


def test_no_parameters_no_table():
    assert list(parameters.rows(Params, Params.model_json_schema())) == []


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_of_every_component_has_a_row(name):
    params = component(name).params
    found = list(parameters.rows(params, params.model_json_schema()))
    assert len(found) == len(params.model_fields) + 3
    assert set(parameters.units(params)) == set(params.model_fields)
