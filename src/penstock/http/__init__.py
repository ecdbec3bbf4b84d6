"""The data plane: a handful of routes in a table, on Granian's RSGI."""
