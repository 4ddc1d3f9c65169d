"""PDF to Markdown.

page      PDFium: a page's words, ruled lines and tags
layout    words -> lines in reading order
tables    tables: tagged, ruled, or by columns of words
document  all pages -> Markdown with headings and places
"""
