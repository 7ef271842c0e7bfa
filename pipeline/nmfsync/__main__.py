"""The command `nmfsync`, also as `python -m nmfsync`.

Nothing is imported before the libraries can be, and Ctrl-C ends that as well in one line.
"""

import signal
import sys

LEAST_MEMORY = 1_500_000_000  # bytes of address space; with less the libraries abort


def main() -> None:
    """Run the command line."""
    _check_memory()
    try:
        from nmfsync.cli.commands import main as run
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        sys.exit(130)
    try:
        run()
    finally:  # all is done: there is nothing to interrupt any more
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check_memory() -> None:
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= allowed < LEAST_MEMORY:
        sys.exit(
            f"Error: {allowed / 1e9:.1f} GB of memory are allowed (ulimit -v), but nmfsync needs "
            f"at least {LEAST_MEMORY / 1e9:.1f} GB; raise the limit"
        )


if __name__ == "__main__":
    main()
