"""An OpenAPI document to operations.

read.py         bytes to a document: JSON or YAML, versions 2.0, 3.0 and 3.1
swagger.py      a document of version 2.0 in the form of version 3.0
names.py        names in Latin letters that occur once
references.py   `$ref` within a document, and the work that one document may cause
size.py         the schema of a tool, within a number of bytes
schemas.py      a schema of the document to a JSON Schema for arguments
keywords.py     keywords of a schema, with values that providers accept
security.py     the credentials that a document asks for
operation.py    the records
producers.py    which operation gives the identifiers that another needs
effects.py      which read shows what an operation changed, and which operation undoes it
operations.py   a document to operations, and to reasons for the operations that cannot be called
"""
