"""Alignment by blind signatures: the same people everywhere, increments, and what is counted."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from base.errors import AccordError, CryptoError, DataError
from components import align_rsa, alignment, rsa_batches
from components.registry import component
from crypto.rsa import RsaSecretKey

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


def inputs(**ids):
    return {
        party: {"tables": {PARAMS["tables"][party]: pa.table({"user_id": pa.array(members, pa.string())})}}
        for party, members in ids.items()
    }


def align(parties, ids, params=None, run="run", roles=None, **more):
    given = inputs(**ids) if isinstance(next(iter(ids.values())), list) else ids
    roles = roles or (STAR if "shop" in given else ROLES)
    return parties("align_rsa", roles, given, PARAMS | (params or {}), run=run, **more)


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
    assert [p.header.rows for p in outcome.parcels["bank"] if p.header.name == "matched"] == [0, 1]


def test_a_receiver_tells_a_party_that_may_not_learn_it(parties, monkeypatch):
    monkeypatch.setattr(align_rsa, "send_matched", lambda ctx, peer, _: alignment.send_matched(ctx, peer, np.arange(1)))
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
    assert align_rsa._rows(np.array([1, 3]), order, 3).tolist() == [0, 1]
    for positions in ([4], [-1], [1, 1], [2]):
        with pytest.raises(CryptoError):
            align_rsa._rows(np.array(positions), order, 3)


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


def test_ids_that_went_away_are_forgotten_by_both(parties):
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
    kept = [file.name for file in (parties.folder / "bank" / ".sealed").iterdir()]
    assert len([name for name in kept if not name.endswith(".head")]) == 1  # of the period that holds


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
    (file,) = (parties.folder / "bank" / ".sealed").glob(f"rsa.*{which}")
    (other,) = (parties.folder / "bureau" / ".sealed").glob(f"rsa.*{which}")
    data = file.read_bytes()
    file.write_bytes(
        {"changed": data[:-1] + bytes([data[-1] ^ 1]), "foreign": other.read_bytes(), "cut": data[:20]}[spoil]
    )
    error = align(parties, ids, run="night-2").errors["bank"]
    assert isinstance(error, CryptoError)
    assert "rsa.receiver.bureau" in str(error)
    assert "C000" not in str(error)
    file.unlink()
    assert align(parties, ids, run="night-3").errors == {}  # the remedy: what is missing is signed again


def test_a_sender_that_lost_its_key_signs_all_again(parties):
    ids = {"bank": people(0, 60), "bureau": people(20, 90)}
    align(parties, ids, run="night-1")
    (parties.folder / "bureau" / ".sealed" / "rsa.bank.2048").unlink()
    outcome = align(parties, ids, run="night-2")
    assert outcome.errors == {}
    assert signatures(outcome)[0] == 64
    assert set(joined(outcome, "bank", ids["bank"])) == set(people(20, 60))


def test_two_tables_of_one_pair_do_not_forget_each_other_s_ids(parties):
    for run in ("night-1", "night-2"):
        for table in ("customers", "leads"):
            params = PARAMS | {"tables": {"bank": table, "bureau": "people"}}
            given = inputs(bureau=people(0, 60))
            members = {"customers": people(0, 40), "leads": people(30, 90)}[table]
            given["bank"] = {"tables": {table: pa.table({"user_id": members})}}
            outcome = parties("align_rsa", ROLES, given, params, run=f"{run}-{table}")
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
        roles = component("align_rsa").roles
        functions = {"bank": with_specs(specs, roles["receiver"]), "bureau": with_specs(specs, roles["sender"])}
        outcome = align(parties, given, {"max_signatures": limit}, run=f"run-{limit}", functions=functions)
        assert ("bureau" in outcome.errors) is refused
    assert "all possible ids" in str(outcome.errors["bureau"])


@pytest.mark.parametrize(
    ("party", "method", "wrong", "says"),
    [
        ("bureau", "_column", lambda tags: tags.take(pa.array([1, 0, *range(2, 32)])), "tags repeat"),
        ("bureau", "_column", lambda tags: tags.take(pa.array([0, 0, *range(2, 32)])), "tags repeat"),
        ("bureau", "_column", lambda tags: tags.slice(1), "tags repeat"),
        ("bank", "_number", lambda table: pa.table({"batches": pa.array([99], pa.int32())}), "more new ids"),
        ("bank", "_table", lambda table: table.slice(1), "a batch of another size"),
        ("bank", "_table", lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]), "numbers to sign"),
        ("bureau", "_table", lambda table: table.slice(1), "RSA"),
    ],
)
def test_a_peer_that_deviates_is_refused(parties, monkeypatch, party, method, wrong, says):
    honest, here = getattr(rsa_batches, method), component("align_rsa").roles
    role = here["receiver" if party == "bank" else "sender"]
    deviating = set()

    def deviates(ctx, params):
        deviating.add(threading.get_ident())
        return role(ctx, params)

    monkeypatch.setattr(
        rsa_batches, method,
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


def test_cardinality_only_ends_with_the_number(parties):
    outcome = align(parties, {"bank": BANK, "bureau": BUREAU}, {"cardinality_only": True})
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
    monkeypatch.setattr("components.rsa_batches.SLICE", 7)
    monkeypatch.setattr("components.signature_cache.SEGMENT", 10)
    for run, last in (("night-1", 60), ("night-2", 72)):
        ids = {"bank": people(0, last), "bureau": people(20, 90)}
        outcome = align(parties, ids, run=run)
        assert outcome.errors == {}
        assert joined(outcome, "bank", ids["bank"]) == joined(outcome, "bureau", ids["bureau"])
        assert set(joined(outcome, "bank", ids["bank"])) == set(people(20, last))
    assert len(list((parties.folder / "bank" / ".sealed").glob("rsa.receiver.*.2.[0-9]*"))) == 8


def dies_after(count, method):
    """A method that raises from its call `count` on."""
    calls = []

    def call(*args):
        calls.append(args)
        if len(calls) > count:
            raise CryptoError("the machine went away")
        return method(*args)

    return call


def with_specs(specs, role):
    def function(ctx, params):
        object.__setattr__(ctx, "services", ctx.services.__class__(**{**vars(ctx.services), "spec": specs.__getitem__}))
        return role(ctx, params)

    return function
