"""Deliveries of events to subscribers (LifeHooks), and of alerts to their receiver.

Read in this order: `deliveries` (how a delivery is enqueued with its event, which are due, listing and sending again), then
`sending` (one attempt of one delivery). Both are for use from outside: `jobs.lifecycle` enqueues, the worker sends, ticks
find what is due, the API lists and redelivers.
"""
