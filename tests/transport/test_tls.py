import socket
import threading

import pyarrow.flight as flight
import pytest

from base.errors import AccordError, MessageRefused, PeerDown, PeerForeign
from transport.tls import Address, connect, diagnose, explain, explained, read_error, write_error


def call(address, identity, seconds=5):
    with connect(address, identity) as client, explained(address, identity):
        return list(client.do_action(flight.Action("open", b""), flight.FlightCallOptions(timeout=seconds)))


def refused(net, authority, kit, **fields):
    with pytest.raises(PeerForeign) as caught:
        call(net.peers["bureau"], **fields)
    return str(caught.value)


def test_an_expired_certificate_of_ours_is_named(net, authority, kit):
    text = refused(net, authority, kit, identity=authority.identity("north", days=-1))
    assert "bureau at 127.0.0.1" in text
    assert "refuses our certificate" in text
    assert "valid until" in text
    assert "issue a new certificate for this side" in text


def test_a_certificate_of_another_authority_is_named(net, authority, kit):
    text = refused(net, authority, kit, identity=kit.Authority("stranger").identity("north", ca=authority.pem))
    assert "refuses our certificate" in text
    assert "CN=stranger" in text
    assert "give that node our authority's certificate" in text


def test_a_peer_of_another_authority_is_not_believed(net, authority, kit):
    text = refused(net, authority, kit, identity=authority.identity("north", ca=kit.Authority("stranger").pem))
    assert "certificate of bureau" in text
    assert "is not believed" in text


def test_another_party_at_the_address_is_not_believed(net, authority, kit):
    address = Address("127.0.0.1", net.peers["south"].port, "bureau")
    with pytest.raises(PeerForeign, match="is not believed") as caught:
        call(address, net.identities["north"])
    assert "another party answers at this address" in caught.value.remedy


def test_an_expired_certificate_of_the_peer_is_named(net, authority, kit):
    with kit.Server(net.nodes["bureau"], authority.identity("bureau", days=-1)) as server:
        with pytest.raises(PeerForeign, match="expired") as caught:
            call(Address("127.0.0.1", server.port, "bureau"), net.identities["north"])
    assert "issue a new one" in caught.value.remedy


def test_without_a_party_name_the_address_must_be_in_the_certificate(net):
    address = Address("127.0.0.1", net.peers["bureau"].port)
    assert isinstance(diagnose(address, net.identities["north"]), PeerDown)  # it answers: nothing is wrong with it
    with pytest.raises(PeerForeign, match="needs the caller's own token"):
        call(address, net.identities["north"])


def test_nobody_at_the_address(authority):
    with socket.socket() as held:  # nobody listens there, and nobody else can
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(PeerDown, match="cannot be reached") as caught:
            call(Address("127.0.0.1", port, "bureau"), authority.identity("north"))
    assert "refused" in caught.value.found
    assert "start that node" in caught.value.remedy
    assert caught.value.where == f"127.0.0.1:{port}"
    assert caught.value.expected == "a running node that answers there"


def test_a_name_without_an_address(authority):
    error = diagnose(Address("no-such-host.invalid", 1, "bureau"), authority.identity("north"))
    assert isinstance(error, PeerDown)


@pytest.fixture
def listener():
    """A program that answers in plain text, once per connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_program_without_tls(listener, authority):
    with pytest.raises(PeerForeign, match="does not speak TLS") as caught:
        call(Address("127.0.0.1", listener, "bureau"), authority.identity("north"))
    assert "another program answers" in caught.value.remedy


def test_a_node_that_hangs_is_down(authority, monkeypatch):
    monkeypatch.setattr("transport.tls.PROBE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", silent.getsockname()[1], "bureau")
        with pytest.raises(PeerDown, match="did not answer in time"):
            call(address, authority.identity("north"), seconds=0.5)
        assert isinstance(diagnose(address, authority.identity("north")), PeerDown)


def test_a_key_is_not_shown(authority):
    assert "PRIVATE" not in repr(authority.identity("north"))


def test_an_error_crosses_whole_and_is_cut_when_long():
    error = MessageRefused("what", expected="a", found="b", where="c", remedy="d", party="e")
    again = read_error(write_error(error))
    assert (type(again), str(again)) == (MessageRefused, str(error))
    long = write_error(AccordError("w" * 9000, expected="é" * 9000, found="f" * 9000, where="g" * 9000))
    assert len(long) <= 4000
    assert read_error(long).what.startswith("www")


def test_an_unknown_code_becomes_the_base_class():
    assert type(read_error(b'{"code": 999, "what": "x", "expected": ["a"]}')) is AccordError


def test_a_flight_error_without_our_json_is_still_explained(authority):
    error = explain(flight.FlightServerError("x"), Address("h", 1, "bureau"), authority.identity("north"))
    assert "broke off a call" in error.what
    lost = explain(OSError("x"), Address("h", 1, "bureau"), authority.identity("north"))
    assert isinstance(lost, PeerDown)
