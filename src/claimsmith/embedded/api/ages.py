"""Times as tables for people show them.

Source: HumanDuration, k8s.io/apimachinery v0.37.2 pkg/util/duration/duration.go.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

__all__ = ["age_of", "human_duration", "parse_time"]


def age_of(timestamp: str | None, now: float) -> str:
    """Return how long ago a time was, as in `5m` or `3d4h`.

    Args:
        timestamp: RFC 3339 text; None or empty if unknown.
        now: Seconds since 1970.
    """
    seconds = parse_time(timestamp) if timestamp else None
    return "<unknown>" if seconds is None else human_duration(now - seconds)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float | None:
    """Return an RFC 3339 time as seconds since 1970; None if the text is no time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def human_duration(duration_s: float) -> str:
    """Return a duration in at most two units, such as `72s`, `5m10s`, `3h`, `2d5h` or `1y20d`."""
    seconds = int(duration_s)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _pair(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
