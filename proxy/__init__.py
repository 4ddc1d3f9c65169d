"""HTTP in, HTTP out: the life of a request, in order.

app          the route table and the middleware list         build      settings -> objects
observe      opens the `exchange`, answers errors of ours, logs
auth         no keys yet: programs on this machine, and no web page
augment      the middleware: read, decide, retrieve, inject, replay; fails open
body         the request's body, read whole and played once more
chat         a request's bytes, read and edited without re-serialising
gate         whether it is augmented, from what, and why
inject       a context -> the text of one system message
passthrough  the other paths under /v1
upstream/    where the request goes, and the reply's bytes come from
sse          event-stream frames (the translated lane builds them)
supervise    the index process, kept alive
errors       an error of ours -> status and OpenAI's body    asgi       the shapes of ASGI
cli/         the command line, one file per command
"""
