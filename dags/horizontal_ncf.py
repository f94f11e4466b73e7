"""Airflow DAG of conf/pipelines/horizontal_ncf.yaml."""

from airflow_provider.factory import build_dag

dag = build_dag(__file__)
