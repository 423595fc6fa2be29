"""The tidewright command.

main         the root command; each subcommand is imported only when it is used
commands     the table of subcommands: names, groups, help and examples
garbage      how seldom a command looks for some

up           `up`: stack (everything, in stages), supervisor (restarts, an end that leaves nothing behind),
             process (a child that cannot outlive us), console (its lines), datafolder (where it is kept)
run          `run SERVICE`; endpoint has those that the API server calls, starting what no service needs of libraries
demo/        `demo`, and
sim/         `sim`, the embedded cluster: they come with the extra `embedded`, which `embedded` asks for
get, events, explain, series, state, verify, diff, exports     questions (`tidewright.asking`) as commands;
             keptlog is the log of a data folder
backtest/, compare/, plan/, shards/, wpa/, crds, completion, version     the commands of these names
options, metricsflags, typed, chart     what several commands share
contract/    generates proto/ and docs/reference/, and holds proto/ compatible (not part of the command)
"""
