# Completions of tidewright for fish, which reads this at the first Tab behind the word.
tidewright completion fish 2>/dev/null | source
