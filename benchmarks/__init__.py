"""Measurements of Penstock, each one command, with the rival or the limit in the same run."""
