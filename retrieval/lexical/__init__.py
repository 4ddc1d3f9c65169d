"""The words of texts.

terms     text -> sparse vector of terms, in a collection's language: stop words, stemming, detection; exact terms
said      what a text says: words to compare, without markup and lines around it; copies; fingerprints
"""
