"""Bytes to requests and back, for HTTP/1.1 and HTTP/2. The edge knows no route and no model: it hands each
request to an `App`."""
