"""The own part of a model that was registered, for a training that goes on from it.

Every data_holder names the same signed manifest and takes its own part out of its own store; nothing crosses. With
`latest` it takes the part that this pipeline registered last, and none in its first run: the training then starts anew.
A party whose latest is another one than the others' is noticed in the first sum of the training.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from components.contract import Component, Context, Outputs, Params

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class LoadModelParams(Params):
    """Which model."""

    manifest: Literal["latest"] | Digest = "latest"  # `model` of the manifest that register_model gives


def data_holder(ctx: Context, params: LoadModelParams) -> Outputs:
    """Return the part, if there is one."""
    part = ctx.registered(params.manifest)
    ctx.require(
        part is not None or params.manifest == "latest", "no part of this model is in the store",
        expected=f"a part of model {params.manifest[:16]}", found="none",
        remedy="a model that was registered here by this pipeline; the model's version in MLflow has it",
    )  # fmt: skip
    ctx.metric("found", float(part is not None))
    return {} if part is None else {"start": part}


COMPONENT = Component(
    name="load_model",
    roles={"data_holder": data_holder},
    params=LoadModelParams,
    outputs={"start": "this party's part of the model"},
    adversary="nothing crosses: every party reads its own store",
)
