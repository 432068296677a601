// SPDX-License-Identifier: Apache-2.0
// Of a put that is alone nearly half is the server's waiting for two lines of memory in a row: the key's
// bucket and the buffer that is replaced. A client that has the memory mapped fetches them while its message
// is on the way, so that they come out of a cache beside the server's.
#pragma once

#include <cstdint>

#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/rpc/session.h"

namespace refract::client {

class LineFetcher final : public rpc::Meanwhile {
 public:
  // Begins with the bucket. The reader outlives it.
  LineFetcher(kv::DirectReader<kv::MappedMemory>& reader, const kv::HashedKey& key) noexcept
      : reader_(reader) {
    reader_.begin();
    reader_.fetch_bucket(key.hash(reader.hash_seed()), ahead_);
  }
  // Not before: a load that waits for the bucket would hold the message's stores back.
  void sent() noexcept override { reader_.fetch_buffer(ahead_); }

 private:
  kv::DirectReader<kv::MappedMemory>& reader_;
  kv::DirectReader<kv::MappedMemory>::Ahead ahead_;
};

}  // namespace refract::client
