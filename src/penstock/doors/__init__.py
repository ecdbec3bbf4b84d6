"""What people ask in: the routes of the data plane, one file for each way of asking."""
