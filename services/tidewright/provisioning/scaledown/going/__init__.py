"""Which of the unneeded nodes go now.

timers     unneeded for long enough; minimum sizes of groups and of the cluster
whole      zero-or-max groups, which go as a whole; pods that have to complete
parallel   how many go at a time
cooldown   when nothing goes, since something has just come or gone
"""
