"""A FUSE file system of zeros that tells what the kernel asks it to read.

It speaks the protocol of `/dev/fuse` (Linux include/uapi/linux/fuse.h, protocol 7.31) by itself,
read-only: `/N` is a file of N bytes. It runs in a process of its own, as a fault of the observer
would otherwise wait for itself.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<6Q10I")
READ = struct.Struct("<QQIIQII")
MS_RDONLY = 1

LOOKUP, FORGET, GETATTR, STATFS, OPEN, READ_DATA, RELEASE = 1, 2, 3, 17, 14, 15, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = (
    25,
    26,
    27,
    28,
    29,
    36,
    38,
    42,
)
ASYNC_READ, BIG_WRITES, MAX_PAGES = 1, 1 << 5, 1 << 22
KEEP_CACHE = 1 << 1
"""FOPEN_KEEP_CACHE: opening does not throw the page cache of the file away."""
MOST_PAGES = 256
FOREVER_S = 1 << 31


class Server:
    """Answers the kernel; each read is a line `ino offset bytes` in `log`."""

    def __init__(self, device: int, log: Path) -> None:
        self.device = device
        self.log = log.open("w", buffering=1)
        self.zeros = bytes(MOST_PAGES * 4096)
        self.sizes = {1: 0}

    def attributes(self, node: int) -> bytes:
        """`struct fuse_attr` of a file, or of the root directory."""
        mode, links = (0o040755, 2) if node == 1 else (0o100644, 1)
        size = self.sizes[node]
        times = (0, 0, 0)
        rest = (0, 0, 0, mode, links, 0, 0, 0, 4096, 0)
        return ATTRIBUTES.pack(node, size, -(-size // 512), *times, *rest)

    def answer(self, opcode: int, node: int, body: bytes) -> bytes | int | None:
        """The answer's payload, an error number, or `None` where the kernel wants no answer."""
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return None
        if opcode == INIT:
            flags = ASYNC_READ | BIG_WRITES | MAX_PAGES
            head = struct.pack(
                "<4I2H2I2H", 7, 31, 1 << 30, flags, 64, 48, 1 << 20, 1, MOST_PAGES, 0
            )
            return head.ljust(64, b"\0")
        if opcode == LOOKUP:
            name = body.split(b"\0")[0]
            if not name.isdigit():
                return errno.ENOENT
            node = 2 + int(name)
            self.sizes[node] = int(name)
            return struct.pack("<4Q2I", node, 0, FOREVER_S, FOREVER_S, 0, 0) + self.attributes(node)
        if opcode == GETATTR:
            return struct.pack("<Q2I", FOREVER_S, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, KEEP_CACHE, 0)
        if opcode == READ_DATA:
            _, offset, size, *_ = READ.unpack_from(body)
            self.log.write(f"{node} {offset} {size}\n")
            return self.zeros[: max(0, min(size, self.sizes[node] - offset))]
        if opcode in (READDIR, RELEASE, RELEASEDIR, FLUSH, DESTROY):
            return b""
        return errno.ENOSYS

    def run(self) -> None:
        """Serves until the file system is unmounted."""
        while True:
            try:
                message = os.read(self.device, (1 << 20) + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN):
                    continue
                return
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(message)
            result = self.answer(opcode, node, message[IN_HEADER.size :])
            if result is None:
                continue
            code, payload = (0, result) if isinstance(result, bytes) else (-result, b"")
            head = OUT_HEADER.pack(OUT_HEADER.size + len(payload), code, unique)
            os.write(self.device, head + payload)


def mount(directory: Path, log: Path) -> int:
    """Mounts the file system; the id of the process that serves it."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    where = os.fsencode(directory)
    if libc.mount(b"tierscope", where, b"fuse", MS_RDONLY, options) != 0:
        raise OSError(ctypes.get_errno(), "mounting a FUSE file system", str(directory))
    child = os.fork()
    if child == 0:
        Server(device, log).run()
        os._exit(0)
    os.close(device)
    return child
