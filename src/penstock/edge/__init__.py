"""The edge turns bytes into requests and answers into bytes, for HTTP/1.1 and HTTP/2, and bounds what clients may
take of the server's time and memory meanwhile.

It knows no route and no model: it hands each request to an `App` (`app.py`). `roles/data_plane.py` and
`server/admin_plane.py` make an `Edge` each. It imports `ports` and the vocabulary, httptools, h2 and websockets,
and no door.
"""
