"""Everything that holds the data folder.

index          one object with the interface `Knowledge`
data_folder    who holds the folder, and the stores in it
vector_spaces  each embedder in use, with its store, its ingester and its retriever
replicas       several index processes over one catalog      audit    whether the store holds what the catalog says
pairing        whether catalog and index belong together     spool    where uploads rest before the catalog takes them
"""
