"""Deliveries of events to subscribers (LifeHooks), and of alerts to their receivers.

Read in this order: `deliveries` (enqueueing a delivery with its event, finding subscribers with due ones, listing and
redelivery), `drain` (what a worker does with a wake-up), `places` (which calls it starts), `claims` (claiming deliveries and
writing their results, many at a time), `sending` (one attempt of one delivery), `receivers` (who gets alerts), `alert_texts`,
`chats` and `mail` (what alerts say, and how they are sent), `feed_changes` (what of a delivery is in the feed).

For use from outside: `deliveries` (`jobs.lifecycle` enqueues events and `flows.runs` alerts; ticks find who is to be woken; the
API lists and redelivers), `drain` and `places` (the workers).
"""
