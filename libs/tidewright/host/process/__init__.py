"""One OS process of Tidewright.

process        logging, probes, signals, exit codes
service        a decider as a service: connect, find the stream, join, run
health         how a service is and what it counts; probes: that over HTTP
exposition     series that a decider tells of its states
copies         whether as many servers keep the log as should; store: how much of its room it has taken
measuring      how long the parts of a decider's work take
software       which software decided: a version, and a digest of its code
misconfigured  the error of a process that is told what cannot be
overheard      what libraries and the loop say by Python's own logging
once           a thing that strangers cause, said once
stderr         where log lines go
"""
