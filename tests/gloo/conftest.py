"""Fixtures of the Gloo transport's tests."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gloo_launch import Launcher, Start


@pytest.fixture(scope="session")
def lib_dir() -> Path:
    """Where libfloe_gloo.so is: FLOE_LIB_DIR, or the installed torch_floe."""
    if "FLOE_LIB_DIR" in os.environ:
        folder = Path(os.environ["FLOE_LIB_DIR"]).resolve()
    else:
        spec = importlib.util.find_spec("torch_floe")
        if spec is None or spec.origin is None:
            pytest.fail("set FLOE_LIB_DIR to the folder of libfloe_gloo.so, or install torch_floe")
        folder = Path(spec.origin).parent / "lib"
    for name in ("libfloe_gloo.so", "libfloe_gloo_preload.so"):
        assert (folder / name).exists(), f"{folder} has no {name}"
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(script, ranks, env, *arguments): a script on all ranks, killed with the test."""
    launcher = Launcher(tmp_path)
    yield launcher.start
    launcher.close()
