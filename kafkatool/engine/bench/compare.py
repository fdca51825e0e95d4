"""Compare two results of `bench`: what changed by more than its own variation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance
from typing import Any

from kafkatool.errors import KafkatoolError

_SIGMAS = 3.0
_LEAST = 0.01
_WITHOUT_SAMPLES = 0.1
"""What counts as a change if the variation of a number is unknown."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a run. `samples` are parts of the run, to estimate its variation."""

    name: str
    unit: str
    value: float
    higher_is_better: bool | None = None
    samples: Sequence[float] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "higher_is_better": self.higher_is_better,
            "samples": list(self.samples),
        }


@dataclass(frozen=True, slots=True)
class MeasuredChange:
    name: str
    unit: str
    before: float
    after: float
    verdict: str
    """better, worse, changed (if neither direction is better), or same."""
    noise: float | None
    """Share of the value by which it varies; None if unknown."""

    @property
    def share(self) -> float | None:
        return (self.after - self.before) / self.before if self.before else None


def read_result(path: str) -> dict[str, Any]:
    """Read what --out wrote. Raises KafkatoolError for anything else."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        for metric in found["metrics"]:
            float(metric["value"]), str(metric["name"]), [float(one) for one in metric["samples"]]
    except OSError as error:
        raise KafkatoolError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise KafkatoolError(f"{path}: not written by bench --out") from None
    return dict(found)


def differences(
    before: dict[str, Any], after: dict[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield settings and facts of the machine that differ: they alone may change the numbers."""
    for key in sorted(before.keys() | after.keys()):
        one, two = before.get(key), after.get(key)
        if key in ("volume_free", "metrics", "timeline", "command"):
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            yield from differences(one, two, f"{prefix}{key}.")
        elif one != two:
            yield f"{prefix}{key}", one, two


def compare(before: dict[str, Any], after: dict[str, Any]) -> Iterator[MeasuredChange]:
    """Yield the numbers that both have."""
    known = {metric["name"]: metric for metric in after["metrics"]}
    for metric in before["metrics"]:
        if metric["name"] in known:
            yield _change(metric, known[metric["name"]])


def _change(one: dict[str, Any], two: dict[str, Any]) -> MeasuredChange:
    before, after = float(one["value"]), float(two["value"])
    difference = after - before
    error = _standard_error(one["samples"], two["samples"])
    size = max(abs(before), abs(after))
    least = max(_LEAST * size, _SIGMAS * error) if error is not None else _WITHOUT_SAMPLES * size
    if abs(difference) <= least:
        verdict = "same"
    elif two.get("higher_is_better") is None:
        verdict = "changed"
    else:
        verdict = "better" if (difference > 0) == two["higher_is_better"] else "worse"
    noise = _SIGMAS * error / size if error is not None and size else None
    return MeasuredChange(one["name"], one.get("unit", ""), before, after, verdict, noise)


def _standard_error(one: Sequence[float], two: Sequence[float]) -> float | None:
    """Return the standard error of the difference of two means; None with fewer than three samples each."""
    if len(one) < 3 or len(two) < 3:
        return None
    return sqrt(variance(one, fmean(one)) / len(one) + variance(two, fmean(two)) / len(two))
