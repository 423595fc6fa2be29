"""`tidewright forecast`: what is known of loads before anything is forecast.

command      `forecast learn`: a model of a load, as configuration of the autoscaler
"""
