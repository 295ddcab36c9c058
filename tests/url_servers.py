"""Servers on this machine for tests of URLs: HTTP with ranges and faults, S3 (moto's), Cloud Storage."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


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
    may_end : threading.Event
        What answers wait for, but for the first two; for a minute, and then they have waited in vain.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.ranges: list[tuple[str, int, int]] = []
        self.knows_ranges, self.breaks_at = True, None
        self.may_end, self.waited_in_vain = threading.Event(), False
        self.may_end.set()

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
            if len(files.ranges) > 2:
                files.waited_in_vain |= not files.may_end.wait(60)
            if files.breaks_at is not None and stop - start > files.breaks_at:
                self.wfile.write(data[start : start + files.breaks_at])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(data[start:stop])

    with _serving(Handler) as files.url:
        yield files


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server in a thread: its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of connections that were broken here
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Objects:
    """What a server of Cloud Storage has and what it was asked for.

    Attributes
    ----------
    url : str
    data : dict
        Bytes of each object, by ``bucket/name``.
    unfinished : dict
        Uploads in several parts that have begun: of each number, the object's name and what has come.
    ranges : list of (str, int, int)
        Object, first and last byte (exclusive) of each answer.
    breaks : str
        An upload of which such a part (``multipart``, ``resumable`` or the first byte of one) is not taken: the
        connection breaks in the middle of it.
    """

    def __init__(self) -> None:
        self.url = self.breaks = ""
        self.data: dict[str, bytes] = {}
        self.unfinished: dict[str, tuple[str, bytes]] = {}
        self.ranges: list[tuple[str, int, int]] = []


@contextmanager
def gs_server() -> Iterator[Objects]:
    """A server of the part of Cloud Storage's JSON API that files are read and written with."""
    objects = Objects()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, status: int, body: Any = b"", **headers: str) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def asked(self) -> tuple[str, str, str, dict[str, str]]:
            """Part of the API, bucket, object and options."""
            parts = urlsplit(self.path)
            found = re.fullmatch(r"/(storage|download/storage|upload/storage)/v1/b/([^/]+)/o(?:/([^/]+))?", parts.path)
            assert found, self.path
            return found[1], found[2], unquote(found[3] or ""), dict(parse_qsl(parts.query))

        def described(self, path: str) -> dict[str, str]:
            bucket, _, name = path.partition("/")
            data = objects.data[path]
            md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
            return {"kind": "storage#object", "bucket": bucket, "name": name, "size": str(len(data)), "md5Hash": md5}

        def do_GET(self) -> None:
            kind, bucket, name, options = self.asked()
            path = f"{bucket}/{name}"
            if not name:
                return self.answer(200, self.listed(bucket, options))
            if path not in objects.data:
                return self.answer(404)
            if kind == "storage":
                return self.answer(200, self.described(path))
            data = objects.data[path]
            limits = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, stop = (int(limits[1]), min(int(limits[2]) + 1, len(data))) if limits else (0, len(data))
            objects.ranges.append((path, start, stop))
            return self.answer(
                206 if limits else 200, data[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(data)}"
            )

        def listed(self, bucket: str, options: dict[str, str]) -> dict[str, Any]:
            """Objects of a page, and folders; the next page begins behind the last name."""
            prefix, delimiter = options.get("prefix", ""), options.get("delimiter")
            found: dict[str, bool] = {}
            for path in sorted(objects.data):
                name = path.removeprefix(f"{bucket}/")
                if name != path and name.startswith(prefix):
                    rest, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
                    found[prefix + rest + cut if cut else name] = bool(cut)
            names = [name for name in found if name > options.get("pageToken", "")]
            page = names[: int(options.get("maxResults", 1000))]
            return {
                "kind": "storage#objects",
                "items": [self.described(f"{bucket}/{name}") for name in page if not found[name]],
                "prefixes": [name for name in page if found[name]],
                **({"nextPageToken": page[-1]} if len(page) < len(names) else {}),
            }

        def body(self, part: str) -> bytes | None:
            """What was sent; None of what is not taken."""
            size = int(self.headers.get("Content-Length", 0))
            if part and part == objects.breaks:
                self.rfile.read(size // 2)
                self.close_connection = True
                self.connection.close()
                return None
            return self.rfile.read(size)

        def do_POST(self) -> None:
            _, bucket, _, options = self.asked()
            limits = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", self.headers.get("Content-Range", ""))
            part = limits[1] if limits else options["uploadType"]
            sent = self.body(part)
            if sent is None:
                return None
            if part == "multipart":
                _, _, boundary = self.headers["Content-Type"].partition('boundary="')
                _, head, data = sent.split(b"--" + boundary[:-1].encode(), 2)
                name = json.loads(head.split(b"\n\n", 1)[1])["name"]
                content = data.split(b"\n\n", 1)[1].rsplit(b"\n--" + boundary[:-1].encode(), 1)[0]
                return self.stored(f"{bucket}/{name}", content)
            if limits is None:
                number = str(len(objects.unfinished))
                objects.unfinished[number] = f"{bucket}/{json.loads(sent)['name']}", b""
                where = f"{objects.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={number}"
                return self.answer(200, Location=where)
            path, before = objects.unfinished[options["upload_id"]]
            assert int(limits[1]) == len(before), "a part that is not the next one"
            whole = before + sent
            objects.unfinished[options["upload_id"]] = path, whole
            if len(whole) < int(limits[3]):
                return self.answer(308, Range=f"bytes=0-{len(whole) - 1}")
            del objects.unfinished[options["upload_id"]]
            return self.stored(path, whole)

        def stored(self, path: str, data: bytes) -> None:
            objects.data[path] = data
            self.answer(200, self.described(path))

        def do_DELETE(self) -> None:
            _, bucket, name, options = self.asked()
            if "upload_id" in options:
                objects.unfinished.pop(options["upload_id"], None)
                return self.answer(499)
            return self.answer(404 if objects.data.pop(f"{bucket}/{name}", None) is None else 204)

    with _serving(Handler) as objects.url:
        yield objects


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
