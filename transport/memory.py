"""Messages between threads of one process: for simulations, through the same door as over the network."""

from __future__ import annotations

from threading import Condition

from base.errors import PeerDown
from transport.door import Door
from transport.message import MessageKey
from transport.wire import Claim, Parcel, slices


class MemoryInbox:
    """Bodies in memory, safe for threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._bodies: dict[MessageKey, bytes] = {}
        self._changed = Condition()

    def put(self, key: MessageKey, body: bytes) -> None:
        """See `door.Inbox`."""
        with self._changed:
            self._bodies.setdefault(key, body)
            self._changed.notify_all()

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """See `door.Inbox`."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._bodies, patience)
            return self._bodies.get(key)


class MemoryExchange:
    """Joins the doors of all parties; `carrier(party)` is what that party's channel uses."""

    def __init__(self) -> None:
        """Start without parties."""
        self._doors: dict[str, Door] = {}

    def join(self, door: Door) -> MemoryCarrier:
        """Add a party by its door and return its carrier."""
        self._doors[door.party] = door
        return MemoryCarrier(self, door)

    def deliver(self, peer: str, parcel: Parcel) -> Claim:
        """Hand a parcel of the party `peer` to the receiver's door."""
        door = self._doors.get(parcel.header.receiver)
        if door is None:
            raise PeerDown(f"{parcel.header.receiver} has not joined the exchange", party=parcel.header.receiver)
        reception = door.open(peer, parcel.header.to_bytes())
        for part in slices(parcel.body):
            reception.add(part)
        return reception.close(parcel.marker.to_bytes())


class MemoryCarrier:
    """A party's end of the exchange."""

    def __init__(self, exchange: MemoryExchange, door: Door) -> None:
        """Send through `exchange`, read from the door's inbox."""
        self._exchange, self._door = exchange, door

    def put(self, parcel: Parcel, seconds: float) -> Claim:
        """See `channel.Carrier`."""
        return self._exchange.deliver(self._door.party, parcel)

    def get(self, key: MessageKey, patience: float) -> bytes | None:
        """See `channel.Carrier`."""
        return self._door.inbox.get(key, patience)
