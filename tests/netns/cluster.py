"""Hosts pretended on one machine, for tests between hosts. Needs root.

A host is a network, mount, UTS and IPC namespace: its own eth0, hostname, /dev/shm and boot id, so
that nothing in it looks local to another host. Process ids, files and CPUs are shared. A switch,
one more network namespace with a bridge, connects them:

    host 0: eth0 10.77.0.1/24 ──┐
    host 1: eth0 10.77.0.2/24 ──┴── switch: br0

With two rails each host also has an eth1 in 10.78.0.0/24, at a bridge br1; and so on.

Each namespace lives as long as the process that holds it, which dies with this one: nothing is
named and nothing is left behind, whatever happens to the test.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

NETWORK = 77  # the first rail's is 10.77.0.0/24
MASTER_PORT = 29500  # the hosts are new: nothing else listens there
TOOLS = ("ip", "nsenter", "setpriv", "unshare")
SETUP_SECONDS = 20

# Run inside the new namespaces of a host: $1 hostname, $2 file with its boot id.
HOST_SETUP = """
set -e
hostname "$1"
mount --make-rprivate /
mount -t tmpfs tmpfs /dev/shm
mount --bind "$2" /proc/sys/kernel/random/boot_id
ip link set lo up
echo ready
exec sleep infinity
"""
SWITCH_SETUP = """
set -e
for ((i = 0; i < $1; ++i)); do
  ip link add "br$i" type bridge
  ip link set "br$i" up
done
echo ready
exec sleep infinity
"""

Rank = subprocess.Popen[str]


class ClusterError(RuntimeError):
    """The namespaces could not be made."""


def await_line(ranks: Sequence[Rank], expected: str) -> None:
    """Returns once each rank has said so, as its first line."""
    for rank in ranks:
        assert rank.stdout is not None
        line = rank.stdout.readline()
        assert line == f"{expected}\n", (line, rank.communicate(timeout=60))


@dataclass
class Finished:
    rank: int
    returncode: int
    stdout: str
    stderr: str


def missing() -> str | None:
    """Why no cluster can be made here; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"missing programs: {', '.join(absent)} (iproute2, util-linux)"
    try:
        with Cluster(2):
            return None
    except ClusterError as error:
        return str(error)


