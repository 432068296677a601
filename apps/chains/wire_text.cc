// SPDX-License-Identifier: Apache-2.0
// The dry run: what would travel, byte by byte, with names.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "apps/chains/encode.h"
#include "apps/chains/words.h"
#include "apps/records/shown_text.h"

#include "refract/documents/json.h"
#include "refract/prism/decode.h"

namespace refract::chains {
namespace {

using prism::Flag;
using prism::Opcode;

// A piece of the chain: so many bytes, with a name and what they mean.
struct WireField {
  size_t bytes = 0;
  std::string name;
  std::string meaning;
};

std::string place_text(uint64_t bits) {
  const RemotePointer place{bits};
  if (place.region() == prism::kScratchRegion) return fmt::format("scratch+{}", place.offset());
  return fmt::format("region {}, offset {:#x}", place.region(), place.offset());
}

std::string bytes_text(std::span<const std::byte> bytes) {
  return records::in_quotes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void add_inline_fields(const prism::Operation& operation, std::vector<WireField>& fields) {
  const prism::OperationHeader& header = operation.header;
  const size_t whole = prism::padded(header.bytes);
  const auto operand = [&](uint16_t flag, const char* name, const std::byte* at) {
    if (operation.has(flag)) {
      uint64_t pointer = 0;
      std::memcpy(&pointer, at, sizeof(pointer));
      fields.push_back({8, name, "stands at " + place_text(pointer)});
    } else {
      fields.push_back({whole, name, bytes_text({at, header.bytes})});
    }
  };
  switch (operation.opcode()) {
    case Opcode::kWrite:
    case Opcode::kAllocate:
      if (!operation.has(Flag::kDataIndirect) && whole > 0) {
        fields.push_back({whole, "data", bytes_text(operation.data())});
      }
      break;
    case Opcode::kCompareSwap:
      operand(Flag::kCompareIndirect, "compare", operation.compare());
      operand(Flag::kDataIndirect, "swap", operation.swap());
      if (!operation.has(Flag::kMasked)) break;
      fields.push_back({whole, "compare mask", "which bits are compared"});
      fields.push_back({whole, "swap mask", "which bits are replaced"});
      break;
    default:
      break;
  }
}

std::string mode_text(const prism::Operation& operation) {
  if (operation.opcode() == Opcode::kCompareSwap) {
    return std::string(word_of(static_cast<prism::Comparison>(operation.header.mode)));
  }
  return operation.has(Flag::kRedirect) ? fmt::format("output to scratch+{}", operation.header.mode) : "";
}

std::string operand_text(const prism::Operation& operation) {
  const uint64_t operand = operation.header.operand;
  if (operation.opcode() == Opcode::kFetchAdd) return fmt::format("adds {}", operand);
  if (operation.has(Flag::kDataIndirect) && operation.opcode() == Opcode::kWrite) {
    return "the data stand at " + place_text(operand);
  }
  return operation.opcode() == Opcode::kAllocate && operation.has(Flag::kSlotWord)
             ? "the slot word's own bits"
             : "";
}

bool is_in_scratch(const prism::OperationHeader& header) {
  return RemotePointer{header.address}.region() == prism::kScratchRegion &&
         (header.flags & Flag::kIndirect) == 0;
}

std::vector<WireField> fields_of(const prism::Operation& operation) {
  const prism::OperationHeader& header = operation.header;
  std::vector<WireField> fields = {
      {1, "opcode", std::string(prism::name(operation.opcode()))},
      {1, "mode", mode_text(operation)},
      {2, "flags", words_of_flags(header.flags)},
      {4, "bytes", fmt::format("{}", header.bytes)},
      {8, "address",
       operation.opcode() == Opcode::kAllocate
           ? fmt::format("region {}, free list {}", RemotePointer{header.address}.region(),
                         RemotePointer{header.address}.offset())
           : place_text(header.address)},
      {8, "key",
       header.key != 0         ? "of the region"
       : is_in_scratch(header) ? "none"
                               : "a node gives it"},
      {8, "operand", operand_text(operation)},
  };
  add_inline_fields(operation, fields);
  return fields;
}

class Printer {
 public:
  explicit Printer(std::span<const std::byte> chain) noexcept : chain_(chain) {}

  void field(const WireField& field) {
    constexpr size_t kPerLine = 8;
    std::string name = field.name;
    std::string meaning = field.meaning;
    for (size_t done = 0; done < field.bytes; done += kPerLine) {
      std::string hex;
      for (size_t i = done; i < std::min(field.bytes, done + kPerLine); ++i) {
        hex += fmt::format("{:02x} ", std::to_integer<unsigned>(chain_[at_ + i]));
      }
      std::string line = fmt::format("  {:04x}  {:<24} {:<12}  {}", at_ + done, hex, name, meaning);
      while (line.back() == ' ') line.pop_back();
      out_ += line + '\n';
      name.clear();
      meaning.clear();
    }
    at_ += field.bytes;
  }
  void title(std::string_view text) { out_.append(text).push_back('\n'); }
  [[nodiscard]] std::string& text() noexcept { return out_; }

 private:
  std::span<const std::byte> chain_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string wire_text(std::span<const std::byte> chain) {
  prism::DecodedChain decoded;
  const Code code = prism::decode(chain, decoded);
  if (chain.size() < sizeof(prism::ChainHeader)) return "no chain: too short for a header\n";
  if (std::to_integer<uint8_t>(chain[0]) == static_cast<uint8_t>(prism::ChainForm::kDense)) {
    return "a chain in the dense form, whose fields this does not print\n";
  }
  Printer printer(chain);
  printer.title(fmt::format("chain of {} bytes", chain.size()));
  printer.field({1, "version", ""});
  printer.field({1, "operations", ""});
  printer.field({6, "reserved", ""});
  for (size_t i = 0; i < decoded.count; ++i) {
    printer.title(fmt::format("{}  {}", i + 1, word_of(decoded.operations[i].opcode())));
    for (const WireField& field : fields_of(decoded.operations[i])) printer.field(field);
  }
  if (code != Code::kOk) printer.title("an executor refuses what follows, and so the whole chain");
  return std::move(printer.text());
}

std::string wire_json(std::span<const std::byte> chain) {
  prism::DecodedChain decoded;
  const Code code = prism::decode(chain, decoded);
  documents::Value operations = documents::Value::array();
  for (size_t i = 0; i < decoded.count; ++i) {
    const prism::OperationHeader& header = decoded.operations[i].header;
    operations.push_back({{"opcode", prism::name(decoded.operations[i].opcode())},
                          {"mode", header.mode},
                          {"flags", header.flags},
                          {"bytes", header.bytes},
                          {"address", header.address},
                          {"key", header.key},
                          {"operand", header.operand}});
  }
  return documents::to_json_row({{"well_formed", code == Code::kOk},
                                 {"bytes", chain.size()},
                                 {"hex", records::hex_text(chain)},
                                 {"operations", operations}});
}

}  // namespace refract::chains
