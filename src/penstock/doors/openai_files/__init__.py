"""The doors for OpenAI's files and batches: `files.py`, `content.py` and `batches.py`. What a batch's lines are
asked through is in `lines.py`, and what these doors have in common in `shapes.py`."""
