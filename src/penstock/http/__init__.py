"""An HTTP/1.1 server that stays up, stays correct and stays fast when it is asked for more than it can do."""

from penstock.http.errors import BadRequest
from penstock.http.exchange import Request
from penstock.http.files import Files
from penstock.http.log import Log
from penstock.http.message import WAIT, FilePart, Response
from penstock.http.options import HttpOptions
from penstock.http.parser import Parser
from penstock.http.server import Server
from penstock.http.tls import Tls

__all__ = [
    "WAIT",
    "BadRequest",
    "FilePart",
    "Files",
    "HttpOptions",
    "Log",
    "Parser",
    "Request",
    "Response",
    "Server",
    "Tls",
]
