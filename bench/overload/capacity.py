"""How many requests a second each server answers when nobody asks for more: the measure of the other scripts."""

from __future__ import annotations

import sys

from common import Column, Figures, Script, Stage, main

CLIENTS = (1, 8, 64)


def measure(stage: Stage) -> Figures:
    found: Figures = {}
    for clients in CLIENTS:
        found[f"rate_{clients}"] = stage.find_capacity(stage.seconds / len(CLIENTS), clients)
        found[f"cpu_ms_{clients}"] = stage.cpu_ms
    return found


SCRIPT = Script(
    "capacity",
    "Answers a second to clients that ask again as soon as they have their answer.",
    measure,
    (
        *(Column(f"rate_{clients}", f"{clients} client{'s' * (clients > 1)}, requests/s") for clients in CLIENTS),
        *(Column(f"cpu_ms_{clients}", f"{clients}: CPU ms per request") for clients in CLIENTS),
        Column("capacity_cpu", "CPU it could have in the last of these, %"),
    ),
    needs_capacity=False,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
