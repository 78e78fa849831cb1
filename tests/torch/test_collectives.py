"""Every collective, type and operation against an oracle, bit by bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
import torch.distributed as dist

from launch import run_ranks

Op = dist.ReduceOp
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]
FLOATS8 = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [*FLOATS, *FLOATS8, *INTEGERS, torch.bool, *COMPLEX, torch.float8_e4m3fnuz]
SHAPES = [(), (0,), (1,), (7, 3), (4099,), (3, 50001)]
OPS = {"sum": Op.SUM, "product": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX, "avg": Op.AVG}
BITS = {"band": Op.BAND, "bor": Op.BOR, "bxor": Op.BXOR}
FACTORS = [1.5, -0.5, 3.0, 0.25]  # of premul-sum, by rank


def data(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """What `rank` contributes: every rank can compute every other's."""
    generator = np.random.default_rng([rank, *shape, 1])
    if dtype == torch.bool:
        return torch.from_numpy(np.asarray(generator.integers(0, 2, shape, dtype=np.uint8))).bool()
    if dtype in INTEGERS:
        numpy_type = str(dtype).removeprefix("torch.")
        bits = np.iinfo(numpy_type)
        return torch.from_numpy(
            np.asarray(generator.integers(bits.min, bits.max, shape, dtype=numpy_type))
        )
    # The range of float8_e4m3fn is passed here and there.
    scale = 200 if dtype in FLOATS8 else 1
    values = scale * generator.standard_normal(shape)
    if dtype in COMPLEX:
        values = values + 1j * generator.standard_normal(shape)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def operation(op: str) -> object:
    if op == "premul":
        return dist._make_nccl_premul_sum(FACTORS[dist.get_rank()])
    return (OPS | BITS)[op]


