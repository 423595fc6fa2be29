"""The autoscaler in words and numbers. Pure.

lines          events in one line each
reasons        the rules of a pass as `Because`, for the log
sentences      `Because` rendered for people
foretelling    forecasts: what is expected, and what came of the last one
opposites      which single input would have turned a pass
explaining     what `tidewright explain` tells about an object and its decisions
comparing      our decisions beside what an incumbent did
messages       texts of object events [4.1]; go_format: what the reference's second formatting makes of them
listing        a row of a list; plotting: lines of a chart
gauges         series of a pass [4.2]; exposition: of a whole state
"""
