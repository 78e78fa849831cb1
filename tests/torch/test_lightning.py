"""PyTorch Lightning over floe, where tests/requirements.txt is installed."""

import importlib.util
from pathlib import Path

import pytest

from launch import run_torchrun

if importlib.util.find_spec("pytorch_lightning") is None:
    pytest.skip("pytorch_lightning is not installed", allow_module_level=True)

# A script that nobody has written for floe; what varies is in braces.
SCRIPT = """
import os
import pytorch_lightning as lightning
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lightning.seed_everything(1)
inputs = torch.randn(64, 4)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = Line()
trainer = lightning.Trainer(
    accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), max_epochs=20, precision="bf16-mixed",
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    strategy={strategy},
)
trainer.fit(model, DataLoader(data, batch_size=8, shuffle=True))
assert trainer.world_size == int(os.environ["WORLD_SIZE"])
assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "floe"
everyone = [None] * trainer.world_size
dist.all_gather_object(everyone, [p.tolist() for p in model.parameters()])
assert all(one == everyone[0] for one in everyone), everyone
assert trainer.callback_metrics["loss"] < 0.1, trainer.callback_metrics
print(f"named {{dist.get_backend()}}, trained", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("strategy", "name"),
    [('"ddp"', "gloo"), ('DDPStrategy(process_group_backend="floe")', "floe")],
)
def test_an_unmodified_script_trains_over_floe(
    tmp_path: Path, strategy: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1" if name == "gloo" else "0")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(strategy=strategy))
    ended = run_torchrun(2, str(script), timeout=280)
    assert ended.code == 0, ended.output
    assert ended.output.count(f"named {name}, trained") == 2, ended.output
