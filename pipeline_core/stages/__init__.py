"""The stages that a job passes. Each has a `run(step) -> Outcome`: it calls its plugins and decides, and writes nothing; the
cursor (`pipeline_core.jobs.cursor`) writes the outcome.

Read in this order: `stage` (the stages, their order, and which plugins each calls for a job), `outcomes` (the claimed step
and what may come of it), `calls` (calling plugins, and what follows when one does not answer), then the stages themselves:
`translate`, `factors`, `gates`, `decorate`, `bind`, `launch`. `tasksets` checks the TaskSets that plugins answer.

For use from outside: `stage`, `outcomes`, `tasksets.check_submitted`, and each stage's `run`.
"""
