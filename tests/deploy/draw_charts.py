"""Draws what charts.py hands over on standard input, as SVG into the file of the argument."""

import json
import sys

import matplotlib

matplotlib.use("svg")
# The same numbers make the same file.
matplotlib.rcParams["svg.hashsalt"] = "memoryd"

# After the choice of what it draws with.
import matplotlib.pyplot as plt

UNITS = {"reqps": ("calls a second", 1), "s": ("ms", 1000), "short": ("", 1)}


def main() -> None:
    told = json.load(sys.stdin)
    figure, axes = plt.subplots(2, 2, figsize=(11, 6.5), layout="constrained")
    for axis, (title, panel) in zip(axes.flat, told["panels"].items(), strict=True):
        unit, factor = UNITS[panel["unit"]]
        axis.axvspan(*told["hung"], color="0.9")
        for series in panel["series"]:
            seconds, values = zip(*series["values"], strict=True)
            axis.plot(seconds, [value * factor for value in values], label=series["name"], linewidth=1.2)
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel(unit, fontsize=8)
        if panel["unit"] == "s":
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, loc="upper left", ncols=2, framealpha=0.6)
    for axis in axes[1]:
        axis.set_xlabel("seconds", fontsize=8)
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
