"""What a run shows: progress while it goes on, and a plot of its losses."""

import sys
import time
from pathlib import Path
from typing import Any

from placement import UsageError

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

LINE_EVERY_SECONDS = 5.0


class Progress:
    """A bar on a terminal, a line every few seconds elsewhere; silent on ranks other than 0."""

    def __init__(
        self, label: str, first_step: int, steps: int | None, seconds: float | None, on: bool
    ):
        self.label, self.on, self.last_line = label, on, 0.0
        self.steps = steps
        self.bar = None
        if on and tqdm and sys.stderr.isatty():
            self.bar = tqdm(
                total=steps, initial=first_step, desc=label, unit="step", dynamic_ncols=True
            )
        elif on:
            until = []
            if steps is not None:
                until.append(f"step {steps}")
            if seconds is not None:
                until.append(f"{seconds:g} s")
            self.say(f"{label}: from step {first_step} until {' or '.join(until)}")

    def say(self, line: str) -> None:
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        elif self.on:
            print(line, file=sys.stderr, flush=True)

    def advance(self) -> None:
        if self.bar is not None:
            self.bar.update()

    def losses(
        self, step: int, loss: float, held_out: float | None, tokens_per_second: float
    ) -> None:
        if self.bar is not None:
            shown = {"loss": f"{loss:.3f}", "tok/s": f"{tokens_per_second:,.0f}"}
            if held_out is not None:
                shown["held-out"] = f"{held_out:.3f}"
            self.bar.set_postfix(shown)
        elif self.on and (
            held_out is not None or time.monotonic() - self.last_line > LINE_EVERY_SECONDS
        ):
            self.last_line = time.monotonic()
            held = "" if held_out is None else f"  held-out {held_out:.3f}"
            speed = f"{tokens_per_second:,.0f} tok/s"
            self.say(f"{self.label}: step {step:5d}  loss {loss:.3f}{held}  {speed}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from None


def plot(path: Path, histories: dict[str, list[dict[str, Any]]]) -> None:
    """Training and held-out loss of each run over its steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for (label, history), style in zip(histories.items(), ("-", "--", ":", "-."), strict=False):
        held = [point for point in history if point["held_out_loss"] is not None]
        steps = [point["step"] for point in history]
        axes.plot(
            steps, [p["loss"] for p in history], style, color="tab:blue", label=f"{label}, training"
        )
        axes.plot(
            [p["step"] for p in held],
            [p["held_out_loss"] for p in held],
            style,
            color="tab:orange",
            marker="o",
            markersize=3,
            label=f"{label}, held out",
        )
    axes.set(xlabel="step", ylabel="loss (nats per byte)", title="Byte-level GPT, BF16, DDP")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
