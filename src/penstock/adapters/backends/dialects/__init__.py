"""What HTTP endpoints are asked, and what their answers mean: one file for each kind. The backend for all of them
(`http.py`) sends and receives; nothing here does I/O.
"""
