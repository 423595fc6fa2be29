"""From connections to verbs and back.

front         connections, and the requests that need nothing but an answer
handler       every other request: lists, discovery, errors; and what aiohttp has to read
request       the path taken apart, options, media types; answers: what goes back
streams       watches on their way to a connection
discovery     groups, versions, resources; openapi: their documents
table         what kubectl prints; columns: of the built-in kinds; ages: durations in them
faults        what goes wrong on request; request_log: what was asked, for tests
go_text       the words of Go's JSON decoder
"""
