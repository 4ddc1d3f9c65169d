"""HTML to text: API results, and descriptions in OpenAPI documents."""

import html
import re

_TAG_NAME = re.compile(r"[/!?]?[a-zA-Z][\w:-]*|[!?/]")
_HIDDEN = ("script", "style", "head", "noscript", "template")


def html_text(page: str) -> str:
    """An HTML page's text, in linear time: html.parser needs a minute for 200 KB of "<!--"."""
    before, *after = page.split("<!--")
    first, *parts = "".join([before, *(one.partition("-->")[2] for one in after)]).split("<")
    texts, hidden = [first], ""
    for part in parts:
        tag, _, text = part.partition(">")
        name = _TAG_NAME.match(tag)
        if hidden:
            hidden = "" if name is not None and name[0].lower() == f"/{hidden}" else hidden
        elif name is None:
            texts.append(f"<{part}")  # "a < b"
            continue
        elif name[0].lower() in _HIDDEN:
            hidden = name[0].lower()
        if not hidden:
            texts.append(f"\n{text}")
    return "\n".join(line.strip() for line in html.unescape("".join(texts)).splitlines() if line.strip())
