// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect/part.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/progress/progress.h"
#include "apps/records/shown_text.h"

#include "refract/base/printable.h"
#include "refract/documents/json.h"

namespace refract::inspect {
namespace {

std::string_view letters_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string spaced(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', ' ');
  return out;
}

void append_text(std::string& out, const Part& part, size_t depth) {
  const std::string indent(depth * 2, ' ');
  if (!part.heading.empty()) out += indent + part.heading + '\n';
  size_t width = 0;
  for (const Field& field : part.fields) {
    if (!field.text.empty()) width = std::max(width, field.name.size());
  }
  for (const Field& field : part.fields) {
    if (field.text.empty()) continue;
    out += fmt::format("{}  {:<{}}  {}\n", indent, spaced(field.name), width, field.text);
  }
  for (const std::string& line : part.picture) out += fmt::format("{}  {}\n", indent, line);
  for (const Damage& damage : part.damages) {
    out += fmt::format("{}  DAMAGE at {:#x}: {}\n", indent, damage.offset, damage.what);
  }
  for (const Part& inner : part.parts) append_text(out, inner, depth + 1);
}

documents::Value value_of(const Part& part) {
  documents::Value object = {{"kind", part.kind}};
  for (const Field& field : part.fields) {
    if (field.json) object.append_member(field.name, *field.json);
  }
  if (!part.damages.empty()) {
    documents::Value& damages = object["damages"] = documents::Value::array();
    for (const Damage& damage : part.damages) {
      damages.push_back({{"offset", damage.offset}, {"what", damage.what}});
    }
  }
  if (!part.parts.empty()) {
    documents::Value& parts = object["parts"] = documents::Value::array();
    for (const Part& inner : part.parts) parts.push_back(value_of(inner));
  }
  return object;
}

}  // namespace

Part& Part::number(std::string_view name, uint64_t value) {
  fields.push_back({std::string(name), progress::count_text(value), value});
  return *this;
}

Part& Part::offset(std::string_view name, uint64_t value) {
  fields.push_back({std::string(name), fmt::format("{:#x}", value), value});
  return *this;
}

Part& Part::text(std::string_view name, std::string_view value) {
  fields.push_back({std::string(name), std::string(value), value});
  return *this;
}

Part& Part::flag(std::string_view name, bool value) {
  fields.push_back({std::string(name), value ? "yes" : "no", value});
  return *this;
}

Part& Part::bytes(std::string_view name, std::span<const std::byte> value) {
  const std::string_view letters = letters_of(value);
  const bool is_long = letters.size() > kShownBytes;
  const std::string shown = fmt::format("'{}'{}", records::printable(letters.substr(0, kShownBytes)),
                                        is_long ? fmt::format("... ({} bytes)", letters.size()) : "");
  documents::Value object;
  records::append_bytes(object, name, letters);
  const documents::Member& exact = object.members().front();
  Field& field = fields.emplace_back(std::string(name), shown);
  if (exact.name != name) return hidden(exact.name, exact.value);
  field.json = exact.value;
  return *this;
}

Part& Part::hidden(std::string_view name, documents::Value value) {
  fields.push_back({std::string(name), "", std::move(value)});
  return *this;
}

Part& Part::damage(uint64_t at, std::string what) {
  damages.push_back({at, std::move(what)});
  return *this;
}

size_t damage_count(const Part& part) noexcept {
  size_t count = part.damages.size();
  for (const Part& inner : part.parts) count += damage_count(inner);
  return count;
}

std::string text_of(const Part& part) {
  std::string out;
  append_text(out, part, 0);
  return out;
}

std::string json_of(const Part& part) {
  return documents::to_json_row(value_of(part));
}

std::string bar(uint64_t used, uint64_t whole, size_t cells) {
  // What is used at all shows as one cell at least.
  const size_t full = whole == 0 ? 0 : std::min<size_t>(cells, (used * cells + whole - 1) / whole);
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(cells - full, '.'));
}

}  // namespace refract::inspect
