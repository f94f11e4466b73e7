"""Every alignment is a plain join: over generated dirty ids of known people, and over public data sets.

The plain join here knows nothing of normal forms: a generated id comes with the person whom it spells, or with nobody.
Twenty cases share a run, each id behind the kind and number of its case, so a thousand cases take fifty runs. They are
nights of the same parties: RSA signs an id once, and finds it again when it comes back in another case.
"""

import base64
import csv
import gzip
import hashlib
import io
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components import signature_cache
from components.registry import component
from crypto.rsa import RsaSecretKey
from features.idnorm import normal_form, normalise
from features.spec import Column, FeatureSpec, IdRule

CASES, TOGETHER = 1000, 20
WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in range(0x21, 0x7F)})  # full-width forms of ASCII
BLANKS = ("", "", " ", "\t", "\u00a0", "\u3000", " \r\n")
NULLS = (None, "", " ", "NULL", "nan", "N/A", "None", "null".translate(WIDE), "\u3000")
RUNS = count()


# People, and how their ids are written.


def spelled(write, *wrong):
    """(person or None, text): a person's id in a form that `write` gives, blanks around it; or null; or invalid."""
    forms = st.sampled_from([(p, text) for p in range(26) for text in write(p)])
    right = st.tuples(forms, BLANK, BLANK).map(lambda drawn: (drawn[0][0], drawn[1] + drawn[0][1] + drawn[2]))
    return st.one_of(right, right, right, st.sampled_from([(None, text) for text in (*NULLS, *wrong)]))


BLANK = st.sampled_from(BLANKS)


def of(*texts):
    return [form for text in texts for form in (text, text.translate(WIDE))]


def number(p):
    return of(*(f"{p:0{w}}" for w in (1, 3, 6, 9)))


def customer(p):
    return of(*(f"{c}{p:0{w}}" for w in (1, 6, 8) for c in ("", "C", "c")))


def name(p):
    text = f"fiancé {p} Œuvre"
    forms = (text, text.upper(), text.lower(), text.swapcase(), text.replace("fi", "ﬁ"))
    return of(*(unicodedata.normalize(form, t) for t in forms for form in ("NFC", "NFD")))


def email(p):
    return of(*(f"{local}@{domain}" for local in (f"u.{p}", f"U.{p}", f"u.{p}+shop") for domain in ("a.org", "A.Org")))


def phone(p):
    n = f"{p:02}"
    return of(f"+49 1512 34567{n}", f"0049151234567{n}", f"0151/234567{n}", f"(0151) 23 45 67 {n}", f"+49151234567{n}")


def hashed(p):
    digest = hashlib.sha256(f"person {p}".encode())
    text = base64.b64encode(digest.digest()).decode()
    return of(digest.hexdigest(), digest.hexdigest().upper(), text, text.rstrip("="))


KINDS = {
    "number": (IdRule(type="integer"), spelled(number, "7.0", "-7", "+7", "7a", "1 2", "7\x00", "1.0".translate(WIDE))),
    "customer": (IdRule(type="integer", prefix="C", width=6, case="upper"), spelled(customer, "CC7", "C", "D7", "7C")),
    "name": (IdRule(case="lower"), spelled(name, "fiancé\u200b", "\ufefffi", "x" * 65, "a\x07b")),
    "email": (IdRule(type="email", case="lower", subaddress="strip"), spelled(email, "u@", "@a.org", "u 1@a.org")),
    "phone": (IdRule(type="phone", region="DE"), spelled(phone, "0151", "call me", "+999 1", "0151 2345671 ext 2")),
    "hashed": (IdRule(type="hashed", algorithm="sha256"), spelled(hashed, "abc", "0" * 63, "g" * 64)),
}
TABLES = st.sampled_from(sorted(KINDS)).flatmap(
    {kind: st.tuples(st.just(kind), *[st.lists(ids, max_size=8)] * 3) for kind, (_, ids) in KINDS.items()}.get
)


