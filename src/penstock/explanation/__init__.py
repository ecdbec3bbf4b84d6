"""What happened to one request, in plain sentences, and what more time would have changed.

Everything here is a function of the facts: it asks nobody and reads no clock. `cli/explain.py` collects the facts,
and prints the sentences.
"""