class Cluster:
    def __init__(self, hosts: int, rails: int = 1) -> None:
        self.hosts = hosts
        self.rails = rails
        self._holders: list[subprocess.Popen[str]] = []
        self._files = tempfile.TemporaryDirectory(prefix="floe-hosts-")

    def __enter__(self) -> "Cluster":
        try:
            switch = self._hold(SWITCH_SETUP, [str(self.rails)], ["--net"])
            for host in range(self.hosts):
                boot_id = Path(self._files.name, f"boot_id.{host}")
                boot_id.write_text(f"{uuid.uuid4()}\n")
                namespaces = ["--net", "--mount", "--uts", "--ipc"]
                holder = self._hold(HOST_SETUP, [f"floe-host{host}", str(boot_id)], namespaces)
                for rail in range(self.rails):
                    self._connect(host, holder, switch, rail)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def address(self, host: int, rail: int = 0) -> str:
        return f"10.{NETWORK + rail}.0.{host + 1}"

    def start(self, host: int, command: Sequence[str], environment: Mapping[str, str]) -> Rank:
        """Starts a command on a host, in the caller's working directory."""
        holder = self._holders[1 + host].pid
        enter = ["nsenter", "-t", str(holder), "-n", "-m", "-u", "-i", f"--wdns={os.getcwd()}"]
        return subprocess.Popen(
            [*enter, *command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def network(self, host: int, *arguments: str) -> None:
        """Runs ip(8) on a host."""
        assert self.start(host, ["ip", *arguments], {}).wait(timeout=SETUP_SECONDS) == 0

    def black_hole(self, host: int) -> None:
        """Frames of a host are lost in the switch from now on; its cable stays plugged."""
        for rail in range(self.rails):
            self._ip(f"link set p{host}.{rail} nomaster", inside=self._holders[0].pid)

    def shape(self, bits_per_second: float) -> None:
        """Both ends of every cable carry no more: bursts of 200 us, a queue of 10 ms."""
        burst = max(70_000, int(bits_per_second / 8 / 5000))  # at least the largest packet
        queue = max(400_000, int(bits_per_second / 8 / 100))
        for rail in range(self.rails):
            for host in range(self.hosts):
                for holder, nic in ((0, f"p{host}.{rail}"), (1 + host, f"eth{rail}")):
                    self._run(
                        f"tc qdisc replace dev {nic} root tbf rate {bits_per_second:.0f}bit"
                        f" burst {burst} limit {queue}",
                        inside=self._holders[holder].pid,
                    )

    def reset_connections(self, host: int) -> None:
        """Ends all TCP connections of a host with a reset to the other side."""
        done = self.start(host, ["ss", "--tcp", "--kill", "state", "established"], {})
        assert done.wait(timeout=SETUP_SECONDS) == 0

    def start_ranks(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        per_host: int = 1,
        hosts_used: int | None = None,
    ) -> list[Rank]:
        """Starts ranks of a command, host by host, as torchrun would; by default on all hosts."""
        running = []
        size = (hosts_used or self.hosts) * per_host
        for rank in range(size):
            placement = {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_RANK": str(rank % per_host),
                "LOCAL_WORLD_SIZE": str(per_host),
                "MASTER_ADDR": self.address(0),
                "MASTER_PORT": str(MASTER_PORT),
            }
            running.append(
                self.start(rank // per_host, command, {**placement, **(environment or {})})
            )
        return running

    def launch(
        self,
        command: Sequence[str],
        seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> list[Finished]:
        """Runs a command once on each host."""
        running = self.start_ranks(command, environment)
        deadline = time.monotonic() + seconds
        finished = []
        for rank, process in enumerate(running):
            try:
                out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                err += f"\n[killed: rank {rank} had not finished after {seconds:g} s]"
            finished.append(Finished(rank, process.returncode, out, err))
        return finished

    def _hold(self, setup: str, arguments: list[str], namespaces: list[str]) -> int:
        """Starts the process that keeps new namespaces alive; its id, once they are set up."""
        holder = subprocess.Popen(
            # The kernel kills the holder when this process dies, by whatever cause.
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", *namespaces),
                *("bash", "-c", setup, "-", *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "ready\n":
            raise ClusterError(f"cannot make namespaces: {holder.stderr.read().strip()}")
        return holder.pid

    def _connect(self, host: int, holder: int, switch: int, rail: int) -> None:
        cable, nic = f"p{host}.{rail}", f"eth{rail}"
        self._ip(f"link add {nic} netns {holder} type veth peer name {cable} netns {switch}")
        self._ip(f"link set {cable} master br{rail} up", inside=switch)
        self._ip(f"addr add {self.address(host, rail)}/24 dev {nic}", inside=holder)
        self._ip(f"link set {nic} up", inside=holder)

    def _ip(self, arguments: str, inside: int | None = None) -> None:
        self._run(f"ip {arguments}", inside)

    def _run(self, command: str, inside: int | None = None) -> None:
        enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
        done = subprocess.run(
            [*enter, *command.split()], capture_output=True, text=True, timeout=SETUP_SECONDS
        )
        if done.returncode:
            raise ClusterError(f"{command}: {done.stderr.strip()}")

    def _remove(self) -> None:
        """Kills what still runs on the hosts, then the holders: the namespaces go with them."""
        for holder in self._holders:
            with contextlib.suppress(OSError):
                self._kill_others_in(os.readlink(f"/proc/{holder.pid}/ns/net"), holder.pid)
            holder.kill()
            holder.communicate()
        self._holders.clear()
        self._files.cleanup()

    @staticmethod
    def _kill_others_in(namespace: str, holder: int) -> None:
        if namespace == os.readlink("/proc/self/ns/net"):
            return  # the holder had not left our own namespace yet
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == holder:
                continue
            with contextlib.suppress(OSError):  # it ended meanwhile
                if os.readlink(entry / "ns/net") == namespace:
                    os.kill(int(entry.name), signal.SIGKILL)
