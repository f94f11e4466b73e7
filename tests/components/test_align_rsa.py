"""Alignment by blind signatures: the same people everywhere, increments, and what is counted."""

import errno
import os
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from base.errors import AccordError, Cancelled, ConsentError, CryptoError, DataError, EnvironmentMissing
from components import align_rsa, alignment_matches, rsa_batches, signature_cache, sorted_tags
from components.registry import catalogue, component
from crypto.rsa import RsaSecretKey
from features.spec import Column, FeatureSpec, IdRule
from runtime.keys import run_secrets
from transport.body import encode

ROLES = {"receiver": ("bank",), "sender": ("bureau",)}
STAR = {"receiver": ("bank",), "sender": ("bureau", "shop")}
PARAMS = {
    "tables": {"bank": "ratings", "bureau": "people", "shop": "people"}, "id_column": "user_id", "key_bits": 2048,
    "pad_to": 32, "min_overlap": 1, "on_duplicates": "all",
}  # fmt: skip
BANK = ["7", "3", "3", "12", "40", "7", "05", "ü"]
BUREAU = ["ü", "12", "5", "7", "99", "40"]
SHOP = ["40", "1", "ü", "7"]


@pytest.fixture
def parties(threads, tmp_path):
    """Parties that have never met."""
    return type(threads)(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _quick_keys():
    """Primes take seconds: keys of a length are drawn from a few that are made once, in turn."""
    made, generate = {}, RsaSecretKey.generate
    patch = pytest.MonkeyPatch()

    def quick(bits=3072):
        keys = made.setdefault(bits, [])
        if len(keys) < 3:
            keys.append(generate(bits))
            return keys[-1]
        keys.append(keys.pop(0))
        return keys[-1]

    patch.setattr(RsaSecretKey, "generate", quick)
    yield
    patch.undo()


def table(members, column="user_id"):
    """As it comes from validate_tables: with the name of its spec."""
    return pa.table({column: pa.array(members, pa.string())}).replace_schema_metadata({"spec": "one"})


def inputs(**ids):
    return {party: {"tables": {PARAMS["tables"][party]: table(members)}} for party, members in ids.items()}


SPEC = FeatureSpec(
    name="one", description="people", key=("user_id",),
    columns={"user_id": Column(type="id", owner=("data_holder",), sensitivity="internal", rule=IdRule())},
)  # fmt: skip


def under(specs, role):
    """The role at a node that has these specs."""

    def function(ctx, params):
        return role(replace(ctx, services=replace(ctx.services, spec=specs.__getitem__)), params)

    return function


def align(parties, ids, params=None, run="run", roles=None, specs=None, functions=None, **more):
    given = inputs(**ids) if isinstance(next(iter(ids.values())), list) else ids
    roles = roles or (STAR if "shop" in given else ROLES)
    honest = {party: component("align_rsa").roles[role] for role, members in roles.items() for party in members}
    functions = {p: under(specs or {"one": SPEC}, f) for p, f in (honest | (functions or {})).items()}
    return parties("align_rsa", roles, given, PARAMS | (params or {}), run=run, functions=functions, **more)


def joined(outcome, party, ids):
    """The party's ids by aligned index."""
    table = outcome.outputs[party]["alignment"]
    assert table.column_names == ["row", "index", "first"]
    assert table["index"].to_pylist() == list(range(table.num_rows))
    found = [sorted(set(ids))[row] for row in table["row"].to_pylist()]
    assert found == [ids[first] for first in table["first"].to_pylist()]
    return found


def sent(outcome):
    """Rows of each message, in the order of sending, by party and name."""
    rows = {}
    for party, parcels in outcome.parcels.items():
        for parcel in parcels:
            rows.setdefault((party, parcel.header.name), []).append(parcel.header.rows)
    return rows


def kept(parties, party, names="*"):
    """What a party keeps sealed for the other, by file name."""
    return sorted(path for path in parties.folder.glob(f"{party}/.peers/*/{names}") if path.is_file())


def signatures(outcome, party="bureau"):
    """Signatures given out in this attempt and, by the metric, in all attempts of the run."""
    return sum(sent(outcome).get((party, "signed"), [])), outcome.metrics[party].get("signatures")


def test_both_end_with_the_same_people_in_the_same_order(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU})
    assert outcome.errors == {}
    assert joined(outcome, "bank", BANK) == joined(outcome, "bureau", BUREAU)
    assert set(joined(outcome, "bank", BANK)) == {"7", "12", "40", "ü"}


