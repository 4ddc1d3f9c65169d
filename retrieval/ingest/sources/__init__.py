"""Where documents come from.

source   what every source can do
folder   files and folders
git      a branch of a repository on disk or by its URL
web      pages by a list of addresses or a sitemap
opening  from a declaration to a source
"""
