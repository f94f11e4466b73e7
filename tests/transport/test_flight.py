import subprocess
import sys
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from base.errors import AccordError, ConsentError, MessageRefused, PeerDown, PeerForeign, WireVersionMismatch
from transport.flight import SLICE
from transport.tls import connect, explained, read_error
from transport.token import HEADER, issue
from transport.wire import SLICE_BYTES


def test_a_table_crosses_in_slices_and_is_receipted(net, kit):
    table = kit.blocks(*(i.to_bytes(4, "big") * 128 for i in range(18000)))  # 9.2 MB
    recorder = kit.Recorder(net.carrier("north"))
    net.channel("north", recorder).send("part", table)
    assert net.channel("bureau").recv("part", from_="north").equals(table, check_metadata=True)
    assert recorder.parcels[0].marker.slices == 3
    (sent,), (received,) = net.nodes["north"].entries(), net.nodes["bureau"].entries()
    assert sent.statement == received.statement
    assert (sent.claim.index, sent.claim.hash) == (received.index, received.hash)
    assert (received.claim.index, received.claim.hash) == (sent.index, sent.hash)


def test_three_parties_talk_over_mutual_tls(net, kit):
    for party in ("north", "south"):
        net.channel(party).send("part", kit.blocks(party.encode()[:5]))
    bureau = net.channel("bureau")
    assert [bureau.recv("part", p)["c"].to_pylist() for p in ("north", "south")] == [[b"north"], [b"south"]]
    bureau.send("total", kit.numbers(3))
    assert [net.channel(p).recv("total")["x"].to_pylist() for p in ("north", "south")] == [[3], [3]]


def test_a_waiting_reader_wakes_when_the_message_comes(net, kit):
    found = []
    reader = threading.Thread(target=lambda: found.append(net.channel("bureau").recv("part", from_="south")))
    reader.start()
    net.channel("south").send("part", kit.blocks(b"ab"))
    reader.join(5)
    assert found[0].num_rows == 1


class Put:
    """A put by hand, as a deviating peer could make it."""

    def __init__(self, net, sender="north", receiver="bureau"):
        self.net, self.sender, self.receiver = net, sender, receiver
        self.signer = net.nodes[sender].signer
        self.address, self.identity = net.peers[receiver], net.identities[sender]

    def token(self, **more):
        fields = {"audience": self.receiver, "method": "put", "run": "run-1", "step": "train", "attempt": 1, **more}
        return issue(self.signer, **fields)

    def __call__(self, header, parts=(), marker=b"", token=None, schema=SLICE, keep=True):
        headers = [(HEADER.encode(), token or self.token())] if keep else []
        options = flight.FlightCallOptions(timeout=10, headers=headers)
        with connect(self.address, self.identity) as client, explained(self.address, self.identity):
            writer, reader = client.do_put(flight.FlightDescriptor.for_command(header), schema, options)
            with writer:
                for part in parts:
                    is_batch = isinstance(part, pa.RecordBatch)
                    batch = part if is_batch else pa.record_batch([pa.array([part], pa.binary())], schema=SLICE)
                    writer.write_batch(batch)
                if marker:
                    writer.write_metadata(marker)
                writer.done_writing()
                return reader.read()


@pytest.fixture
def put(net):
    return Put(net)


@pytest.fixture
def parcel(net, kit):
    """A good parcel from north to bureau that has not arrived."""

    class Stop(Exception):
        pass

    class Held:
        def put(self, parcel, seconds):
            self.parcel = parcel
            raise Stop

    held = Held()
    with pytest.raises(Stop):
        net.channel("north", held).send("part", kit.blocks(b"abcd", b"efgh"))
    return held.parcel


def nothing_arrived(net, parcel):
    return not net.nodes["bureau"].entries() and net.nodes["bureau"].door.inbox.get(parcel.key, 0) is None


def test_the_hand_made_put_is_accepted_when_nothing_is_wrong(net, put, parcel):
    assert put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes()) is not None
    assert not nothing_arrived(net, parcel)


def test_a_token_is_good_once(net, put, parcel):
    token = put.token()
    put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes(), token)
    with pytest.raises(PeerForeign, match="used before"):
        put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes(), token)


@pytest.mark.parametrize(
    "change",
    [{"method": "open"}, {"run": "run-2"}, {"step": "align"}, {"attempt": 2}, {"audience": "south"}],
    ids=lambda change: next(iter(change)),
)
def test_a_token_for_another_call_is_refused(net, put, parcel, change):
    with pytest.raises(PeerForeign, match="token is for another"):
        put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes(), put.token(**change))
    assert nothing_arrived(net, parcel)


def test_without_a_token_no_put_begins(net, put, parcel):
    for token, keep in ((None, False), (b"nonsense", True), (b"e30=.e30=", True)):
        with pytest.raises((PeerForeign, MessageRefused)):
            put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes(), token, keep=keep)
    assert nothing_arrived(net, parcel)


