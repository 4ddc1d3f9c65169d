"""What came of a run, for a reader.

report  a run's folder -> one value                  diff   of two runs
view    a report -> what a reader sees               plots  its figures
pages   that -> report.html, report.md, report.json
"""
