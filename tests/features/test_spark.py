from typing import Any

import pyarrow as pa
import pytest

from base.errors import EnvironmentMissing
from features.behaviour import flag_shares
from features.spark import session


@pytest.mark.spark
def test_one_quiet_session(spark: Any) -> None:
    assert session() is not None
    conf = {
        name: spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.ui.enabled", "spark.driver.host")
    }
    assert conf == {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    assert "UseSerialGC" in spark.conf.get("spark.driver.extraJavaOptions")


def test_a_machine_without_java_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentMissing, match="needs Java"):
        session()


@pytest.mark.spark
def test_shares_of_flags(spark: Any) -> None:
    behaviour = pa.table({"user_id": ["a", "a", "b", "x"], "item_id": ["1", "2", "2", "1"]})
    catalogue = pa.table({"item_id": ["1", "2"], "f": pa.array([1, 0], pa.int8()), "g": pa.array([1, 1], pa.int8())})
    shares = flag_shares(spark, behaviour, catalogue, ["f", "g"], pa.array(["b", "nobody", "a"]))
    assert shares.tolist() == [[0, 1], [0, 0], [0.5, 1]]
