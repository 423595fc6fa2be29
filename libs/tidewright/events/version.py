"""The software version. It rides in the headers of every message that this software writes."""

__version__ = "0.1.0"
