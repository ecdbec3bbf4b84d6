"""Elements of SVG as text: what the charts of `penstock bench` and of the benchmarks are made of."""

from html import escape


def element(name: str, content: str | None = None, /, **attributes: str | float) -> str:
    """`content` is markup. In the names of attributes _ stands for -, and a last _ is dropped (`class_`)."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def text(words: str, x: float, y: float, kind: str = "", anchor: str = "") -> str:
    """`kind`: its class in the style sheet. `anchor`: start, middle or end, where `x` is."""
    return element("text", escape(words), class_=kind, text_anchor=anchor, x=x, y=y)


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)
