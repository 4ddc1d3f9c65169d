"""Statistics that both evaluations use.

significance  paired differences and their bootstrap intervals
"""
