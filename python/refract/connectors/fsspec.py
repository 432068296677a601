# SPDX-License-Identifier: Apache-2.0
"""The keys of a node as files, for fsspec and all that opens files by it: pandas, dask, zarr.

    import fsspec
    import pandas

    with fsspec.open("refract:///run/refract/node.sock//data/x.csv", "w") as file: ...
    pandas.read_csv("refract://node7:7000//data/x.csv", storage_options={"secret_file": "/etc/secret"})
    files = fsspec.filesystem("refract", address="/run/refract/node.sock", ttl=3600)
    files.ls("data"), files.cat("data/x.csv"), files.rm("data", recursive=True)

A URL is refract://ADDRESS//NAME. ADDRESS is the path of a node's socket or HOST:PORT, and may be empty: then
it is the option `address`, or this user's default socket. NAME is the key.

A file is one value: it is there when it is closed, as a whole, and a reader sees what was there when it
opened it. So there is no appending. Directories are what the / in names make of them: none is made, and one
without files is not there. A node has no index of names: `ls`, `find`, `glob`, `walk`, and whether something
is a directory look at all keys of the node, `walk` once for each directory. To open, to write, `isfile` and
`size` of a file do not. Keys that are no names, with an empty part or no UTF-8, are not listed.

An installed package is known to fsspec by its entry point; where refract lies on PYTHONPATH alone,
`import refract.connectors.fsspec` makes it known.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from typing import Any

import fsspec  # type: ignore[import]

import refract
from refract.connectors.sizes import sizes_of

__all__ = ["RefractFileSystem"]

_SCHEME = "refract://"


def _parts_of(url: str) -> tuple[str, str]:
    """The address in a URL, empty where there is none, and the name."""
    if not url.startswith(_SCHEME):
        return "", url
    address, slashes, name = url.removeprefix(_SCHEME).partition("//")
    if not slashes:
        raise ValueError(
            f"{url!r} does not say where the address of the node ends and the name begins\n"
            "  write refract://ADDRESS//NAME; ADDRESS may be empty: refract:////NAME"
        )
    if address and not address.startswith("/"):
        address = _SCHEME + address
    return address, name


def _is_name(name: str) -> bool:
    return all(name.split("/"))


def _no_file(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


class _Value(io.BufferedIOBase):
    """A value that is read: as it was when it was opened.

    No io.BufferedReader: numpy takes those for files that have a descriptor.
    """

    def __init__(self, view: refract.View) -> None:
        self._view = view
        self._bytes = memoryview(view)
        self.size = view.nbytes  # fsspec asks for it.
        self._at = 0

    def _ahead(self, size: int | None) -> memoryview:
        end = len(self._bytes) if size is None or size < 0 else self._at + size
        return self._bytes[self._at : end]

    def readable(self) -> bool:
        return not self.closed

    def seekable(self) -> bool:
        return not self.closed

    def read(self, size: int | None = -1) -> bytes:
        part = bytes(self._ahead(size))
        self._at += len(part)
        return part

    read1 = read

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        part = self._ahead(len(target))
        target[: len(part)] = part
        self._at += len(part)
        return len(part)

    readinto1 = readinto

    def peek(self, size: int = 0) -> bytes:
        # What readline() looks for an end of line in.
        return bytes(self._ahead(max(size, 256)))

    def tell(self) -> int:
        return self.seek(0, io.SEEK_CUR)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._bytes)}[whence]
        if at < 0:
            raise ValueError(f"there is nothing at {at}")
        self._at = at
        return at

    def close(self) -> None:
        if not self.closed:
            self._bytes.release()
            self._view.release()
        super().close()


class _Draft(io.BytesIO):
    """What is written; its close() makes a value of it, and in a transaction of fsspec its commit()."""

    def __init__(self, files: RefractFileSystem, name: str, if_absent: bool, is_put_at_close: bool) -> None:
        super().__init__()
        self._files = files
        self._name = name
        self._if_absent = if_absent
        self._is_put_at_close = is_put_at_close
        self._kept: bytes | None = None

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._is_put_at_close:
                with self.getbuffer() as data:
                    self._files.put_value(self._name, data, self._if_absent)
            else:
                self._kept = self.getvalue()
        finally:
            super().close()

    def commit(self) -> None:
        if self._kept is not None:
            self._files.put_value(self._name, self._kept, self._if_absent)
            self._kept = None

    def discard(self) -> None:
        self._kept = None


class RefractFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Each key of a node is a file; see the text of the module.

    address: the path of a node's socket; 'refract://host:port'; empty: this user's default socket.
    secret_file, timeout: as of refract.connect().
    ttl: in so many seconds a file that was written is gone; None: it stays.
    Raises Unavailable, InvalidArgument, AccessDenied, and later FileNotFoundError and its like, or what the
    calls of refract.Client raise.
    """

    protocol = "refract"
    root_marker = ""

    def __init__(
        self,
        address: str | os.PathLike[str] = "",
        secret_file: str | os.PathLike[str] = "",
        timeout: float = 5.0,
        ttl: float | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        self.address = os.fspath(address)
        self.ttl = ttl
        self._begin = lambda: refract.connect(address, secret_file=secret_file, timeout=timeout)
        self._client, self._client_pid = self._begin(), os.getpid()

    @property
    def client(self) -> refract.Client:
        """The refract.Client of this process: behind a fork another one than the parent's."""
        if self._client_pid != os.getpid():
            self._client, self._client_pid = self._begin(), os.getpid()
        return self._client

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        name = _parts_of(fsspec.utils.stringify_path(path))[1].strip("/")
        if "//" in name:
            raise ValueError(f"the name {name!r} has an empty part: two slashes behind each other")
        return name

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        address = _parts_of(path)[0]
        return {"address": address} if address else {}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a name."""
        return f"{_SCHEME}{self.address.removeprefix(_SCHEME)}//{self._strip_protocol(name)}"

    def _name_of(self, path: Any) -> str:
        """Of a file."""
        name: str = self._strip_protocol(path)
        if not name:
            raise ValueError(f"{path!r} names no file")
        return name

    def _below(self, directory: str) -> Iterator[str]:
        """Looks at all keys of the node."""
        for key in self.client.scan(directory):
            try:
                name = key.decode()
            except UnicodeDecodeError:
                continue
            if _is_name(name):
                yield name

    def _infos(self, names: list[str]) -> dict[str, dict[str, Any]]:
        """Of those that are files."""
        return {
            name: {"name": name, "size": size, "type": "file"}
            for name, size in zip(names, sizes_of(self.client, names))
            if size is not None
        }

    def _view(self, path: Any) -> refract.View:
        name = self._name_of(path)
        view = self.client.view(name, None)
        if view is None:
            raise _no_file(name)
        return view

    def put_value(self, path: Any, value: Any, if_absent: bool = False) -> None:
        """The value of a file, any C-contiguous buffer. if_absent: or raises FileExistsError."""
        name = self._name_of(path)
        try:
            self.client.put(name, value, ttl=self.ttl, if_absent=if_absent)
        except refract.Exists:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None

    def find(
        self, path: Any, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any
    ) -> Any:
        """All files below a directory, by one look at all keys of the node; see fsspec."""
        name = self._strip_protocol(path)
        below = name + "/" if name else ""
        files, directories = [], set()
        for each in self._below(below):
            parts = each[len(below) :].split("/")
            if maxdepth is None or len(parts) <= maxdepth:
                files.append(each)
            if withdirs:
                depths = len(parts) if maxdepth is None else min(len(parts), maxdepth + 1)
                directories |= {below + "/".join(parts[:depth]) for depth in range(1, depths)}
        if name and not files and not directories and self.isfile(name):
            files.append(name)
        if not detail:
            return sorted({*files, *directories})
        infos = {each: {"name": each, "size": 0, "type": "directory"} for each in directories}
        return dict(sorted((infos | self._infos(files)).items()))

    def ls(self, path: Any, detail: bool = True, **_: Any) -> Any:
        """What lies in a directory, or the file itself. Looks at all keys of the node."""
        found = self.find(path, maxdepth=1, withdirs=True, detail=detail)
        if not found and self._strip_protocol(path):
            raise _no_file(self._strip_protocol(path))
        return list(found.values()) if detail else found

    def info(self, path: Any, **_: Any) -> dict[str, Any]:
        """Name, size in bytes and type. Of what is no file, looks at all keys of the node."""
        name = self._strip_protocol(path)
        if name:
            for info in self._infos([name]).values():
                return info
        if name and next(self._below(name + "/"), None) is None:
            raise _no_file(name)
        return {"name": name, "size": 0, "type": "directory"}

    def exists(self, path: Any, **_: Any) -> bool:
        """Whether there is such a file or directory. Of what is no file, looks at all keys of the node."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: Any) -> bool:
        """Whether there are files in it. Of what is no file, looks at all keys of the node."""
        return self.exists(path) and not self.isfile(path)

    def isfile(self, path: Any) -> bool:
        """Whether there is such a key; looks at no other."""
        name = self._strip_protocol(path)
        return bool(name) and self.client.exists(name)

    def ukey(self, path: Any) -> str:
        """Differs after each write."""
        with self._view(path) as view:
            return str(fsspec.utils.tokenize(self._name_of(path), view.version))

    def rmdir(self, path: Any) -> None:
        """Raises OSError where there are files in it; else there is nothing to do."""
        name = self._strip_protocol(path)
        if next(self._below(name + "/" if name else ""), None) is not None:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)

    def _rm(self, path: Any) -> None:
        name = self._name_of(path)
        try:
            self.client.erase(name)
        except refract.NotFound:
            raise _no_file(name) from None

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files; directories where `recursive`, by a look at all keys of the node."""
        for name in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            try:
                self._rm(name)
            except FileNotFoundError:
                if recursive:  # A directory, or gone meanwhile.
                    continue
                if self.isdir(name):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
                raise

    def cp_file(self, path1: Any, path2: Any, **_: Any) -> None:
        """Copies a file."""
        with self._view(path1) as view:
            self.put_value(path2, view)

    def cat_file(self, path: Any, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes of a file, or of a part of it."""
        with self._view(path) as view, memoryview(view) as whole:
            return bytes(whole[start:end])

    def pipe_file(self, path: Any, value: Any, **_: Any) -> None:
        """Writes a file."""
        self.put_value(path, value)

    def _open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **_: Any,
    ) -> Any:
        name = self._name_of(path)
        if mode == "rb":
            return _Value(self._view(name))
        if mode in ("wb", "xb"):
            return _Draft(self, name, mode == "xb", autocommit)
        raise io.UnsupportedOperation(
            f"open of {name!r} in mode {mode!r}: a file is one value, which is written as a whole\n"
            "  read it, and write it again: 'rb', then 'wb'; 'xb' writes where there is none"
        )


fsspec.register_implementation("refract", RefractFileSystem)
