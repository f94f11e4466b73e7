"""The second half of the preflight: disk and ports. Standard library only; runs before anything is installed."""

import shutil
import socket
import sys

NEEDED_GB = 6  # the environment takes 2.7 GB, the demo well under one; the rest is pip's working space


def fail(what: str, expected: str, found: str, remedy: str) -> None:
    """Print the four lines of an error and leave with its exit code (docs/exit_codes.md)."""
    sys.stderr.write(f"accord: {what}\n  expected {expected}\n  found    {found}\n  remedy   {remedy}\n")
    sys.exit(80)


def main(python: str, *ports: str) -> None:
    """Check disk and ports, then print the Python to use."""
    free = shutil.disk_usage(".").free / 1e9
    if free < NEEDED_GB:
        fail(
            "the disk is too full", f"{NEEDED_GB} GB free here", f"{free:.1f} GB", "free some space, or clone elsewhere"
        )
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", int(port)))
            except OSError:
                fail(f"port {port} is taken", "a free port on 127.0.0.1", "another process listens there",
                     "end it (a kept node: accord node stop --party NAME; "
                     "else ss -ltnp names it), or set ACCORD_PORT to another base port")  # fmt: skip
    sys.stdout.write(python + "\n")


main(*sys.argv[1:])
