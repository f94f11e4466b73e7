import subprocess
import sys

PROGRAM = """
import sys
sys.modules["phe"] = None
import crypto.paillier, crypto.matrix, crypto.blind_rsa, crypto.keyed_hash, crypto.node_keys
import components.secure_sum, components.align_rsa, components.fit_statistics
try:
    import crypto.interop_phe
except ImportError:
    raise SystemExit(7)
"""


def test_everything_but_the_exchange_runs_without_phe(repository):
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
