"""Runs PyTorch scripts that know nothing of floe, over floe's Gloo transport or over Gloo's own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_S = 480  # of a hang only; a loaded machine imports PyTorch slowly


def environment(**variables: str | Path) -> dict[str, str]:
    """This process's environment without a transport chosen, and `variables`."""
    dropped = ("GLOO_DEVICE_TRANSPORT", "LD_PRELOAD", "FLOE_LIB_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {name: str(value) for name, value in variables.items()}


def preloaded(folder: Path, **variables: str | Path) -> dict[str, str]:
    return environment(LD_PRELOAD=folder / "libfloe_gloo_preload.so", **variables)


def run_python(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
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
        self, script: str, ranks: int, env: dict[str, str], *arguments: str | Path
    ) -> list[Rank]:
        self.ports.append(reserve_port())
        shared = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.ports[-1].getsockname()[1]),
            "WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
        }
        for rank in range(ranks):
            log = self.logs / f"log-{len(self.started)}.txt"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, SCRIPTS / script, *map(str, arguments)],
                    env=env | shared | {"RANK": str(rank)},
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


def succeed(ranks: list[Rank]) -> None:
    codes = [rank.wait() for rank in ranks]
    failed = [
        f"--- rank {i} exited with {code}:\n{ranks[i].text()}"
        for i, code in enumerate(codes)
        if code
    ]
    assert not failed, "\n".join(failed)