def test_anothers_token_does_not_fit_my_certificate(net, put, parcel):
    stolen = Put(net, "south").token()
    with pytest.raises(PeerForeign, match="caller's own token"):
        put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes(), stolen)
    assert nothing_arrived(net, parcel)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"sender": "south"}, PeerForeign),
        ({"receiver": "south"}, PeerForeign),
        ({"name": "total"}, MessageRefused),
        ({"name": "secret"}, MessageRefused),
        ({"name": "../../x"}, MessageRefused),
        ({"seq": -1}, MessageRefused),
        ({"schema": "0" * 64}, AccordError),
        ({"protection": "public"}, AccordError),
        ({"size": 11 * 2**20}, MessageRefused),
        ({"wire": 2}, WireVersionMismatch),
        ({"features": "arrow_stream zstd"}, WireVersionMismatch),
    ],
    ids=lambda change: "-".join(change) if isinstance(change, dict) else "",
)
def test_a_header_that_does_not_fit_is_refused_before_the_body(net, put, parcel, change, error):
    with pytest.raises(error):
        put(replace(parcel.header, **change).to_bytes(), [parcel.body], parcel.marker.to_bytes())
    assert nothing_arrived(net, parcel)


def test_another_runs_message_is_refused(net, put, parcel):
    with pytest.raises(ConsentError, match="no step of the run"):
        put(
            replace(parcel.header, run="run-2").to_bytes(),
            [parcel.body],
            parcel.marker.to_bytes(),
            put.token(run="run-2"),
        )


def test_more_bytes_than_announced_are_refused_at_once(net, put, parcel):
    with pytest.raises(MessageRefused, match="does not keep to its header"):
        put(parcel.header.to_bytes(), [parcel.body, b"x"], parcel.marker.to_bytes())
    big = replace(parcel.header, size=9 * 2**20)
    with pytest.raises(MessageRefused, match="does not keep to its header"):
        put(big.to_bytes(), [b"x" * (SLICE_BYTES + 1)], parcel.marker.to_bytes())
    assert nothing_arrived(net, parcel)


@pytest.mark.parametrize(
    "part",
    [
        pa.record_batch([pa.array([b"a", b"b"], pa.binary())], schema=SLICE),
        pa.record_batch([pa.array([], pa.binary())], schema=SLICE),
    ],
    ids=["two", "none"],
)
def test_a_slice_is_one_value(net, put, parcel, part):
    with pytest.raises(MessageRefused, match="not one value"):
        put(parcel.header.to_bytes(), [part], parcel.marker.to_bytes())


def test_another_stream_schema_is_refused(net, put, parcel):
    schema = pa.schema([("slice", pa.large_binary())])
    with pytest.raises(MessageRefused, match="not one of slices"):
        put(parcel.header.to_bytes(), [], parcel.marker.to_bytes(), schema=schema)


def test_a_cut_stream_leaves_nothing(net, put, parcel):
    with pytest.raises(MessageRefused, match="without its end marker"):
        put(parcel.header.to_bytes(), [parcel.body])
    with pytest.raises(MessageRefused, match="did not arrive whole"):
        put(parcel.header.to_bytes(), [parcel.body[:-8]], parcel.marker.to_bytes())
    assert nothing_arrived(net, parcel)


def test_changed_bytes_are_refused(net, put, parcel):
    changed = parcel.body[:-20] + b"X" + parcel.body[-19:]
    with pytest.raises(MessageRefused, match="did not arrive whole"):
        put(parcel.header.to_bytes(), [changed], parcel.marker.to_bytes())
    assert nothing_arrived(net, parcel)


def test_a_marker_with_anothers_signature_is_refused(net, put, parcel):
    forged = replace(parcel.marker, signature="00" * 64)
    with pytest.raises(PeerForeign):
        put(parcel.header.to_bytes(), [parcel.body], forged.to_bytes())
    assert nothing_arrived(net, parcel)


def test_a_repeat_gets_the_same_receipt_and_other_bytes_are_refused(net, kit, parcel):
    carrier = net.carrier("north")
    first, second = carrier.put(parcel, 5), carrier.put(parcel, 5)
    assert first == second
    assert len(net.nodes["bureau"].entries()) == 1
    again = kit.make_node(net.nodes["north"].signer)  # a sender that forgot what it recorded
    with pytest.raises(MessageRefused, match="delivered before with other bytes"):
        kit.make_channel(again, carrier).send("part", kit.blocks(b"XXXX", b"efgh"))
    assert net.nodes["bureau"].door.inbox.get(parcel.key, 0) == parcel.body


