"""A plot of `pivot_mined` as PNG, beside FILE: `python -m benchmarks.pivot_mined.plot FILE`, with matplotlib."""

import sys
from pathlib import Path

import orjson

from paddock.types import JsonObject

COLOURS = ("tab:blue", "tab:orange")
TITLES = {"held_out": "all held-out steps", "held_out_pivots": "held-out steps of the pivots' kind"}


def draw(figures: JsonObject, path: Path) -> None:
    """Draw both curves: thin lines are seeds, thick ones their means."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, plots = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for axes, (key, title) in zip(plots, TITLES.items(), strict=True):
        lines = figures[key]
        steps = [line["step"] for line in lines]
        sets = [name for name in lines[0] if name != "step" and "-" not in name]
        for name, colour in zip(sets, COLOURS, strict=True):
            for run in (key for key in lines[0] if key.startswith(f"{name}-")):
                axes.plot(steps, [line[run] for line in lines], color=colour, alpha=0.4, lw=0.8)
            axes.plot(steps, [line[name] for line in lines], color=colour, lw=2, marker="o", ms=3, label=name)
        axes.set(title=title, xlabel="steps of training", ylabel="mean reward", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(orjson.loads(source.read_bytes()), source.with_suffix(".png"))
