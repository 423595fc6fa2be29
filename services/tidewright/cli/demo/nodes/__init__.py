"""`tidewright demo --story nodes`: pods come and go, nodes follow, and what that saved.

play     the story as it is played: cloud, workloads, timetable, settings
story    what happened, folded from the log (pure)
view     what happens, live: a table on a terminal, lines otherwise
summary  what happened, at the end: charts, explanations, what was saved, JSON
"""
