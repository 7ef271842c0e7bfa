"""Pages in headless Chromium: what a reader does with a mouse and a keyboard."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

# Without the sandbox, because tests may run as root; the others keep Chromium from calling home.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; skips where it, or Playwright's client, is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium on the PATH")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser) -> Iterator[Any]:
    """Open a file in a new window; at the end, no error and no request may have happened."""
    faults: list[str] = []
    contexts = []

    def open_file(path: Path, width: int = 1400, height: int = 900, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda m: m.type in ("error", "warning") and faults.append(m.text))
        page.on(
            "request", lambda r: r.url.startswith("http") and faults.append(f"request: {r.url}")
        )
        page.goto(Path(path).resolve().as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert faults == []
