"""The result of a run, for a reader.

report  a run's folder -> one value              diff   the differences between two runs
view    a report -> the text that a reader sees  plots  the figures
pages   a view -> report.html, report.md, report.json
"""
