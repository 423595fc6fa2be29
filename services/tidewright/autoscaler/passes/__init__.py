"""One pass over one object, in the order in which it goes through these.

passes       a look at an object of the fold; plan: what it asks for; standing: what would be kept after it
lifecycle    the gate of a DatadogMonitor [2.2]
scene        what a pass looks at, as a value
readiness    which pods count, and the gate on their share [2.4, 2.6]
formula      one metric's proposal, and convergence inside the band [2.5-2.8]
measuring    what each metric proposes: pods counted, values measured [2.4-2.8]
combine      several metrics' proposals into one [2.9]
forecasts    what the load will be, where an object asks for it: what is looked at, recorded and said
limits       velocity, ready guard, minimum and maximum, and what is said of each [2.10]
windows      forbidden windows and delays: may it scale now, and if not, until when [2.11]
evaluate     the whole pass as a value that keeps every stage's numbers [2.3, 2.12]
conditions   what a pass says of conditions; sequence: which it sets, in which order [3]
"""
