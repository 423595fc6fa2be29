"""Who is asked about a write.

webhooks      in which order, and what their answers do
quota         what the pods and objects of a namespace may add up to
"""
