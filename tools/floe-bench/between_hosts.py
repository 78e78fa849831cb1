#!/usr/bin/env python3
"""floe-bench between hosts pretended on this machine, beside Gloo, with the share of the link.

usage: between_hosts.py [--hosts N] [--rate 1gbit] [--bare] [--bench FILE] [-- OPTION ...]

Needs root. The hosts are network namespaces (tests/netns/cluster.py). `--rate` shapes both ends of
each host's cable with a token bucket: bursts of 200 us, at least 70,000 bytes; a queue of 10 ms.
"limit" is what that rate needs for the 2(n-1)/n of the bytes that an all_reduce must send; "of it"
is limit / time, of which TCP's headers take 4.4 %; "cpu" is that of a call on a rank, of all its
threads, the mean. All hosts share this machine's CPUs and caches: `--bare` shows what TCP alone
makes of that, with plain sockets that move as many bytes round a ring, and add nothing. The options
are those of floe-bench.
"""

import argparse
import csv
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "netns"))

from cluster import Cluster, missing  # noqa: E402

UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}
SIZES = "8,16K,64K,256K,1M,25M"
BARE_PORT = "7000"
BARE_COLUMNS = ("bytes", "min_us", "p50_us", "mean_us", "p99_us", "cpu_us")
DEFAULTS = ["--dtype", "float32", "--in-place", "--sizes", SIZES, "--peer", "gloo"]


def bits_per_second(rate: str) -> float:
    match = re.fullmatch(r"([\d.]+)([kmg])bit", rate)
    if not match:
        raise argparse.ArgumentTypeError(f"'{rate}': use a rate as tc(8) has it, such as 1gbit")
    return float(match[1]) * UNITS[match[2]]


def print_row(row: dict[str, str], hosts: int, rate: float | None) -> None:
    times = [float(row[name]) for name in ("min_us", "p50_us", "mean_us", "p99_us", "cpu_us")]
    line = f"{row['op']:14} {row['dtype']:9} {int(row['bytes']):>10} {row['peer']:9}"
    line += "".join(f"{time:>12.1f}" for time in times)
    if rate and row["op"] == "all_reduce":
        limit = 2 * (hosts - 1) / hosts * int(row["bytes"]) * 8 / rate * 1e6
        line += f"{limit:>12.1f}{100 * limit / times[1]:>6.1f} %{100 * limit / times[2]:>6.1f} %"
    print(line + ("" if row["errors"] == "0" else f"  {row['errors']} WRONG"))


def size_in_bytes(text: str) -> int:
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
    return int(text.rstrip("KMG")) * unit


def bare_tcp(cluster: Cluster, program: Path, sizes: str, seconds: float) -> list[dict[str, str]]:
    """What TCP alone takes for the bytes of an all_reduce, of the host that took longest."""
    ring = ",".join(cluster.address(host) for host in range(cluster.hosts))
    each = [str(size_in_bytes(size)) for size in sizes.split(",")]
    command = [str(program), "--hosts", ring, "--port", BARE_PORT, *each]
    rows: dict[str, dict[str, str]] = {}
    for rank in cluster.launch(command, seconds):
        if rank.returncode:
            raise RuntimeError(f"bare_tcp on host {rank.rank}: {rank.stderr}")
        for line in rank.stdout.splitlines():
            row = dict(zip(BARE_COLUMNS, line.split(","), strict=True))
            longest = rows.get(row["bytes"])
            if not longest or float(row["p50_us"]) > float(longest["p50_us"]):
                rows[row["bytes"]] = row
    common = {"op": "all_reduce", "dtype": "", "peer": "bare TCP", "errors": "0"}
    return [{**row, **common} for row in rows.values()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", help="of each cable, as tc(8) has it; default: unshaped")
    parser.add_argument("--bare", action="store_true", help="TCP without floe, too")
    parser.add_argument("--bench", default=str(ROOT / "build" / "tools" / "floe-bench"))
    parser.add_argument("--seconds", type=float, default=600, help="limit of the whole run")
    parser.add_argument("options", nargs="*", help=f"default: {' '.join(DEFAULTS)}")
    given = parser.parse_args()
    if reason := missing():
        sys.exit(f"between_hosts.py: {reason}")
    rate = bits_per_second(given.rate) if given.rate else None
    with tempfile.TemporaryDirectory() as folder, Cluster(given.hosts) as cluster:
        if rate:
            cluster.shape(rate)
        figures = Path(folder, "figures.csv")
        options = given.options or DEFAULTS
        bare = []
        if given.bare:
            of_bench = argparse.ArgumentParser(allow_abbrev=False)
            of_bench.add_argument("--sizes", default=SIZES)
            sizes = of_bench.parse_known_args(options)[0].sizes
            program = Path(given.bench).with_name("bare_tcp")
            bare = bare_tcp(cluster, program, sizes, given.seconds)
        command = [given.bench, "--join", *options, "--cpu", "--csv", str(figures)]
        # Gloo takes the host's name, which may be that of the loopback.
        ranks = cluster.launch(command, given.seconds, {"GLOO_SOCKET_IFNAME": "eth0"})
        if bad := next((rank for rank in ranks if rank.returncode), None):
            print(bad.stdout, bad.stderr, file=sys.stderr)
            return bad.returncode
        with figures.open() as lines:
            rows = list(csv.DictReader(lines))
    print(f"# {given.hosts} hosts, {given.rate or 'unshaped'}; us; {rows[0]['machine']}")
    names = "".join(f"{name:>12}" for name in ("p50", "mean", "p99", "cpu", "limit"))
    print(f"# {'min':>52}{names}  of it (p50, mean)")
    for row in [*bare, *rows]:
        print_row(row, given.hosts, rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
