"""The stages that a job passes. Each has a `run(claim) -> Outcome`: it asks its plugins and decides, and changes
nothing; the cursor (`pipeline_core.jobs.cursor`) writes down what came of it. `order` names the stages and their order.
"""
