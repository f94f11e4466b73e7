"""What a person at this party approves: a pipeline as it stands, with the accord, specs and components that it uses."""

from __future__ import annotations

import re
import time

from base.errors import ApprovalMissing, ConsentError, SpecMismatch
from features.spec import load_all
from party_node.accords import Accords
from party_node.database import Approval, Database
from pipelines.accord import SignedAccord
from pipelines.columns import require_fit
from pipelines.load import Pipeline, loads
from pipelines.plan import Template, make_template, used_specs
from runtime.party import Home

_FILE = re.compile(r"[A-Za-z0-9_./+-]{1,255}")


class Approvals:
    """The templates that persons at one party have approved."""

    def __init__(self, home: Home, database: Database, accords: Accords) -> None:
        """Keep approvals in `database`, enforce `accords`."""
        self._home, self._database, self._accords = home, database, accords

    def template(self, text: str, file: str) -> tuple[Pipeline, SignedAccord, Template]:
        """Check a pipeline against the accord and this party's own specs and components; return its template."""
        if not _FILE.fullmatch(file):
            raise ConsentError("not a plain file name", expected=_FILE.pattern, where="file of the pipeline")
        pipeline = loads(text, file)
        accord = self._accords.get(pipeline.spec.accord)
        own = load_all(self._home.specs_directory)
        accord.admit(pipeline.spec, pipeline.at)
        require_fit(pipeline, accord, own)
        specs = {name: spec.digest for name, spec in own.items()}
        if missing := sorted(set(used_specs(pipeline.spec, accord)) - set(specs)):
            where, party = str(self._home.specs_directory), self._home.party
            raise SpecMismatch("a feature spec is missing", expected=", ".join(missing), where=where, party=party)
        return pipeline, accord, make_template(pipeline.spec, accord, specs)

    def approve(self, text: str, file: str, approver: str) -> str:
        """Keep a person's approval of a template; return the template's digest."""
        pipeline, _, template = self.template(text, file)
        with self._database.write() as session:
            if session.get(Approval, template.digest) is None:
                name = pipeline.spec.pipeline
                session.add(Approval(template=template.digest, pipeline=name, approver=approver, created=time.time()))
        return template.digest

    def require(self, template: Template, file: str) -> None:
        """Raise `ApprovalMissing` unless a person has approved the template; `file` names the pipeline to approve."""
        with self._database.read() as session:
            if session.get(Approval, template.digest) is None:
                raise ApprovalMissing(
                    "nobody at this party has approved this pipeline as it stands",
                    expected="an approval of its template by a person",
                    found=f"template {template.digest[:16]}, not approved",
                    where=file,
                    remedy=f"accord approve {file} --party {self._home.party}",
                    party=self._home.party,
                )
