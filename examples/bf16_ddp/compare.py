"""Trains the same model over floe and over Gloo and sets the two side by side.

    python compare.py --ranks 2 --out build/train

Floe trains in two parts, before and after Gloo, the second resumed from the first's checkpoint: a
machine that grows slower or faster meanwhile does not favour one of them.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from report import plot, require_matplotlib

TRAINER = Path(__file__).with_name("train.py")
EVAL_EVERY = 50
FIRST_PART = 0.45  # of floe's time


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=Path("build/train"), help="folder for what is written"
    )
    parser.add_argument("--floe-seconds", type=float, default=75)
    parser.add_argument("--gloo-seconds", type=float, default=35)
    parser.add_argument("--grad-dtype", choices=("fp32", "bf16"), default="fp32")
    args = parser.parse_args()
    if args.floe_seconds <= 0 or args.gloo_seconds <= 0:
        parser.error("both times must be more than 0")
    return args


def train(args: argparse.Namespace, backend: str, seconds: float, *more: str) -> dict[str, Any]:
    summary = args.out / f"{backend}.json"
    command = [sys.executable, str(TRAINER), "--backend", backend, "--ranks", str(args.ranks)]
    command += [
        "--seconds",
        f"{seconds:g}",
        "--eval-every",
        str(EVAL_EVERY),
        "--grad-dtype",
        args.grad_dtype,
    ]
    command += ["--checkpoint", str(args.out / f"{backend}.pt"), "--json", str(summary), *more]
    finished = subprocess.run(command, stdout=subprocess.DEVNULL)
    if finished.returncode:
        sys.exit(finished.returncode)  # the trainer has said why
    return json.loads(summary.read_text())


def tokens_per_second(parts: list[dict[str, Any]]) -> float:
    """Of all parts together: their steps are equally long in tokens."""
    steps = sum(part["counted_steps"] for part in parts)
    return steps / sum(part["counted_steps"] / part["tokens_per_second"] for part in parts)


def communication(parts: list[dict[str, Any]], kind: str) -> float | None:
    shares = [part["communication_share"] for part in parts if part["communication_share"]]
    pairs = sum(share["pairs"] for share in shares)
    return sum(share[kind] * share["pairs"] for share in shares) / pairs if pairs else None


def at_same_step(
    floe: dict[str, Any], gloo: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Both records of the last step at which both runs measured the held-out loss."""
    of_gloo = {r["step"]: r for r in gloo["history"] if r["held_out_loss"] is not None}
    common = [
        (record, of_gloo[record["step"]])
        for record in floe["history"]
        if record["held_out_loss"] is not None and record["step"] in of_gloo
    ]
    return max(common, key=lambda pair: pair[0]["step"], default=None)


def table(floe_parts: list[dict[str, Any]], gloo: dict[str, Any]) -> str:
    floe_speed, gloo_speed = tokens_per_second(floe_parts), tokens_per_second([gloo])
    rows = [("", "floe", "gloo")]
    rows.append(("tokens/s", f"{floe_speed:,.0f}", f"{gloo_speed:,.0f}"))
    for kind in ("median", "mean"):
        both = [communication(parts, kind) for parts in (floe_parts, [gloo])]
        shown = ["not measured" if share is None else f"{share:.1%}" for share in both]
        rows.append((f"communication, {kind}", *shown))
    pair = at_same_step(floe_parts[-1], gloo)
    if pair:
        step = pair[0]["step"]
        rows.append((f"loss at step {step}", *(f"{record['loss']:.6f}" for record in pair)))
        rows.append((f"held-out loss at step {step}", *(f"{r['held_out_loss']:.6f}" for r in pair)))
    for name, shown in (("steps", "{step}"), ("final held-out loss", "{held_out_loss:.4f}")):
        rows.append((name, shown.format(**floe_parts[-1]), shown.format(**gloo)))
    lines = [f"{name:<28}{left:>14}{right:>14}" for name, left, right in rows]
    lines.insert(1, "-" * len(lines[0]))
    parts = " and ".join(f"{part['tokens_per_second']:,.0f}" for part in floe_parts)
    lines += [
        "",
        f"floe / gloo: {floe_speed / gloo_speed:.3f} in tokens/s.",
        f"floe's two parts, before and after gloo: {parts} tokens/s.",
        "Communication: step time that goes away when the gradient exchange is left out;",
        "below zero is noise.",
    ]
    return "\n".join(lines)


def main() -> None:
    args = parse_arguments()
    require_matplotlib()
    args.out.mkdir(parents=True, exist_ok=True)
    floe_parts = [train(args, "floe", args.floe_seconds * FIRST_PART)]
    gloo = train(args, "gloo", args.gloo_seconds)
    floe_parts.append(train(args, "floe", args.floe_seconds * (1 - FIRST_PART), "--resume"))
    plot(args.out / "loss.png", {"floe": floe_parts[-1]["history"], "gloo": gloo["history"]})
    print(
        f"\n{gloo['parameters']:,} parameters, {args.ranks} ranks, "
        f"threads per rank {gloo['threads_per_rank']}, BF16, {args.grad_dtype} gradients\n\n"
        f"{table(floe_parts, gloo)}\n\n"
        f"Wrote {args.out}: loss.png, floe.json, gloo.json, floe.pt, gloo.pt"
    )


if __name__ == "__main__":
    main()
