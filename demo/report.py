"""A page with plots for people who would rather look than read: arms, rounds, seconds, and what crossed."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}code{background:#f3f3f3;padding:0 .2rem}img{max-width:100%}"""


def write_report(document: Mapping[str, Any], folder: Path) -> Path:
    """Write `index.html` below `folder` and return its path; everything in it comes from `document`."""
    parts = [
        "<h1>Accord demo</h1>",
        f"<p>{_text(document['data']['source'])} data, {document['seconds']} s in all.</p>",
    ]
    for name, report in document["pipelines"].items():
        parts += [f"<h2>{_text(name)}: {_text(report['status'])}</h2>", _identity(report)]
        parts += [_image(_arms(report["arms"])), _image(_seconds(report["seconds"])), _messages(report["messages"])]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    page = f"<!doctype html><meta charset=utf-8><title>Accord demo</title><style>{_STYLE}</style>{''.join(parts)}"
    path.write_text(page, encoding="utf-8")
    return path


def _identity(report: Mapping[str, Any]) -> str:
    clean = all(peer["clean"] for peer in report["audit"]["peers"].values())
    rows = {
        "run": report["run"],
        "model digest": ", ".join(sorted({m for m in report["model"].values() if m})),
        "ledgers reconciled": f"{report['audit']['entries']} entries, {'clean' if clean else 'NOT clean'}",
    }
    cells = "".join(f"<tr><th>{_text(k)}<td><code>{_text(v)}</code>" for k, v in rows.items())
    return f"<table>{cells}</table>"


def _arms(arms: Mapping[str, Mapping[str, float]]) -> Figure:
    names = sorted({arm for values in arms.values() for arm in values})
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    for j, arm in enumerate(names):
        parts = [(i, values[arm]) for i, values in enumerate(arms.values()) if arm in values]
        axes.bar([i + 0.8 * j / len(names) for i, _ in parts], [v for _, v in parts], 0.8 / len(names), label=arm)
    low = min(value for values in arms.values() for value in values.values())
    axes.set(
        xticks=[i + 0.3 for i in range(len(arms))],
        xticklabels=list(arms),
        ylabel="RMSE (not from 0)",
        ylim=(low - 0.05, None),
    )
    axes.legend(ncols=len(names), loc="upper right", fontsize="small")
    return figure


def _seconds(seconds: Mapping[str, float | None]) -> Figure:
    figure = Figure(figsize=(9, 1.6 + 0.25 * math.ceil(len(seconds) / 4)), layout="constrained")
    axes = figure.subplots()
    left = 0.0
    for step, value in seconds.items():
        axes.barh(0, value or 0.0, left=left, label=f"{step} {value or 0:.1f} s")
        left += value or 0.0
    axes.set(yticks=[], xlabel="seconds")
    figure.legend(ncols=4, loc="outside lower center", fontsize="small")
    return figure


def _messages(messages: list[Mapping[str, Any]]) -> str:
    head = "<tr><th>step<th>message<th>from<th>to<th>protection<th>times<th>bytes"
    rows = "".join(
        f"<tr><td>{_text(m['step'])}<td>{_text(m['name'])}<td>{_text(m['sender'])}<td>{_text(m['receiver'])}"
        f"<td>{_text(m['protection'])}<td class=n>{m['messages']}<td class=n>{m['bytes']:,}"
        for m in messages
    )
    return f"<h3>What crossed</h3><table>{head}{rows}</table>"


def _image(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return f'<p><img alt="" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def _text(value: object) -> str:
    return html.escape(str(value))
