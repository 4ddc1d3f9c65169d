"""What every ragway process needs. Imports no other ragway package.

errors         errors of databases and locks
logs           log lines without client, model or document texts
database       opens, on first use, and migrates SQLite or PostgreSQL   locks  in PostgreSQL, bound to a connection
record_store   records of chats in SQL: receipts, comparisons, histories, rounds, results
record_tables  their table                                  migrations/  its changes
write_behind   a queue of unwritten records
sealing        values that the master key opens
scheduling     which process gets a busy core first         garbage  a serving process's garbage collector
fair_slots     slots shared by several owners, with a share and a queue for each
public_addresses  which addresses a server may be called at
http_client    an HTTP/1.1 client: connections, and a pool of them for each address
sandbox        processes that read documents, within limits
confinement    what such a process can no longer do: files, network, other processes
"""
