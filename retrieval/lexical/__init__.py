"""Texts to BM25 terms.

terms     text -> sparse vector of terms, in a collection's language: stop words, stemming, detection
"""
