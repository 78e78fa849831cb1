"""However a program ends, its processes end too, with their exit code and without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch import run_scripts, run_torchrun

START = """
join(job, rank, ranks)
tensor = torch.ones(1000)
dist.all_reduce(tensor)
"""

ENDINGS = {
    "destroyed": "dist.destroy_process_group()",
    "not destroyed": "",
    "groups not destroyed": "groups = [dist.new_group() for _ in range(3)]",
    "works not waited for": """
works = [dist.all_reduce(tensor, async_op=True) for _ in range(10)]
""",
    "works that the other rank comes to later": """
time.sleep(0.5 * rank)
works = [dist.all_reduce(tensor, async_op=True) for _ in range(10)]
""",
    "destroyed with such works": """
time.sleep(0.5 * rank)
works = [dist.all_reduce(tensor, async_op=True) for _ in range(10)]
dist.destroy_process_group()
""",
    "an unmatched receive": """
request = dist.irecv(torch.empty(3), 1 - rank)
""",
    "destroyed with an unmatched receive": """
request = dist.irecv(torch.empty(3), 1 - rank)
dist.destroy_process_group()
""",
    "a callback under way": """
def callback(future):
    time.sleep(0.5)
    return future.value()[0] + 1
future = dist.all_reduce(tensor, async_op=True).get_future().then(callback)
""",
    "a callback that waits for what never ends": """
def callback(future):
    dist.irecv(torch.empty(3), 1 - rank).wait()
future = dist.irecv(tensor, 1 - rank).get_future().then(callback)
dist.barrier()  # nothing has been sent yet: then() itself would run the callback of what has ended
dist.send(torch.ones(1000), 1 - rank)
time.sleep(0.5)
""",
    "a daemon thread inside an operation": """
def receive():
    try:
        dist.recv(torch.empty(3), 1 - rank)
    except RuntimeError:
        pass
threading.Thread(target=receive, daemon=True).start()
time.sleep(0.5)
""",
    "daemon threads that poll": """
polled = [dist.irecv(torch.empty(3), 1 - rank), dist.all_reduce(tensor, async_op=True)]
polled[1].wait()
group, device = dist.group.WORLD, torch.device("cpu")
group._start_coalescing(device)
dist.all_reduce(tensor)
polled.append(group._end_coalescing(device))
def poll(work):
    while True:
        work.is_completed()
        time.sleep(0.001)
for work in polled:
    threading.Thread(target=poll, args=(work,), daemon=True).start()
time.sleep(0.2)
""",
    "DDP alive": """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
""",
    "os._exit": """
print('end of the script', flush=True)
dist.barrier()
os._exit(0)
""",
}


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(name, marks=pytest.mark.quick) if name == "not destroyed" else name
        for name in ENDINGS
    ],
)
def test_processes_end_cleanly(ending: str) -> None:
    script = START + ENDINGS[ending] + "\nprint('end of the script')\n"
    for ended in run_scripts(2, script, timeout=60):
        assert ended.code == 0, ended.output
        assert ended.output == "end of the script\n"


CREATES = (
    """
import atexit
atexit.register(time.sleep, 3)  # before join(): runs when floe has been shut down
"""
    + START
    + """
def create():
    time.sleep(1.5 * rank)  # rank 0 waits for it, and exits meanwhile
    dist.new_group()
threading.Thread(target=create, daemon=True).start()
time.sleep(0.5 + 1.5 * rank)
print('end of the script')
"""
)


def test_a_daemon_thread_inside_new_group() -> None:
    for ended in run_scripts(2, CREATES, timeout=60):
        assert ended.code == 0, ended.output
        assert ended.output == "end of the script\n"


RAISES = (
    START
    + """
if rank == 1:
    raise ValueError("my own mistake")
dist.all_reduce(tensor)
"""
)


def test_an_exception_on_one_rank_ends_all() -> None:
    survivor, culprit = run_scripts(2, RAISES, timeout=60)
    assert culprit.code == 1
    assert culprit.output.rstrip().endswith("ValueError: my own mistake")
    assert survivor.code == 1
    assert "FLOE_ERR_PEER" in survivor.output
    assert "rank 1" in survivor.output
    for ended in (survivor, culprit):
        assert "terminate called" not in ended.output
        assert "Fatal" not in ended.output


UNDER_TORCHRUN = """
import torch, torch.distributed as dist
dist.init_process_group("floe")
tensor = torch.ones(10)
dist.all_reduce(tensor)
future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0])
print("end of the script")
"""


def test_torchrun_without_destroy(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNDER_TORCHRUN)
    ended = run_torchrun(2, str(script))
    assert ended.code == 0, ended.output
    assert ended.output.count("end of the script") == 2
    assert "terminate" not in ended.output
