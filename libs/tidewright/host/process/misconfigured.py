"""The one error of a process that is told something which cannot be: exit code 2."""


class Misconfigured(ValueError):
    """An option or a file of the process cannot be used; the message names it, and what would be valid."""
