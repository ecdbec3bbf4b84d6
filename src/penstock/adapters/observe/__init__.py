"""Observers that count what happened: plain integers on the hot path, the exposition format made when it is
scraped."""
