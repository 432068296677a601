# SPDX-License-Identifier: Apache-2.0
"""The storage of SGLang's HiCache: pages of its cache in a node, read by other servers and after a restart.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
        "backend_name": "refract", "module_path": "refract.connectors.sglang", "class_name": "HiCache",
        "interface_v1": 1, "address": "/run/refract/node.sock"}'

It has been tested against a stand-in with HiCacheStorage's signatures, and has not run inside SGLang.

Of the extra configuration it takes `address`, `secret_file` and `timeout` (seconds, 5), as refract.connect()
does; `prefix` of the keys ("hicache"), to which model and ranks are added; and `ttl`, after how many seconds
a page is gone (it stays; give the node `memory.eviction`, or this).

HiCache's threads end by an exception and are not started again. So no call raises: what does not work is
a page that is not there, and a warning of the logger 'refract.connectors.sglang'. Any thread may call.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import refract
from refract.connectors.sizes import sizes_of

if TYPE_CHECKING:
    _Base = object
else:
    try:
        from sglang.srt.mem_cache.hicache_storage import HiCacheStorage as _Base
    except ImportError:
        _Base = object

__all__ = ["HiCache"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def _prefix_of(config: Any, begin: str) -> str:
    """Of the keys: what makes pages of other models and ranks other pages."""

    def said(name: str, default: Any) -> Any:
        value = getattr(config, name, None)
        return default if value is None else value

    parts = [begin, str(said("model_name", "")).replace("/", "-")]
    # All ranks of such a model have the same pages.
    if not said("is_mla_model", False):
        parts.append(f"tp{said('tp_rank', 0)}of{said('tp_size', 1)}")
    for kind in ("pp", "attn_cp"):
        if said(f"{kind}_size", 1) > 1:
            parts.append(f"{kind}{said(f'{kind}_rank', 0)}of{said(f'{kind}_size', 1)}")
    return "/".join(parts) + "/"


def _places_of(pool: Any, host_indices: Any, number: int) -> list[list[tuple[int, int]]] | None:
    """Where the pages of so many keys lie in the host's pool: of each (address, bytes), once or several
    times.

    None: the pool does not say, and pages are copied by its own calls. This is all that is known here of
    get_page_buffer_meta, which is no part of HiCacheStorage.
    """
    page_size = getattr(pool, "page_size", None)
    if page_size is not None and len(host_indices) != number * page_size:
        raise ValueError(f"{len(host_indices)} indices for {number} pages of {page_size}")
    find = getattr(pool, "get_page_buffer_meta", None)
    if find is None:
        return None
    try:
        addresses, sizes = find(host_indices)
    except NotImplementedError:
        return None
    each, rest = divmod(len(addresses), number)
    if each == 0 or rest != 0 or len(sizes) != len(addresses):
        raise ValueError(f"{len(addresses)} addresses and {len(sizes)} sizes for {number} pages")
    places = [(int(address), int(size)) for address, size in zip(addresses, sizes)]
    return [places[begin : begin + each] for begin in range(0, len(places), each)]


def _target_of(location: Any, size: Any) -> Any:
    return (location, int(size)) if isinstance(location, int) else location


def _bytes_in(target: Any) -> int:
    if isinstance(target, tuple):
        return int(target[1])
    if hasattr(target, "data_ptr"):
        return int(target.numel()) * int(target.element_size())
    return memoryview(target).nbytes


def _source_of(value: Any) -> Any:
    """A buffer over it. Tensors have none, and are to live as long."""
    if hasattr(value, "data_ptr"):
        if value.device.type != "cpu":
            raise ValueError(f"a page on {value.device}; HiCache's are in the memory of the host")
        if not value.is_contiguous():
            raise ValueError("a page that is not contiguous")
        value = (value.data_ptr(), _bytes_in(value))
    if isinstance(value, tuple):
        return (ctypes.c_ubyte * value[1]).from_address(value[0])
    return value


class HiCache(_Base):
    """HiCacheStorage over a node; see the text of the module.

    storage_config: SGLang's HiCacheStorageConfig; the second is what its factory passes, and is not used.
    Raises Unavailable, InvalidArgument, AccessDenied.
    """

    def __init__(self, storage_config: Any = None, kwargs: Any = None) -> None:
        extra = getattr(storage_config, "extra_config", None) or {}
        self._client = refract.connect(
            extra.get("address", ""),
            secret_file=extra.get("secret_file", ""),
            timeout=float(extra.get("timeout", 5.0)),
        )
        self._prefix = _prefix_of(storage_config, str(extra.get("prefix", "hicache")))
        self._ttl: float | None = extra.get("ttl")
        self.mem_pool_host: Any = None

    def _safely(self, default: _T, call: Callable[..., _T], *words: Any) -> _T:
        try:
            return call(*words)
        except Exception as error:  # noqa: BLE001: what else is raised ends a thread of HiCache.
            _log.warning("%s: %s", call.__name__.lstrip("_"), error)
            return default

    def _name(self, key: str, part: int = 0) -> str:
        return f"{self._prefix}{key}/{part}" if part else self._prefix + key

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The pool whose pages batch_get_v1() and batch_set_v1() mean."""
        self.mem_pool_host = mem_pool_host

    # Single pages, whose memory is named by the call.

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """Copies a page to target_location, and returns that; None: it is not there, or has another size.

        target_location: a tensor on the CPU, a writable buffer, or an address, whose bytes target_sizes
        says. Without one the page is returned as bytes.
        """
        locations = None if target_location is None else [target_location]
        return self.batch_get([key], locations, [target_sizes])[0]

    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        """Stores a page: a tensor on the CPU, a buffer, or what lies at the address target_location."""
        return self.batch_set([key], [value], [target_location], [target_sizes])

    def batch_get(
        self, keys: Sequence[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Any]:
        """get() of several pages; None for each that is not there."""
        return self._safely([None] * len(keys), self._batch_get, keys, target_locations, target_sizes)

    def _batch_get(self, keys: Sequence[str], locations: Any, sizes: Any) -> list[Any]:
        names = [self._name(key) for key in keys]
        if locations is None:
            found = self._client.get_many(names)
            return [None if isinstance(each, refract.Error) else each for each in found]
        if sizes is None:
            sizes = [None] * len(keys)
        targets = [_target_of(location, size) for location, size in zip(locations, sizes, strict=True)]
        outcomes = self._client.get_many_into(names, targets)
        return [
            location if outcome == _bytes_in(target) else None
            for location, target, outcome in zip(locations, targets, outcomes)
        ]

    def batch_set(
        self,
        keys: Sequence[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """set() of several pages. True: all of them are stored."""
        return self._safely(False, self._batch_set, keys, values, target_locations, target_sizes)

    def _batch_set(self, keys: Sequence[str], values: Any, locations: Any, sizes: Any) -> bool:
        if values is None:
            values = [None] * len(keys)
        if locations is not None and sizes is not None:
            places = [_target_of(*each) for each in zip(locations, sizes, strict=True)]
            values = [place if value is None else value for value, place in zip(values, places, strict=True)]
        sources = [_source_of(value) for value in values]
        return all(self._put([self._name(key) for key in keys], sources))

    def _put(self, names: list[str], sources: list[Any]) -> list[bool]:
        outcomes = self._client.put_many(list(zip(names, sources, strict=True)), ttl=self._ttl)
        for outcome in outcomes:
            if isinstance(outcome, refract.Error):
                _log.warning("a page is not stored: %s", outcome)
                break
        return [isinstance(outcome, int) for outcome in outcomes]

    # Pages of the host's pool.

    def batch_get_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Copies pages straight into the host's pool. False: it is not there, or has another size."""
        return self._safely([False] * len(keys), self._batch_get_v1, keys, host_indices)

    def _batch_get_v1(self, keys: Sequence[str], host_indices: Any) -> list[bool]:
        places = _places_of(self.mem_pool_host, host_indices, len(keys)) if keys else []
        if places is None:
            return [self._get_page(key, index) for key, index in self._firsts(keys, host_indices)]
        names = [self._name(key, part) for key, page in zip(keys, places) for part in range(len(page))]
        outcomes = iter(self._client.get_many_into(names, [place for page in places for place in page]))
        # No part is left out, so that the next page begins where it does.
        return [all([next(outcomes) == size for _, size in page]) for page in places]

    def batch_set_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Stores pages of the host's pool, but for those that are there in this size."""
        return self._safely([False] * len(keys), self._batch_set_v1, keys, host_indices)

    def _batch_set_v1(self, keys: Sequence[str], host_indices: Any) -> list[bool]:
        places = _places_of(self.mem_pool_host, host_indices, len(keys)) if keys else []
        if places is None:
            return [self._set_page(key, index) for key, index in self._firsts(keys, host_indices)]
        parts = [
            (number, part, self._name(key, part), place)
            for number, (key, page) in enumerate(zip(keys, places))
            for part, place in enumerate(page)
        ]
        there = sizes_of(self._client, [name for _, _, name, _ in parts])
        missing = [each for each, size in zip(parts, there) if size != each[3][1]]
        is_set = [True] * len(keys)
        # The first part is the one of which exists() asks, so it comes behind the others.
        for is_first in (False, True):
            turn = [each for each in missing if (each[1] == 0) == is_first and is_set[each[0]]]
            done = self._put([name for _, _, name, _ in turn], [_source_of(place) for _, _, _, place in turn])
            for (number, _, _, _), is_done in zip(turn, done):
                is_set[number] = is_set[number] and is_done
        return is_set

    # What takes over where the pool does not say where its pages lie.

    def _firsts(self, keys: Sequence[str], host_indices: Any) -> list[tuple[str, int]]:
        each, rest = divmod(len(host_indices), len(keys))
        if each == 0 or rest != 0:
            raise ValueError(f"{len(host_indices)} indices for {len(keys)} pages")
        return [(key, int(host_indices[number * each])) for number, key in enumerate(keys)]

    def _get_page(self, key: str, index: int) -> bool:
        page = self.get(key, self.mem_pool_host.get_dummy_flat_data_page())
        if page is None:
            return False
        self.mem_pool_host.set_from_flat_data_page(index, page)
        return True

    def _set_page(self, key: str, index: int) -> bool:
        return self.set(key, self.mem_pool_host.get_data_page(index, flat=True))

    # All of them.

    def exists(self, key: str) -> bool:
        """Whether a page is there."""
        return self.batch_exists([key]) == 1

    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """How many pages are there, from the first one on."""
        return self._safely(0, self._client.prefix_exists, [self._name(key) for key in keys])

    def clear(self) -> None:
        """Erases the pages of this model and these ranks. Looks at all keys of the node."""
        self._safely(None, self._clear)

    def _clear(self) -> None:
        for key in list(self._client.scan(self._prefix)):
            try:
                self._client.erase(key)
            except refract.NotFound:
                pass

    def get_stats(self) -> None:
        """None, which HiCache takes for nothing to report: `refract stat` has what the node counts."""

    def close(self) -> None:
        """Also a second time. Afterwards no page is there."""
        self._client.close()
