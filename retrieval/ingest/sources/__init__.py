"""Where documents come from.

source   what every source can do
folder   files and folders
git      a branch of a repository on disk or by its URL
web      pages by a list of addresses or a sitemap
bucket   an object store or a file server, such as an S3 bucket
opening  from a declaration to a source
"""
