"""`tidewright demo`: a story in compressed time, and why it went as it did: an autoscaler follows a recorded load, or nodes follow pods.

command    the command: which story is played; the one of the load
stage      what every story is played on: brings everything up, follows the log to the story's end
objects    what the load is put on: a Deployment, its WatermarkPodAutoscaler, and their watermarks
story      what happened under the load, folded from the log (pure)
drawn      a table that is drawn anew while a story goes on
view       what happens, live: a table on a terminal, lines otherwise
summary    what happened, at the end: chart, explanations, JSON
load.csv   the built-in load: one day of a shop
nodes/     the story of nodes
"""
