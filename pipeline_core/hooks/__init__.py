"""Telling subscribers (LifeHooks) of events. `deliver` takes one delivery as far as it goes now; `deliveries` finds
what is due, lists, and sends again. Deliveries come into being (`owing`) with what they tell of.
"""
