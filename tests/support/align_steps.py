"""Alignments of a few ids in threads: tables as `validate_tables` leaves them, at nodes that know their spec."""

import pyarrow as pa

from base.canonical import digest
from features.spec import Column, FeatureSpec, IdRule

TEXT = IdRule(type="text")
NAMED = (("spec", "t"),)


def spec(rule=TEXT, column="id"):
    """A feature spec of people who have one column, an id of this rule."""
    ids = Column(type="id", owner=("data_holder",), sensitivity="internal", rule=rule)
    return FeatureSpec(name="t", description="people", key=(column,), columns={column: ids})


def written(rule=TEXT):
    """What parties tell each other of an id rule, 32 bytes."""
    return bytes.fromhex(digest(rule.model_dump(mode="json")))


def table(ids, column="id", metadata=NAMED):
    return pa.table({column: pa.array(ids, pa.string())}).replace_schema_metadata(dict(metadata))


def align(threads, how, ids, *, rules=TEXT, metadata=NAMED, params=None, **more):
    """Align {party: ids}, the first of which is the receiver; `rules` is one id rule, or one for each party."""
    receiver, *senders = ids
    rules = rules if isinstance(rules, dict) else dict.fromkeys(ids, rules)
    return threads(
        how, {"receiver": (receiver,), "sender": tuple(senders)},
        {party: {"tables": {"t": table(values, metadata=metadata)}} for party, values in ids.items()},
        {"tables": dict.fromkeys(ids, "t"), "id_column": "id", "min_overlap": 1} | (params or {}),
        specs={party: {"t": spec(rule)} for party, rule in rules.items()}, **more,
    )  # fmt: skip


def joined(outcome, party, ids):
    """The party's ids (of {party: ids}) by aligned index."""
    found = outcome.outputs[party]["alignment"]
    assert found.column_names == ["row", "index", "first"]
    assert found["index"].to_pylist() == list(range(len(found)))
    people = [sorted(set(ids[party]))[row] for row in found["row"].to_pylist()]
    assert [ids[party][row] for row in found["first"].to_pylist()] == people
    return people
