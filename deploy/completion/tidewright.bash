# Completions of tidewright for bash: bash-completion reads this at the first Tab behind the word.
source <(tidewright completion bash 2>/dev/null)
