"""The trainer's command line."""

import argparse
from collections.abc import Callable
from pathlib import Path

# The options that decide which numbers come out: a resumed run must have the same. How many ranks
# share the work, and through which backend, may change.
RUN_OPTIONS = ("layers", "width", "heads", "context", "batch", "lr", "seed", "grad_dtype")

DEFAULT_SECONDS = 60.0


def above(limit: int, kind: type) -> Callable[[str], int | float]:
    def parse(text: str) -> int | float:
        value = kind(text)
        if not value > limit:  # also refuses nan
            raise argparse.ArgumentTypeError(f"{text} is not more than {limit}")
        return value

    parse.__name__ = kind.__name__  # for argparse's "invalid int value"
    return parse


def parse_options(description: str | None, argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    count, natural, number = above(0, int), above(-1, int), above(0, float)
    add = parser.add_argument
    add("--backend", choices=("floe", "gloo"), default="floe")
    add("--ranks", type=count, help="start this many ranks here; default: the launcher's, or 1")
    add("--threads", type=count, help="of each rank; default: its share of this host's CPUs")
    add("--steps", type=count, help="train up to this step, counted from the first run's start")
    add("--seconds", type=number, help="train this long; 60 if --steps is not given either")
    add("--batch", type=count, default=24, help="sequences per step, divided over the ranks (24)")
    add("--context", type=count, default=128, help="bytes per sequence (128)")
    add("--layers", type=count, default=4, help="(4)")
    add("--width", type=count, default=192, help="(192)")
    add("--heads", type=count, default=3, help="(3)")
    add("--lr", type=number, default=2e-3, help="the learning rate's peak (0.002)")
    add("--seed", type=natural, default=1, help="of the weights and the order of the text (1)")
    add("--grad-dtype", choices=("fp32", "bf16"), default="fp32", help="in which they are sent")
    add("--eval-every", type=count, default=100, help="steps between held-out losses (100)")
    add("--probe-every", type=natural, default=10, help="steps between timings without gradient "
        "exchange (10); 0: the communication share is not measured")  # fmt: skip
    add("--checkpoint", type=Path, help="file to write, at the end and while training")
    add("--checkpoint-every", type=count, default=500, help="steps (500)")
    add("--resume", action="store_true", help="go on from --checkpoint")
    add("--json", type=Path, help="file to write the summary and the losses to")
    add("--plot", type=Path, help="PNG to draw both losses in")
    options = parser.parse_args(argv)

    if options.steps is None and options.seconds is None:
        options.seconds = DEFAULT_SECONDS
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if options.resume and not options.checkpoint:
        parser.error("--resume needs --checkpoint")
    return options
