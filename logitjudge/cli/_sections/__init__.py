"""Tables of the sections of a run's report, one file a section of `logitjudge.report`."""
