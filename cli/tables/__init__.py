"""The commands of `ragway tables`.

tables   databases and files: read, shown, searched and asked      problems  for `ragway doctor`
"""
