"""Sums are protected as the most sensitive column asks for that they depend on, through all steps before them."""

import pytest
from item_pipeline import ITEMS

from base.errors import ConsentError
from components.registry import catalogue
from crypto.node_keys import NodeKeys
from features.spec import Column, FeatureSpec, IdRule
from pipelines.accord import SignedAccord, make_terms
from pipelines.columns import require_fit
from pipelines.load import loads
from pipelines.privacy_terms import PrivacyTerms, admit_privacy
from pipelines.sensitivity import admit_sensitivity

BANKS = ["north_bank", "south_bank", "west_bank"]
TEXT = (
    ITEMS
    + """\
    params:
      protection: secagg
"""
)
DP = "      dp: {epsilon: 1.0, delta: 1.0e-6, clip: 30, data_set: ratings}\n"


def feature_spec(name, sensitivity):
    held = {"owner": ("data_holder",)}
    columns = {
        "item_id": Column(type="id", rule=IdRule(), sensitivity="public", **held),
        "rating": Column(type="real", sensitivity=sensitivity, **held),
    }
    return FeatureSpec(name=name, description="", key=("item_id",), columns=columns)


@pytest.fixture(scope="module")
def accord():
    keys = {party: NodeKeys.generate().public for party in (*BANKS, "bureau")}
    sets = {"ratings": {"spec": "interaction"}, "catalogue": {"spec": "item"}}
    conditions = {
        "accord": "demo", "purpose": "test of sums over columns", "legal_basis": "none", "valid_from": "2026-01-01",
        "valid_until": "2036-12-31", "max_runs": 1, "protections": ["secagg", "paillier", "plain"],
        "sum_rosters": [BANKS], "privacy": {"ratings": {"epsilon": 3.0, "delta": 1e-6}}, "min_raters": 1,
        "components": {name: entry["version"] for name, entry in catalogue().items()},
        "parties": {**dict.fromkeys(BANKS, sets), "bureau": {}},
    }  # fmt: skip
    return SignedAccord(terms=make_terms(conditions, keys))


@pytest.fixture
def check(accord):
    """`check(sensitivity of ratings, protection, dp?, other params)` as a node checks that holds the specs."""

    def one(sensitivity, protection, noise=False, more="", specs=("interaction", "item")):
        text = TEXT.replace("secagg", protection) + (DP if noise else "") + more
        pipeline = loads(text, "items.yaml")
        accord.admit(pipeline.spec, pipeline.at)
        known = {"interaction": feature_spec("interaction", sensitivity), "item": feature_spec("item", "public")}
        require_fit(pipeline, accord, {name: known[name] for name in specs})

    return one


@pytest.mark.parametrize(
    ("sensitivity", "protection", "noise"),
    [
        ("public", "plain", False),
        ("internal", "plain", True),
        ("internal", "secagg", False),
        ("sensitive", "secagg", False),  # enough people behind each item: min_raters
        ("sensitive", "paillier", True),
    ],
)
def test_what_is_protected_enough_passes(check, sensitivity, protection, noise):
    check(sensitivity, protection, noise)


@pytest.mark.parametrize(("sensitivity", "noise"), [("internal", False), ("sensitive", False), ("sensitive", True)])
def test_what_the_aggregator_would_read_is_refused_with_the_line_and_the_column(check, sensitivity, noise):
    with pytest.raises(ConsentError, match=f"a sum over {sensitivity} columns") as error:
        check(sensitivity, "plain", noise)
    assert error.value.where == "items.yaml:15, key steps.train.params.protection"
    assert error.value.found == "plain, column rating of ratings"
    assert error.value.remedy == "protection: secagg under params of step train"


def test_a_sensitive_sum_needs_noise_or_people_behind_it(check):
    few = "      min_raters: 1\n"
    check("internal", "secagg", more=few)
    check("sensitive", "secagg", noise=True, more=few)
    with pytest.raises(ConsentError, match="tells of few people") as error:
        check("sensitive", "secagg", more=few)
    assert "column rating of ratings" in error.value.found


def test_a_spec_that_is_not_here_is_not_judged_by(check):
    check("sensitive", "plain", specs=("item",))


def test_a_step_that_sums_nothing_is_no_matter(accord):
    pipeline = loads(TEXT, "items.yaml")
    admit_sensitivity(pipeline, "load", accord, {"interaction": feature_spec("interaction", "sensitive")})


def test_where_every_sum_has_noise_one_without_is_refused():
    terms = PrivacyTerms(privacy={"ratings": {"epsilon": 3.0, "delta": 1e-6, "every_sum": True}})
    admit_privacy(terms, loads(TEXT + DP, "items.yaml").spec, "train", ".".join)
    spec = loads(TEXT, "items.yaml").spec
    admit_privacy(terms, spec, "split", ".".join)
    with pytest.raises(ConsentError, match="nothing out of a data set without noise") as error:
        admit_privacy(terms, spec, "train", ".".join)
    assert (error.value.expected, error.value.where) == ("dp in every sum over ratings", "steps.train.params")
