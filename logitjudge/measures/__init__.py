"""Numbers of a finished run: pure functions of `logitjudge.run.Run`, one file a subject."""
