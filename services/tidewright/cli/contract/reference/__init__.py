"""References for people, made from the code: `docs/reference/`.

commands  the command line, from the commands themselves
settings  parts of the configuration and what may stand in them, from what reads them
series    Prometheus series, from where they are made
events    events, from their types
rights    who may do what at the API server and on the bus, from the service table and the table of effects
"""
