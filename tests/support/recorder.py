"""A carrier that shows what leaves a party before TLS."""


class Recorder:
    """Keeps every parcel in `parcels`, its own list unless several carriers share one, and passes it on."""

    def __init__(self, carrier, parcels=None):
        self.carrier, self.parcels = carrier, [] if parcels is None else parcels

    def put(self, parcel, seconds):
        self.parcels.append(parcel)
        return self.carrier.put(parcel, seconds)

    def get(self, key, patience):
        return self.carrier.get(key, patience)
