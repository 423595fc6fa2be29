"""The web console: the log looked at by people, at any moment of it. It asks, and changes nothing.

access     who is let in: a one-time token, a token file, or a proxy; Host and Origin
server     the application: routes, headers, the answers of a page and of its parts
asked      what every page takes from its URL: the moment, the stretch before it, links that keep both
lists      lists of objects as of any moment, kept so that a page costs what has changed
kept       what takes a fold, kept for a while
backwards  what lies before a moment, found from the end
standing   where each service stands in its slots
live       what comes on the log, told to the browsers that look at now
charts     drawings as SVG
words      times, spans and amounts as people read them
api        the questions of the command line, as JSON
apart      work in child processes at lowest priority, one at a time: what is waited for goes first
budget     how much processor time they may take
beside     what an incumbent did, where we decide in shadow
verifying  the log verified in the background
overview, listing, objects, events, capacity, shards, trust, what_if
           the pages, each with a template of its name
templates/ what is sent, by Jinja2 with autoescape; static/ style and script, which are all that a browser runs
"""
