"""What a node's home directory offers to the steps that run in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from base.errors import DataError
from crypto.budget import Release
from crypto.node_keys import NodeKeys, NodePublicKeys
from features.spec import FeatureSpec, load_all
from runtime.context import Services
from runtime.data import read_data_set
from runtime.keys import PartyKeys, party_secret
from runtime.party import Home


def party_keys(home: Home, peers: Mapping[str, NodePublicKeys], accord: str = "") -> PartyKeys:
    """Return the party's keys with these peers; what steps keep, they keep for one accord: keys, counts, caches."""
    own, folder = NodeKeys.load(home.path("keys")), home.path("secrets", accord)
    return PartyKeys(home.party, own, peers, folder, home.path("secrets", ".party"))


def services(
    home: Home,
    keys: PartyKeys,
    data_sets: Mapping[str, Mapping[str, Any]],
    spark: Callable[[], Any],
    charge: Callable[[str, Release, str], None],
) -> Services:
    """Return the services of one party; `data_sets` are its entries in the accord, `charge` is `Spending.charge`."""
    specs = load_all(home.specs_directory)

    def spec(name: str) -> FeatureSpec:
        if name not in specs:
            raise DataError("the party has no such feature spec", expected=", ".join(specs), found=name)
        return specs[name]

    def data(name: str) -> tuple[pa.Table, Mapping[str, Any]]:
        if name not in data_sets:
            raise DataError(
                "the accord names no such data set of this party", expected=", ".join(data_sets), found=name
            )
        return read_data_set(home, name), data_sets[name]

    return Services(keys, party_secret(home.path("keys")), spark, spec, data, charge)
