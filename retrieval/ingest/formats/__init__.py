"""File formats: bytes to text, and text to structure.

registry      suffix -> parser
decode        bytes -> text                       front_matter  a document's attributes and readers
markup/       Markdown, reStructuredText, and words of other markup
pdf/          PDF -> Markdown with pages          pictures      text in pictures, by OCR
office        Office files and e-books -> Markdown
word_code     marks of code in Word files         writer_code    the same in OpenDocument texts
word_lists    levels of lists in Word files
word_tables   tables of .doc                      slide_tables   tables of .ppt
webpage       HTML -> Markdown                    page_tree      which parts of a page are its text
mail          messages and mailboxes -> Markdown and attachments (outlook: those of Outlook)
notebook      Jupyter notebooks -> Markdown
openapi       OpenAPI documents -> Markdown
records       JSON and JSON lines -> Markdown
xml_tree      XML -> Markdown                     yaml_tree     YAML -> Markdown
"""
