"""Where documents come from.

source   what every source can do
folder   files and folders
opening  from a declaration to a source
"""
