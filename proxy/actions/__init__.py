"""Actions: a team's HTTP APIs, described by OpenAPI documents, found by search and called by the gateway.

openapi/      an OpenAPI document to operations
sources       the bytes of a document, from a file or a URL
specs         a document to what a set stores, in a process of its own
library       action sets: written, and searched by what people say
store         the definitions in SQL        tables, migrations/  the tables
proper_names  a question without names, for a second search
search_text   the texts by which an operation is found      html_text  HTML to text
arguments     whether the arguments of a call can be sent      schema_check  a value by a JSON Schema
said          what a person has said          chosen_rows  whether a person named the row of a list
asking        the gateway's questions to a person
known_texts   the texts in which a value may stand, without the gateway's words
request       an operation and arguments to an HTTP request
call          one call: checked, sent, tried again, cut
key_apis      the APIs with the credentials of each key
credentials   what an API asks for          addresses  connections to checked addresses only
masking       secrets that an API sends back
body          a response's bytes, within a limit        results    a response as a text for a model
actions       the sets that chats can use, and what a chat is offered
offer         the tools of one chat           own_tools  the gateway's own tools
loop          the rounds of a chat until an answer
bridged       the rounds for clients of responses and messages
baked_in      operations that a chat is offered without a search     document_search  the search of documents as a tool
result_budget  the tokens and bytes of a chat's results
shelf         the whole results of a chat     result_reading  a page, a place or some rows of a result
execution     the model's calls: checked, grounded, made
memory        the hidden rounds of a conversation, for the next question
further_members  of a model's message: thoughts and signatures, which go back to the model
written_calls calls that a model writes as text, in place of a call of a tool
spelled_calls the spellings of such calls     quotes  whether such a text is only a quote
private_sets  the private sets of which a conversation has data
ways          how each model is asked for calls: by tools, a JSON schema or text; learned
protocols     requests for models that are not asked by tools
protocol_replies  replies of these models
model_reply   the model's reply of a round, as the reply passes      client_reply  the client's one reply of all rounds
"""
