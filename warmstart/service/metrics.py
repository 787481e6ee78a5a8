"""Metrics of a server in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from threading import Lock

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of durations."""


class Metrics:
    """Thread-safe counts of requests by method, route and status, and histograms of their durations."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._durations.setdefault(route, [0] * (len(BOUNDS_S) + 1))[bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]  # a counter adds floats as well

    def text(self) -> str:
        """Format all metrics."""
        with self._lock:
            requests = sorted(self._requests.items())
            durations = sorted((route, list(counts)) for route, counts in self._durations.items())
            seconds = dict(self._seconds)
        lines = ["# HELP warmstart_requests_total Requests answered.", "# TYPE warmstart_requests_total counter"]
        for (method, route, status), count in requests:
            labels = f'method="{method}",route="{_escaped(route)}",status="{status}"'
            lines.append(f"warmstart_requests_total{{{labels}}} {count}")
        name = "warmstart_request_seconds"
        lines += [f"# HELP {name} Seconds from the first byte to the last.", f"# TYPE {name} histogram"]
        for route, counts in durations:
            label, total = f'route="{_escaped(route)}"', 0
            for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True):
                total += count
                lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
            lines += [f"{name}_sum{{{label}}} {seconds[route]:.6f}", f"{name}_count{{{label}}} {total}"]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
