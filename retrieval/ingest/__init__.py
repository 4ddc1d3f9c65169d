"""A document's way to the store, in order.

ingester         the orchestrator: finds changes, commits each document on its own
removal          deletes documents and collections
load             files and folders -> candidates -> Document
exclude          files left out by name
rules            what is known of a file beside its content: rules by path, and sidecars
secret_scan      names secrets in documents
containers       archives, mailboxes, mails with attachments -> members
exports          readable names and pages of wikis' exports
joined           an uploaded container -> one document
contents         a source's file -> documents to write, compared with the catalog
formats/         bytes of each file format -> text and structure
encoded          cuts encoded bytes (pictures, certificates) out of a text
chunking/        Document -> Chunks with exact spans
splitting        formats and chunking, for one recipe and one embedder
prepare          processes that split documents, and vectors, computed in a thread or a child process
sources/         where documents come from: files and folders
document_writer  documents from clients instead of files
job_runner       writes clients' jobs, one document after another
context          a model's text on each chunk, kept by content
"""
