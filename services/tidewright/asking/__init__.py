"""Asking the log: what happened, why, whether it is true. A library: the command line, the console and tests are built on it.

services         the services and what loads them
options          where the log is, and in which form answers are printed
environment      which settings are read from the environment
errors           errors that end a question, and the exit code of each
running          the stacks of this user that run, for a question that names none
lifefiles        files that say something for as long as a process lives: how those are found
namespaces       the namespace that is meant
manifests        files that users hand over
answers/         what each question is answered with, typed
questions        those that can be asked over HTTP, with their parameters
tables           tables for people, and text of others made harmless
opening          which log is asked, by the options, and how it is reached
source           what is asked of one, wherever it is
running_log      one that is being written
exported         a file, with an index made when it is first needed
archived         a sealed archive, and behind it what the running log has that is not sealed yet
trust            whose keys are believed
postponed        what libraries import only in case: imported when it is used
objects          KIND/NAME as people write it, and times
point_in_time    everything up to a time or a sequence, found without reading the log
told_time        the log time that is shown of an event, the same everywhere (pure)
ordered          events in the order of these times
starting_states  the states that a part of a log starts from
replaying        a log decided once more
service_state    a service's state as of a moment
halted           slots in which a service has stopped, as the log tells of them
kept_folds       states that were folded lately, for the next question near them; fold_files: in files, for other commands
seeding          such states left on the way of a verification
remembered       records and answers that were had before, kept for whoever asks again
lookups          what belongs to an object or a decision: decisions, causes, outcomes
following        steps that follow a decision
aftermath        what a decision to scale led to, down to the pods
departures       what became of a node's removal, up to where its pods went
suggestions      an object that nobody knows: what may have been meant
load             a load as it was recorded, for backtests and forecasts
progress         a bar for what takes longer
lines            one readable line per event
wording          the words of those that are no single service's
withholding      an export without chosen fields, and what can still be checked of one

The questions, each of which has a function that gives its answer:

listing          lists of what is decided on
events           what happened
explain          what was decided, why, what became of it, what would have changed it
rendering        an explanation as text and as an answer
state            any aggregate as of any moment
series           values, marks and counts of an object over a stretch of the log, with the decisions on them
planning         what would be decided, without deciding it
comparing        where an incumbent and we differ
verify           the log folded again, every decision compared
interrupted      where a verification stood when it was interrupted
diff             two logs, or a log and its replay, decision by decision
exports          the log, or a part of it, to and from one file
restoring        a log that is lost, put back from its archive
traces           one trace from a fact to what came of it
"""
