"""A library of PyTorch's world beside floe-bench: one process a rank, commanded through its stdin.

usage: peer_torch.py gloo|gloo-floe|vllm|deepspeed FOLDER RANK WORLD_SIZE tcp://ADDRESS:PORT

FOLDER is where tools/dev peers put the library. gloo-floe is gloo and nothing else, in a process
whose environment has floe's transport (LD_PRELOAD). Says "ready" once connected. Each line of
input is a JSON object: op, dtype, count (elements of one rank's part), in_place, iterations, cold,
touch, offset, cpu. The answer is {"us": [...], "cpu_ns": N, "errors": N}, {"unsupported": true} or
{"error": "..."}.
"""

import ctypes
import importlib.util
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

MODULUS = 13  # sums stay exact in bfloat16 up to 20 ranks
ROOT = 0
PAGE = 4096
Run = Callable[[torch.Tensor, torch.Tensor], object]


def values(rank: int, iteration: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    index = torch.arange(count, dtype=torch.int64)
    return ((index + 3 * rank + 5 * iteration) % MODULUS).to(dtype)


class Data:
    """What values() are, from one short run of them, as floe's and the MPIs' are."""

    RUN = 64 * MODULUS

    def __init__(self, rank: int, iteration: int, dtype: torch.dtype) -> None:
        self.run = values(rank, iteration, self.RUN, dtype)

    def fill(self, tensor: torch.Tensor) -> None:
        whole = tensor.numel() // self.RUN * self.RUN
        tensor[:whole].view(-1, self.RUN).copy_(self.run)
        tensor[whole:].copy_(self.run[: tensor.numel() - whole])


def summed(ranks: range, iteration: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    total = torch.zeros(count, dtype=torch.float64)
    for rank in ranks:
        total += values(rank, iteration, count, torch.float64)
    return total.to(dtype)


def buffer(count: int, dtype: torch.dtype, offset: int) -> torch.Tensor:
    """Zeroes that start `offset` bytes after the start of a page."""
    if count == 0:
        return torch.zeros(0, dtype=dtype)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, count * dtype.itemsize + offset, flags=private)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).zero_()


