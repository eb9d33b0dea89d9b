"""A Ray cluster for tests: several nodes on this machine, on loopback alone, until stdin is closed.

    python scripts/ray_nodes.py [NODES] [CPUS_OF_EACH]

The first line on stdout is a JSON object: `address`, `token` (it belongs into `RAY_AUTH_TOKEN`,
with `RAY_AUTH_MODE=token`) and `raylets`, the process of each node. Each line on stdin starts one
more node, whose process is the next line on stdout.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from importlib import import_module
from typing import Any

LOOPBACK = "127.0.0.1"
STORE_BYTES = 90 * 10**6


def main(words: list[str]) -> None:
    """Start the nodes, print their addresses, and stop them when stdin is closed."""
    count, cpus = (int(words[place]) if len(words) > place else 1 for place in (0, 1))
    token = os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)
    # Ray would put the machine's address in the network in the place of 127.0.0.1.
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    with tempfile.TemporaryDirectory(prefix="ak-ray-", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("RAY_TMPDIR", folder)
        hold_nodes(count, cpus, token)


def hold_nodes(count: int, cpus: int, token: str) -> None:
    """Start nodes, and stop them when stdin is closed."""
    utilities: Any = import_module("ray.cluster_utils")
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # its test tools have set it to 1
    cluster = utilities.Cluster()
    settings = {
        "include_dashboard": False,
        "node_ip_address": LOOPBACK,
        "object_store_memory": STORE_BYTES,
    }

    def add_node() -> int:
        started = cluster.add_node(num_cpus=cpus, **settings)
        return int(started.all_processes["raylet"][0].process.pid)

    raylets = [add_node() for _ in range(count)]
    print(json.dumps({"address": cluster.address, "token": token, "raylets": raylets}), flush=True)
    for _ in sys.stdin:
        print(add_node(), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
