"""Three ways to run a pipeline, each from fresh directories with the same secrets: one model digest."""

import pytest

from demo.harness import PIPELINES

pytestmark = [pytest.mark.node, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_airflow_the_command_and_a_simulation_end_with_the_same_model(pipeline, in_process, by_command, simulated):
    _, _, by_airflow = in_process
    digests = {
        "airflow": by_airflow[pipeline]["model"],
        "run": by_command[pipeline]["model"],
        "simulate": simulated[pipeline]["model"],
    }
    assert digests["airflow"]
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_metrics_are_the_same_too(pipeline, in_process, by_command):
    assert in_process[2][pipeline]["metrics"] == by_command[pipeline]["metrics"]
