# SPDX-License-Identifier: Apache-2.0
"""What plugs Refract into programs that know nothing of it; nothing here is imported by `import refract`.

    import fsspec                       # Files of a node, also for pandas and dask.
    with fsspec.open("refract:///run/refract/node.sock//data/x.csv") as file: ...

`refract.connectors.fsspec` has `RefractFileSystem`: each key of a node is a file.
`refract.connectors.sglang` has `HiCache`, the storage of SGLang's HiCache (backend 'dynamic').
`refract.connectors.lmcache` has `RefractConnector`, a RemoteConnector of LMCache.

The first is tested with fsspec itself, pandas and dask. SGLang and LMCache are not in Debian: their classes
are tested against stand-ins with the same signatures, and have not run inside those programs.
"""
