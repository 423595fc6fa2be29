"""The tidewright command.

main         the root command; each subcommand is imported only when it is used
services     the table of services, one line each
contract/    generates proto/ and holds it compatible (not part of the command)
"""
