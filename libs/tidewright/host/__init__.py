"""What every service runs in. A service brings a decider (two pure functions); the rest is here.

fold/        the contract of deciders, the defined fold order, restoring, verification. Pure
loop/        the loop that a decider runs in: claim, restore, read, fold, commit, hand over
webhook/     endpoints that the API server calls: announced by a decision, with certificates of their own
ports/       what any port of ours needs: bounds, tokens, certificates in files
process/     one OS process: logging, probes, metrics, signals, exit codes
"""
