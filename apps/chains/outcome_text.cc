// SPDX-License-Identifier: Apache-2.0
#include "apps/chains/outcome_text.h"

#include <fmt/format.h>

#include <vector>

#include "apps/chains/words.h"
#include "apps/records/shown_text.h"

#include "refract/documents/json.h"
#include "refract/memory/remote_pointer.h"

namespace refract::chains {
namespace {

using prism::Flag;
using prism::Opcode;

// The reply's memory may be the peer's, which may still be writing: each output is copied once.
std::vector<std::byte> output_of(const Outcomes& outcomes, size_t index) {
  const std::span<const std::byte> bytes = outcomes.reply.bytes(index);
  return {bytes.begin(), bytes.end()};
}

uint64_t word_at(std::span<const std::byte> bytes, size_t at) {
  uint64_t word = 0;
  for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) {
    word |= uint64_t{std::to_integer<uint8_t>(bytes[at + i])} << (i * 8);
  }
  return word;
}

// What the output is, in words.
std::string meaning_of(const Statement& statement, std::span<const std::byte> output) {
  const uint64_t word = word_at(output, 0);
  switch (statement.opcode) {
    case Opcode::kRead:
      return fmt::format("{} of {} bytes asked for", output.size(), statement.bytes);
    case Opcode::kAllocate:
      return statement.has(Flag::kSlotWord)
                 ? fmt::format("slot word {:#018x}", word)
                 : fmt::format("{}+{:#x}", statement.store, RemotePointer{word}.offset());
    case Opcode::kCompareSwap:
      return output.size() <= 8 ? fmt::format("the old value was {:#x}", word) : "the old bytes";
    case Opcode::kFetchAdd:
      return fmt::format("the old value was {0} ({0:#x})", word);
    case Opcode::kWrite:
      break;
  }
  return {};
}

// Behind the code; empty: there is nothing more to say.
std::string told(const Statement& statement, Code code, std::span<const std::byte> output) {
  if (!output.empty()) return meaning_of(statement, output);
  if (code != Code::kOk) return {};
  if (statement.has(Flag::kRedirect)) return fmt::format("output to scratch+{}", statement.redirect);
  return meaning_of(statement, output);
}

std::string time_text(uint64_t ns) {
  return ns < 1'000 ? fmt::format("{} ns", ns) : fmt::format("{:.1f} us", static_cast<double>(ns) / 1'000);
}

}  // namespace

std::string outcome_text(const Outcomes& outcomes) {
  std::string out;
  for (size_t i = 0; i < outcomes.chain.statements.size(); ++i) {
    const Statement& statement = outcomes.chain.statements[i];
    const Code code = outcomes.reply.code(i);
    const std::vector<std::byte> output = output_of(outcomes, i);
    out += fmt::format("{}  {}\n     {}", i + 1, records::printable(statement.source), text(code));
    if (code != Code::kOk) out += fmt::format(": {}", info(code).sentence);
    if (const std::string more = told(statement, code, output); !more.empty())
      out += fmt::format("; {}", more);
    out.push_back('\n');
    for (const std::string& line : records::hex_lines(output, 0)) out += fmt::format("     {}\n", line);
  }
  const size_t count = outcomes.chain.statements.size();
  return out + fmt::format("{} operation{} in one round trip of {} over {}\n", count, count == 1 ? "" : "s",
                           time_text(outcomes.round_trip_ns), outcomes.transport);
}

std::string outcome_json(const Outcomes& outcomes) {
  documents::Value operations = documents::Value::array();
  for (size_t i = 0; i < outcomes.chain.statements.size(); ++i) {
    const Statement& statement = outcomes.chain.statements[i];
    const std::vector<std::byte> output = output_of(outcomes, i);
    documents::Value row = {{"operation", word_of(statement.opcode)},
                            {"line", statement.at.line},
                            {"source", statement.source},
                            {"code", text(outcomes.reply.code(i))},
                            {"bytes", output.size()}};
    if (!output.empty()) {
      row.append_member("hex", records::hex_text(output));
      records::append_bytes(row, "text", {reinterpret_cast<const char*>(output.data()), output.size()});
    }
    operations.push_back(std::move(row));
  }
  return documents::to_json_row({{"round_trip_ns", outcomes.round_trip_ns},
                                 {"transport", outcomes.transport},
                                 {"operations", operations}});
}

}  // namespace refract::chains
