"""Pages as a browser takes them apart."""

from html.parser import HTMLParser

Element = tuple[str, tuple[str, ...]]


class _Outline(HTMLParser):
    """The elements of a page in their order, with the names of their attributes; comments and declarations too."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", ()))

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", ()))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("declaration", (decl,)))


def outline(page: str) -> list[Element]:
    """What a text in the page that left its place would change."""
    parser = _Outline()
    parser.feed(page)
    parser.close()
    return parser.elements
