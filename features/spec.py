"""Feature specs: what a column means, how it is encoded, who owns it, how secret it is, what becomes of dirt.

A spec is a YAML file of `feature_specs/`, the same at every party of an accord; its digest is compared before anything
is sent. YAML is data: nothing in it is looked up or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from base.canonical import digest
from base.yaml_lines import parse
from features.spec_errors import misnamed, refusal, unreadable

NULLS = ("", "null", "nan", "n/a")  # compared without case, after NFKC and strip
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Role = Literal["data_holder", "label_holder", "feature_holder"]
IdType = Literal["text", "integer", "phone", "email", "national_id", "hashed"]
NationalId = Literal[
    "at_vnr", "ch_ahv", "de_idnr", "es_dni", "es_nie", "fi_hetu", "fr_nir", "gb_nhs", "it_codicefiscale", "nl_bsn",
    "pl_pesel",
]  # fmt: skip
Algorithm = Literal["md5", "sha1", "sha256", "sha512", "hmac_sha256"]
_BELONGS: dict[str, tuple[IdType, ...]] = {
    "case": ("text", "integer", "email"),
    "prefix": ("integer",),
    "width": ("integer",),
    "max_length": ("text", "integer"),
    "region": ("phone",),
    "subaddress": ("email",),
    "kind": ("national_id",),
    "algorithm": ("hashed",),
}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def _wrong(self, key: str, expected: str) -> PydanticCustomError:
        """Return what to raise for a key that does not fit the others: pydantic says the mapping, this says the key."""
        return PydanticCustomError("does_not_fit", "{expected}", {"key": key, "expected": expected})


class IdRule(_Strict):
    """The normal form of an id or of a category; the digest of a spec, which parties compare, covers every field.

    A field stands in the rule of the types named beside it and nowhere else. `features.id_forms` has the forms.
    """

    type: IdType = "text"  # integer: decimal digits kept as text, never as a number
    nfkc: bool = True  # Unicode compatibility form: full-width digits and letters become plain ones
    strip: bool = True  # white space at both ends
    case: Literal["keep", "lower", "upper"] = (
        "keep"  # text, integer, email; the domain of an email is lower-case anyway
    )
    prefix: str = ""  # integer: put in front of the digits; what is read may lack it
    width: Annotated[int, Field(ge=0, le=32)] = 0  # integer: digits, filled with zeros; 0 strips leading zeros
    max_length: Annotated[int, Field(ge=1, le=256)] = 64  # text, integer: characters of the normal form
    region: Annotated[str, Field(pattern=r"^([A-Z]{2})?$")] = ""  # phone: ISO 3166 of numbers without country code
    subaddress: Literal["keep", "strip"] = "keep"  # email: what follows a plus in front of the @
    kind: NationalId | None = None  # national_id
    algorithm: Algorithm | None = None  # hashed: what made the digests that the column holds
    nulls: tuple[str, ...] = (*NULLS, "none")  # spellings of a missing value; a null matches nothing

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, types in _BELONGS.items():
            if self.type not in types and getattr(self, name) != type(self).model_fields[name].default:
                raise self._wrong(name, f"{name} belongs to {', '.join(types)}")
        for name in ("region", "kind", "algorithm"):
            if self.type in _BELONGS[name] and not getattr(self, name):
                raise self._wrong(name, f"{self.type} needs {name}")
        if self.type == "email" and self.case == "upper":
            raise self._wrong("case", "case of an email is keep or lower")
        if self.type == "phone":
            from phonenumbers import SUPPORTED_REGIONS  # tables of a whole planet: only who has phone numbers pays

            if self.region not in SUPPORTED_REGIONS:
                raise self._wrong("region", "region must be one that has telephone numbers")
        return self


class Column(_Strict):
    """One column of a table."""

    type: Literal["id", "category", "text", "real", "integer", "flag"]
    owner: tuple[Role, ...]  # roles that may hold it
    sensitivity: Literal["public", "internal", "sensitive"]
    encoder: Literal["none", "rank", "one_hot", "shares"] = "none"
    rule: IdRule | None = None  # id, category and text: the normal form
    bounds: tuple[float, float] | None = None  # real and integer: both ends belong to the range
    values: tuple[str, ...] | None = None  # category: every allowed value, in normal form
    on_null: Literal["refuse", "drop", "keep"] = "refuse"  # refuse the table, drop the row, keep the null
    max_null: Annotated[float, Field(ge=0, le=1)] = 0  # share of nulls among the kept rows that the suite lets pass
    on_invalid: Literal["refuse", "drop", "null"] = "refuse"  # null: the value becomes a null, which must be allowed

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        textual = self.type in ("id", "category", "text")
        number = self.type in ("real", "integer")
        wrong = (
            ("rule", "rule belongs to id, category and text", self.rule is not None and not textual),
            ("rule", "an id needs a rule", self.type == "id" and self.rule is None),
            ("bounds", "bounds belong to real and integer", self.bounds is not None and not number),
            ("bounds", "bounds go from low to high", self.bounds is not None and self.bounds[0] > self.bounds[1]),
            ("values", "values belong to category", self.values is not None and self.type != "category"),
            (
                "on_invalid",
                "on_invalid: null needs on_null: keep",
                self.on_invalid == "null" and self.on_null != "keep",
            ),
            ("max_null", "max_null needs on_null: keep", self.max_null > 0 and self.on_null != "keep"),
            ("on_null", "an id is never null", self.type == "id" and self.on_null == "keep"),
            ("encoder", "rank needs real or integer", self.encoder == "rank" and not number),
            ("encoder", "one_hot needs category", self.encoder == "one_hot" and self.type != "category"),
            ("encoder", "shares needs flag", self.encoder == "shares" and self.type != "flag"),
        )
        for key, rule, broken in wrong:
            if broken:
                raise self._wrong(key, rule)
        return self

    @property
    def normal_form(self) -> IdRule:
        """The rule of a textual column; text without one is stripped and keeps its case."""
        return self.rule or IdRule(max_length=256, nulls=NULLS)


class FeatureSpec(_Strict):
    """One kind of table."""

    name: Name
    description: str
    key: tuple[Name, ...]  # these columns together name a row
    on_duplicate: Literal["refuse", "keep_first"] = "refuse"  # a second row with the same key
    min_rows: Annotated[int, Field(ge=1)] = 1  # a smaller table is refused
    columns: dict[Name, Column]

    @model_validator(mode="after")
    def _key_exists(self) -> Self:
        if not self.key or not set(self.key) <= set(self.columns):
            raise self._wrong("key", "key must name columns of the spec")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the whole spec, independent of the order of keys in the file."""
        return digest(self.model_dump(mode="json"))

    def encoded(self, encoder: str) -> tuple[str, ...]:
        """Return the columns with this encoder, in the order of the file."""
        return tuple(name for name, column in self.columns.items() if column.encoder == encoder)


_KEYS: Mapping[int, type[_Strict]] = {1: FeatureSpec, 3: Column, 4: IdRule}  # by depth: columns.NAME.rule.KEY is 4 deep


def load(path: Path) -> FeatureSpec:
    """Read one spec, named as its file; `SpecError` says file, line, key, expected, found and a remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    document, lines = parse(text, str(path), aliases=True)
    try:
        spec = FeatureSpec.model_validate(document)
    except ValidationError as error:
        raise refusal(error, path, lines, {depth: list(model.model_fields) for depth, model in _KEYS.items()}) from None
    if spec.name != path.stem:
        raise misnamed(path, lines, spec.name)
    return spec


def load_all(folder: Path) -> Mapping[str, FeatureSpec]:
    """Read every spec of a folder, by name."""
    return {path.stem: load(path) for path in sorted(folder.glob("*.yaml"))}
