"""File formats: bytes to text, and text to structure.

decode        bytes -> text                       front_matter  a document's attributes, and who may read it
markdown      Markdown -> where its blocks begin  rst           reStructuredText -> where its blocks begin
webpage       HTML -> Markdown                    tagsoup       the parser and the converter for broken pages
"""
