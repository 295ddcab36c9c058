"""Servers on this machine for tests of URLs: HTTP with ranges, whose faults can be chosen, and S3 (moto's)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Files:
    """What a server has and what it was asked for.

    Attributes
    ----------
    url : str
    folder : Path
    ranges : list of (str, int, int)
        Name, first and last byte (exclusive) of each answer.
    knows_ranges : bool
    breaks_at : int or None
        Bytes of an answer behind which the connection breaks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.ranges: list[tuple[str, int, int]] = []
        self.knows_ranges, self.breaks_at = True, None

    @property
    def nbytes(self) -> int:
        """Bytes that were sent."""
        return sum(stop - start for _, start, stop in self.ranges)


@contextmanager
def http_server(folder: Path) -> Iterator[Files]:
    """A server of the files of a folder."""
    files = Files(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path = folder / self.path.lstrip("/")
            if not path.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = path.read_bytes()
            start, stop = 0, len(data)
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if asked and files.knows_ranges:
                start, stop = int(asked[1]), min(int(asked[2]) + 1, len(data))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            else:
                self.send_response(200)
            if files.knows_ranges:
                self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            if not body:
                return
            files.ranges.append((path.name, start, stop))
            if files.breaks_at is not None and stop - start > files.breaks_at:
                self.wfile.write(data[start : start + files.breaks_at])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(data[start:stop])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of connections that were broken here
    files.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Proxy:
    """The application of an S3 server that can fail, and notes what it answers."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.gets: list[str] = []
        self.fails = ""

    def __call__(self, environ: Any, start: Any) -> Any:
        method, asked = environ["REQUEST_METHOD"], environ.get("HTTP_RANGE", "")
        if self.fails and self.fails in f"{method} {environ.get('QUERY_STRING', '')}":
            start("403 Forbidden", [("Content-Length", "0")])
            return [b""]
        if method == "GET" and asked:
            self.gets.append(asked)
        return self._application(environ, start)


@contextmanager
def s3_server() -> Iterator[tuple[_Proxy, dict[str, Any]]]:
    """moto's S3 server: what it is asked, and the ``storage_options`` for it."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    proxy = _Proxy(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, proxy, threaded=True)
    server.log = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    options = {
        "key": "key",
        "secret": "secret",
        "endpoint_url": f"http://127.0.0.1:{server.server_port}",
    }
    try:
        yield proxy, options
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
