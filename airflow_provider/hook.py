"""The connection `accord_node`: where the organisation's own node listens and which certificate speaks to it.

    AIRFLOW_CONN_ACCORD_NODE='{"conn_type": "accord_node", "host": "127.0.0.1", "port": 7401, "extra":
        {"party": "north_bank", "ca": "ca.crt", "cert": "airflow.crt", "key": "airflow.key"}}'

The connection holds paths, never a key: the files stay with the worker and the triggerer, readable by them alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseHook
from pydantic import BaseModel, ConfigDict, Field, FilePath, ValidationError

from base.errors import EnvironmentMissing

if TYPE_CHECKING:
    from party_node.client import NodeClient

CONN_TYPE = "accord_node"
DEFAULT_CONN_ID = "accord_node"


class NodeAddress(BaseModel):
    """A usable connection: host, port, the party's name and three PEM files that exist (paths of this machine)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(min_length=1)
    port: int = Field(ge=1, le=65535)
    ca: FilePath  # who signed the node's certificate
    cert: FilePath  # this Airflow's certificate: the node's policy maps its name to `submitter`
    key: FilePath
    party: str = Field(min_length=1)  # the first name of the node's certificate: it is checked, the host is not


class NodeHook(BaseHook):  # type: ignore[misc]
    """Opens a client of the organisation's own node from an Airflow connection."""

    conn_name_attr: ClassVar[str] = "conn_id"
    default_conn_name: ClassVar[str] = DEFAULT_CONN_ID
    conn_type: ClassVar[str] = CONN_TYPE
    hook_name: ClassVar[str] = "Accord node"

    def __init__(self, conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.conn_id = conn_id

    def get_conn(self) -> NodeClient:
        """Return a client; for a worker, where the connection may be read synchronously."""
        return open_client(self.address(self.get_connection(self.conn_id)))

    def address(self, connection: Any) -> NodeAddress:
        """Return the checked address; `EnvironmentMissing` names the field that does not do."""
        fields: Mapping[str, Any] = {"host": connection.host, "port": connection.port, **connection.extra_dejson}
        try:
            return NodeAddress.model_validate(fields)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise EnvironmentMissing(
                "the Airflow connection to the party node is not usable",
                expected=first["msg"],
                found=".".join(map(str, first["loc"])),
                where=f"connection {self.conn_id}",
                remedy="set host and port; in the connection's extra: party and the paths ca, cert, key",
            ) from None

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which fields of the connection form Airflow shows."""
        extra = {"party": "north_bank", "ca": "ca.crt", "cert": "airflow.crt", "key": "airflow.key"}
        return {
            "hidden_fields": ["login", "password", "schema"],
            "relabeling": {},
            "placeholders": {"host": "127.0.0.1", "port": "7401", "extra": json.dumps(extra)},
        }


def open_client(address: NodeAddress) -> NodeClient:
    """Return a client of the node; pyarrow is loaded here, so that reading a DAG file never loads it."""
    from party_node.client import NodeClient

    return NodeClient(address.host, address.port, address.ca, address.cert, address.key, address.party)
