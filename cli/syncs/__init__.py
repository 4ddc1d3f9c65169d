"""Syncs of declared sources.

sync       `ragway sync`
scheduled  the same while `ragway serve` runs
"""
