"""The edge turns bytes into requests and answers into bytes, for HTTP/1.1 and HTTP/2. It knows no route and no
model: it hands each request to an `App`. `roles/data_plane.py` and `server/admin_plane.py` make an `Edge` each."""
