"""WorkloadSpread (`apps.kruise.io`): which subset a new pod goes to, which pod leaves first, and why.

The core is pure; `admission` and what it starts are the shell.

API
    spec         the resource, typed: target, filter, subsets, strategy (both served versions)
    validation   the rules of the validating webhook, V1 to V25
    nodeterms    node selector terms, tolerations, taints: checking and matching
    termrules    what terms and tolerations must satisfy
    fielderrors  errors about fields, and checks of names
    podrules     what a pod spec must satisfy after a patch (part of V12)
    podschema    the fields of a pod as data
    podjson      strategic merge of a patch into a pod, and reading the result back
Placement
    limits       limits as numbers: strict and lenient reading, percentages
    pods         the facts about a pod that decisions use; versions; the annotation
    matching     whose pod is it: owner chains, filters, the whitelist, replicas
    choose       the choice of a subset, a pure function of free slots and the request
    inject       writing a subset's rules into a pod
    ledger       the spread's ledger: rules, placements, releases folded to free slots
    following    the ledger as a reader of the log has it: recounts lose nothing
    placing      a pod's admission against the ledger, and the entry to append first
    admit        the same against the status, as the reference keeps it (strict profile)
Control
    status       the status object: entries per subset and version
    costs        deletion costs: who leaves first
    adoption     pods without a placement, adopted by the node they run on
    reconcile    one pass over a spread's pods (strict profile): status, costs, adoption, rescheduling
    triggers     which object wakes which spread (strict profile)
    state        what the decider remembers
    owners       whose pod is it, as owners and filters become known
    foldpods, foldworkloads, foldspreads, foldledger    folding each kind of event
    evolve       folding events into the state: which of those, and the surroundings
    gathering    what one look at a spread gathers, by
    places         the rules in force and the places held
    adopting       pods adopted where they run
    costing        deletion costs that change
    victims        who leaves when the workload shrinks, as its own controller picks
    rescheduling   pods that cannot be scheduled, subsets that close and open
    wantedstatus   the status as it shall be
    conclude     what follows for one spread, in its order
    decide       the decider: State, evolve, decide
    planning     where pods would land, and what a change would do
    sentences    reasons as sentences
    lines        events in one line each
    explaining   what `tidewright explain` tells about spreads and pods
Shell
    hooks        the webhook configurations (pure)
    reviews      AdmissionReview and ConversionReview as values (pure)
    observed     what the endpoint knows besides: owners, templates, configuration
    books        the ledgers as the endpoint keeps them: followed, appended under expectation
    admission    the HTTPS endpoint: what it answers
    serving      its life: ledgers read, trusted, serving, leaving
"""
