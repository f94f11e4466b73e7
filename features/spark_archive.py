"""Writes an archive of the classes that Spark's virtual machine loads, so that a node's first job starts sooner.

`make setup` runs it once (`python -m features.spark_archive`); `features.spark` uses the archive where it exists. It is
Java's own class-data sharing (JEP 350): a machine without the archive, or with another Java, loads classes as always.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from features import spark
from features.spec import load
from features.tables import clean

WRITE_SECONDS = 120
SPEC = Path(__file__).resolve().parents[1] / "feature_specs" / "interaction.yaml"


def main() -> None:
    """Run the work of a validation step once and keep what was loaded for it."""
    spark.ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    spark.ARCHIVE.unlink(missing_ok=True)
    session = spark.session("local[1]", {"spark.driver.extraJavaOptions": f"{spark.JAVA} {spark.WRITE_ARCHIVE}"})
    rows = {"user_id": ["C0000001"], "item_id": ["1"], "rating": ["3"], "timestamp": ["880000000"]}
    clean(session, pa.table(rows), load(SPEC))
    machine = session.sparkContext._gateway.proc
    session.stop()
    machine.stdin.close()  # it ends when its input does, and writes the archive then
    machine.wait(WRITE_SECONDS)


if __name__ == "__main__":
    main()
