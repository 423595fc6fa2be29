"""The web console over HTTP, on the recorded log and on hostile ones."""
