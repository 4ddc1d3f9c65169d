"""An OpenAPI document to operations.

read.py         bytes to a document: JSON or YAML, versions 2.0, 3.0 and 3.1
swagger.py      a version 2.0 document in version 3.0 form
names.py        names in Latin letters that occur once
references.py   `$ref` within a document, and how much work one document may cause
size.py         a tool's schema, within a size in bytes
schemas.py      a document's schema to a JSON Schema for arguments
keywords.py     schema keywords, with values that providers accept
security.py     credentials that a document asks for
operation.py    its records, and how settings let an operation be called
verbs.py        whether the words of an operation name a change
producers.py    which operation gives identifiers that another needs
effects.py      which read shows what an operation changed, and which operation undoes it
operations.py   a document to operations, and reasons for those that cannot be called
"""
