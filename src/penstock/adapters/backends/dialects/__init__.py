"""What HTTP endpoints are asked, and what their answers mean: one file for each kind of endpoint.
`roles/backends.py` chooses the dialect, and the backend (`http.py`) sends and receives; nothing here does I/O.
"""
