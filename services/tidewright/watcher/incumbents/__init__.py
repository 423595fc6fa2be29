"""Incumbents: other controllers that are at the work of our services, noticed and said as facts.

rivals       who they are, as their distributions ship them (pure)
signs        what an object shows of them (pure)
judging      from signs to what is said of each of our services (pure)
looking      watches of what shows them, and a poll of who writes what we would write
"""
