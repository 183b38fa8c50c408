"""The curves of a run as PNG: reward, loss, agreement of trainer and engine, age and masks, where time goes.

Law     drawn from `metrics.jsonl` alone, without a display. A curve that no step has is left out; a plot without a
        curve is not written.
Units   x: steps done.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.training.grpo.metrics_log import MetricsLine


class Plot(NamedTuple):
    """One file with its curves: metric and label of each."""

    name: str
    y: str
    curves: tuple[tuple[str, str], ...]
    log: bool = False
    prefixes: tuple[str, ...] = ()
    """Further curves: of all metrics below these names that are anything but 0 somewhere."""


PLOTS = (
    Plot(
        "reward",
        "mean reward",
        (
            ("train/total_reward/mean", "training"),
            ("validation/accuracy", "validation"),
            ("validation/pass_k", "pass@k"),
        ),
    ),
    Plot("loss", "loss", (("train/loss", "loss"), ("train/grad_norm", "gradient norm"), ("train/kl_penalty", "KL"))),
    Plot("entropy", "nats", (("train/entropy", "entropy"), ("train/approx_entropy", "entropy (estimate)"))),
    Plot(
        "agreement",
        "|log-prob of trainer - of engine|",
        (
            ("train/logprob_error/current/mean_abs", "current tokens, mean"),
            ("train/logprob_error/current/max_abs", "current tokens, max"),
            ("train/logprob_error/all/mean_abs", "all tokens, mean"),
        ),
        log=True,
    ),
    Plot("staleness", "versions", (("train/staleness/mean", "mean"), ("train/staleness/max", "max"))),
    Plot(
        "curriculum", "rows", tuple((f"curriculum/{pool}", pool) for pool in ("easy", "normal", "hard", "unmeasured"))
    ),
    Plot("turns", "turns per rollout", (("train/turns_per_sample/mean", "mean"),)),
    Plot(
        "group_seconds",
        "seconds of a group",
        tuple(
            (f"{metric}/{what}", f"{label}, {what}")
            for metric, label in (
                ("rollouts/group_s", "all"),
                ("train/group_s", "trained on"),
                ("lost/group_s", "lost"),
            )
            for what in ("p50", "p95")
        ),
        log=True,
    ),
    Plot("failures", "share of rollouts without a verdict", (), prefixes=("rollouts/failed_rate/",)),
    Plot("masked", "members and samples per step", (), prefixes=("train/masked/",)),
    Plot(
        "seconds",
        "seconds per step",
        tuple((f"timing/{name}_s", name) for name in ("step", "wait", "drain", "train", "send", "validate")),
    ),
)


class _Curve(NamedTuple):
    label: str
    steps: list[int]
    values: list[float]


def draw(lines: Sequence[MetricsLine], folder: Path) -> list[Path]:
    """The files that were written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for plot in PLOTS:
        curves = [curve for curve in _curves(plot, lines) if curve.steps]
        if not curves:
            continue
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        _fill(axes, plot, curves)
        path = folder / f"{plot.name}.png"
        figure.savefig(path, dpi=110)
        pyplot.close(figure)
        written.append(path)
    return written


def _curves(plot: Plot, lines: Sequence[MetricsLine]) -> Iterator[_Curve]:
    for metric, label in plot.curves:
        yield _curve(metric, label, lines)
    for prefix in plot.prefixes:
        for metric in sorted({name for line in lines for name in line.metrics if name.startswith(prefix)}):
            curve = _curve(metric, metric.removeprefix(prefix), lines)
            if any(curve.values):
                yield curve


def _curve(metric: str, label: str, lines: Sequence[MetricsLine]) -> _Curve:
    """A validation beside steps repeats what the last step told of training: only its own figures are new."""
    own = [line for line in lines if metric in line.metrics and (line.trained or metric.startswith("validation/"))]
    last = {line.step: line.metrics[metric] for line in own}
    return _Curve(label, list(last), list(last.values()))


def _fill(axes: Any, plot: Plot, curves: Sequence[_Curve]) -> None:
    for curve in curves:
        axes.plot(curve.steps, curve.values, label=curve.label, marker="o" if len(curve.steps) < 20 else None, ms=3)
    axes.set_xlabel("steps")
    axes.set_ylabel(plot.y)
    axes.set_title(plot.name)
    axes.grid(alpha=0.3)
    if plot.log and any(value > 0 for curve in curves for value in curve.values):
        axes.set_yscale("log")
    axes.legend()