# The three alignments.


@pytest.fixture(scope="module")
def fixed_key():
    """One RSA key for every sender, and no signature dropped: they are dear, and the join does not depend on them."""
    key = RsaSecretKey.generate(2048)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RsaSecretKey, "generate", lambda _: key)
        patch.setattr(signature_cache, "UNSEEN", 255)
        yield


MORE = {
    "align_ecdh": {"max_tests": 10**9},
    "align_rsa": {"key_bits": 2048, "max_signatures": 10**9},
    "align_keyed_hash": {"max_tests": 10**9, "allow_low_entropy": True},
}
SPEC = FeatureSpec(
    name="t", description="people", key=("id",),
    columns={"id": Column(type="id", owner=("data_holder",), sensitivity="internal", rule=IdRule(max_length=256))},
)  # fmt: skip


def align(threads, how, ids, **params):
    """Align columns in normal form, nulls left out; return the outputs. The first party of `ids` is the receiver."""
    receiver, *senders = ids

    def role(ctx, params):
        ctx = replace(ctx, services=replace(ctx.services, spec=lambda _: SPEC))
        return component(how).roles[ctx.role](ctx, params)

    inputs = {
        p: {"tables": {"t": pa.table({"id": pa.array(v, pa.string())}).replace_schema_metadata({"spec": "t"})}}
        for p, v in ids.items()
    }
    given = {"tables": dict.fromkeys(ids, "t"), "id_column": "id", "min_overlap": 1, "on_duplicates": "all"}
    outcome = threads(how, {"receiver": (receiver,), "sender": tuple(senders)}, inputs, given | MORE[how] | params,
                      run=f"run-{next(RUNS)}", functions=dict.fromkeys(ids, role))  # fmt: skip
    assert outcome.errors == {}
    return outcome.outputs


def is_plain_join(outputs, people):
    """Assert that all parties have the same people in one order, those of a plain join; `people`: person of each row.

    Rows that are joined are counted too: every row of a person, at each party.
    """
    expected = set.intersection(*(set(p) for p in people.values()))
    orders = {p: [people[p][row] for row in found["alignment"]["first"].to_pylist()] for p, found in outputs.items()}
    for party, order in orders.items():
        assert len(order) == len(expected)
        assert set(order) == expected
        assert order == next(iter(orders.values()))
        assert outputs[party]["alignment"]["index"].to_pylist() == list(range(len(order)))
        assert outputs[party]["report"]["rows_joined"] == sum(one in expected for one in people[party])


def dirty(cases, threads, *alignments):
    """Run some cases at once and compare them with the plain join."""
    ids, people = ({p: ["everybody"] for p in ("bank", "bureau", "shop")} for _ in range(2))
    of_kind = Counter()
    for kind, *tables in cases:
        of_kind[kind] += 1
        case = f"{kind} {of_kind[kind]}"
        for party, table in zip(ids, tables, strict=True):
            values, _ = normalise(pa.array([text for _, text in table], pa.string()), KINDS[kind][0])
            for (person, _), value in zip(table, values.to_pylist(), strict=True):
                assert (value is None) == (person is None)
                if value is not None:
                    ids[party].append(f"{case} {value}")
                    people[party].append((case, person))
    for how in alignments:
        parties = list(ids)[: 2 if how == "align_keyed_hash" else 3]
        outputs = align(threads, how, {p: ids[p] for p in parties}, pad_to=32)
        is_plain_join(outputs, {p: people[p] for p in parties})


SOME = st.lists(TABLES, min_size=TOGETHER, max_size=TOGETHER)


