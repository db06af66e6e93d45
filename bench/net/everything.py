"""Every proof of this folder, one after the other: `python bench/net/everything.py [NAME...]`, or `make bench-net`.

The exit status is the number of proofs that failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from common import HERE

PROOFS = ("connections", "slow_reader", "flooder", "crowds", "idle", "churn", "simulated_churn")
PROOF_TIMEOUT_S = 600


def main() -> int:
    parser = argparse.ArgumentParser(description="Prove on this machine what is promised of streams and listeners.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(PROOFS)} (default: all)")
    names = parser.parse_args().names or PROOFS
    unknown = set(names) - set(PROOFS)
    if unknown:
        parser.error(f"there is no proof {', '.join(sorted(unknown))}; there are: {', '.join(PROOFS)}")
    failed = 0
    for name in names:
        print(f"{name}:", flush=True)
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py")], timeout=PROOF_TIMEOUT_S, check=False)
        failed += done.returncode != 0
    print(f"{failed} of the proofs failed" if failed else "everything was kept")
    return failed


if __name__ == "__main__":
    sys.exit(main())
