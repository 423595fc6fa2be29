"""The shard manager: fleets of the propeller manager (compat), ShardSets (native), and our own services' sizes.

decide, state        the decider and what it remembers
compat               fleet, fleetconfig, config, configread, validation, confighash: a fleet and its configuration;
                     scan, pods, strategy, repair, election, worker: a pass, its pods, and what their workers make of it
                     managerlock, electionread: the Lease that the original's managers elect by
native               shardset, specreader, mapping: the spec; sets, members, timing: the fold;
                     rounds: what is decided; handover: prepare, drain, grant; assign, balance: who ought to own what
its pods             setpods, podsof, podplan (in place), gates and gateplan (gate mode), setworkers, inject, claims, rollout
its size             autosize, setscale (StatefulSets), ourservices (our own Deployments)
what is told         setstatus, signals, exposition, metricnames, tell, lines, explaining, preview, resize
labels               labeller; labelhook and labelling: the admission endpoint
"""
