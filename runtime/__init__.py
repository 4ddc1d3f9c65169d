"""Parts that every process of ragway needs. Imports no other package of ragway.

errors         the errors of databases and locks
logs           log lines without texts of clients, models or documents
database       opens and migrates SQLite or PostgreSQL      locks  locks in PostgreSQL, bound to a connection
lazy_database  a database of the gateway, opened on first use
record_store   records of chats in SQL: receipts, comparisons, histories, rounds, results
record_tables  their table                                  migrations/  the changes of the table
write_behind   the queue of unwritten records
sealing        values that the master key opens
scheduling     which process gets a busy core first         garbage  the garbage collector of a serving process
fair_slots     slots that several owners share, with a share and a queue for each
http_client    an HTTP/1.1 client: connections, and a pool of connections for each address
sandbox        processes that read documents, within limits of time and memory
"""
