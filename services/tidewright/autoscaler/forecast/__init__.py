"""What the load will be, from what it was: for objects that ask for it.

asked    what the annotation says, or the configuration for it: how far ahead, how sure
learnt   models that were learnt elsewhere, and are given by the configuration
load     from a metric's value to the load that replicas share, and back
zone     local time as a rule, by which a season's profile may be kept
ripple   what comes and goes within minutes
price    which confidence is worth its price, where none is asked for
memory   what is remembered of a load, and whether one from elsewhere can be gone on with
bounds   how sure a bound is, and when nothing follows from it
season   what a load's samples say of the time ahead: folded into its memory, and forecast from it
"""
