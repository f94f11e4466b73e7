"""A step that sums over parties keeps to the accord, by default too, and a refusal says where."""

import pytest
from item_pipeline import ITEMS

from base.errors import ConsentError, SpecError
from crypto import secagg_public
from pipelines.load import loads
from pipelines.sum_terms import MIN_TO_CONTINUE, SumTerms, admit_sum

BANKS = ["west_bank", "north_bank", "south_bank"]
TEXT = ITEMS + "    params: {PARAMS}\n"
ALLOWED = {"protections": ["secagg"], "epoch": "may", "min_raters": 12, "min_pairs": 4, "sum_rosters": [BANKS]}


def admit(params, **terms):
    spec = loads(TEXT.replace("{PARAMS}", "{" + params + "}"), "items.yaml").spec
    admit_sum(SumTerms(**{**ALLOWED, **terms}), spec, "train", ".".join)


def test_a_step_within_the_terms_is_admitted():
    admit("epoch: may, min_raters: 12, min_pairs: 5")


@pytest.mark.parametrize(
    ("params", "terms", "named"),
    [
        ("epoch: may, min_raters: 12, min_pairs: 4, protection: plain", {}, "protection of sums"),
        ("epoch: may, min_raters: 12, min_pairs: 4", {"protections": []}, "protection of sums"),
        ("epoch: june, min_raters: 12, min_pairs: 4", {}, "epoch"),
        ("min_raters: 12, min_pairs: 4", {}, "epoch"),
        ("epoch: may, min_pairs: 4", {}, "min_raters"),
        ("epoch: may, min_raters: 12", {}, "min_pairs"),
        (
            "epoch: may, min_raters: 12, min_pairs: 4",
            {"sum_rosters": [[*BANKS, "bureau"]]},
            "no sum over these parties",
        ),
    ],
)
def test_what_is_beyond_the_terms_is_refused_by_name(params, terms, named):
    with pytest.raises(ConsentError, match=named) as error:
        admit(params, **terms)
    assert error.value.where.startswith(("steps.train.params.", "roles"))


WITHIN = "epoch: may, min_raters: 12, min_pairs: 4"
WITHOUT_AGGREGATOR = {"topologies": ["aggregator", "gossip"]}


def test_a_step_without_an_aggregator_is_admitted_where_the_accord_names_it():
    admit(f"{WITHIN}, topology: gossip", **WITHOUT_AGGREGATOR)


@pytest.mark.parametrize(
    ("params", "terms", "named"),
    [
        ("", {}, "topology of sums"),
        (", protection: paillier", {**WITHOUT_AGGREGATOR, "protections": ["paillier"]}, "one protection"),
        ("", {**WITHOUT_AGGREGATOR, "sum_rosters": [BANKS, [*BANKS, "east_bank"]]}, "several rosters"),
    ],
)
def test_sums_over_neighbourhoods_are_refused_unless_the_accord_names_them_and_one_roster(params, terms, named):
    with pytest.raises(ConsentError, match=named) as error:
        admit(f"{WITHIN}, topology: gossip{params}", **terms)
    assert error.value.where == "steps.train.params.topology"


TRAINING = TEXT.replace("horizontal_ease", "horizontal_mf").replace("split_leave_one_out", "split_ratings")
TRAINING = TRAINING.replace("{ratings: split.ratings}", "{ratings: split.ratings, statistics: count.statistics}")
COUNT = (
    "  count: {component: fit_statistics, inputs: {tables: load.tables}, params: {table: ratings, column: rating}}\n"
)
TRAINING = TRAINING.replace("  train:", COUNT + "  train:")
GOING_ON = {"on_dropout": ["stop", "continue"]}


def admit_training(params, banks=(*BANKS, "east_bank"), **terms):
    text = TRAINING.replace("{PARAMS}", "{" + params + "}").replace(
        "[north_bank, south_bank, west_bank]", str([*banks])
    )
    text = (
        text.replace("{north_bank: [", "{east_bank: [ratings, catalogue], north_bank: [") if len(banks) == 4 else text
    )
    allowed = {**ALLOWED, "sum_rosters": [[*banks]], **terms}
    admit_sum(SumTerms(**allowed), loads(text, "mf.yaml").spec, "train", ".".join)


def test_a_training_may_go_on_without_who_is_late_where_the_accord_says_so():
    params = "epoch: may, min_raters_per_item: 12, on_dropout: continue"
    admit_training(params, **GOING_ON)
    with pytest.raises(ConsentError, match="on_dropout of sums") as error:
        admit_training(params)
    assert error.value.where == "steps.train.params.on_dropout"
    with pytest.raises(ConsentError, match="only sums under masks"):
        admit_training(f"{params}, protection: paillier", **GOING_ON, protections=["paillier"])
    with pytest.raises(ConsentError, match="so few parties"):
        admit_training(params, BANKS, **GOING_ON)


def test_where_trainings_go_on_without_a_party_none_is_over_all():
    """The difference of the two is what that party sent."""
    with pytest.raises(ConsentError, match="beside one without a party"):
        admit_training("epoch: may, min_raters_per_item: 12", **GOING_ON)
    assert MIN_TO_CONTINUE == secagg_public.MIN_TO_CONTINUE


def test_statistics_are_of_all_parties_or_of_none():
    with pytest.raises(ConsentError, match="another time") as error:
        admit(f"{WITHIN}, on_dropout: continue", **GOING_ON)
    assert error.value.where == "steps.train.params.on_dropout"


def test_a_role_without_part_is_not_in_the_step_and_may_not_be_named_for_it():
    gossip = TEXT.replace("{PARAMS}", "{topology: gossip}")
    spec = loads(gossip, "items.yaml").spec
    assert spec.step_roles("train") == {"data_holder": tuple(sorted(BANKS))}
    assert spec.step_parties("train") == tuple(sorted(BANKS))
    assert "aggregator" not in loads(gossip.replace(", aggregator: [bureau]", ""), "items.yaml").spec.roles
    named = gossip.replace("    inputs: {ratings", "    roles: {aggregator: [bureau]}\n    inputs: {ratings")
    with pytest.raises(SpecError, match="takes no part") as error:
        loads(named, "items.yaml")
    assert error.value.where.endswith("steps.train.roles.aggregator")
    aggregated = TEXT.replace("{PARAMS}", "{}").replace(", aggregator: [bureau]", "")
    with pytest.raises(SpecError, match="too few parties"):
        loads(aggregated, "items.yaml")


def test_a_step_without_sums_is_no_matter():
    spec = loads(TEXT.replace("{PARAMS}", "{}"), "items.yaml").spec
    admit_sum(SumTerms(), spec, "split", ".".join)


def test_two_sums_of_one_kind_in_a_pipeline_are_refused():
    again = TEXT.replace("{PARAMS}", "{epoch: may, min_raters: 12, min_pairs: 4}")
    again += again[again.index("  train:") :].replace("train:", "again:")
    with pytest.raises(ConsentError, match="sum the same"):
        admit_sum(SumTerms(**ALLOWED), loads(again, "items.yaml").spec, "train", ".".join)


def test_an_input_takes_an_output_of_its_name():
    wrong = TEXT.replace("{PARAMS}", "{}").replace("{ratings: split.ratings}", "{ratings: load.tables}")
    with pytest.raises(SpecError, match="takes what a step gives as ratings"):
        loads(wrong, "items.yaml")
