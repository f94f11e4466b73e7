"""spu's PSI, both parties in threads of this process over its in-memory link.

    ecdh         CURVE_25519: a raw hash is taken as the u coordinate, so half of the points lie on the twist, a ladder
                 keeps them there, and one bit of each id can be read after masking. Eight points at a time with
                 AVX-512 IFMA where the processor has it, libsodium's X25519 elsewhere.
    ecdh_sound   CURVE_25519_ELLIGATOR2: the same curve, the same masking, but the id is hashed onto the curve as in
                 RFC 9380 (elligator 2). Without the twist there is no such bit: the setting to compare with.
    ecdh_fourq   CURVE_FOURQ: hashed onto its curve too (yacl's own map); a faster curve, its group of 246 bits.
    kkrt, rr22   oblivious transfer and VOLE instead of a curve: other assumptions, more bytes or more memory.

The library does not say how many bytes went over its link.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from serve import Clock, Operation, check, serve

NAMES = ("a", "b")


def load() -> tuple[Mapping[str, str], Mapping[str, Operation]]:
    """Import spu."""
    from spu import libspu
    from spu import psi as spu

    def one(rank: int, folder: Path, protocol: Any, curve: Any) -> int:
        parties = libspu.link.Desc()
        for name in NAMES:
            parties.add_party(name, name)
        chosen = {} if curve is None else {"ecdh_params": spu.EcdhParams(curve=curve)}
        config = spu.PsiExecuteConfig(
            protocol_conf=spu.PsiProtocolConfig(protocol=protocol, receiver_rank=0, **chosen),
            input_params=spu.InputParams(path=str(folder / NAMES[rank]), selected_keys=["id"], keys_unique=True),
            output_params=spu.OutputParams(path=str(folder / f"found_{rank}"), disable_alignment=True),
        )
        return int(spu.psi_execute(config, libspu.link.create_mem(parties, rank)).intersection_count)

    def psi(n: int, protocol: Any, curve: Any = None) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(NAMES)) as pool:
            folder = Path(name)
            for rank, party in enumerate(NAMES):
                ids = (f"person-{i + rank * (n // 2):09}\n" for i in range(n))
                (folder / party).write_text("id\n" + "".join(ids), encoding="ascii")
            with Clock() as clock:
                runs = [pool.submit(one, rank, folder, protocol, curve) for rank in range(len(NAMES))]
                found = [run.result() for run in runs]
        check(found[0] == n - n // 2, "intersection")
        return {"count": n, "cpu": clock.seconds}

    protocols, curves = spu.PsiProtocol, spu.EllipticCurveType
    ecdh = partial(psi, protocol=protocols.PROTOCOL_ECDH)
    return {"spu": version("spu")}, {
        "ecdh": partial(ecdh, curve=curves.CURVE_25519),
        "ecdh_sound": partial(ecdh, curve=curves.CURVE_25519_ELLIGATOR2),
        "ecdh_fourq": partial(ecdh, curve=curves.CURVE_FOURQ),
        "kkrt": partial(psi, protocol=protocols.PROTOCOL_KKRT),
        "rr22": partial(psi, protocol=protocols.PROTOCOL_RR22),
    }


if __name__ == "__main__":
    serve(load)