def bits(tensor: torch.Tensor) -> bytes:
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def assert_same(actual: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    assert bits(actual) == bits(expected), (what, actual, expected)


def combine(parts: list[torch.Tensor], op: str) -> torch.Tensor:
    """In rank order; 16- and 8-bit floats in float32 with one rounding; integers wrap."""
    dtype = parts[0].dtype
    if dtype == torch.bool:
        stack = torch.stack(parts)
        if op == "bxor":
            return stack.sum(0) % 2 == 1
        return stack.any(0) if op in ("sum", "max", "bor") else stack.all(0)
    if dtype in INTEGERS:
        ufuncs = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}
        ufuncs |= {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
        ufunc = ufuncs[op]
        result = parts[0].numpy()
        for part in parts[1:]:
            result = ufunc(result, part.numpy())
        return torch.from_numpy(np.asarray(result))
    if dtype in COMPLEX:
        return torch.view_as_complex(combine([torch.view_as_real(part) for part in parts], op))
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    if op == "premul":
        factors = torch.tensor(FACTORS, dtype=wide)
        parts = [part.to(wide) * factors[rank] for rank, part in enumerate(parts)]
    fold = {"sum": torch.add, "avg": torch.add, "premul": torch.add, "product": torch.mul}
    fold |= {"min": torch.minimum, "max": torch.maximum}
    result = parts[0].to(wide)
    for part in parts[1:]:
        result = fold[op](result, part.to(wide))
    return (result / len(parts) if op == "avg" else result).to(dtype)


def reductions() -> list[tuple[str, torch.dtype]]:
    cases = [(op, dtype) for op in [*OPS, "premul"] for dtype in [*FLOATS, *FLOATS8]]
    cases += [(op, dtype) for op in ("sum", "avg") for dtype in COMPLEX]
    whole = [*INTEGERS, torch.bool]
    return cases + [(op, dtype) for op in [*OPS, *BITS] if op != "avg" for dtype in whole]


def check_reductions() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for op, dtype in reductions():
        for shape in SHAPES:
            what = (op, dtype, shape)
            parts = [data(r, shape, dtype) for r in range(ranks)]
            expected = combine(parts, op)

            mine = parts[rank].clone()
            dist.all_reduce(mine, operation(op))
            assert_same(mine, expected, ("all_reduce", *what))

            root = ranks - 1
            mine = parts[rank].clone()
            dist.reduce(mine, root, operation(op))
            assert_same(mine, expected if rank == root else parts[rank], ("reduce", *what))

            blocks = [
                [data(r * ranks + b, shape, dtype) for b in range(ranks)] for r in range(ranks)
            ]
            expected = combine([row[rank] for row in blocks], op)
            output = torch.empty(shape, dtype=dtype)
            dist.reduce_scatter(output, blocks[rank], operation(op))
            assert_same(output, expected, ("reduce_scatter", *what))
            output = torch.empty(shape, dtype=dtype)
            joined = torch.cat([block.reshape(-1) for block in blocks[rank]])
            dist.reduce_scatter_tensor(output.reshape(-1), joined, operation(op))
            assert_same(output, expected, ("reduce_scatter_tensor", *what))


def check_movement() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for dtype in ALL:
        for shape in SHAPES:
            parts = [data(r, shape, dtype) for r in range(ranks)]
            for root in {0, ranks - 1}:
                mine = parts[rank].clone()
                dist.broadcast(mine, root)
                assert_same(mine, parts[root], ("broadcast", dtype, shape))

            outputs = [torch.empty(shape, dtype=dtype) for _ in range(ranks)]
            dist.all_gather(outputs, parts[rank])
            for output, part in zip(outputs, parts, strict=True):
                assert_same(output, part, ("all_gather", dtype, shape))

            joined = torch.empty(ranks * parts[rank].numel(), dtype=dtype)
            dist.all_gather_into_tensor(joined, parts[rank].reshape(-1))
            expected = torch.cat([part.reshape(-1) for part in parts])
            assert_same(joined, expected, ("all_gather_into_tensor", dtype, shape))

            outputs = [torch.empty(shape, dtype=dtype) for _ in range(ranks)]
            dist.gather(parts[rank], outputs if rank == 0 else None, dst=0)
            if rank == 0:
                for output, part in zip(outputs, parts, strict=True):
                    assert_same(output, part, ("gather", dtype, shape))

            output = torch.empty(shape, dtype=dtype)
            dist.scatter(output, parts if rank == 0 else None, src=0)
            assert_same(output, parts[rank], ("scatter", dtype, shape))

            inputs = [data(rank * ranks + to, shape, dtype) for to in range(ranks)]
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(ranks)]
            dist.all_to_all(outputs, inputs)
            for source, output in enumerate(outputs):
                expected = data(source * ranks + rank, shape, dtype)
                assert_same(output, expected, ("all_to_all", dtype, shape))


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.quick), 3, 4])
def test_reductions_equal_the_oracle(ranks: int) -> None:
    run_ranks(ranks, check_reductions)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.quick), 3, 4])
def test_movement_keeps_every_bit(ranks: int) -> None:
    run_ranks(ranks, check_movement)


