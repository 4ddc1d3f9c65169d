"""The text that a coding agent adds to a user's message, which is no part of the question.

Claude Code adds `<system-reminder>` elements to most messages: notes on files, tasks and settings, of any length. Codex
sends `<environment_context>`, Cline and Roo Code add `<environment_details>`. A search for such text finds nothing.
"""

_NAMES = ("system-reminder", "environment_context", "environment_details")


def without_program_text(text: str) -> str:
    """The text without these elements. An element without an end stays."""
    for name in _NAMES:
        opening, closing = f"<{name}>", f"</{name}>"
        before, *elements = text.split(opening)
        for element in elements:
            _, closed, after = element.partition(closing)
            before += after if closed else opening + element
        text = before
    return text
