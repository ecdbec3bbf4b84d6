"""How figures and foreign texts are written on the screen. Used by `lists.py` and `screen.py`."""

from unicodedata import east_asian_width


def rate(value: float) -> str:
    """Says a number of things a second."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 10_000:
        return f"{value / 1e3:.1f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %"


def plain(text: str) -> str:
    """Returns a text without anything that could steer a terminal. Errors and names may come from strangers."""
    return "".join(each if each.isprintable() else " " for each in text)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Returns the text in just so many columns of the screen: cut, or filled with blanks."""
    taken = 0
    kept: list[str] = []
    for each in plain(text):
        wide = 2 if east_asian_width(each) in "WF" else 1
        if taken + wide > width:
            if kept and width > 1:
                gone = kept.pop()
                taken -= 2 if east_asian_width(gone) in "WF" else 1
                kept.append("…")
                taken += 1
            break
        kept.append(each)
        taken += wide
    blanks = " " * (width - taken)
    return blanks + "".join(kept) if right else "".join(kept) + blanks
