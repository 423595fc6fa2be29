"""Incumbents: other controllers that are at the work of our services, noticed and said as facts.

Pure: rivals (who they are, as their distributions ship them), signs (what an object shows of them),
judging (from signs to what is said of each of our services). Shell: looking (watches and polls).
"""