def test_three_parties_end_with_who_is_common_to_all(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU, "shop": SHOP})
    assert outcome.errors == {}
    people = joined(outcome, "bank", BANK)
    assert set(people) == {"7", "40", "ü"}
    assert people == joined(outcome, "bureau", BUREAU) == joined(outcome, "shop", SHOP)


def test_a_party_that_reveal_to_does_not_name_learns_no_one(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU, "shop": SHOP}, {"reveal_to": ["bank", "shop"]})
    assert outcome.errors == {}
    assert set(outcome.outputs["bureau"]) == {"report"}
    assert outcome.outputs["bureau"]["report"]["aligned"] is None
    assert joined(outcome, "bank", BANK) == joined(outcome, "shop", SHOP)
    assert [p.header.rows for p in outcome.parcels["bank"] if p.header.name == "matched"] == [1, 1]


def test_a_receiver_tells_a_party_that_may_not_learn_it(parties, monkeypatch):
    told = alignment_matches.send_matched
    monkeypatch.setattr(align_rsa, "send_matched", lambda ctx, peer, _, n: told(ctx, peer, np.arange(1), n))
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, {"reveal_to": ["bank"]})
    assert "matches told by bank" in str(outcome.errors["bureau"])


def test_it_is_a_plain_join(parties):
    rng = np.random.default_rng(4)
    for night in range(6):  # sizes around a batch, none in common among them
        ids = {party: [f"{i}" for i in rng.integers(0, 40 + 30 * night, size)]
               for party, size in (("bank", rng.integers(1, 70)), ("bureau", rng.integers(1, 70)))}  # fmt: skip
        ids["bank"].append("same")
        ids["bureau"].append("same")
        outcome = align(parties, ids, run=f"night-{night}", params={"key_period": f"n{night}"})
        assert outcome.errors == {}
        assert joined(outcome, "bank", ids["bank"]) == joined(outcome, "bureau", ids["bureau"])
        assert set(joined(outcome, "bank", ids["bank"])) == set(ids["bank"]) & set(ids["bureau"])


def test_an_alignment_repeats_with_the_seed(parties):
    first, again = (align(parties, {"bank": BANK, "bureau": BUREAU}, attempt=a) for a in (1, 2))
    assert first.outputs == again.outputs


def test_messages_are_padded_and_signatures_are_counted(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU})
    assert sent(outcome) == {
        ("bank", "size"): [1], ("bank", "new"): [1], ("bank", "blinded"): [32], ("bank", "matched"): [1],
        ("bureau", "size"): [1], ("bureau", "key"): [9], ("bureau", "new"): [1], ("bureau", "signed"): [32],
        ("bureau", "working"): [1], ("bureau", "tags"): [32],
    }  # fmt: skip
    assert outcome.metrics["bureau"] == {"signatures": 32, "ids": 6, "aligned": 4}


def test_the_report_counts_and_names_no_one(parties):
    given = inputs(bank=BANK, bureau=BUREAU)
    given["bank"]["report"] = {"ratings": {"read": 11, "dropped": {"user_id.null": 2, "user_id.form": 1, "x.null": 9}}}
    report = align(parties, given).outputs["bank"]["report"]
    assert report == {
        "table": "ratings", "read": 11, "null": 2, "invalid": {"form": 1}, "dropped_duplicates": 0,
        "rows": 8, "distinct": 6, "duplicate": 2,
        "padded": 32, "buckets": 1, "aligned": 4, "rows_joined": 5,
    }  # fmt: skip


def test_too_few_in_common_stops_before_a_sender_learns_who(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, {"min_overlap": 5})
    error = outcome.errors["bank"]
    assert isinstance(error, DataError)
    assert "4" not in str(error)
    assert "matched" not in [p.header.name for p in outcome.parcels["bank"]]


def test_repeated_ids_are_refused_unless_they_may_repeat(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, {"on_duplicates": "refuse"})
    assert "more than one row" in str(outcome.errors["bank"])


def test_a_null_among_the_ids_is_refused(parties):
    outcome = align(parties, {"bank": [*BANK, None], "bureau": BUREAU})
    assert "null" in str(outcome.errors["bank"])


