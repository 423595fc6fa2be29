"""`tidewright plan`: what would happen, before it does. One module per subcommand; `app` lists them."""