@settings(deadline=None, max_examples=CASES // TOGETHER, suppress_health_check=list(HealthCheck))
@given(cases=SOME)
def test_ecdh_and_keyed_hash_of_dirty_ids_are_plain_joins(threads, cases):
    dirty(cases, threads, "align_ecdh", "align_keyed_hash")


@settings(deadline=None, max_examples=CASES // TOGETHER, suppress_health_check=list(HealthCheck))
@given(cases=SOME)
def test_rsa_of_dirty_ids_is_a_plain_join(threads, fixed_key, cases):
    dirty(cases, threads, "align_rsa")


ANYTHING = st.lists(st.text(max_size=6) | st.sampled_from(["Å", "Å", "ﬀ", "ff", "İ", "ß", "SS"]), max_size=12)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables=st.tuples(ANYTHING, ANYTHING), rule=st.sampled_from([IdRule(), IdRule(case="lower")]))
def test_alignments_of_any_text_are_joins_of_its_normal_form(threads, fixed_key, tables, rule):
    people = {}
    for party, texts in zip(("bank", "bureau"), tables, strict=True):
        people[party] = ["everybody", *(v for t in texts if (v := normal_form(t, rule)[0]) is not None)]
    for how in MORE:
        is_plain_join(align(threads, how, people, pad_to=8), people)


# Public data.


def column(path, name):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def check(threads, how, raw, rule=IdRule(type="integer")):  # noqa: B008
    """Align columns as they lie there; numbers as people, so the plain join needs no normal form."""
    ids = {p: normalise(pa.array(texts), rule)[0].to_pylist() for p, texts in raw.items()}
    people = {p: [int(text) for text in texts] for p, texts in raw.items()}
    outputs = align(threads, how, ids)
    is_plain_join(outputs, people)
    return outputs


@pytest.mark.data
@pytest.mark.parametrize("how", MORE)
def test_fate_s_sample_and_repeated_ids(threads, fixed_key, accord_data, how):
    guest, host, repeated = (
        column(accord_data / "fate-examples" / f"breast_hetero_{file}.csv.gz", "id")
        for file in ("guest_sample_id", "host_sample_id", "guest_repeated_id")
    )
    assert len(guest) == len(repeated) == 2139  # several rows of a person
    outputs = check(threads, how, {"guest": guest, "host": host})
    assert outputs["guest"]["report"]["aligned"] == len(set(guest) & set(host)) == 299
    assert outputs["guest"]["report"]["duplicate"] > 0
    outputs = check(threads, how, {"host": host, "guest": repeated})
    assert outputs["host"]["report"]["aligned"] == len(set(repeated) & set(host))
    if how == "align_ecdh":
        check(threads, how, {"guest": guest, "host": host, "other": repeated[::3]})


@pytest.mark.data
@pytest.mark.parametrize("how", MORE)
def test_default_credit(threads, fixed_key, accord_data, how):
    """Both files hold the same 30,000 ids in full; the host lacks every third; RSA takes one in thirty."""
    guest, host = (
        column(accord_data / "fate-examples" / f"default_credit_hetero_{side}.csv.gz", "id")
        for side in ("guest", "host")
    )
    assert len(set(guest)) == len(set(guest) & set(host)) == 30_000
    host = [text for text in host if int(text) % 3]
    if how == "align_rsa":
        guest, host = guest[::30], host[::30]
    check(threads, how, {"guest": guest, "host": host})


@pytest.mark.data
@pytest.mark.parametrize("how", MORE)
def test_movielens_users_written_in_two_ways(threads, fixed_key, accord_data, how):
    with gzip.open(accord_data / "ml-1m" / "users.dat.gz") as file:
        rows = [line.split("::") for line in io.TextIOWrapper(file, "utf-8", newline="").read().split()]
    assert len(rows) == 6040
    older = [user for user, _, age, *_ in rows if int(age) >= 35]
    women = [f" {int(user):08}".translate(WIDE) for user, sex, *_ in rows if sex == "F"]
    rng = np.random.default_rng(5)
    raw = {"bank": rng.permutation(older).tolist(), "bureau": rng.permutation(women).tolist()}
    outputs = check(threads, how, raw)
    assert outputs["bank"]["report"]["aligned"] == sum(sex == "F" and int(age) >= 35 for _, sex, age, *_ in rows)
