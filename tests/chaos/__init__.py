"""Kill at random, then compare: `make chaos KILLS=n SEED=n`.

scenario    the cluster's objects and the recorded load, with an end that has one fixed point
shards      its ShardSets and fleets of workers, resized and rolled out all the while
moving      loads that come and go on nodes of their own, under budgets: nodes are drained all the while
killer      what is killed, paused or made to fail, and when: drawn from a seed
network     links between the parts, which are cut and healed
findings    decisions and outcomes on the log: what is unanswered, what is twice
effects     the log and the API server's request log read together: what is lost, what is doubled
drains      the request log's evictions and deletions of machines: budgets broken, pods lost, lives not told
state       what the cluster is compared by at the end
servers     three nats-servers, each of which can be killed, paused, cut off, wiped
faults      each fault of the servers and the services by itself, measured on three servers: `python -m tests.chaos.faults`
soak        hours of load under kills, and what every process takes: `python -m tests.chaos.soak`
growth      memory and disk over time: written down, drawn, judged
timeline    how long nothing came onto the log
live        the whole of Tidewright under it, against an undisturbed run
scripted    deciders, actuator and nats-server under it with scripted facts: the same decisions
verdict     what the comparisons come to, in words and numbers
"""
