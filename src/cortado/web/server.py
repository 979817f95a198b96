"""Serves a few in-memory pages: to this machine alone, or to its network at a secret address."""

import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cortado.base.errors import CortadoError

LOCAL = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
_NAMES = ("localhost", LOCAL)


@dataclass(frozen=True)
class Served:
    """A server that listens, and the address to open."""

    server: ThreadingHTTPServer
    address: str
    reach: str  # who can open it, in words

    def run(self) -> None:
        """Serves until Ctrl-C."""
        try:
            self.server.serve_forever()
        finally:
            self.server.server_close()


def serve(pages: Mapping[str, bytes], *, port: int = 0, lan: bool = False) -> Served:
    """Listens on a port, by default any that is free. `pages` are by name; the first is shown."""
    code = f"{secrets.token_urlsafe(9)}/" if lan else ""
    own: list[str] = []  # the host names of this machine
    handler = _handler({f"/{code}{name}": data for name, data in pages.items()}, None if lan else own)
    try:
        server = ThreadingHTTPServer((EVERYWHERE if lan else LOCAL, port), handler)
    except OSError as error:
        raise CortadoError(f"--port {port} can't be listened on: {error.strerror}; give another, or none") from error
    own += [f"{name}:{server.server_port}" for name in _NAMES]
    host = _network_address() if lan else _NAMES[0]
    reach = (
        "everybody in your network who has this address can open it; over http browsers give it no microphone or camera"
        if lan
        else "only this machine can open it"
    )
    return Served(server, f"http://{host}:{server.server_port}/{code}{next(iter(pages))}", reach)


def _network_address() -> str:
    """Returns this machine's address in its network; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address, which nobody has
        except OSError:
            return LOCAL
        return str(probe.getsockname()[0])


def _handler(pages: Mapping[str, bytes], names: list[str] | None) -> type[BaseHTTPRequestHandler]:
    """Returns a handler that serves only these pages. With `names`, requests for another host are refused, so that no
    web page can read them through a name that it resolves to this machine."""

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "cortado", ""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            data = pages.get(self.path.partition("?")[0])
            if names is not None and self.headers.get("Host") not in names:
                data, status = b"this server answers to localhost alone\n", HTTPStatus.FORBIDDEN
            elif data is None:
                data, status = b"there is no such page\n", HTTPStatus.NOT_FOUND
            else:
                status = HTTPStatus.OK
            kind = "text/html" if status is HTTPStatus.OK else "text/plain"
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, format: str, *values: object) -> None:
            """Keeps the terminal for the command's own words."""

    return Handler
