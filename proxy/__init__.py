"""HTTP in, HTTP out: the life of a request, in order.

app          the route table and the middleware list         build      settings -> objects
advice       what is said of a path that is not served
observe      opens the `exchange`, answers errors of ours, logs
metrics      what is counted of every exchange, for Prometheus
auth         a valid key; without keys, programs on this machine and no web page
accounts/    keys, what they may do, and what they use    database  files and tables of the gateway's own
receipts/    what a chat was asked, found and given, kept for a while
admin        keys and usage over HTTP
tee          a reply's tokens, read as it passes
augment      the middleware: read, decide, retrieve, inject, pass on; fails open
body         the request's body, read whole within a limit
chat         a request's bytes, read and edited without re-serialising
gate         whether it is augmented, from what, and why
window       how many tokens of passages the model has room for
housekeeping  which requests are a chat program's own and ask nothing
inject       a context -> the text that the model is shown    quote      a document's text, safe to show
rewriting    the latest question as a model words it, raced with retrieval on the local form
permitted    searches within what the caller may read    knowledge/ collections, documents and searches, without a chat
tools        what an MCP client is offered, and what they answer    mcp  the protocol around them
models       what may be called, listed                    passthrough  the other paths under /v1
named        the model of a listed path's body
upstream/    where the request goes, and the reply's bytes come from
sse          event-stream frames (the translated lane builds them)
server       a client's connection: requests to calls of the app    request    one of them, and its reply
drain        the connections of a process: taken, drained, cut
supervise    the index process, kept alive                 workers    processes that serve, where one is not enough
errors       an error of ours -> status and OpenAI's body    asgi       the shapes of ASGI
cli/         the command line, one file per command
live/        chats that are answered as usual, and their models asked raw as well
bench/       the same questions to models raw and with passages, and what came of it: the command line's
"""
