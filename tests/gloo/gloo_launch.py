"""Runs PyTorch scripts that know nothing of floe, over floe's Gloo transport or over Gloo's own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_S = 480  # of a hang only; a loaded machine imports PyTorch slowly


def environment(**variables: str | Path) -> dict[str, str]:
    """This process's environment without a transport chosen, and `variables`."""
    dropped = ("GLOO_DEVICE_TRANSPORT", "LD_PRELOAD", "FLOE_LIB_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {name: str(value) for name, value in variables.items()}


def preloaded(folder: Path, **variables: str | Path) -> dict[str, str]:
    return environment(LD_PRELOAD=folder / "libfloe_gloo_preload.so", **variables)


def run_python(
    code: str, env: dict[str, str], python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    command = [python, "-c", code]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@dataclass
class Rank:
    process: subprocess.Popen[bytes]
    log: Path

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def text(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


Start = Callable[..., list[Rank]]
Results = list[dict[str, torch.Tensor]]  # by rank


def reserve_port() -> socket.socket:
    """A port for MASTER_PORT that nobody else gets while the socket is open. It does not listen, so
    rank 0 can bind the port too: both have SO_REUSEADDR."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("", 0))
    return reserved


class Launcher:
    """Starts scripts; close() ends what is left of them."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.started: list[Rank] = []
        self.ports: list[socket.socket] = []

    def start(
        self,
        script: str | Path,
        ranks: int,
        env: dict[str, str],
        *arguments: str | Path,
        python: str = sys.executable,
    ) -> list[Rank]:
        self.ports.append(reserve_port())
        shared = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.ports[-1].getsockname()[1]),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
        }
        for rank in range(ranks):
            log = self.logs / f"log-{len(self.started)}.txt"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [python, SCRIPTS / script, *map(str, arguments)],
                    env=env | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            self.started.append(Rank(process, log))
        return self.started[-ranks:]

    def close(self) -> None:
        for rank in self.started:
            rank.kill()
        for port in self.ports:
            port.close()


def wait_until_started(ranks: list[Rank]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not all("started" in rank.text() for rank in ranks):
        assert time.monotonic() < deadline, [rank.text() for rank in ranks]
        assert all(rank.process.poll() is None for rank in ranks), [rank.text() for rank in ranks]
        time.sleep(0.1)


def succeed(ranks: list[Rank]) -> None:
    codes = [rank.wait() for rank in ranks]
    failed = [
        f"--- rank {i} exited with {code}:\n{ranks[i].text()}"
        for i, code in enumerate(codes)
        if code
    ]
    assert not failed, "\n".join(failed)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def run_collectives(
    start: Start, ranks: int, env: dict[str, str], folder: Path, python: str = sys.executable
) -> Results:
    succeed(start("collectives.py", ranks, env, folder, python=python))
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]


def check_same(floe: Results, gloo: Results) -> None:
    for rank, (ours, theirs) in enumerate(zip(floe, gloo, strict=True)):
        assert ours.keys() == theirs.keys()
        different = [name for name in ours if not same_bits(ours[name], theirs[name])]
        assert not different, f"rank {rank}"


def reported(ranks: list[Rank]) -> list[tuple[str, int]]:
    """Of report.py's ranks: whether floe is in the process, and how many connections it has."""
    succeed(ranks)
    found = [re.search(r"floe=(\w+) connections=(\d+)", rank.text()) for rank in ranks]
    return [(m[1], int(m[2])) for m in found if m]
