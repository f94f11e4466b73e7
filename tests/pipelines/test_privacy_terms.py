"""A step that adds noise: what is wrong in `dp` is named by line, and what the accord does not name spends nothing."""

import pytest
from item_pipeline import ITEMS

from base.errors import ConsentError, SpecError
from components.private_sum import Privacy
from pipelines.load import loads
from pipelines.privacy_terms import PrivacyTerms, admit_privacy

TEXT = (
    ITEMS
    + """\
    params:
      reg: 300
      dp: DP
"""
)
GOOD = "{epsilon: 1.0, delta: 1.0e-6, clip: 30, data_set: ratings}"
LIMIT = {"epsilon": 3.0, "delta": 1e-6}
TERMS = {"privacy": {"ratings": LIMIT}}


def admit(dp, **terms):
    spec = loads(TEXT.replace("DP", dp), "items.yaml").spec
    admit_privacy(PrivacyTerms(**{**TERMS, **terms}), spec, "train", ".".join)
    return spec.steps["train"].params["dp"]


def test_a_step_within_the_terms_is_admitted_as_it_is_written():
    assert Privacy(**admit(GOOD)) == Privacy(epsilon=1.0, delta=1e-6, clip=30, data_set="ratings")


def test_a_step_without_noise_needs_no_terms():
    spec = loads(TEXT.replace("      dp: DP\n", ""), "items.yaml").spec
    admit_privacy(PrivacyTerms(), spec, "train", ".".join)


@pytest.mark.parametrize(
    ("change", "terms", "named", "key"),
    [
        ((), {"privacy": {}}, "does not name this data set", "data_set"),
        (("ratings}", "people}"), {}, "does not name this data set", "data_set"),
        (("ratings}", "people}"), {"privacy": {"people": LIMIT}}, "not one that the sum is over", "data_set"),
        (("epsilon: 1.0", "epsilon: 3.1"), {}, "epsilon of a step is beyond", "epsilon"),
        (("1.0e-6", "1.0e-5"), {}, "delta of a step is beyond", "delta"),
    ],
)  # fmt: skip
def test_what_is_beyond_the_terms_is_refused_by_key(change, terms, named, key):
    with pytest.raises(ConsentError, match=named) as error:
        admit(GOOD.replace(*change) if change else GOOD, **terms)
    assert error.value.where == f"steps.train.params.dp.{key}"
    assert error.value.remedy


@pytest.mark.parametrize(
    ("dp", "what", "key", "said"),
    [
        ("{epsilon: 1.0, delta: 1.0e-6, clip: 30}", "missing", "dp", "add data_set: ... under params.dp of step train"),
        ("{epsilon: 1.0, delta: 1.0e-6, clp: 30, data_set: ratings}", "unknown parameter", "dp.clp", "clip"),
        ("{epsilon: 0, delta: 1.0e-6, clip: 30, data_set: ratings}", "out of range", "dp.epsilon", "a number, above 0"),
        ("{epsilon: 1.0, delta: 1, clip: 30, data_set: ratings}", "out of range", "dp.delta", "below 1"),
        (
            "{epsilon: 1.0, delta: 1e-6, clip: 30, data_set: ratings}",
            "wrong type",
            "dp.delta",
            "number",
        ),  # YAML: a text
        ("3", "wrong type", "dp", "write dp: {epsilon: ..., delta: ..., clip: ..., data_set: ...}"),
        (GOOD.replace("}", ", mechanism: gausian}"), "out of range", "dp.mechanism", "gaussian"),
    ],
)
def test_what_is_wrong_in_it_is_named_with_its_line(dp, what, key, said):
    with pytest.raises(SpecError, match=what) as error:
        loads(TEXT.replace("DP", dp), "items.yaml")
    assert f"items.yaml:16, key steps.train.params.{key}" in error.value.where
    assert said in str(error.value)


@pytest.mark.parametrize("limit", [{"epsilon": 0, "delta": 1e-6}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1.0}])
def test_a_limit_that_limits_nothing_is_refused(limit):
    with pytest.raises(ValueError, match="1 validation error"):
        PrivacyTerms(privacy={"ratings": limit})
