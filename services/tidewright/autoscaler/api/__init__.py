"""The resource.

spec         what the user wrote: decoding, defaults, validation; compiled into `Rules` [1.2-1.8]
status       the stored status, there and back [1.5, 2.14]; conditions: its conditions, as they are kept [3]
"""
