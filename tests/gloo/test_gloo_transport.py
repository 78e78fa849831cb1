"""An unmodified script with the gloo backend gets from floe what it gets from Gloo's transport."""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from gloo_launch import (
    Launcher,
    Results,
    Start,
    check_same,
    environment,
    preloaded,
    reported,
    run_collectives,
    succeed,
    wait_until_started,
)


@pytest.fixture(scope="module")
def gloo_results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Results]]:
    """What Gloo's own transport leaves on each of so many ranks; run once for each number."""
    folder = tmp_path_factory.mktemp("gloo")
    launcher = Launcher(folder)
    yield cache(lambda ranks: run_collectives(launcher.start, ranks, environment(), folder))
    launcher.close()


@pytest.mark.parametrize(("ranks", "shm"), [(2, "on"), (4, "on"), (2, "off")])
def test_every_operation_gives_the_same_bits_as_gloo(
    ranks: int,
    shm: str,
    start: Start,
    lib_dir: Path,
    tmp_path: Path,
    gloo_results: Callable[[int], Results],
) -> None:
    env = preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="FLOE", FLOE_SHM=shm)
    floe_results = run_collectives(start, ranks, env, tmp_path)
    check_same(floe_results, gloo_results(ranks))


@pytest.mark.quick
def test_floe_carries_the_data(start: Start, lib_dir: Path) -> None:
    assert (
        reported(start("report.py", 2, preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="FLOE")))
        == [("True", 0)] * 2
    )
    for floe, connections in reported(start("report.py", 2, environment())):
        assert floe == "False"
        assert connections > 0


def test_the_shim_makes_floe_the_default(start: Start, lib_dir: Path) -> None:
    assert reported(start("report.py", 2, preloaded(lib_dir))) == [("True", 0)] * 2


def test_another_transport_can_be_chosen_under_the_shim(start: Start, lib_dir: Path) -> None:
    for floe, connections in reported(
        start("report.py", 2, preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="TCP"))
    ):
        assert floe == "False"
        assert connections > 0


def test_lazy_init_works(start: Start, lib_dir: Path) -> None:
    assert (
        reported(start("report.py", 2, preloaded(lib_dir, TORCH_GLOO_LAZY_INIT="1")))
        == [("True", 0)] * 2
    )


def test_an_interface_can_be_chosen(start: Start, lib_dir: Path) -> None:
    env = preloaded(lib_dir, GLOO_SOCKET_IFNAME="lo", FLOE_SHM="off")
    for floe, _ in reported(start("report.py", 2, env)):
        assert floe == "True"


def found(library: str) -> Path | None:
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), f"{sys.prefix}/lib"]
    folders += [f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64"]
    paths = (Path(folder, library) for folder in folders if folder)
    return next((path for path in paths if path.exists()), None)


@pytest.mark.parametrize("library", ["libtcmalloc_minimal.so.4", "libjemalloc.so.2", "libiomp5.so"])
def test_other_libraries_are_preloaded_before_and_after_the_shim(
    library: str, start: Start, lib_dir: Path
) -> None:
    """What guides for training on CPUs tell to preload."""
    path = found(library)
    if path is None:
        pytest.skip(f"there is no {library} here")
    env = preloaded(lib_dir)
    shim = env["LD_PRELOAD"]
    for preload in (f"{path}:{shim}", f"{shim}:{path}"):
        ranks = start("report.py", 2, env | {"LD_PRELOAD": preload})
        assert reported(ranks) == [("True", 0)] * 2


def test_survivors_of_a_killed_rank_name_it(start: Start, lib_dir: Path) -> None:
    ranks = start("all_reduce_forever.py", 4, preloaded(lib_dir))
    wait_until_started(ranks)
    ranks[2].kill()
    survivors = [ranks[i] for i in (0, 1, 3)]
    succeed(survivors)
    for rank in survivors:
        assert re.search(r"RuntimeError: .*rank 2\b", rank.text()), rank.text()


def test_a_timeout_says_so_and_ends_the_group(start: Start, lib_dir: Path) -> None:
    ranks = start("timeout.py", 2, preloaded(lib_dir))
    succeed(ranks)
    waiting, late = (rank.text() for rank in ranks)
    assert re.search(r"barrier: .*rank 1.*Timed out waiting 400ms for recv", waiting), waiting
    assert re.search(r"recv: .*rank 1.*Timed out waiting 300ms for recv", waiting), waiting
    assert re.search(r"barrier: floe: rank 1", late), late
