"""A FUSE file system of one file, which takes as long for each page as it is told.

The file lies in memory, and is what a loop device needs that reads and writes past its page cache:
a device with bounded requests, served one after the other, each in the time of its pages.
"""

import ctypes
import errno
import mmap
import os
import signal
import struct
import time
from pathlib import Path

from fuse_server import FOREVER_S, LOOKUP, READ, READ_DATA, Server

SETATTR, WRITE_DATA, FSYNC = 4, 16, 20
WRITE = struct.Struct("<QQIIQII")
NODE = 2
NAME = b"device"
PAGE = 4096


class Device(Server):
    """Answers the kernel as that file, at a pace that another process sets."""

    def __init__(self, device: int, size_bytes: int) -> None:
        super().__init__(device, Path(os.devnull))
        self.sizes[NODE] = size_bytes
        self.content = mmap.mmap(-1, size_bytes)
        # Nanoseconds for a page, shared with whoever has made it.
        self.pace = mmap.mmap(-1, PAGE)
        self.free_at_ns = 0

    def set_pace(self, page_us: int) -> None:
        """From now on a page takes so long."""
        self.pace[:8] = struct.pack("<Q", page_us * 1000)

    def take(self, size_bytes: int) -> None:
        """A request of so many bytes takes its time, counted from the end of the last."""
        (page_ns,) = struct.unpack("<Q", self.pace[:8])
        pages = -(-size_bytes // PAGE)
        self.free_at_ns = max(self.free_at_ns, time.monotonic_ns()) + pages * page_ns
        while page_ns > 0 and (left := self.free_at_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)

    def answer(self, opcode: int, node: int, body: bytes) -> bytes | int | None:
        """The answer's payload, an error number, or `None` where the kernel wants no answer."""
        if opcode == LOOKUP:
            if body.split(b"\0")[0] != NAME:
                return errno.ENOENT
            return struct.pack("<4Q2I", NODE, 0, FOREVER_S, FOREVER_S, 0, 0) + self.attributes(NODE)
        if opcode == SETATTR:
            return struct.pack("<Q2I", FOREVER_S, 0, 0) + self.attributes(node)
        if opcode == READ_DATA:
            _, offset, size, *_ = READ.unpack_from(body)
            self.take(size)
            return self.content[offset : offset + size]
        if opcode == WRITE_DATA:
            _, offset, size, *_ = WRITE.unpack_from(body)
            self.take(size)
            self.content[offset : offset + size] = body[WRITE.size : WRITE.size + size]
            return struct.pack("<II", size, 0)
        if opcode == FSYNC:
            return b""
        return super().answer(opcode, node, body)


def mount(directory: Path, size_bytes: int) -> tuple[int, Device]:
    """Mounts it: the id of the process that serves it, and what its pace is set by."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"tierscope", os.fsencode(directory), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mounting a FUSE file system", str(directory))
    device = Device(fd, size_bytes)
    child = os.fork()
    if child == 0:
        # It serves until it is unmounted or killed, and cleans nothing up itself.
        for number in signal.SIGTERM, signal.SIGINT:
            signal.signal(number, signal.SIG_IGN)
        try:
            device.run()
        finally:
            os._exit(0)
    os.close(fd)
    return child, device
