"""What an operator sees of a server, or of a whole installation, at one moment and over the last hour.

    counters of a process ──► `Counts` ──► `Diary`: what is new ──► `Report`
    the reports of all processes ──► `view` ──► `Overview`, with a `Verdict` in one sentence

Pure: figures and the time in, structs out; only the vocabulary is imported. `runtime/own_overview.py` brings the
figures, `cluster/lookout.py` carries reports between processes, the admin plane shows the overview on its page, and
`penstock top` in the terminal.
"""
