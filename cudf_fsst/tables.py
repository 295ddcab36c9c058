"""Tables as notebooks show them: without scripts, and in the colours of the page, be it light or dark."""

from __future__ import annotations

from collections.abc import Sequence

from .sizes import format_bytes


def as_html(caption: str, lines: Sequence[Sequence[str]], bars: Sequence[tuple[int, int]] = ()) -> str:
    """An HTML table of texts, its head first.

    Parameters
    ----------
    caption : str
    lines : sequence of sequence of str
        Any text: it is escaped.
    bars : sequence of tuple of int
        Of each line but the head the bytes compressed and uncompressed, which a bar at its end shows.
    """
    from html import escape

    widest = max([1, *(max(sizes) for sizes in bars)])
    head = "".join(f"<th>{escape(cell)}</th>" for cell in (*lines[0], *(["size"] if bars else [])))
    drawn = [f"<td>{size_bar(*sizes, widest)}</td>" for sizes in bars] or [""] * (len(lines) - 1)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + f"{end}</tr>"
        for line, end in zip(lines[1:], drawn, strict=True)
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def size_bar(nbytes: int, uncompressed_nbytes: int, widest: int) -> str:
    """A frame as long as the uncompressed bytes, filled as far as the compressed ones go; `widest`: bytes of 12 em."""
    said = f"{format_bytes(uncompressed_nbytes)} as {format_bytes(nbytes)}"
    long, filled = (round(100 * size / widest, 1) for size in (uncompressed_nbytes, nbytes))
    line = "position:absolute;left:0;top:0;bottom:0;box-sizing:border-box"
    return (
        f'<div role="img" aria-label="{said}" title="{said}" style="position:relative;width:12em;height:0.8em">'
        f'<div style="{line};width:{long}%;min-width:2px;border:1px solid currentColor;opacity:0.5"></div>'
        f'<div style="{line};width:{filled}%;min-width:1px;background:currentColor;opacity:0.7"></div></div>'
    )
