from __future__ import annotations

import json
import os

import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider import get_provider_info
from airflow_provider.hook import NodeAddress, NodeHook
from base.errors import EnvironmentMissing


def test_the_installed_provider_brings_the_connection_type():
    provider = ProvidersManager().providers["accord"].data
    assert provider["connection-types"] == get_provider_info()["connection-types"]
    assert provider["connection-types"][0]["connection-type"] == NodeHook.conn_type


def test_the_connection_form_shows_what_the_address_needs():
    shown = NodeHook.get_ui_field_behaviour()["placeholders"]
    assert {"host", "port", *json.loads(shown["extra"])} == set(NodeAddress.model_fields)


def test_the_connection_leads_to_the_node(node):
    node.submit(key="k", step="load")
    with NodeHook().get_conn() as client:
        assert client.call("status", {"job": "job-1"})["state"] == "succeeded"


def test_the_partys_name_has_to_be_in_the_connection(node, monkeypatch):
    connection = json.loads(os.environ["AIRFLOW_CONN_ACCORD_NODE"])
    del connection["extra"]["party"]
    monkeypatch.setenv("AIRFLOW_CONN_ACCORD_NODE", json.dumps(connection))
    with pytest.raises(EnvironmentMissing) as raised:
        NodeHook().get_conn()
    assert raised.value.found == "party"


@pytest.mark.parametrize("missing", ["ca", "cert", "key"])
def test_a_certificate_file_that_is_missing_is_named_with_its_remedy(node, monkeypatch, missing):
    connection = json.loads(os.environ["AIRFLOW_CONN_ACCORD_NODE"])
    connection["extra"][missing] += ".gone"
    monkeypatch.setenv("AIRFLOW_CONN_ACCORD_NODE", json.dumps(connection))
    with pytest.raises(EnvironmentMissing) as raised:
        NodeHook().get_conn()
    assert (raised.value.found, raised.value.where) == (missing, "connection accord_node")
    assert "extra" in raised.value.remedy
