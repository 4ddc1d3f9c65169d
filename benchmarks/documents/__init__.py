"""Measures what readers of document formats find again of documents with known content."""
