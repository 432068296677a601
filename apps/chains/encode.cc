// SPDX-License-Identifier: Apache-2.0
#include "apps/chains/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"

namespace refract::chains {
namespace {

using prism::Flag;
using prism::Opcode;

class Encoder {
 public:
  Encoder(const ParsedChain& chain, std::span<const OpenedStore> stores) noexcept
      : chain_(chain), stores_(stores) {}

  Reported<std::vector<std::byte>> run() {
    const prism::ChainHeader header = {.version = static_cast<uint8_t>(prism::ChainForm::kPlain),
                                       .operations = static_cast<uint8_t>(chain_.statements.size()),
                                       .reserved = 0,
                                       .reserved_end = 0};
    append(&header, sizeof(header));
    for (const Statement& statement : chain_.statements) add(statement);
    if (!fault_.empty()) return report(Code::kInvalidArgument, fault_, "the node's answer makes no sense");
    return std::move(out_);
  }

 private:
  [[nodiscard]] const OpenedStore& store(std::string_view name) const {
    const auto found = std::ranges::find(stores_, name, &OpenedStore::name);
    REFRACT_CHECK(found != stores_.end());
    return *found;
  }

  [[nodiscard]] uint64_t pointer_to(const Value& place) {
    if (place.is_scratch()) return RemotePointer::at(prism::kScratchRegion, place.offset).bits;
    const OpenedStore& in = store(place.store);
    const uint64_t root = place.from_root ? in.root : 0;
    if (root > RemotePointer::kOffsetMask || place.offset > RemotePointer::kOffsetMask - root) {
      fault_ = fmt::format("{} lies beyond what an address can say", place.text());
      return 0;
    }
    return RemotePointer::at(in.region, root + place.offset).bits;
  }

  void append(const void* bytes, size_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    out_.insert(out_.end(), from, from + count);
    out_.resize(prism::padded(out_.size()));
  }
  void append_data(const Data& data) {
    std::string bytes;
    for (const Data::Piece& piece : data.pieces) {
      if (!piece.pointer) {
        bytes += piece.bytes;
        continue;
      }
      const uint64_t pointer = pointer_to(*piece.pointer);
      bytes.append(reinterpret_cast<const char*>(&pointer), sizeof(pointer));
    }
    append(bytes.data(), bytes.size());
  }
  void append_operand(const SwapOperand& operand) {
    if (!operand.pointer) return append_data(operand.data);
    const uint64_t pointer = pointer_to(*operand.pointer);
    append(&pointer, sizeof(pointer));
  }
  // A mask that is not said has all bits.
  void append_mask(const std::optional<SwapOperand>& mask, uint32_t bytes) {
    if (mask) return append_data(mask->data);
    const std::string all(bytes, '\xff');
    append(all.data(), all.size());
  }

  void add(const Statement& statement) {
    prism::OperationHeader header = {.opcode = static_cast<uint8_t>(statement.opcode),
                                     .mode = statement.redirect,
                                     .flags = statement.flags,
                                     .bytes = statement.bytes,
                                     .address = pointer_to(statement.address),
                                     .key = statement.store.empty() ? 0 : store(statement.store).key.bits,
                                     .operand = statement.number};
    if (statement.opcode == Opcode::kCompareSwap) header.mode = static_cast<uint8_t>(statement.comparison);
    if (statement.from) header.operand = pointer_to(*statement.from);
    append(&header, sizeof(header));
    if (statement.opcode == Opcode::kAllocate || (statement.opcode == Opcode::kWrite && !statement.from)) {
      append_data(statement.data);
    }
    if (statement.opcode != Opcode::kCompareSwap) return;
    append_operand(statement.compare);
    append_operand(statement.swap);
    if (!statement.has(Flag::kMasked)) return;
    append_mask(statement.compare_mask, statement.bytes);
    append_mask(statement.swap_mask, statement.bytes);
  }

  const ParsedChain& chain_;
  std::span<const OpenedStore> stores_;
  std::vector<std::byte> out_;
  std::string fault_;
};

}  // namespace

Reported<std::vector<std::byte>> encode(const ParsedChain& chain, std::span<const OpenedStore> stores) {
  return Encoder(chain, stores).run();
}

}  // namespace refract::chains
