// SPDX-License-Identifier: Apache-2.0
// refract::Batch: several changes of a node's keys that take effect at one moment, if all its conditions hold
// at that moment; else nothing changes.
//
//   refract::Batch batch;
//   batch.if_version("order:{42}", version).put("order:{42}", "paid").add("paid", 1).erase("cart:{42}");
//   const refract::Result<> done = client.commit(batch);
//
// No reader sees some of the changes and not others, whatever way it reads by, and no kill of any process
// leaves some of them; where the node has a log, the end of all processes or of the host does not either.
//
// A batch has copies of all that it is given. At most 4,096 conditions and writes, and 16 MiB of keys and
// values; what several writes have, at a node with a log, some 4 MiB. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "refract/base/api.h"
#include "refract/client/types.h"

namespace refract {

namespace client {
class AsyncCalls;
}

class REFRACT_API Batch {
 public:
  // Conditions; a key may have several, and be written as well.
  Batch& if_absent(Bytes key);                     // Else kExists.
  Batch& if_exists(Bytes key);                     // Else kNotFound.
  Batch& if_version(Bytes key, uint64_t version);  // Else kVersionMismatch; kNotFound if absent.
  Batch& if_value(Bytes key, Bytes value);         // Likewise.

  // Writes; no key twice.
  Batch& put(Bytes key, Bytes value, uint64_t ttl_ns = 0);  // 0: it stays.
  Batch& erase(Bytes key);                                  // Of an absent key: nothing.
  // To the decimal number in 64 bits, with a sign, that the value is; an absent one is 0. The node does it,
  // without a read. The time to live stays. Else kInvalidArgument: the sum has more bits, or the value is no
  // number, which has one text: "007", "-0", "+1" and " 1" are none.
  Batch& add(Bytes key, int64_t addend);

  // Rows: writes with a code of their own. What they do depends on what the key has when the batch takes
  // effect; where that is an error, or a condition of the row does not hold, nothing of this key changes, and
  // all other writes of the batch have effect.
  //
  // The node computes the value, by a row of kv/functions: `function` is its kv::functions::Function. The
  // batch is refused where `arguments` are not of the row's form (kInvalidArgument); where the value is of
  // more than 1 MiB, all of them of more than 16, or the answer of more than 32 bytes (kTooLarge); and by a
  // node whose functions are others (kUnsupported). Then read, compute, and put on the version that was read.
  Batch& run(Bytes key, uint8_t function, Bytes arguments);
  struct PutTerms {
    // At most one; else code() is kExists or kNotFound.
    bool if_absent = false;
    bool if_present = false;
    // At most one of these. None: the entry stays.
    bool keeps_ttl = false;
    uint64_t ttl_ns = 0;
    uint64_t expires_wall_ns = 0;  // A moment of the node's time.
  };
  Batch& put_if(Bytes key, Bytes value, const PutTerms& terms);

  void clear();
  [[nodiscard]] size_t conditions() const noexcept { return conditions_.size(); }
  [[nodiscard]] size_t writes() const noexcept { return writes_.size(); }

  // Of the last commit. Of a write: the version that was made or erased. 0: there was nothing to erase; or
  // the answer of an earlier attempt was lost: then nothing is told of erasures, and of an add only where its
  // entry has not been written again. REQUIRES: it was kOk.
  [[nodiscard]] uint64_t version(size_t write) const { return writes_[write].version; }
  // Of an add whose version is not 0.
  [[nodiscard]] int64_t sum(size_t write) const { return writes_[write].sum; }
  // Likewise: kOk. Of an erasure kNotFound: there was nothing. Of a row its error (of run() kInvalidArgument:
  // answer() says which), or kExists, kNotFound. kIndeterminate: the batch has happened, and the answer of an
  // earlier attempt was lost, so that this is not known of an erasure, an add or a row.
  [[nodiscard]] Code code(size_t write) const { return writes_[write].code; }
  // Of a row by run(): what its function answers, or which error. Good until the batch changes.
  [[nodiscard]] std::string_view answer(size_t write) const {
    return {writes_[write].answer.data(), writes_[write].answer_bytes};
  }
  // Which one a failure is about: a condition, or behind those a write, in the order they were added; as many
  // as there are: the batch as a whole.
  [[nodiscard]] size_t failed() const noexcept { return failed_; }

 private:
  friend class client::AsyncCalls;
  enum class Kind : uint8_t { kAbsent = 1, kExists, kVersion, kValue, kPut, kErase, kAdd, kFunction };
  struct Condition {
    Kind kind;
    std::string key;
    uint64_t version;
    std::string value;
  };
  struct Write {
    Kind kind;
    std::string key;
    std::string value;
    uint64_t argument;  // Time to live; the addend; or which function.
    PutTerms terms = {};
    uint64_t version = 0;
    int64_t sum = 0;
    Code code = Code::kOk;
    uint8_t answer_bytes = 0;
    std::array<char, 32> answer = {};
  };
  Batch& condition(Kind kind, Bytes key, uint64_t version, Bytes value);
  Batch& write(Kind kind, Bytes key, Bytes value, uint64_t argument);

  std::deque<Condition> conditions_;
  std::deque<Write> writes_;
  size_t failed_ = 0;
};

}  // namespace refract
