"""Check every link and picture within the built site: python .ci/check_links.py FOLDER. It needs no network."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page leads to, and the places in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Take what a tag leads to and how it is called."""
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """Links of all pages that lead nowhere within the site."""
    # `_static` has the theme's templates, which are no pages.
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.parts[len(site.parts)] != "_static"}
    found = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not place.is_file() or not place.is_relative_to(site):
                found.append(f"{path.relative_to(site)}: {target}: no such file")
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
                found.append(f"{path.relative_to(site)}: {target}: no such place on the page")
    return found


if __name__ == "__main__":
    problems = broken(Path(sys.argv[1]).resolve(strict=True))
    print("\n".join(problems) or "all links within the site lead somewhere")
    sys.exit(bool(problems))
