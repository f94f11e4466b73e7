"""What a parameter decides or names, as its JSON Schema in the catalogue says it: a pipeline is checked before it runs.

Otherwise it would fail at one party in the middle of a run, after others have sent (`pipelines.at_parties`).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints

ByParty = Field(json_schema_extra={"by_party": True})  # a mapping with an entry for each party that takes part
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{0,32}$")]  # a period of the accord, "" for the first
TableName = Annotated[str, Field(json_schema_extra={"table_in": "tables"})]  # of the input `tables`


def column_of(table: str, *types: str) -> Any:
    """Return the field of a column, of one of these types, in the tables that the parameter `table` names."""
    return Field(json_schema_extra={"column_of": table, "column_types": list(types)})


def without(**roles: str) -> Any:
    """Return the field of a parameter with values at which a role takes no part: `without(VALUE="ROLE")`."""
    return Field(json_schema_extra={"without": dict(roles)})


def held_by(output: str, *, named_by: str, unless: str) -> ConfigDict:
    """Return the configuration of parameters that decide who ends with `output`; without it all that take part do.

    named_by    parameter with a list of parties; an empty list names all
    unless      parameter that is true when nobody ends with it
    """
    return ConfigDict(json_schema_extra={"holders": {output: {"named_by": named_by, "unless": unless}}})
