"""History of the catalog's tables, by number; see `runtime.database`.

m0005_tables   all tables that m0001 to m0005 made
m0006_places   where the pages of a revision's text begin
m0007_fingerprints  which documents say the same
"""
