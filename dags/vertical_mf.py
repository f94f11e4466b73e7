"""Airflow DAG of conf/pipelines/vertical_mf.yaml."""

from airflow_provider.factory import build_dag

dag = build_dag(__file__)
