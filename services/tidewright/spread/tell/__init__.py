"""Spread in words. Pure.

lines        events in one line each
sentences    reasons as sentences
listing      a row of a list
explaining   what `tidewright explain` tells about spreads and pods
planning     where pods would land, and what a change would do
"""
