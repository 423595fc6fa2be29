"""What each question is answered with: one type per question, the same for the command line, HTTP and tests.

Their JSON Schemas are in `proto/answers/`. Members are camelCase as in Kubernetes objects; a time is RFC 3339 in UTC
with milliseconds, an amount has its unit in its name. Fields are added with a default and never renamed.

form         what all of them have in common, and their times
table        which question is answered with which

The answers, each with what it is made of, in the room that is named as its question:

listing      lists of what is decided on
events       what happened; state: what was known
explain      what was decided, why, and what became of it
series       values, marks and counts over time
planning     what would be decided
comparing    where an incumbent and we differ; diff: where two logs do
verify       whether a log is what its services would have written
backtest     what other policies, and forecasts, would have done
"""
