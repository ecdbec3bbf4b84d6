"""The doors of the data plane: one file for each way of asking. `roles` opens them; they know no connection and
no adapter."""
