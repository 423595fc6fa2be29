"""The tidewright command.

main         the root command; each subcommand is imported only when it is used
commands     the table of subcommands: names, groups, help and examples
garbage      how seldom a command looks for some

up           `up` on one machine
    stack        everything, in stages; supervisor: restarts, an end that leaves nothing behind
    process      a child that cannot outlive us; console: its lines
    datafolder   where it is kept; foldermark: whose that folder is; diskwatch: whether its disk is full
run          `run SERVICE`; together: several of them in one process
    endpoint     those that the API server calls; starting: what no service needs of libraries
demo/        `demo`, and
sim/         `sim`, the embedded cluster: they come with the extra `embedded`
embedded     what comes with that extra, or how to have it
get, events, explain, series, state, verify, diff, exports     questions (`tidewright.asking`) as commands;
             keptlog is the log of a data folder
traces       one trace from each fact to what came of it, for whatever takes OpenTelemetry
webconsole   `console`: the web console; ahead: its log, asked while what serves pages is imported
backtest/, compare/, forecast/, plan/, shards/, wpa/, crds, completion, version     the commands of these names
install, keys, permissions      what the log consists of on its server, who may say what there
restore      a lost log, put back from its archive
cloud        `cloud serve`: our clouds, for others
suggested    what a shell completes a line with
What several commands share
    options, metricsflags, typed, chart     flags of most, values that are typed, a chart in a terminal
    answers      what `-o json` prints of what is no question
    boundflags, cloudflags, modeflags       what the actuator may do, which clouds there are, which services act
    helppages    help of one screen, and `--help-all`
contract/    generates proto/ and docs/reference/, and holds proto/ compatible (not part of the command)
"""
