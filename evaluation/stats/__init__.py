"""Statistics for both evaluations.

significance  paired differences and bootstrap intervals
"""
