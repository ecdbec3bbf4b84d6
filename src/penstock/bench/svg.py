"""Writes elements of SVG as text. The report's charts (`chart.py`) and those of the benchmarks are written with it.
Pure."""

from html import escape


def element(name: str, content: str | None = None, /, **attributes: str | float) -> str:
    """Returns an element. `content` is markup. In the names of attributes _ stands for -, and a last _ is dropped
    (`class_`)."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def text(words: str, x: float, y: float, kind: str = "", anchor: str = "") -> str:
    """Returns a text element. `kind`: its class in the style sheet. `anchor`: which point of the text is at `x`:
    start, middle or end."""
    return element("text", escape(words), class_=kind, text_anchor=anchor, x=x, y=y)


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
