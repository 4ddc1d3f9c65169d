"""A run's result, for readers.

report  a run's folder -> one value              diff   differences between two runs
view    a report -> the text that a reader sees  plots  figures
pages   a view -> report.html, report.md, report.json
"""
