# SPDX-License-Identifier: Apache-2.0
"""The signatures of LMCache's RemoteConnector, and nothing of what it does."""

import abc


class RemoteConnector(metaclass=abc.ABCMeta):
    @abc.abstractmethod
    async def exists(self, key):
        ...

    @abc.abstractmethod
    def exists_sync(self, key):
        ...

    @abc.abstractmethod
    async def get(self, key):
        ...

    @abc.abstractmethod
    async def put(self, key, memory_obj):
        ...

    @abc.abstractmethod
    async def list(self):
        ...

    @abc.abstractmethod
    async def close(self):
        ...

    def support_ping(self):
        return False

    async def ping(self):
        raise NotImplementedError

    def support_batched_get(self):
        return False

    async def batched_get(self, keys):
        raise NotImplementedError

    def support_batched_put(self):
        return False

    async def batched_put(self, keys, memory_objs):
        raise NotImplementedError

    def support_batched_async_contains(self):
        return False

    async def batched_async_contains(self, lookup_id, keys, pin=False):
        raise NotImplementedError

    def support_batched_get_non_blocking(self):
        return False

    async def batched_get_non_blocking(self, lookup_id, keys):
        raise NotImplementedError

    def remove_sync(self, key):
        raise NotImplementedError