DYING = """
import os, sys
import pyarrow as pa, pyarrow.flight as flight
port, party, header, token = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4].encode()
read = lambda name: open(os.path.join(sys.argv[5], name), "rb").read()
client = flight.FlightClient("grpc+tls://127.0.0.1:" + port, tls_root_certs=read("ca"), cert_chain=read("cert"),
                             private_key=read("key"), override_hostname=party)
schema = pa.schema([pa.field("slice", pa.binary(), nullable=False)])
options = flight.FlightCallOptions(headers=[(b"accord-token", token)])
writer, _ = client.do_put(flight.FlightDescriptor.for_command(header), schema, options)
writer.write_batch(pa.record_batch([pa.array([b"x" * 1000], pa.binary())], schema=schema))
print("sent", flush=True)
sys.stdin.read()
"""


def test_a_sender_that_is_killed_in_the_middle_leaves_nothing(net, put, parcel, tmp_path, caplog):
    for name, data in (("ca", put.identity.ca), ("cert", put.identity.certificate), ("key", put.identity.key)):
        (tmp_path / name).write_bytes(data)
    header = replace(parcel.header, size=5000).to_bytes().decode()
    arguments = [str(put.address.port), "bureau", header, put.token().decode(), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", DYING, *arguments], **pipes) as process:
        assert process.stdout.readline() == b"sent\n"
        time.sleep(0.2)
        process.kill()
    end = time.monotonic() + 60
    while "without its end marker" not in caplog.text and time.monotonic() < end:
        time.sleep(0.02)
    assert "without its end marker" in caplog.text
    assert nothing_arrived(net, parcel)
    assert put(parcel.header.to_bytes(), [parcel.body], parcel.marker.to_bytes()) is not None


def test_the_refusal_reaches_the_sender_with_who_and_why(net, kit):
    strange = kit.WireSchema("blocks", {"c": "fixed_size_binary"}, metadata=("key", "lane"))
    messages = (replace(kit.MESSAGES[0], schema=strange),)
    channel = net.channel("north")
    channel.messages = messages
    table = kit.blocks(b"ab").replace_schema_metadata({"key": "k", "lane": "16"})
    with pytest.raises(AccordError, match="another schema") as caught:
        channel.send("part", table)
    assert caught.value.code == 34
    assert caught.value.party == "bureau"
    assert "component version" in caught.value.remedy


def test_a_control_call_needs_its_own_token(net):
    address, identity = net.peers["bureau"], net.identities["north"]
    signer = net.nodes["north"].signer
    with connect(address, identity) as client:

        def call(method, *token):
            options = flight.FlightCallOptions(timeout=5, headers=[(HEADER.encode(), t) for t in token])
            with explained(address, identity):
                return [result.body.to_pybytes() for result in client.do_action(flight.Action(method, b""), options)]

        assert call("open", issue(signer, "bureau", "open", "run-1")) == [b"north"]
        with pytest.raises(PeerForeign, match="needs the caller's own token"):
            call("open")
        with pytest.raises(PeerForeign, match="for another call"):
            call("open", issue(signer, "bureau", "close", "run-1"))
        with pytest.raises(AccordError) as caught:
            call("fail")
    assert caught.value.what == "a call failed inside the node"
    assert caught.value.party == "bureau"


def test_no_traceback_and_no_value_reaches_the_peer_or_the_log(net, caplog):
    with connect(net.peers["bureau"], net.identities["north"]) as client:
        with pytest.raises(flight.FlightError) as caught:
            list(client.do_action(flight.Action("fail", b""), flight.FlightCallOptions(timeout=5)))
    seen = str(caught.value) + repr(caught.value.extra_info) + caplog.text
    for word in ("Traceback", "4711", "rating of"):
        assert word not in seen
    assert "ValueError at " in caplog.text


def test_a_peer_that_is_down_is_tried_until_it_is_back(net, kit):
    port = net.peers["bureau"].port
    channel = net.channel("north", deadline_seconds=20)
    net.servers["bureau"].shutdown()
    with pytest.raises(PeerDown, match="cannot be reached"):
        net.carrier("north").put(parcel_of(net, kit), 2)

    def restart():
        net.servers["bureau"] = kit.Server(net.nodes["bureau"], net.identities["bureau"], port)

    timer = threading.Timer(0.5, restart)
    timer.start()
    channel.send("part", kit.blocks(b"ab"))
    timer.join()
    assert net.channel("bureau").recv("part", from_="north").num_rows == 1


def parcel_of(net, kit):
    recorder = kit.Recorder(kit.MemoryExchange().join(net.nodes["north"].door))
    with pytest.raises(AccordError):
        kit.make_channel(kit.make_node(net.nodes["north"].signer), recorder, deadline_seconds=0.01).send(
            "part", kit.blocks(b"zz")
        )
    return recorder.parcels[0]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"code": "x"}', b"[" * 9000, b'{"code": true}'])
def test_bytes_that_are_no_error_are_not_taken_for_one(data):
    assert read_error(data) is None
