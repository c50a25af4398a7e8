"""The stages that a job passes. Each that workers run has a `run(step) -> Outcome`: it calls its plugins and decides, and
writes nothing; the cursor (`pipeline_core.jobs.cursor`) writes the outcome. `gates.run(step, renew)` also calls `renew`
between gates.

Read in this order: `names` (the stages and their order), `choice` (which plugins a stage calls for a job), `outcomes` (the
claimed step and what may come of it), `shares` (which steps get a place in a worker), `calls` (calling plugins, and what
follows when one does not answer), then the stages: `translate`, `factors`, `gates`, `decorate`, `bind`, `launch`. `reading`
reads their answers, and `tasksets` checks the TaskSets in them. `shadows` asks shadows about a stage that was decided.

For use from outside: `names`, `choice`, `outcomes`, `shares`, `calls.first_plugins`, `tasksets.check_submitted`, `reading`,
`shadows`, `decorate.recorded_change`, and each stage's `run`.
"""