def test_matches_outside_the_sender_s_tags_are_refused():
    order = np.array([2, 0, 3, 1])  # 3 is padding: the sender has three ids
    assert alignment_matches.rows_at(np.array([1, 3]), order, 3).tolist() == [0, 1]
    for positions in ([4], [-1], [1, 1], [2]):
        with pytest.raises(CryptoError):
            alignment_matches.rows_at(np.array(positions), order, 3)


# Nights


def people(first, last):
    return [f"C{i:05d}" for i in range(first, last)]


def test_a_second_night_sends_one_batch_of_what_is_new(parties):
    bank, bureau = people(0, 200), people(100, 300)
    first = align(parties, {"bank": bank, "bureau": bureau}, run="night-1")
    assert signatures(first) == (224, 224)  # 200 up to a multiple of 32
    bank, bureau = [*bank, "C00299", "C00298"], [*bureau, "C00007"]
    second = align(parties, {"bank": bank, "bureau": bureau}, run="night-2")
    assert signatures(second) == (32, 32)
    assert sent(second)["bureau", "working"] == [1]
    assert joined(second, "bank", bank) == joined(second, "bureau", bureau)
    assert set(joined(second, "bank", bank)) == set(bank) & set(bureau)


def test_a_night_without_new_ids_looks_like_one_with_a_few(parties):
    shapes = []
    for run, new in (("night-1", 0), ("night-2", 0), ("night-3", 5)):
        outcome = align(parties, {"bank": people(0, 50 + new), "bureau": people(20, 90)}, run=run)
        shapes.append({name: rows for name, rows in sent(outcome).items() if name[1] != "matched"})
        assert outcome.errors == {}
    assert shapes[0] != shapes[1] == shapes[2]


def test_ids_that_went_away_are_forgotten_by_both(parties, monkeypatch):
    monkeypatch.setattr("components.signature_cache.UNSEEN", 1)
    everyone = {"bank": people(0, 60), "bureau": people(20, 90)}
    align(parties, everyone, run="night-1")
    align(parties, {"bank": people(0, 30), "bureau": people(20, 50)}, run="night-2")
    third = align(parties, everyone, run="night-3")
    assert signatures(third)[0] == 32  # 30 again
    assert len(sent(third)["bureau", "working"]) == 2  # 40 again
    assert set(joined(third, "bank", everyone["bank"])) == set(people(20, 60))


def test_a_new_key_period_makes_a_new_key_and_signs_all_again(parties):
    ids, keys = {"bank": people(0, 60), "bureau": people(20, 90)}, []
    for run, period in (("night-1", ""), ("night-2", ""), ("night-3", "2027"), ("night-4", "2027")):
        outcome = align(parties, ids, {"key_period": period}, run=run)
        assert outcome.errors == {}
        keys.append(bytes(next(p.body for p in outcome.parcels["bureau"] if p.header.name == "key")))
        assert signatures(outcome)[0] == {"night-1": 64, "night-2": 32, "night-3": 64, "night-4": 32}[run]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert len(kept(parties, "bank", "receiver.*.[0-9]")) == 1  # of the period that holds


@pytest.mark.parametrize("other", [{}, {"key_bits": 3072}, {"table": "renamed"}, {"id_column": "other"}])
def test_a_new_key_period_leaves_nothing_of_the_one_before_whatever_else_changes(parties, other):
    """Erasing a person asks for it: a key or a cache under another name would go on testing for that person."""
    ids = {"bank": people(0, 60), "bureau": people(20, 90)}
    for run, bits in (("night-1", 2048), ("night-2", 3072)):
        assert align(parties, ids, {"key_bits": bits, "key_period": "one"}, run=run).errors == {}
    before = {path: path.read_bytes() for party in ids for path in kept(parties, party)}
    names = [path.name for path in before]
    assert {"key.2048", "key.3072"} < set(names)
    assert len([name for name in names if name.endswith(".head")]) == 4

    name, column = other.get("table", "people"), other.get("id_column", "user_id")
    spec = SPEC.model_copy(update={"key": (column,), "columns": {column: SPEC.columns["user_id"]}})
    given = {p: {"tables": {name: table(members, column)}} for p, members in ids.items()}
    params = {"tables": dict.fromkeys(ids, name), "id_column": column, "key_period": "two",
              "key_bits": other.get("key_bits", 2048)}  # fmt: skip
    assert align(parties, given, params, run="night-3", specs={"one": spec}).errors == {}
    for party in ids:
        after = kept(parties, party)
        assert len([path for path in after if path.name.endswith(".head")]) == 1
        assert not [path for path in after if before.get(path) == path.read_bytes()]
    assert [path.name for path in kept(parties, "bureau", "key.*")] == [f"key.{params['key_bits']}"]


