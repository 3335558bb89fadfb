"""Scraping the metrics of a server under test."""

from __future__ import annotations

import re
import urllib.request

# name, labels as (name, value) pairs in order -> value
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_SAMPLE = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')


def scrape_text(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain"), reply.headers
        return reply.read().decode()


def parse(text: str) -> Series:
    """Every sample of a scrape; a line that is none, or a series that comes twice, is an error."""
    series: Series = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) \w+ ", line), line
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        labels = tuple(_LABEL.findall(sample[2] or ""))
        assert ",".join(f'{name}="{value}"' for name, value in labels) == (sample[2] or ""), line
        key = (sample[1], labels)
        assert key not in series, line
        series[key] = float(sample[3])
    return series


def scrape(address: str) -> Series:
    return parse(scrape_text(address))


def value(series: Series, name: str, **labels: str) -> float:
    """The sample with exactly these labels; 0 when it is not there, as for counters."""
    wanted = sorted(labels.items())
    return sum(v for (n, found), v in series.items() if n == name and sorted(found) == wanted)


class Watch:
    """How counters move from here on."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._before = scrape(address)

    def moved(self, name: str, **labels: str) -> float:
        return value(scrape(self._address), name, **labels) - value(self._before, name, **labels)
