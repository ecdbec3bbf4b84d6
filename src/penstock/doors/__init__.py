"""The doors of the data plane: one file for each way of asking, `open_doors.py` with the list of them, and the
application that leads a request to its door (`data_plane.py`). `roles/data_plane.py` puts them together. A door
knows no connection and no adapter: requests come from the edge, and go to the gateway through `ports.gateway`."""
