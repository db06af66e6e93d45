"""Streams, listeners, datagrams and descriptors: sockets as protocols want them."""

from penstock.net.operations import Descriptor

__all__ = ["Descriptor"]
