"""The names of the engines: what they are is in `runtime.engine`."""

# Each with the package that it needs beside those that are always there.
ENGINES: dict[str, str | None] = {
    "threads": None,
    "processes": None,
    "dask": "distributed",
    "ray": "ray",
}

DEFAULT_ENGINE = "threads"