def test_a_crash_while_a_period_ends_leaves_nothing_for_good(parties, monkeypatch):
    ids = {"bank": people(0, 60), "bureau": people(20, 90)}
    assert align(parties, ids, {"key_period": "one", "key_bits": 3072}, run="night-1").errors == {}
    with monkeypatch.context() as patch:

        def half(folder):
            (folder / "period").unlink()
            raise CryptoError("the machine went away")

        patch.setattr("runtime.keys.shutil.rmtree", half)
        assert align(parties, ids, {"key_period": "two"}, run="night-2").errors
    assert kept(parties, "bureau", "key.3072")
    assert align(parties, ids, {"key_period": "two"}, run="night-2", attempt=2).errors == {}
    assert not kept(parties, "bureau", "key.3072")


def test_two_pipelines_with_other_rows_of_one_table_keep_each_other_s_signatures(parties):
    """They align in turn, night by night: all is signed in the first two runs."""
    rows = ({"bank": people(0, 200), "bureau": people(0, 100)}, {"bank": people(150, 260), "bureau": people(200, 250)})
    given = []
    for night in range(6):
        ids = rows[night % 2]
        outcome = align(parties, ids, run=f"night-{night}")
        assert set(joined(outcome, "bank", ids["bank"])) == set(ids["bank"]) & set(ids["bureau"])
        given.append((signatures(outcome)[0], len(sent(outcome)["bureau", "working"])))
    assert given == [(224, 4), (64, 2), *[(32, 1)] * 4]


