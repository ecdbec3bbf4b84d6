"""Runs jobs: files of requests, when workers would idle. `service.py` is what doors call, `runner.py` decides which
line goes next, `led_job.py` leads one job from its first state to its last, and `shelf.py` knows the files."""
