"""`tidewright demo`: an autoscaler follows a recorded load, in compressed time, and says why.

command    the command: brings everything up, follows the log to the end of the load
objects    what the load is put on: a Deployment, its WatermarkPodAutoscaler, and their watermarks
story      what happened, folded from the log (pure)
view       what happens, live: a table on a terminal, lines otherwise
summary    what happened, at the end: chart, explanations, JSON
load.csv   the built-in load: one day of a shop
"""