def as_words(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, less what is no whole 64-bit word, in the type that is read fastest."""
    words = tensor.nbytes // 8
    if words == 0:
        return torch.zeros(0, dtype=torch.int64)
    memory = (ctypes.c_char * (8 * words)).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=torch.int64)


def flusher() -> Callable[[torch.Tensor], None]:
    library = ctypes.CDLL(str(Path(__file__).parent / "floe_bench_flush.so"))
    flush = library.flush
    flush.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flush.restype = None
    return lambda tensor: flush(tensor.data_ptr(), tensor.nbytes)


class Gloo:
    # That ProcessGroupGloo dispatches.
    dtypes = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        # PyTorch's calls have one form each: those of the first table work in `recv`.
        self.in_place: dict[str, Run] = {
            "all_reduce": lambda send, recv: dist.all_reduce(recv),
            "reduce": lambda send, recv: dist.reduce(recv, ROOT),
            "broadcast": lambda send, recv: dist.broadcast(recv, ROOT),
        }
        self.out_of_place: dict[str, Run] = {
            "all_gather": lambda send, recv: dist.all_gather_into_tensor(recv, send),
            "reduce_scatter": lambda send, recv: dist.reduce_scatter_tensor(recv, send),
            "all_to_all": lambda send, recv: dist.all_to_all_single(recv, send),
            "gather": self.gather,
            "scatter": self.scatter,
            "sendrecv": self.exchange,
            "pingpong": self.ping_pong,
            "barrier": lambda send, recv: dist.barrier(),
        }

    def gather(self, send: torch.Tensor, recv: torch.Tensor) -> None:
        dist.gather(send, list(recv.chunk(self.size)) if self.rank == ROOT else None, ROOT)

    def scatter(self, send: torch.Tensor, recv: torch.Tensor) -> None:
        dist.scatter(recv, list(send.chunk(self.size)) if self.rank == ROOT else None, ROOT)

    def ping_pong(self, send: torch.Tensor, recv: torch.Tensor) -> None:
        if self.rank == ROOT:
            dist.send(send, (self.rank + 1) % self.size)
        dist.recv(recv, (self.rank - 1) % self.size)
        if self.rank != ROOT:
            dist.send(send, (self.rank + 1) % self.size)

    def exchange(self, send: torch.Tensor, recv: torch.Tensor) -> None:
        received = dist.irecv(recv, (self.rank - 1) % self.size)
        dist.send(send, (self.rank + 1) % self.size)
        received.wait()


class Vllm:
    """vLLM's all_reduce of CPU tensors, from its extension module alone."""

    dtypes = ("float32", "float16", "bfloat16")

    def __init__(self, folder: Path, rank: int, size: int, key: str) -> None:
        self.out_of_place: dict[str, Run] = {}
        name = "_C"  # as vllm.platforms.cpu chooses it
        if os.uname().machine == "x86_64":
            if not torch.cpu._is_avx512_supported():
                name = "_C_AVX2"
            elif not torch.cpu._is_avx512_bf16_supported():
                name = "_C_AVX512"
        torch.ops.load_library(str(folder / "vllm" / f"{name}.abi3.so"))
        ops = torch.ops._C
        group = f"floe-bench-{key}"
        handle = ops.init_shm_manager(group, size, rank, torch.get_num_threads())
        dist.barrier()
        ops.join_shm_manager(handle, group)
        self.in_place: dict[str, Run] = {
            "all_reduce": lambda send, recv: ops.shm_allreduce(handle, recv)
        }


class DeepSpeed:
    """DeepSpeed's all_reduce of CPU tensors for inference, from its extension module alone."""

    def __init__(self, folder: Path, rank: int, size: int, key: str) -> None:
        self.out_of_place: dict[str, Run] = {}
        # It has shared memory only for ranks that these say are on one host, named after the port.
        os.environ.update(LOCAL_SIZE=str(size), MASTER_ADDR="floe-bench", MASTER_PORT=key)
        path = folder / "deepspeed_shm_comm.so"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.initialize(size, rank)
        self.dtypes = ([], ["float32"], ["float32", "float16", "bfloat16"])[
            module.vector_kernel_level()
        ]
        self.in_place: dict[str, Run] = {
            "all_reduce": lambda send, recv: torch.ops.deepspeed.inference_all_reduce_(recv)
        }


def check_transport(expected: bool) -> None:
    """The environment decides, and floe-bench may have been started in that of a Gloo on floe."""
    if ("libfloe_gloo.so" in Path("/proc/self/maps").read_text()) != expected:
        names = ("LD_PRELOAD", "GLOO_DEVICE_TRANSPORT")
        variables = ", ".join(f"{name}={os.environ.get(name, '')!r}" for name in names)
        advice = "build all of floe" if expected else "unset both"
        transport = "its own" if expected else "floe's"
        sys.exit(f"peer_torch.py: this Gloo has {transport} transport, with {variables}: {advice}")


def unlink_shared_memory(key: str, rank: int) -> None:
    """Once all ranks have opened it: then, whatever ends this process, nothing stays behind."""
    for memory in Path("/dev/shm").glob(f"*floe-bench?{key}_{rank}"):
        memory.unlink(missing_ok=True)


class Peer:
    def __init__(self, library: Gloo | Vllm | DeepSpeed, rank: int, size: int) -> None:
        self.library, self.rank, self.size = library, rank, size
        self.flush: Callable[[torch.Tensor], None] | None = None
        self.case: dict | None = None
        self.clock_ns = min(-time.perf_counter_ns() + time.perf_counter_ns() for _ in range(1000))

    def expected(
        self, op: str, iteration: int, count: int, dtype: torch.dtype
    ) -> torch.Tensor | None:
        everyone = range(self.size)
        mine = slice(self.rank * count, (self.rank + 1) * count)
        if op == "all_reduce" or (op == "reduce" and self.rank == ROOT):
            return summed(everyone, iteration, count, dtype)
        if op == "broadcast":
            return values(ROOT, iteration, count, dtype)
        if op == "all_gather" or (op == "gather" and self.rank == ROOT):
            return torch.cat([values(rank, iteration, count, dtype) for rank in everyone])
        if op == "reduce_scatter":
            return summed(everyone, iteration, count * self.size, dtype)[mine]
        if op == "all_to_all":
            whole = [values(rank, iteration, count * self.size, dtype) for rank in everyone]
            return torch.cat([sent[mine] for sent in whole])
        if op == "scatter":
            return values(ROOT, iteration, count * self.size, dtype)[mine]
        if op in ("sendrecv", "pingpong"):
            return values((self.rank - 1) % self.size, iteration, count, dtype)
        return None

    def parts(self, op: str) -> tuple[int, int]:
        """How many ranks' parts this rank sends, and receives."""
        on_root = self.size if self.rank == ROOT else 0
        if op in ("reduce_scatter", "all_to_all", "scatter"):
            sends = on_root if op == "scatter" else self.size
        else:
            sends = 1
        if op in ("all_gather", "all_to_all", "gather"):
            return sends, on_root if op == "gather" else self.size
        return sends, 1

    def prepare(self, command: dict) -> None:
        """Makes the buffers, unless they are those of the block before."""
        case = {key: value for key, value in command.items() if key != "iterations"}
        if case == self.case:
            return
        op, count, offset = command["op"], command["count"], command["offset"]
        dtype = getattr(torch, command["dtype"])
        sends, receives = self.parts(op)
        self.recv = buffer(count * receives, dtype, offset)
        self.send = self.recv if command["in_place"] else buffer(count * sends, dtype, offset)
        self.inputs = [Data(self.rank, i, dtype) for i in range(2)]
        # As IdleWork of measure.h: what the root alone writes between calls, so does this rank.
        self.idle_fills = self.size if op == "scatter" and self.rank != ROOT else 0
        self.results = [self.expected(op, i, count, dtype) for i in range(2)]
        came = self.recv if self.results[0] is not None else self.recv[:0]
        self.words = as_words(came) if command["touch"] else None
        if command["cold"] and not self.flush:
            self.flush = flusher()
        self.case = case

    def run(self, command: dict) -> dict[str, object]:
        op, touch, cold = command["op"], command["touch"], command["cold"]
        forms = self.library.in_place if command["in_place"] else self.library.out_of_place
        if op not in forms or (op != "barrier" and command["dtype"] not in self.library.dtypes):
            return {"unsupported": True}
        self.prepare(command)
        call, send, recv = forms[op], self.send, self.recv
        fill_inside = touch and (self.rank == ROOT or op not in ("broadcast", "scatter"))

        times: list[float] = []
        cpu_ns = errors = 0
        last = command["iterations"]
        for iteration in range(last + 1):  # the first one is not timed: see measure() in measure.h
            data, result = self.inputs[iteration % 2], self.results[iteration % 2]
            if not fill_inside:
                data.fill(send)
            for _ in range(self.idle_fills):
                data.fill(recv)
            if cold:
                self.flush(send)
                self.flush(recv)
            cpu_begin = time.process_time_ns() if command["cpu"] else 0
            begin = time.perf_counter_ns()
            if fill_inside:
                data.fill(send)
            call(send, recv)
            if touch:
                self.words.sum()
            spent = time.perf_counter_ns() - begin
            if iteration != 0:
                if command["cpu"]:
                    cpu_ns += time.process_time_ns() - cpu_begin
                times.append(max(0, spent - self.clock_ns) / 1000)
            if result is not None and iteration in (0, last):
                errors += int((recv != result).sum())
            if iteration == 0:
                dist.barrier()
        return {"us": times, "cpu_ns": cpu_ns, "errors": errors}


def main() -> None:
    name, folder, address = sys.argv[1], Path(sys.argv[2]), sys.argv[5]
    rank, size = int(sys.argv[3]), int(sys.argv[4])
    key = address.rpartition(":")[2]
    # Answers alone go to the pipe; whatever else prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    # torchrun's, which would have all ranks of this group be clients of its store.
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    dist.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=size, timeout=timedelta(seconds=120)
    )
    check_transport(expected=name == "gloo-floe")
    library: Gloo | Vllm | DeepSpeed
    if name == "vllm":
        library = Vllm(folder, rank, size, key)
    elif name == "deepspeed":
        library = DeepSpeed(folder, rank, size, key)
    else:
        library = Gloo(rank, size)
    dist.barrier()
    unlink_shared_memory(key, rank)
    peer = Peer(library, rank, size)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = peer.run(command)
        except (RuntimeError, ValueError, AttributeError) as problem:
            answer = {"error": f"{command['op']} of {command['dtype']}: {problem}"}
        print(json.dumps(answer), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
