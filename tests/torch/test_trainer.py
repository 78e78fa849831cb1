"""The BF16 DDP trainer: it learns, gives the same bits over floe and Gloo, scales, and resumes."""

import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "bf16_ddp"
sys.path.insert(0, str(EXAMPLE))

import checkpoint  # noqa: E402
import data  # noqa: E402
from options import parse_options  # noqa: E402
from placement import LAUNCHERS, Placement, UsageError, placement_from_environment  # noqa: E402

STEPS = 30
SMALL = ["--layers", "2", "--width", "64", "--heads", "2", "--context", "64", "--eval-every", "10"]
SMALL += ["--threads", "1"]
NOISE = 0.02  # nats per byte; BF16 rounds differently in another split of the batch
SECONDS = 300  # of patience with a busy machine


def trainer(*options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE / "train.py"), *SMALL, *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, **(env or {})},
    )


@cache
def train(*options: str) -> dict:
    """The summary of a finished run, losses included. Equal runs are made once."""
    summary = Path(mkdtemp(prefix="floe-trainer-"), "summary.json")
    done = trainer(*options, "--json", str(summary))
    assert done.returncode == 0, done.stderr
    try:
        return json.loads(summary.read_text())
    finally:
        summary.unlink()
        summary.parent.rmdir()


def run(
    ranks: int = 2, steps: int = STEPS, backend: str = "floe", *more: str, probe: int = 0
) -> dict:
    options = ["--backend", backend, "--ranks", str(ranks), "--steps", str(steps)]
    return train(*options, "--probe-every", str(probe), *more)


def loss_at(summary: dict, step: int) -> float:
    return next(r["held_out_loss"] for r in summary["history"] if r["step"] == step)


def test_held_out_loss_falls() -> None:
    losses = [loss_at(run(), step) for step in (10, 20, 30)]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 4.3  # 5.5 is knowing nothing: ln 256


def test_floe_and_gloo_give_the_same_bits() -> None:
    floe, gloo = run(), run(backend="gloo")
    assert floe["parameters_sha256"] == gloo["parameters_sha256"]
    assert floe["history"] == gloo["history"]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_ranks_share_the_batch_of_one(ranks: int) -> None:
    steps = STEPS if ranks == 2 else 10
    many, one = run(ranks, steps), run(1)
    assert many["ranks"] == ranks
    assert loss_at(many, steps) == pytest.approx(loss_at(one, steps), abs=NOISE)


def test_bf16_gradients_stay_near_fp32() -> None:
    bf16 = run(2, STEPS, "floe", "--grad-dtype", "bf16")
    assert bf16["parameters_sha256"] != run()["parameters_sha256"]
    assert bf16["held_out_loss"] == pytest.approx(run()["held_out_loss"], abs=NOISE)


def test_measuring_communication_does_not_change_the_training() -> None:
    probed = run(probe=5)
    assert probed["communication_share"]["pairs"] == 5
    assert probed["parameters_sha256"] == run()["parameters_sha256"]


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    file = ("--checkpoint", str(tmp_path / "state.pt"))
    options = ("--ranks", "2", "--probe-every", "0", *file)
    assert trainer(*options, "--steps", "12").returncode == 0
    summary = tmp_path / "summary.json"
    done = trainer(*options, "--steps", str(STEPS), "--resume", "--json", str(summary))
    assert done.returncode == 0, done.stderr
    assert json.loads(summary.read_text())["parameters_sha256"] == run()["parameters_sha256"]
    assert [path.name for path in tmp_path.glob("state*")] == ["state.pt"]

    other = trainer("--ranks", "1", *file, "--steps", str(STEPS + 1), "--resume", "--lr", "0.5")
    assert other.returncode == 2
    assert "written with lr=0.002, this run has lr=0.5" in other.stderr
    assert "Traceback" not in other.stderr


