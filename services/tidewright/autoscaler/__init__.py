"""The autoscaler: WatermarkPodAutoscaler, decided as a pure function of the log.

The rooms, in the order in which a pass goes through them (sections of the specification in brackets):

spec          what the user wrote: decoding, defaults, validation; compiled into `Rules` [1.2-1.8]
readiness     which pods count, and the gate on their share [2.4, 2.6]
ownership     whose a pod is by the chain of its owners, for who asks for it [2.4]
formula       one metric's proposal, and convergence inside the band [2.5-2.8]
combine       several metrics' proposals into one [2.9]
limits        velocity, ready guard, minimum and maximum [2.10]
windows       forbidden windows and delays: may it scale now, and if not, until when [2.11]
lifecycle     the gate of a DatadogMonitor [2.2]
evaluate      a whole pass as a value that keeps every stage's numbers [2.3, 2.12]
conditions    the conditions of an object, and how they are set [3]
sequence      which of them a pass sets, in which order [3]
status        the stored status, there and back [1.5, 2.14]
messages      texts of object events [4.1]
goformat      what the reference's second formatting makes of such a text, for strict mode
logattributes attributes for log lines about an object [1.6]
gauges        Prometheus series of a pass [4.2]
exposition    Prometheus series of a whole state
reasons       the rules of a pass as `Because`, for the log
sentences     `Because` rendered for people
opposites     which single input would have turned a pass
explaining    what `tidewright explain` tells about an object and its decisions
policy        what the installation sets for all objects
state         what the fold holds
index         look-ups over it: who is concerned by a fact
passes        running a pass for an object of the fold
plan          what an event asks for, between evolve and decide
fold          evolve: how each event changes the state
decide        the decider
backtest      the very same decider over a recorded series and a load model
comparing     our decisions beside what an incumbent did
"""
