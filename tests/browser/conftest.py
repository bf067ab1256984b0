"""Fixtures: ``floe dev`` as a process, and a browser that may only connect to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect, sync_playwright

from floe_testing.services.host.toolchain import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FLOE = [sys.executable, "-m", "floe_cli"]
# It has taken two minutes on a busy machine with two cores.
PATIENCE_SECONDS = 600
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SPARK = "org.apache.spark.deploy.SparkSubmit"
_ADDRESS = re.compile(r"Dagster UI: (http://127\.0\.0\.1:\d+)")


@dataclass
class DevServer:
    """A ``floe dev`` that runs on a new project."""

    folder: Path
    process: subprocess.Popen[bytes]
    log: Path
    url: str = field(default="")

    def await_address(self) -> None:
        """Wait until it says where the UI is."""

        def announced() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            found = _ADDRESS.search(self.log.read_text())
            self.url = found[1] if found else ""
            return found is not None

        self.eventually(announced, f"floe dev did not come up: {self.log}")

    def graphql(self, query: str, **variables: Any) -> Any:
        """Ask Dagster's API."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - our own address
            content = json.load(answer)
        assert "errors" not in content, content
        return content["data"]

    def descendants(self) -> dict[int, str]:
        """Return every process it has started, with its command line; not what Spark starts in turn."""
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, _, rest = stat.read_text().partition(" ")
                children.setdefault(int(rest.rpartition(")")[2].split()[1]), []).append(int(pid))
        found, waiting = {}, [self.process.pid]
        while waiting:
            for child in children.get(waiting.pop(), ()):
                found[child] = self.command_line(child)
                # A JVM that is about to start a program briefly appears twice; programs that it starts do not count.
                waiting += [] if SPARK in found[child] else [child]
        return found

    def engines(self) -> set[int]:
        """Return the Spark drivers among its processes."""
        return {pid for pid, command in self.descendants().items() if SPARK in command}

    @staticmethod
    def command_line(pid: int) -> str:
        """Return what a process was started with; empty for one that is gone or about to be."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return ""

    @staticmethod
    def eventually(holds: Callable[[], bool], otherwise: str, *, pause: Callable[[float], object] = time.sleep) -> None:
        """Wait for something that another process does."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, otherwise
            pause(0.2)

    def interrupt(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def dev_server(tmp_path) -> Iterator[DevServer]:
    """Start ``floe dev`` on a project that ``floe init`` made."""
    folder, log = tmp_path / "shop", tmp_path / "dev.log"
    for arguments in (["init", str(folder)], ["compile", "--project", str(folder)]):
        subprocess.run([*FLOE, *arguments], check=True, capture_output=True)
    command = [*FLOE, "dev", "--port", "0", "--project", str(folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"NO_COLOR": "1"})
    server = DevServer(folder, process, log)
    try:
        server.await_address()
        yield server
    finally:
        if process.poll() is None:
            server.interrupt()


@pytest.fixture
def page(tmp_path):
    """Open a page in Debian's Chromium; requests to anywhere but this machine are blocked, and kept on the page."""
    chromium = require("chromium", hint="apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path / "chromium",
            executable_path=chromium,
            headless=True,
            args=FLAGS,
            viewport={"width": 1400, "height": 1600},
        )
        browser.set_default_timeout(PATIENCE_SECONDS * 1000)
        expect.set_options(timeout=PATIENCE_SECONDS * 1000)
        page = browser.pages[0]
        page.outside = []

        def guard(route: Any) -> None:
            if route.request.url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")):
                route.continue_()
            else:
                page.outside.append(route.request.url)
                route.abort()

        page.route("**/*", guard)
        yield page
        browser.close()
