"""Streams, listeners, datagrams and descriptors: sockets as protocols want them.

Everything that waits is bounded, everything that a turn does is a share, everything that is dropped is counted. This
room must not know a protocol, nor a programming model.
"""

from penstock.net.address import Address, parse, show
from penstock.net.buffer import set_total_limit as set_write_total
from penstock.net.datagram import Datagram
from penstock.net.listener import Listener
from penstock.net.operations import Descriptor
from penstock.net.options import StreamOptions
from penstock.net.resolve import Resolver
from penstock.net.shared import counters
from penstock.net.stream import Stream, connect

__all__ = [
    "Address",
    "Datagram",
    "Descriptor",
    "Listener",
    "Resolver",
    "Stream",
    "StreamOptions",
    "connect",
    "counters",
    "parse",
    "set_write_total",
    "show",
]