def test_runs_under_torchrun() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    options = [*SMALL, "--steps", str(STEPS), "--probe-every", "0"]
    done = subprocess.run(
        [*torchrun, str(EXAMPLE / "train.py"), *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters_sha256"] == run()["parameters_sha256"]


# A rank is killed as soon as there is a checkpoint, in the job's first attempt.
LOSES_A_RANK = """
import os, runpy, signal, sys, threading, time
from pathlib import Path

def die():
    while not Path(os.environ["CHECKPOINT"]).exists():
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGKILL)

os.write(2, f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}\\n".encode())  # in one piece
if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    threading.Thread(target=die, daemon=True).start()
sys.argv[0] = os.environ["TRAINER"]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_goes_on_after_torchrun_has_replaced_a_killed_rank(tmp_path: Path) -> None:
    script, state = tmp_path / "script.py", tmp_path / "state.pt"
    script.write_text(LOSES_A_RANK)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    torchrun += ["--nnodes=1:4", "--max-restarts=1", "--rdzv-backend=c10d"]
    torchrun += ["--rdzv-endpoint=localhost:0", "--rdzv-conf=last_call_timeout=1"]
    options = [*SMALL, "--steps", str(STEPS), "--probe-every", "0"]
    options += ["--checkpoint", str(state), "--checkpoint-every", "10"]
    done = subprocess.run(
        [*torchrun, str(script), *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "CHECKPOINT": str(state), "TRAINER": str(EXAMPLE / "train.py")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("attempt 0") == done.stderr.count("attempt 1") == 2
    assert json.loads(done.stdout)["parameters_sha256"] == run()["parameters_sha256"]


def test_runs_in_an_mpi_launchers_environment() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {"PMI_RANK": "0", "PMI_SIZE": "1", "MASTER_PORT": str(port)}
    done = trainer("--steps", "2", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ranks"] == 1


def test_refuses_a_batch_that_cannot_be_divided() -> None:
    done = trainer("--ranks", "2", "--batch", "5", "--steps", "1")
    assert done.returncode == 2
    assert "error: --batch 5 can't be divided over 2 ranks" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--backend mpi", "invalid choice: 'mpi'"),
        ("--ranks 0", "0 is not more than 0"),
        ("--steps -3", "-3 is not more than 0"),
        ("--seconds nan", "nan is not more than 0"),
        ("--batch x", "invalid int value: 'x'"),
        ("--width 100 --heads 3", "--width 100 is not a multiple of --heads 3"),
        ("--resume", "--resume needs --checkpoint"),
    ],
)
def test_refuses_wrong_options(
    options: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_options(None, options.split())
    assert refused.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_finds_its_place_in_each_launchers_environment(launcher: str) -> None:
    os.environ.update(zip(LAUNCHERS[launcher], ("3", "8", "1", "2"), strict=True))
    os.environ["MASTER_ADDR"] = "node-a"
    assert placement_from_environment() == Placement(rank=3, ranks=8, local_rank=1, local_ranks=2)
    assert os.environ["RANK"] == "3"
    assert os.environ["WORLD_SIZE"] == "8"


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"RANK": "0"}, "WORLD_SIZE is missing"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 is not below WORLD_SIZE=2"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK='one' is not a number"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1"}, "MASTER_ADDR is missing"),
    ],
)
def test_refuses_a_wrong_environment(environment: dict[str, str], complaint: str) -> None:
    os.environ.update(environment)
    with pytest.raises(UsageError, match=complaint):
        placement_from_environment()


@pytest.mark.usefixtures("no_launcher")
def test_without_a_launcher_there_is_no_placement() -> None:
    assert placement_from_environment() is None


def test_a_failed_save_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1})
    with pytest.raises(AttributeError, match="pickle"):
        checkpoint.save(path, {"step": 2, "unpicklable": lambda: None})
    assert torch.load(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_samples_do_not_depend_on_the_number_of_ranks() -> None:
    text = data.load_corpus().train
    whole = data.training_batch(text, seed=1, step=7, batch=12, context=16, rank=0, ranks=1)
    for ranks in (2, 3, 4):
        parts = [data.training_batch(text, 1, 7, 12, 16, rank, ranks) for rank in range(ranks)]
        for one, split in zip(whole, zip(*parts, strict=True), strict=True):
            assert torch.equal(one, torch.cat(split))
    inputs, targets = whole
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    other = data.training_batch(text, seed=1, step=8, batch=12, context=16, rank=0, ranks=1)
    assert not torch.equal(inputs, other[0])


def test_corpus_leaves_out_what_differs_between_machines(tmp_path: Path) -> None:
    for name in ("b.py", "a/c.rst", "site-packages/x.py", "a/tests/y.py", "a/z.so", "d.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = [path.relative_to(tmp_path).as_posix() for path in data.library_files(tmp_path)]
    assert found == ["a/c.rst", "b.py", "d.txt"]
    with pytest.raises(RuntimeError, match="bytes of text, need at least"):
        data.load_corpus(tmp_path)
