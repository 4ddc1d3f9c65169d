"""HTTP in, HTTP out: the life of a request, in order.

app        the route table and the list of middleware: a request's path, top to bottom
exchange   the record that travels with a request
steps      the timed work for a request, as a tree
caller     the rights and limits of a caller, as values, and searches within the rights
server/    sockets and processes: HTTP/1.1, draining, workers, the index process
observe/   the outermost middleware, metrics, receipts, shadow comparisons
access/    keys, rights, limits, usage
augment/   the middleware that reads a chat, decides, retrieves, injects and forwards; fails open
dialects/  what a client API looks like in bytes: requests, replies, event streams; imports no other room
apis/      other people's HTTP APIs, found and called: OpenAPI documents, requests, credentials
tables/    a team's databases, asked in SQL within a caller's rights
agent/     a conversation, a model and tools in, an answer out; knows no HTTP server
answer/    the loop of `agent` behind HTTP
upstream/  where a request goes, and where the reply's bytes come from
api/       the other routes: Knowledge API, MCP, models, relayed paths
model_calls  the one way for the gateway itself to call a model
kept_reply a reply that passes and is kept
body       reads a request's body within a limit
query      the models that a query names
asgi       the types of ASGI
"""
