"""`python -m nmfsync` is the command `nmfsync`."""

from nmfsync.cli import main

main()
