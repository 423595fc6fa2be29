"""`tidewright wpa`: what the watermark pod autoscaler's kubectl plugin does, and `kubectl wpa` itself.

command   `dry-run list|enable|disable|revert`, with the plugin's options and texts
objects   the WatermarkPodAutoscalers of a cluster, listed and patched
"""
