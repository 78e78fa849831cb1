"""Draws floe-bench's CSV, from stdin: time over size, a panel for each operation and type.

usage: plot.py FILE.png < figures.csv
"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

Row = dict[str, str]


def distinct(rows: list[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def form(rows: list[Row]) -> str:
    """in_place of the form that most libraries have."""
    libraries = {
        form: {r["peer"] for r in rows if r["in_place"] == form} for form in ("true", "false")
    }
    return max(libraries, key=lambda form: len(libraries[form]))


def draw(panel: pyplot.Axes, rows: list[Row], colors: dict[str, str]) -> None:
    in_place = form(rows)
    states = distinct(rows, "state")
    for library, color in colors.items():
        line = [r for r in rows if r["peer"] == library and r["in_place"] == in_place]
        if not line:
            continue
        sizes, times = [int(r["bytes"]) for r in line], [float(r["p50_us"]) for r in line]
        width = 2.5 if library == "floe" else 1.2
        panel.plot(sizes, times, marker=".", linewidth=width, color=color, label=library)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_title(
        f"{rows[0]['op']}, {rows[0]['dtype']}, {'in' if in_place == 'true' else 'out-of'}-place,"
        f" placement {'/'.join(states)}",
        fontsize=9,
    )
    panel.set_xlabel("size (bytes)")
    panel.set_ylabel("time of a call, p50 (µs)")
    panel.grid(True, which="major", alpha=0.3)
    panel.legend(fontsize=8)


def main() -> None:
    rows = list(csv.DictReader(sys.stdin))
    if not rows:
        raise SystemExit("plot.py: there are no figures to draw")
    ops, types = distinct(rows, "op"), distinct(rows, "dtype")
    cycle = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    colors = {name: cycle[i % len(cycle)] for i, name in enumerate(distinct(rows, "peer"))}
    figure, panels = pyplot.subplots(
        len(ops),
        len(types),
        figsize=(6.4 * len(types), 4.4 * len(ops)),
        squeeze=False,
        layout="constrained",
    )
    for y, op in enumerate(ops):
        for x, dtype in enumerate(types):
            those = [r for r in rows if r["op"] == op and r["dtype"] == dtype]
            if those:
                draw(panels[y][x], those, colors)
            else:
                panels[y][x].set_axis_off()
    first = rows[0]
    figure.suptitle(f"{', '.join(ops)}: {first['ranks']} ranks, {first['machine']}", fontsize=11)
    figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
