"""Making and signing an accord: the terms as YAML, every party's public keys, every party's signature.

The document goes from party to party; each signs the same terms with its own key, and keeps a copy under
`accords/<name>.json` in its node's directory. A node believes a copy only when all signatures are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.errors import ConsentError, SpecError
from base.yaml_lines import line_of, parse
from crypto.node_keys import NodeKeys, NodePublicKeys
from pipelines.accord import SignedAccord, check_conditions, make_terms, write_accord
from pipelines.in_words import value_in_words
from runtime.party import Home


def read_conditions(path: Path) -> dict[str, Any]:
    """Read the terms that people wrote (conf/accords/*.yaml); they lack the public keys."""
    try:
        document, lines = parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError("the terms cannot be read", found=type(error).__name__, where=str(path)) from None
    if not isinstance(document, dict) or not isinstance(document.get("parties"), dict):
        raise SpecError(
            "terms of an accord are a mapping with parties", expected="parties: {PARTY: {DATA_SET: {spec: NAME}}}",
            found=value_in_words(document), where=str(path), remedy="begin with conf/accords/demo.yaml",
        )  # fmt: skip
    check_conditions(document, lambda key: f"{path}:{line_of(lines, key)}, key {'.'.join(map(str, key))}")
    return document


def draft(conditions: Mapping[str, Any], keys: Mapping[str, NodePublicKeys], where: str) -> SignedAccord:
    """Return the unsigned accord of these conditions with the parties' public keys filled in."""
    if missing := sorted(set(conditions["parties"]) - set(keys)):
        remedy = "every party sends keys/public.json of its node: accord provision or accord csr makes it"
        raise SpecError("public keys are missing", expected=", ".join(missing), where=where, remedy=remedy)
    return SignedAccord(terms=make_terms(conditions, keys))


def sign(accord: SignedAccord, home: Home) -> SignedAccord:
    """Return the accord with the signature of the party of `home`; `ConsentError` when the terms name another key."""
    own, party = NodeKeys.load(home.path("keys")), home.party
    terms = accord.terms.parties.get(party)
    if terms is None or terms.keys != own.public:
        raise ConsentError(
            "the terms do not name this party with its present keys",
            expected=own.public.fingerprint[:16],
            found=terms.keys.fingerprint[:16] if terms else "no such party",
            where=f"accord {accord.terms.accord}",
            party=party,
        )
    return accord.model_copy(update={"signatures": {**accord.signatures, party: own.sign(accord.message()).hex()}})


def install(accord: SignedAccord, home: Home) -> Path:
    """Keep a copy in the node's directory, which counts from the next call on; return its path."""
    path = home.path("accords", f"{accord.terms.accord}.json")
    write_accord(path, accord)
    return path