def test_an_id_drops_out_after_runs_that_do_not_see_it(parties, monkeypatch):
    monkeypatch.setattr("components.signature_cache.UNSEEN", 3)
    monkeypatch.setattr("components.signature_cache.SEGMENT", 16)
    bank, records = people(0, 60), []
    for night in range(5):
        align(parties, {"bank": bank if night == 0 else people(30, 60), "bureau": people(20, 90)}, run=f"night-{night}")
        files = kept(parties, "bank", "receiver.*.[0-9]*.[0-9]*")
        sizes = [path.stat().st_size - 28 for path in files]
        records.append(sum(sizes) // signature_cache.RECORD)
    assert records == [60, 60, 60, 30, 30]
    assert signatures(align(parties, {"bank": bank, "bureau": people(20, 90)}, run="night-5"))[0] == 32  # 30 again


@pytest.mark.parametrize(("dies", "in_all"), [("ask", 160), ("hear", 192)])
def test_a_killed_run_goes_on_with_the_batches_that_were_signed(parties, monkeypatch, dies, in_all):
    """A batch on its way when the receiver dies counts twice: nobody but the receiver knows that it was lost."""
    ids = {"bank": people(0, 150), "bureau": people(100, 260)}
    with monkeypatch.context() as patch:
        honest = getattr(align_rsa.Asking, dies)

        def fourth_dies(self, b):
            if dies == "hear" and b == 3:
                self._ctx.recv("signed", "bureau")
            if b == 3:
                raise CryptoError("the machine went away")
            honest(self, b)

        patch.setattr(align_rsa.Asking, dies, fourth_dies)
        assert "the machine went away" in str(align(parties, ids, {"max_signatures": in_all}).errors["bank"])
    again = align(parties, ids, {"max_signatures": in_all}, attempt=2)
    assert again.errors == {}
    assert len(sent(again)["bank", "blinded"]) == 2  # of five batches three are kept
    assert len(sent(again)["bureau", "working"]) <= 2
    assert signatures(again) == (64, in_all)
    assert set(joined(again, "bank", ids["bank"])) == set(people(100, 150))
    refused = align(parties, ids, {"max_signatures": in_all}, run="night-2").errors["bureau"]
    assert "no further blind signatures" in str(refused)


def test_a_run_that_dies_at_its_end_signs_nothing_more(parties, monkeypatch):
    ids = {"bank": people(0, 64), "bureau": people(40, 90)}
    with monkeypatch.context() as patch:
        patch.setattr(align_rsa.Asking, "matches", dies_after(0, align_rsa.Asking.matches))
        assert "bank" in align(parties, ids, {"max_signatures": 64}).errors
    again = align(parties, ids, {"max_signatures": 64}, attempt=2)
    assert again.errors == {}
    assert ("bank", "blinded") not in sent(again)
    assert again.metrics["bureau"]["signatures"] == 64


def test_padding_stays_over_attempts(parties):
    """Padding drawn anew would differ between two attempts of a run, where the tags of people stay."""
    both = [align(parties, {"bank": BANK, "bureau": BUREAU}, attempt=a) for a in (1, 2)]
    bodies = [[p.body for p in outcome.parcels["bureau"] if p.header.name == "tags"] for outcome in both]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("which", [".head", ".1.0"])
@pytest.mark.parametrize("spoil", ["changed", "foreign", "cut"])
def test_a_cache_that_this_node_did_not_seal_is_refused(parties, which, spoil):
    ids = {"bank": people(0, 60), "bureau": people(20, 90)}
    align(parties, ids, run="night-1")
    (file,), (other,) = (kept(parties, party, f"*{which}") for party in ("bank", "bureau"))
    data = file.read_bytes()
    file.write_bytes(
        {"changed": data[:-1] + bytes([data[-1] ^ 1]), "foreign": other.read_bytes(), "cut": data[:20]}[spoil]
    )
    error = align(parties, ids, run="night-2").errors["bank"]
    assert isinstance(error, CryptoError)
    assert "peer/bureau/receiver." in str(error)
    assert "C000" not in str(error)
    file.unlink()
    assert align(parties, ids, run="night-3").errors == {}  # the remedy: what is missing is signed again


def test_a_sender_that_lost_its_key_signs_all_again(parties):
    ids = {"bank": people(0, 60), "bureau": people(20, 90)}
    align(parties, ids, run="night-1")
    (file,) = kept(parties, "bureau", "key.2048")
    file.unlink()
    outcome = align(parties, ids, run="night-2")
    assert outcome.errors == {}
    assert signatures(outcome)[0] == 64
    assert set(joined(outcome, "bank", ids["bank"])) == set(people(20, 60))


def test_two_tables_of_one_pair_do_not_forget_each_other_s_ids(parties):
    for run in ("night-1", "night-2"):
        for name in ("customers", "leads"):
            given = inputs(bureau=people(0, 60))
            members = {"customers": people(0, 40), "leads": people(30, 90)}[name]
            given["bank"] = {"tables": {name: table(members)}}
            outcome = align(parties, given, {"tables": {"bank": name, "bureau": "people"}}, run=f"{run}-{name}")
            assert outcome.errors == {}
            assert signatures(outcome)[0] == (64 if run == "night-1" else 32)


# Quota and what a party may send


def test_no_signature_leaves_beyond_the_limit_whatever_the_key_s_length(parties):
    """One purse for each receiver: else every length of key would be a quota of its own."""
    limited = {"max_signatures": 40}
    ids = {"bank": BANK, "bureau": BUREAU}
    assert align(parties, ids, limited, run="night-1").errors == {}
    outcome = align(parties, ids, limited | {"key_bits": 3072}, run="night-2")
    assert "no further blind signatures" in str(outcome.errors["bureau"])
    assert ("bureau", "signed") not in sent(outcome)
    assert align(parties, ids, limited | {"key_period": "2027"}, run="night-3").errors == {}


def test_more_signatures_than_a_tenth_of_the_possible_ids_are_refused(parties, specs):
    schema = {b"spec": b"user"}
    given = inputs(bank=BANK, bureau=BUREAU)
    for at in given.values():
        at["tables"] = {name: table.replace_schema_metadata(schema) for name, table in at["tables"].items()}
    width = specs["user"].columns["user_id"].rule.width
    for limit, refused in ((10**width // 10, False), (10**width // 10 + 1, True)):
        outcome = align(parties, given, {"max_signatures": limit}, run=f"run-{limit}", specs=specs)
        assert ("bureau" in outcome.errors) is refused
    assert "all possible ids" in str(outcome.errors["bureau"])


def test_a_sender_whose_table_does_not_say_how_ids_are_written_signs_nothing(parties):
    """Nobody could say of how many possible ids it would test how many."""
    given = inputs(bank=BANK, bureau=BUREAU)
    for at in given.values():
        at["tables"] = {name: one.replace_schema_metadata(None) for name, one in at["tables"].items()}
    outcome = align(parties, given)
    assert isinstance(outcome.errors["bureau"], ConsentError)
    assert "does not say how its ids are written" in str(outcome.errors["bureau"])
    assert ("bureau", "key") not in sent(outcome)


def test_what_a_run_counted_goes_with_the_run(parties, monkeypatch):
    """An abandoned run ends without an end of its steps: the node removes the run's folder alone."""
    with monkeypatch.context() as patch:
        patch.setattr(align_rsa.Asking, "matches", dies_after(0, align_rsa.Asking.matches))
        assert "bank" in align(parties, {"bank": BANK, "bureau": BUREAU}, run="abandoned").errors
    (counted,) = parties.folder.rglob("*signing.*")
    assert counted.parent == run_secrets(parties.folder / "bureau", "abandoned")


def test_names_as_long_and_as_odd_as_they_may_be(parties):
    column, name = "Kunden-Nr. (alt) / Σ" + "x" * 200, "t" * 64
    roles = {"receiver": ("b" * 64,), "sender": ("s" * 64,)}
    ids = {"b" * 64: people(0, 10), "s" * 64: people(5, 15)}
    spec = SPEC.model_copy(update={"columns": {column: SPEC.columns["user_id"]}})
    given = {p: {"tables": {name: table(members, column)}} for p, members in ids.items()}
    params = {"tables": dict.fromkeys(ids, name), "id_column": column, "key_period": "p" * 32}
    outcome = align(parties, given, params, run="R" * 89, step="s" * 64, roles=roles, specs={"one": spec})
    assert outcome.errors == {}


@pytest.mark.parametrize("call", ["write", "replace", "fsync"])
@pytest.mark.parametrize("place", ["key.2048", "receiver.", "period", "signing."])
def test_a_full_disk_is_named_and_a_further_attempt_loses_nothing(parties, monkeypatch, call, place):
    ids = {"bank": people(0, 100), "bureau": people(50, 130)}
    honest = {name: getattr(os, name) for name in ("write", "replace", "fsync")}

    def of(file):
        return os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else str(file)

    def full(file, *rest):
        if place in of(file):
            raise OSError(errno.ENOSPC, "x")
        return honest[call](file, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        errors = align(parties, ids).errors
    error = errors["bank" if place == "receiver." else "bureau"]
    if isinstance(error, Cancelled):  # both ends note the period
        error = errors["bank"]
    assert isinstance(error, EnvironmentMissing)
    assert error.found == "No space left on device"
    assert place in error.where
    again = align(parties, ids, attempt=2)
    assert again.errors == {}
    assert set(joined(again, "bank", ids["bank"])) == set(people(50, 100))
    assert not list(parties.folder.rglob(".drafts/*"))


@pytest.mark.parametrize(
    ("party", "method", "wrong", "says"),
    [
        ("bureau", "to_column", lambda tags: tags.take(pa.array([1, 0, *range(2, 32)])), "tags repeat"),
        ("bureau", "to_column", lambda tags: tags.take(pa.array([0, 0, *range(2, 32)])), "tags repeat"),
        ("bureau", "to_column", lambda tags: tags.slice(1), "tags repeat"),
        ("bank", "_number", lambda table: pa.table({"batches": pa.array([99], pa.int32())}), "more new ids"),
        ("bank", "_table", lambda table: table.slice(1), "a batch of another size"),
        ("bank", "_table", lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]), "numbers to sign"),
        ("bureau", "_table", lambda table: table.slice(1), "RSA"),
        ("bureau", "_table", lambda table: table.slice(len(table)), "RSA"),
        ("bank", "_table", lambda table: table.slice(len(table)), "a batch of another size"),
        ("bank", "_number", lambda table: table.slice(1), "a number of another form"),
        ("bureau", "_number", lambda table: table.slice(1), "a number of another form"),
        ("bank", "_number", lambda table: pa.concat_tables([table, table]), "a number of another form"),
        ("bureau", "to_column", lambda tags: tags.slice(len(tags)), "tags repeat"),
    ],
)
def test_a_peer_that_deviates_is_refused(parties, monkeypatch, party, method, wrong, says):
    module = rsa_batches if hasattr(rsa_batches, method) else sorted_tags
    honest, here = getattr(module, method), component("align_rsa").roles
    role = here["receiver" if party == "bank" else "sender"]
    deviating = set()

    def deviates(ctx, params):
        deviating.add(threading.get_ident())
        return role(ctx, params)

    monkeypatch.setattr(
        module, method,
        lambda *args: wrong(honest(*args)) if threading.get_ident() in deviating else honest(*args),
    )  # fmt: skip
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, functions={party: deviates})
    other = {"bank": "bureau", "bureau": "bank"}[party]
    assert isinstance(outcome.errors[other], AccordError)
    assert says in str(outcome.errors[other])


# The cardinality pass


def test_a_cardinality_pass_comes_first_and_changes_nothing(parties):
    ids = {"bank": BANK, "bureau": BUREAU}
    plain = align(parties, ids)
    counted = align(parties, ids, {"cardinality_pass": True, "key_period": "counted"})
    assert counted.errors == {}
    assert counted.outputs == plain.outputs
    names = [p.header.name for p in counted.parcels["bank"]]
    assert names.index("passed") < names.index("blinded")


def test_below_min_overlap_a_cardinality_pass_asks_for_no_signature(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, {"cardinality_pass": True, "min_overlap": 5})
    assert isinstance(outcome.errors["bank"], DataError)
    assert {p.header.name for p in outcome.parcels["bureau"]} == {"size", "masked", "answer"}


def test_cardinality_only_ends_with_the_number(parties, monkeypatch):
    monkeypatch.setattr("components.cardinality_pass.FEWEST", 1)
    ids = {"bank": people(0, 40), "bureau": people(36, 70)}
    outcome = align(parties, ids, {"cardinality_only": True})
    assert outcome.errors == {}
    assert {party: set(outputs) for party, outputs in outcome.outputs.items()} == {
        "bank": {"report"},
        "bureau": {"report"},
    }
    assert outcome.outputs["bank"]["report"]["aligned"] == 4
    assert outcome.outputs["bureau"]["report"]["aligned"] is None
    assert {p.header.name for p in outcome.parcels["bureau"]} == {"size", "masked", "answer"}
    star = align(parties, {"bank": BANK, "bureau": BUREAU, "shop": SHOP}, {"cardinality_only": True}, run="star")
    assert "one sender alone" in str(star.errors["bank"])


def test_many_slices_and_segments_are_one_set(parties, monkeypatch):
    monkeypatch.setattr("components.sorted_tags.SLICE", 7)
    monkeypatch.setattr("components.signature_cache.SEGMENT", 10)
    for run, last in (("night-1", 60), ("night-2", 72)):
        ids = {"bank": people(0, last), "bureau": people(20, 90)}
        outcome = align(parties, ids, run=run)
        assert outcome.errors == {}
        assert joined(outcome, "bank", ids["bank"]) == joined(outcome, "bureau", ids["bureau"])
        assert set(joined(outcome, "bank", ids["bank"])) == set(people(20, last))
    assert len(kept(parties, "bank", "receiver.*.2.[0-9]*")) == 8


def dies_after(count, method):
    """A method that raises from its call `count` on."""
    calls = []

    def call(*args):
        calls.append(args)
        if len(calls) > count:
            raise CryptoError("the machine went away")
        return method(*args)

    return call


def test_the_largest_batch_fits_into_a_message_under_the_longest_key():
    """Known before anything runs: the bound is in the catalogue, so `accord check` refuses a larger one."""
    schema = catalogue()["align_rsa"]["params"]["properties"]
    bound, width = schema["pad_to"]["maximum"], max(schema["key_bits"]["enum"]) // 8
    batch = pa.table({"number": pa.array([bytes(width)] * bound, pa.binary(width))})
    for message in (each for each in align_rsa.MESSAGES if each.name in ("blinded", "signed")):
        assert len(encode(batch, message)) > bound * width
    with pytest.raises(ValidationError, match="pad_to"):
        rsa_batches.AlignRsaParams(tables={}, id_column="id", pad_to=bound + 1)
