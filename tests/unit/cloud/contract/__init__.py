"""What every cloud is held to: one suite of cases, and a bench per kind of cloud.

bench        what a case needs of a cloud: groups to define, time to pass, faults to make
proxy        faults of clouds that are reached over HTTP
of_*         one bench per kind
test_contract  the cases
"""
