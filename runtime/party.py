"""A party as its node reads it: `party.yaml` in the node's home directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from base.errors import SpecError
from base.yaml_lines import line_of, parse

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.\-]+:[0-9]{1,5}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataSet(_Strict):
    """Where a data set of the party lies."""

    path: str  # below the home directory, or absolute
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","


class SparkConf(_Strict):
    """The node's Spark session."""

    master: str = "local[2]"
    options: dict[str, str] = {}


class PartyConf(_Strict):
    """One party's node; bind (`listen`) apart from what peers dial (`advertise`)."""

    party: Name
    listen: Address
    advertise: Address
    database: str = "sqlite:///node.db"  # relative to home, or any SQLAlchemy URL
    tracking_uri: str = "sqlite:///mlflow.db"
    feature_specs: str  # directory of feature specs, relative to home or absolute
    clients: dict[str, Literal["submitter", "approver", "operator"]]  # certificate name -> role
    data_sets: dict[Name, DataSet]
    peers: dict[Name, Address]
    spark: SparkConf = SparkConf()
    message_deadline_seconds: Annotated[int, Field(ge=1)] = 600
    unwatched_minutes: Annotated[int, Field(ge=1)] = 60  # a job that nobody has watched for so long is stopped


class Home:
    """The directory of one node; every path that the node writes comes from here."""

    def __init__(self, root: Path | str) -> None:
        """Read `party.yaml` below `root`; `SpecError` names the line and the key that are wrong."""
        self.root = Path(root).resolve()
        file = self.root / "party.yaml"
        try:
            document, lines = parse(file.read_text(encoding="utf-8"), str(file))
            self.conf = PartyConf.model_validate(document)
        except FileNotFoundError:
            remedy = "accord provision lays out a node directory; accord demo lays out four"
            raise SpecError("there is no party.yaml", where=str(file), remedy=remedy) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = f"{file}:{line_of(lines, first['loc'])}, key {'.'.join(map(str, first['loc']))}"
            raise SpecError("party.yaml is wrong", where=where, expected=first["msg"]) from None

    @property
    def party(self) -> str:
        """Name of the party."""
        return self.conf.party

    def path(self, *parts: str) -> Path:
        """Return a path below the home directory."""
        return self.root.joinpath(*parts)

    def url(self, url: str) -> str:
        """Return a sqlite URL with its relative path made absolute; other URLs as they are."""
        prefix = "sqlite:///"
        return f"{prefix}{self.root / url.removeprefix(prefix)}" if url.startswith(prefix) else url

    @property
    def specs_directory(self) -> Path:
        """Directory of the feature specs."""
        return self.root / self.conf.feature_specs
