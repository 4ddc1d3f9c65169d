"""Markup languages.

markdown     Markdown -> first lines of blocks
rst          reStructuredText -> first lines of blocks
whole_words  LaTeX, Org and AsciiDoc without what stands inside words
"""
