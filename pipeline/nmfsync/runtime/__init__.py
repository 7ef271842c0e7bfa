"""What every stage may use: cached tasks, engines, threads, compiled code, files, progress."""
