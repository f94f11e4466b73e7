"""The Spark session: one a node (or a test run), local by default, any master by configuration.

Step functions of several parties may use one session from several threads at once.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.errors import EnvironmentMissing

LOG4J2 = Path(__file__).with_name("log4j2.properties")
# Short jobs: the first compiler tier and the serial collector start and finish sooner (4.6-6.3 s against 6-11 s).
JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC -Dlog4j2.configurationFile={LOG4J2.as_uri()}"
ARCHIVE = Path(sys.prefix) / "share" / "accord" / "spark.jsa"  # of `features.spark_archive`
WRITE_ARCHIVE = f"-XX:ArchiveClassesAtExit={ARCHIVE}"
_OPTIONS = {
    "spark.app.name": "accord",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "false",  # a second plan costs more than these jobs
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(master: str = "local[2]", options: Mapping[str, str] | None = None) -> Any:
    """Return the process's Spark session, started on the first call (about 5 s); `options` win over the defaults.

    `EnvironmentMissing` when there is no Java.
    """
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise EnvironmentMissing("Spark needs Java", expected="Java 17", found="no java", remedy="install a JRE 17")
    from pyspark.sql import SparkSession  # 1 s: only who uses Spark pays

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    shared = {"spark.driver.extraJavaOptions": f"{JAVA} -XX:SharedArchiveFile={ARCHIVE}"} if ARCHIVE.exists() else {}
    for name, value in {**_OPTIONS, **shared, **(options or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
