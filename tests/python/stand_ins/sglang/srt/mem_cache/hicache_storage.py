# SPDX-License-Identifier: Apache-2.0
"""The signatures of SGLang's HiCacheStorage, and nothing of what it does."""

from abc import ABC, abstractmethod


class HiCacheStorage(ABC):
    def register_mem_pool_host(self, mem_pool_host):
        raise NotImplementedError

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        raise NotImplementedError

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        raise NotImplementedError

    @abstractmethod
    def get(self, key, target_location=None, target_sizes=None):
        ...

    @abstractmethod
    def batch_get(self, keys, target_locations=None, target_sizes=None):
        ...

    @abstractmethod
    def set(self, key, value=None, target_location=None, target_sizes=None):
        ...

    @abstractmethod
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        ...

    @abstractmethod
    def exists(self, key):
        ...

    def batch_exists(self, keys, extra_info=None):
        raise NotImplementedError

    def clear(self):
        raise NotImplementedError

    def get_stats(self):
        raise NotImplementedError