def check_complex_products() -> None:
    """PyTorch's own functions refuse what the backend has."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    options = dist.AllreduceOptions()
    options.reduceOp = Op.PRODUCT
    for dtype in COMPLEX:
        parts = [torch.tensor([1 + 2j, r - 1j, 0.5j], dtype=dtype) for r in range(ranks)]
        mine = parts[rank].clone()
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([mine], options).wait()
        assert_same(mine, torch.stack(parts).prod(0), dtype)


def test_products_of_complex_numbers() -> None:
    run_ranks(3, check_complex_products)


def sum_of_bf16() -> list[float]:
    start = 256.0 if dist.get_rank() == 0 else 1.0
    tensor = torch.full((100_003,), start, dtype=torch.bfloat16)
    dist.all_reduce(tensor)
    return tensor.unique().tolist()


def test_bf16_rounds_once_over_all_ranks() -> None:
    """In bfloat16 256 + 1 is 256; the sum of all is 263, and its nearest bfloat16 264."""
    assert run_ranks(8, sum_of_bf16) == [[264.0]] * 8


def check_coalesced() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shapes = [(5,), (), (0,), (300, 41)]
    tensors = [data(rank, shape, torch.float32) for shape in shapes]
    expected = [
        combine([data(r, shape, torch.float32) for r in range(ranks)], "sum") for shape in shapes
    ]
    dist.all_reduce_coalesced(tensors)
    for tensor, sum_ in zip(tensors, expected, strict=True):
        assert_same(tensor, sum_, "all_reduce_coalesced")

    inputs = [data(rank, shape, torch.int32) for shape in shapes]
    outputs = [[torch.empty(shape, dtype=torch.int32) for shape in shapes] for _ in range(ranks)]
    dist.all_gather_coalesced(outputs, inputs)
    for source, row in enumerate(outputs):
        for shape, output in zip(shapes, row, strict=True):
            assert_same(output, data(source, shape, torch.int32), "all_gather_coalesced")

    group = dist.group.WORLD
    rows = [torch.full((3,), rank), torch.full((2,), 10 + rank)]
    wide = [torch.empty(3 * ranks, dtype=torch.int64), torch.empty(2 * ranks, dtype=torch.int64)]
    group.allgather_into_tensor_coalesced(wide, rows).wait()
    assert wide[0].tolist() == [r for r in range(ranks) for _ in range(3)]
    assert wide[1].tolist() == [10 + r for r in range(ranks) for _ in range(2)]

    narrow = [torch.empty(3, dtype=torch.int64), torch.empty(2, dtype=torch.int64)]
    group.reduce_scatter_tensor_coalesced(narrow, wide).wait()
    assert narrow[0].tolist() == [ranks * rank] * 3
    assert narrow[1].tolist() == [ranks * (10 + rank)] * 2


def test_coalesced_collectives() -> None:
    run_ranks(3, check_coalesced)


def check_views() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # A view in the middle of its storage, and nothing around it changes.
    storage = torch.full((100,), -1.0)
    storage[40:50] = rank
    dist.all_reduce(storage[40:50])
    assert storage[40:50].tolist() == [sum(range(ranks))] * 10
    assert torch.all(storage[:40] == -1)
    assert torch.all(storage[50:] == -1)

    # Neighbours in one storage, and columns that are not contiguous.
    joined = torch.empty(ranks, 6)
    dist.all_gather(list(joined), torch.full((6,), float(rank)))
    assert joined[:, 0].tolist() == list(range(ranks))
    columns = torch.empty(6, ranks)
    dist.all_gather(list(columns.unbind(1)), torch.full((6,), float(rank)))
    assert columns[3].tolist() == list(range(ranks))

    # In place: the input is this rank's part of the output, and the other way round.
    dist.all_gather_into_tensor(joined, joined[rank].fill_(rank + 0.5))
    assert joined[:, 5].tolist() == [r + 0.5 for r in range(ranks)]
    dist.reduce_scatter_tensor(joined[rank], joined)
    assert joined[rank].tolist() == [ranks * (rank + 0.5)] * 6

    # A parameter: it needs gradients.
    parameter = torch.nn.Parameter(torch.full((4,), float(rank)))
    dist.all_gather([torch.nn.Parameter(torch.empty(4)) for _ in range(ranks)], parameter)
    dist.broadcast(parameter.data, 0)
    assert parameter.tolist() == [0.0] * 4


def test_views_offsets_and_in_place_forms() -> None:
    run_ranks(3, check_views)


def check_uneven_all_to_all() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # Rank r sends r + d rows to rank d: nothing from 0 to 0.
    send = [rank + to for to in range(ranks)]
    receive = [source + rank for source in range(ranks)]
    rows = torch.cat([torch.full((n, 3), 10 * rank + to) for to, n in enumerate(send)])
    output = torch.full((sum(receive), 3), -1, dtype=torch.int64)
    dist.all_to_all_single(output, rows, receive, send)
    expected = [10 * source + rank for source, n in enumerate(receive) for _ in range(n)]
    assert output[:, 0].tolist() == expected
    assert output[:, 2].tolist() == expected


def test_uneven_all_to_all() -> None:
    run_ranks(3, check_uneven_all_to_all)


def check_uneven_lists() -> None:
    """Tensors of different sizes, one of them empty, one a column, in memory of their own."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.bfloat16, torch.int64, torch.complex128):
        parts = [data(r, (5 * r,), dtype) for r in range(ranks)]

        def empties(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            lists = [torch.empty(5 * r, dtype=dtype) for r in range(ranks)]
            lists[1] = torch.empty(5, 2, dtype=dtype)[:, 1]
            return lists

        outputs = empties()
        dist.all_gather(outputs, parts[rank])
        for output, part in zip(outputs, parts, strict=True):
            assert_same(output, part, ("all_gather", dtype))

        root = ranks - 1
        outputs = empties()
        dist.gather(parts[rank], outputs if rank == root else None, dst=root)
        if rank == root:
            for output, part in zip(outputs, parts, strict=True):
                assert_same(output, part, ("gather", dtype))

        output = torch.empty(5 * rank, dtype=dtype)
        dist.scatter(output, parts if rank == root else None, src=root)
        assert_same(output, parts[rank], ("scatter", dtype))

        inputs = [data(10 * rank + to, (rank + 2 * to,), dtype) for to in range(ranks)]
        outputs = [torch.empty(source + 2 * rank, dtype=dtype) for source in range(ranks)]
        dist.all_to_all(outputs, inputs)
        for source, received in enumerate(outputs):
            assert_same(
                received,
                data(10 * source + rank, (source + 2 * rank,), dtype),
                ("all_to_all", dtype),
            )

    blocks = [torch.full((3 * to,), rank + 1.0) for to in range(ranks)]
    output = torch.empty(3 * rank)
    dist.reduce_scatter(output, blocks)
    assert output.tolist() == [ranks * (ranks + 1) / 2] * (3 * rank)


def test_uneven_lists() -> None:
    run_ranks(3, check_uneven_lists)


def check_repeated_outputs() -> None:
    """[tensor] * world_size, a common slip: over other backends the last rank's data stays."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    outputs = [torch.zeros(5)] * ranks
    dist.all_gather(outputs, torch.full((5,), float(rank)))
    assert outputs[0].tolist() == [ranks - 1.0] * 5


def test_repeated_outputs() -> None:
    run_ranks(3, check_repeated_outputs)


def check_messages() -> None:
    rank = dist.get_rank()
    if rank == 0:
        # Tags choose, whatever the order; a receive does not queue behind a collective.
        late = torch.empty(3)
        pending = dist.irecv(late, 1, tag=7)
        dist.barrier()
        first, second = torch.empty(2), torch.empty(100_000)
        dist.recv(second, 1, tag=2)
        dist.recv(first, 1, tag=1)
        pending.wait()
        assert (first[0], second[-1], late[0]) == (1.0, 2.0, 7.0)
        anyone = torch.empty(1, dtype=torch.bfloat16)
        sources = {dist.recv(anyone) for _ in range(2)}
        assert sources == {1, 2}
    elif rank == 1:
        dist.barrier()
        requests = [
            dist.isend(torch.full((3,), 7.0), 0, tag=7),
            dist.isend(torch.full((2,), 1.0), 0, tag=1),
            dist.isend(torch.full((100_000,), 2.0), 0, tag=2),
        ]
        for request in requests:
            request.wait()
        dist.send(torch.ones(1, dtype=torch.bfloat16), 0)
    else:
        dist.barrier()
        dist.send(torch.ones(1, dtype=torch.bfloat16), 0)


def test_messages_match_by_tag_and_pass_collectives() -> None:
    run_ranks(3, check_messages)


def check_objects() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gathered: list = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (1000 * rank)})
    assert [(o["rank"], len(o["text"])) for o in gathered] == [(r, 1000 * r) for r in range(ranks)]
    objects = ["a", [1, 2]] if rank == 1 else [None, None]
    dist.broadcast_object_list(objects, src=1)
    assert objects == ["a", [1, 2]]


def test_objects() -> None:
    run_ranks(3, check_objects)
