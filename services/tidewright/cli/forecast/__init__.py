"""`tidewright forecast`: what is known of loads before anything is forecast."""
