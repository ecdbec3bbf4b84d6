"""The doors of the data plane: one file for each way of asking, `open_doors.py` with the list of them, and the
application that leads a request to its door (`data_plane.py`).

`roles/data_plane.py` puts them together. A door knows no connection, no adapter and no store: requests come from
`edge`, and go to the gateway through `ports.gateway`. Only these two, the vocabulary and libraries for the forms of
bodies are imported.
"""
