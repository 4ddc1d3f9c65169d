"""Texts to BM25 terms.

terms     text -> sparse vector of terms
language  a collection's language: stop words, stemming, detection
"""
