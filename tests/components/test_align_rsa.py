import numpy as np
import pyarrow as pa

from base.errors import ConsentError, CryptoError, DataError

ROLES = {"receiver": ("bank",), "sender": ("bureau",)}
PARAMS = {
    "tables": {"bank": "ratings", "bureau": "people"}, "id_column": "user_id", "key_bits": 2048, "batch": 32,
    "min_overlap": 1,
}  # fmt: skip


def inputs(bank, bureau):
    return {
        "bank": {"tables": {"ratings": pa.table({"user_id": bank})}},
        "bureau": {"tables": {"people": pa.table({"user_id": bureau})}},
    }


def joined(outcome, party, ids):
    """The party's ids by aligned index."""
    table = outcome.outputs[party]["alignment"]
    assert table.column_names == ["row", "index"]
    assert table["index"].to_pylist() == list(range(table.num_rows))
    return [sorted(set(ids))[row] for row in table["row"].to_pylist()]


BANK = ["7", "3", "3", "12", "40", "7", "05", "ü"]
BUREAU = ["ü", "12", "5", "7", "99", "40"]


def test_both_end_with_the_same_people_in_the_same_order(threads):
    outcome = threads("align_rsa", ROLES, inputs(BANK, BUREAU), PARAMS)
    assert outcome.errors == {}
    assert joined(outcome, "bank", BANK) == joined(outcome, "bureau", BUREAU)
    assert set(joined(outcome, "bank", BANK)) == {"7", "12", "40", "ü"}


def test_an_alignment_repeats_with_the_seed_and_the_key_stays(threads):
    first, again = (threads("align_rsa", ROLES, inputs(BANK, BUREAU), PARAMS, attempt=a) for a in (1, 2))
    assert first.outputs == again.outputs
    assert (threads.folder / "bureau" / "rsa.bank.2048").exists()


def test_messages_are_padded_to_the_batch_and_signatures_are_counted(threads):
    outcome = threads("align_rsa", ROLES, inputs(BANK, BUREAU), PARAMS)
    rows = {parcel.header.name: parcel.header.rows for parcels in outcome.parcels.values() for parcel in parcels}
    assert rows == {"key": 9, "tags": 32, "blinded": 32, "signed": 32, "matched": 1}
    assert outcome.metrics["bureau"] == {"signatures": 32, "ids": 6, "aligned": 4}


def test_too_few_in_common_stops_before_the_sender_learns_who(threads):
    outcome = threads("align_rsa", ROLES, inputs(BANK, BUREAU), PARAMS | {"min_overlap": 5})
    error = outcome.errors["bank"]
    assert isinstance(error, DataError)
    assert "4" not in str(error)
    assert [p.header.name for p in outcome.parcels["bank"]] == ["blinded"]


def test_a_null_among_the_ids_is_refused(threads):
    outcome = threads("align_rsa", ROLES, inputs([*BANK, None], BUREAU), PARAMS)
    assert "null" in str(outcome.errors["bank"])


def test_matches_outside_the_sender_s_tags_are_refused(threads):
    from components import align_rsa

    order = np.array([2, 0, 3, 1])  # 3 is padding: the sender has three ids
    assert align_rsa._rows(np.array([1, 3]), order, 3).tolist() == [0, 1]
    for positions in ([4], [-1], [1, 1], [2]):
        try:
            align_rsa._rows(np.array(positions), order, 3)
        except CryptoError:
            continue
        raise AssertionError(positions)


def test_another_length_of_key_gives_no_further_signatures(threads, tmp_path):
    """One purse for each receiver: else every length of key would be a quota of its own."""
    parties = type(threads)(tmp_path)
    limited = PARAMS | {"max_signatures": 40}
    assert parties("align_rsa", ROLES, inputs(BANK, BUREAU), limited, run="night-1").errors == {}
    outcome = parties("align_rsa", ROLES, inputs(BANK, BUREAU), limited | {"key_bits": 3072}, run="night-2")
    assert isinstance(outcome.errors["bureau"], ConsentError)
    assert "signed" not in [parcel.header.name for parcel in outcome.parcels["bureau"]]
