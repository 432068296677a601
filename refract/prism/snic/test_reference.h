// SPDX-License-Identifier: Apache-2.0
// Chains as docs/formats/prism.md describes them, implemented a second time: byte by byte, over strings,
// without care for speed, and without a line of the decoder or the executor. What the two do must be the same
// to the bit.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/prism/operation.h"

namespace refract::prism::snic::test {

struct ReferenceList {
  uint64_t start;
  uint64_t buffer_bytes;
  uint64_t count;
};

struct ReferenceRegion {
  ReferenceRegion(uint16_t region, uint64_t size, const std::vector<ReferenceList>& all, bool is_guarded)
      : id(region), bytes(size, '\0'), lists(all), guarded(is_guarded), free(all.size()) {
    for (size_t i = 0; i < all.size(); ++i) {
      for (uint64_t n = 0; n < all[i].count; ++n) free[i].push_back(all[i].start + n * all[i].buffer_bytes);
    }
  }
  uint16_t id;
  std::string bytes;
  std::vector<ReferenceList> lists;
  bool guarded;  // By refuses().
  std::vector<std::deque<uint64_t>> free;
  std::set<uint64_t> out;
  std::vector<uint64_t> waiting;  // Retired while chains are under way.

  // The rule of the guard that the test gives to guarded regions.
  [[nodiscard]] static bool refuses(uint64_t at, uint64_t size) { return at / 64 % 4 == 3 || size > 48; }

  [[nodiscard]] bool can_retire(uint64_t at) const {
    for (const uint64_t other : waiting) {
      if (other == at) return false;
    }
    return out.contains(at);
  }
  void recycle(uint64_t at);
  void give_back(uint64_t at);
};

struct ReferenceKey {
  uint64_t key;
  uint16_t region;
  uint8_t rights;
};

struct ReferencePeer {
  std::string scratch = std::string(64, '\0');
  std::vector<ReferenceKey> keys;
};

class Reference {
 public:
  std::vector<ReferenceRegion> regions;

  // A chain under way; kMalformed or kTooLarge before anything has happened, else its operations one by one.
  class Chain {
   public:
    Chain(Reference& model, ReferencePeer& peer, const std::string& message, size_t room);
    [[nodiscard]] Code code() const { return code_; }
    [[nodiscard]] bool done() const { return next_ == operations_.size(); }
    void step();
    // The whole reply. What the chain owned goes back.
    [[nodiscard]] std::string end();

   private:
    struct Parsed {
      OperationHeader header;
      std::string inline_bytes;
    };
    struct Spot {
      std::string* bytes = nullptr;
      ReferenceRegion* region = nullptr;  // Null: the scratch.
      uint64_t at = 0;
    };
    struct Owned {
      ReferenceRegion* region;
      uint64_t at;
      uint64_t place;
      std::string word;
      bool stored;
    };

    [[nodiscard]] bool parse(const std::string& message);
    [[nodiscard]] static bool is_sound(const OperationHeader& header, bool first);
    [[nodiscard]] Code execute(const Parsed& operation);
    [[nodiscard]] Code reach(uint64_t pointer, Spot& spot);
    [[nodiscard]] Code target(const OperationHeader& header, Spot& spot, uint64_t& bound);
    [[nodiscard]] bool allowed(const Spot& spot, uint8_t right, uint64_t size) const;
    [[nodiscard]] bool fits(uint64_t size) const;
    [[nodiscard]] Code read(const Parsed& operation);
    [[nodiscard]] Code write(const Parsed& operation);
    [[nodiscard]] Code allocate(const Parsed& operation);
    [[nodiscard]] Code compare_swap(const Parsed& operation);
    [[nodiscard]] Code fetch_add(const Parsed& operation);
    [[nodiscard]] Code check_place(const Spot& spot, uint64_t size, uint8_t right) const;
    [[nodiscard]] Code operand(bool indirect, uint64_t size, std::string& rest, std::string& value,
                               Spot* from);
    [[nodiscard]] Code replace(const Parsed& operation, const Spot& spot, const std::string& next,
                               const std::string& mask, const Spot& source);

    Reference& model_;
    ReferencePeer& peer_;
    size_t room_;
    Code code_ = Code::kOk;
    std::vector<Parsed> operations_;
    size_t next_ = 0;
    Code last_ = Code::kOk;
    const ReferenceKey* key_ = nullptr;
    ReferenceRegion* region_ = nullptr;
    std::string output_;
    std::string outcomes_;
    std::string outputs_;
    std::vector<Owned> owned_;
  };

 private:
  size_t under_way_ = 0;
};

}  // namespace refract::prism::snic::test
