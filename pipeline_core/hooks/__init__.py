"""Deliveries of events to subscribers (LifeHooks), and of alerts to their receiver.

Read in this order: `deliveries` (enqueueing a delivery with its event, finding due ones, listing and redelivery), then
`sending` (one attempt of one delivery). Both are for use from outside: `jobs.lifecycle` enqueues, and
`flows.runs` its alerts; the worker sends, ticks
find what is due, the API lists and redelivers.
"""
