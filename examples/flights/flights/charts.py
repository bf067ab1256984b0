"""Charts as inline SVG with tooltips, without scripts, fonts or external files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape

# From early to late: teal, sand, orange, dark red. Readable on white, on black, and with color blindness.
_SCALE = ((42, 127, 128), (158, 202, 182), (246, 232, 195), (240, 163, 94), (205, 84, 60), (122, 22, 44))
_CELL, _GAP = 15, 2
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "Sun")


@dataclass(frozen=True)
class Scale:
    """Maps values to colors."""

    low: float
    high: float

    def color(self, value: float) -> str:
        """Return the color of a value; values beyond the ends get the color of the end."""
        share = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0) * (len(_SCALE) - 1)
        step = min(int(share), len(_SCALE) - 2)
        mixed = (round(a + (b - a) * (share - step)) for a, b in zip(_SCALE[step], _SCALE[step + 1], strict=True))
        return "#{:02x}{:02x}{:02x}".format(*mixed)

    def legend(self, unit: str) -> str:
        """Draw the scale with labels at its ends."""
        blocks = "".join(
            _rect(n * 14, 0, 14, 10, self.color(self.low + (self.high - self.low) * n / 11)) for n in range(12)
        )
        low, high = f"{self.low:g}", f"{self.high:g} {unit} or more"
        return (
            f'<svg class="legend" viewBox="0 0 330 12" width="330" height="12" role="img" aria-label="{low} to {high}">'
            f'<g transform="translate(28,1)">{blocks}</g>{_text(22, 10, low, "end")}{_text(202, 10, high)}</svg>'
        )


def calendar(values: dict[date, float], scale: Scale, *, noted: dict[date, str], tooltip: Callable[[date], str]) -> str:
    """Draw a year with one square per day and one column per week; noted days are circled."""
    first = min(values)
    offset = first.weekday()
    step = _CELL + _GAP
    marks, months = [], []
    for day in sorted(values):
        position = (day - first).days + offset
        x, y = 36 + position // 7 * step, 22 + position % 7 * step
        ring = ' class="noted"' if day in noted else ""
        marks.append(_rect(x, y, _CELL, _CELL, scale.color(values[day]), tooltip(day), ring))
        if day.day == 1:
            months.append(_text(x, 14, _MONTHS[day.month - 1]))
    weekdays = [_text(30, 22 + n * step + 12, name, "end") for n, name in enumerate(_WEEKDAYS) if name]
    return _svg(36 + 53 * step + 8, 22 + 7 * step + 6, [*months, *weekdays, *marks], "Calendar of the year")


def heat_map(
    rows: Sequence[str], columns: Sequence[object], values: dict[tuple[str, object], float], scale: Scale, unit: str
) -> str:
    """Draw a grid of colored cells; missing values are left empty."""
    label, width, height = 190, 29, 21
    marks = [_text(label + n * width + width / 2, 14, column, "middle") for n, column in enumerate(columns)]
    for line, row in enumerate(rows):
        y = 22 + line * height
        marks.append(_text(label - 10, y + 15, row, "end"))
        for n, column in enumerate(columns):
            if (value := values.get((row, column))) is None:
                continue
            tip = f"{row}, {column}: {value:g} {unit}"
            marks.append(_rect(label + n * width, y, width - _GAP, height - _GAP, scale.color(value), tip))
    return _svg(label + len(columns) * width, 22 + len(rows) * height + 4, marks, "Heat map")


@dataclass(frozen=True)
class Bar:
    """One bar with its label, length and text."""

    label: str
    value: float
    text: str
    tooltip: str = ""


def bars(shown: Sequence[Bar], scale: Scale | None = None, *, longest: float | None = None) -> str:
    """Draw horizontal bars in the given order."""
    label, room, height = 230, 420, 24
    top = longest or max((bar.value for bar in shown), default=1.0) or 1.0
    marks = []
    for line, bar in enumerate(shown):
        y, length = line * height, max(bar.value, 0) / top * room
        color = scale.color(bar.value) if scale else "#2a7f80"
        marks += [
            _text(label - 10, y + 16, bar.label, "end"),
            _rect(label, y + 3, max(length, 1), height - 8, color, bar.tooltip or f"{bar.label}: {bar.text}"),
            _text(label + length + 8, y + 16, bar.text, css="figure"),
        ]
    return _svg(label + room + 110, len(shown) * height + 4, marks, "Bars")


@dataclass(frozen=True)
class Point:
    """One point of a scatter plot."""

    x: float
    y: float
    tooltip: str
    size: float = 3.5


def scatter(points: Sequence[Point], scale: Scale, *, across: str, up: str) -> str:
    """Draw points on two axes; the horizontal axis has a square-root scale to spread out small values."""
    width, height, left, bottom, top = 760, 330, 44, 44, 28
    wide = max(point.x for point in points) or 1.0
    ticks = _ticks(min(point.y for point in points), max(point.y for point in points))
    low, high = ticks[0], ticks[-1]

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x / wide) ** 0.5 * (width - left - 12),
            height - bottom - (y - low) / (high - low) * (height - bottom - top),
        )

    marks = [_text(0, 12, up)]
    for value in ticks:
        _, y = at(0, value)
        marks.append(f'<line x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        marks.append(_text(left - 8, y + 4, f"{value:g}", "end"))
    marks += [
        _text(at(wide * share, low)[0], height - bottom + 18, f"{wide * share:.2g}", "middle")
        for share in (0, 1 / 16, 1 / 4, 9 / 16, 1)
    ]
    for point in sorted(points, key=lambda point: point.y):
        x, y = at(point.x, point.y)
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{point.size:.1f}" fill="{scale.color(point.y)}" class="point">'
            f"<title>{escape(point.tooltip)}</title></circle>"
        )
    marks.append(_text((left + width) / 2, height - 6, across, "middle"))
    return _svg(width + 8, height, marks, f"{up} by {across}")


def _ticks(low: float, high: float, step: int = 20) -> list[int]:
    return list(range(int(low // step) * step, (int(high // step) + 2) * step, step))


def _svg(width: float, height: float, marks: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'style="max-width:{width:.0f}px">{"".join(marks)}</svg>'
    )


def _rect(x: float, y: float, width: float, height: float, fill: str, tip: str = "", attributes: str = "") -> str:  # noqa: PLR0913, PLR0917 - attributes of an SVG rect
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{fill}"{attributes}'
    return f"<rect {place}><title>{escape(tip)}</title></rect>" if tip else f"<rect {place}/>"


def _text(x: float, y: float, text: object, anchor: str = "start", *, css: str = "") -> str:
    style = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(str(text))}</text>'
