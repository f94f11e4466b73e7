"""Every component keeps the same contract, over memory and over mutual TLS between real servers.

The pipelines run from the same secrets over both carriers: the same artefacts, nothing but declared messages in the
ledgers, ledgers that agree with each other, and nothing outside that only its owner may see.
"""

from __future__ import annotations

import json

import pytest

from base.errors import MessageRefused, SpecError
from components.registry import MODULES, catalogue, component, describe
from pipelines.plan import plan_guard
from pipelines.simulate import simulate
from transport.door import admit_by_table
from transport.message import MessageKey
from transport.reconcile import reconcile

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


_digests: dict[str, dict[str, object]] = {}


def test_every_component_leaves_the_same_over_both_carriers(outcome, request):
    for name, (_, done, _) in outcome.items():
        digests = {
            (step, party, output): ref.digest
            for step, parties in done.outputs.items()
            for party, refs in parties.items()
            for output, ref in refs.items()
            if output not in ("sealed", "manifest")
        }
        first = _digests.setdefault(name, {"model": done.model_digest, "outputs": digests})
        assert done.model_digest or name.startswith("align_")
        differing = {key for key, digest in digests.items() if first["outputs"].get(key) != digest}
        assert not differing, name
        assert first == {"model": done.model_digest, "outputs": digests}


def test_every_component_has_run_and_all_alignments_find_the_same_people(outcome):
    ran = {spec.steps[step].component for spec, done, _ in outcome.values() for step in done.outputs}
    assert ran == set(MODULES)
    people = {
        name: {row["row"] for row in done.artefact("align", "alignment", "north_bank").to_pylist()}
        for name, (_, done, _) in outcome.items()
        if "align" in done.outputs
    }
    assert len(people) == 3
    assert len({frozenset(rows) for rows in people.values()}) == 1


def test_a_step_that_does_not_exist_is_no_end_of_a_simulation(outcome):
    spec = outcome["vertical_mf"][0]
    with pytest.raises(SpecError, match="unknown step"):
        simulate(spec, None, {}, None, until="alig")


def test_outputs_are_declared_and_every_role_has_run(outcome):
    for spec, done, _ in outcome.values():
        for step, parties in done.outputs.items():
            entry = catalogue()[spec.steps[step].component]
            assert set(parties) == set(spec.step_parties(step))
            assert {output for refs in parties.values() for output in refs} <= set(entry["outputs"])


def test_ledgers_hold_nothing_but_declared_messages_and_agree(outcome):
    for spec, done, _ in outcome.values():
        guard = plan_guard(done.run, spec)
        chains = {party: list(at.ledger.store.entries(done.run)) for party, at in done.parties.items()}
        assert sum(map(len, chains.values())) > 0
        for entry in (entry for chain in chains.values() for entry in chain):
            key = entry.statement.key
            message = admit_by_table(*guard.steps[key.step], key)
            assert (entry.statement.schema, entry.statement.protection) == (message.schema.digest, message.protection)
        for a in chains:
            for b in chains:
                if a < b:
                    assert reconcile(a, chains[a], b, chains[b], guard).clean


def test_what_is_not_declared_is_refused(outcome):
    for spec, _, _ in outcome.values():
        for step, entry in spec.steps.items():
            part = component(entry.component)
            roles = spec.step_roles(step)
            key = MessageKey("run", step, 1, "ratings", "north_bank", "bureau", 0)
            with pytest.raises(MessageRefused, match="not declared"):
                admit_by_table(part.messages, roles, key)


def test_metrics_are_numbers_with_plain_names(outcome):
    for _, done, _ in outcome.values():
        for points in (points for parties in done.metrics.values() for points in parties.values()):
            for name, value, _ in points:
                assert name.replace(".", "").replace("_", "").isalnum()
                assert isinstance(value, float)


@pytest.mark.parametrize("name", MODULES)
def test_the_catalogue_says_what_the_component_declares(name):
    assert catalogue()[name] == json.loads(json.dumps(describe(component(name))))
    entry = catalogue()[name]
    assert entry["adversary"]
    assert all(message["reveals"] for message in entry["messages"])
