// SPDX-License-Identifier: Apache-2.0
// Writes to a durable node, and what was told of them: what a node must have after any death of its
// processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/process/node_process.h"

namespace refract::test {

// A node that keeps its data in `folder`, with little memory, whose taking and giving back is most of what a
// start takes.
[[nodiscard]] NodeOptions durable_node(const std::string& folder, const std::string& durability,
                                       const std::vector<std::string>& further = {});

class ToldWrites {
 public:
  // Puts a new value of so many bytes, or a few more, under this key; false: no answer, or an error.
  bool put(Client& client, uint64_t key, uint64_t bytes = 20);
  // Nothing, or which key differs from what was acknowledged last and from what was asked for since.
  [[nodiscard]] std::string difference(Client& client) const;
  // Of the last put.
  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] uint64_t acknowledged() const noexcept { return acknowledged_; }

 private:
  struct Known {
    uint64_t acknowledged = 0;         // A number; 0: none.
    std::vector<uint64_t> asked = {};  // Since, and not acknowledged.
  };
  struct Bytes {
    uint64_t key;
    uint64_t number;
    uint64_t count;
  };
  [[nodiscard]] static std::string value_of(const Bytes& bytes);
  [[nodiscard]] bool is_value(const std::string& value, uint64_t key, uint64_t number) const;

  std::map<uint64_t, Known> known_;
  std::map<uint64_t, uint64_t> bytes_;  // By number.
  uint64_t number_ = 0;
  Code code_ = Code::kOk;
  uint64_t acknowledged_ = 0;
};

}  // namespace refract::test
