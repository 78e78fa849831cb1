"""The example examples/tensor_parallel: the same tokens over floe and Gloo, and on any ranks."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensor_parallel" / "decode.py"
SMALL = ["--layers", "2", "--width", "64", "--heads", "4", "--tokens", "12"]
SMALL += ["--threads", "1", "--dtype", "float32"]


def decode(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *SMALL, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_decodes_the_same_tokens(tmp_path: Path) -> None:
    tokens = {}
    for ranks in (1, 2):
        file = tmp_path / f"{ranks}.json"
        backends = ("floe", "gloo", "none") if ranks == 2 else ("floe",)
        done = decode("--ranks", str(ranks), "--backend", *backends, "--json", str(file))
        assert done.returncode == 0, done.stderr
        results = json.loads(file.read_text())
        assert set(results) == set(backends)
        assert all(row["tokens_per_second"] > 0 for row in results.values())
        tokens[ranks] = results["floe"]["tokens"]
        if ranks == 2:
            assert results["gloo"]["tokens"] == tokens[2]
            assert "tokens/s" in done.stdout
    assert tokens[1] == tokens[2]
    assert len(set(tokens[1])) > 3  # it does not say one thing for ever


def test_refuses_heads_that_cannot_be_divided() -> None:
    done = decode("--ranks", "3")
    assert done.returncode == 2
    assert "error: --heads 4 can't be divided over 3 ranks" in done.stderr
