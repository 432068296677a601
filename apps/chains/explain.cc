// SPDX-License-Identifier: Apache-2.0
// In the order of docs/formats/prism.md, which says what an executor checks before it touches anything.
#include "apps/chains/explain.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "apps/chains/words.h"
#include "apps/records/shown_text.h"

#include "refract/documents/json.h"
#include "refract/memory/size_class.h"

namespace refract::chains {
namespace {

using prism::Comparison;
using prism::Flag;
using prism::Opcode;

struct Step {
  std::string_view kind;  // "check", "load", "store", "output" ...
  std::string text;
};

class Explainer {
 public:
  explicit Explainer(const Statement& now) noexcept : now_(now) {}

  std::vector<Step> run() {
    if (now_.has(Flag::kConditional)) add("check", "the operation before ended with ok; else cancelled");
    if (now_.opcode == Opcode::kAllocate) {
      allocate();
    } else {
      target();
      switch (now_.opcode) {
        case Opcode::kRead:
          read();
          break;
        case Opcode::kWrite:
          write();
          break;
        case Opcode::kCompareSwap:
          compare_swap();
          break;
        default:
          fetch_add();
          break;
      }
    }
    return std::move(steps_);
  }

 private:
  void add(std::string_view kind, std::string text) { steps_.push_back({kind, std::move(text)}); }

  void check_place(const Value& place, uint64_t bytes, std::string_view right) {
    if (place.is_scratch()) {
      add("check", fmt::format("{}: {} bytes lie in the connection's scratch, which needs no key",
                               place.text(), bytes));
      return;
    }
    add("check", fmt::format("{}: {} bytes lie in {}, whose key gives the right to {}; else access_denied",
                             place.text(), bytes, now_.store, right));
  }

  // The hop to where a pointer leads.
  void target() {
    if (!now_.has(Flag::kIndirect)) {
      target_ = now_.address.text();
      check_place(now_.address, now_.bytes, right());
      check_alignment();
      return;
    }
    const bool is_bounded = now_.has(Flag::kBounded);
    const bool is_slot = now_.has(Flag::kSlotWord);
    check_place(now_.address, is_bounded ? 16 : 8, "read");
    add("load", fmt::format("{} bytes at {}: {}", is_bounded ? 16 : 8, now_.address.text(),
                            is_bounded ? "a pointer and a bound"
                            : is_slot  ? "a slot's word"
                                       : "a pointer"));
    if (is_slot) {
      add("hop",
          fmt::format("to {}+(the word's low 35 bits x {}); none: not_found", now_.store, kGranuleBytes));
      target_ = "where the slot leads";
    } else {
      add("hop",
          fmt::format("to where it leads; offset 0: not_found; another region than {}, or the scratch: "
                      "access_denied",
                      now_.store));
      target_ = "where it leads";
    }
    const std::string_view bytes =
        now_.opcode == Opcode::kRead && (is_bounded || is_slot) ? "the bytes to copy" : "all bytes there";
    add("check", fmt::format("{} lie in {}, under the same key, with the right to {}; else access_denied",
                             bytes, now_.store, right()));
    check_alignment();
  }

  [[nodiscard]] std::string_view right() const {
    switch (now_.opcode) {
      case Opcode::kRead:
        return "read";
      case Opcode::kWrite:
        return "write";
      default:
        return now_.has(Flag::kRetire) ? "swap and retire" : "swap";
    }
  }

  void check_alignment() {
    if (now_.opcode != Opcode::kCompareSwap && now_.opcode != Opcode::kFetchAdd) return;
    add("check", now_.bytes >= 8 ? "the target is a multiple of 8; else invalid_argument"
                                 : "the target lies inside one aligned word; else invalid_argument");
  }

  void put_out(std::string_view what) {
    if (now_.has(Flag::kRedirect)) {
      add("store", fmt::format("{} into scratch+{}; the reply gets none", what, now_.redirect));
    } else {
      add("output", fmt::format("{} into the reply; too_large if there is no room", what));
    }
  }

  void read() {
    std::string bytes = fmt::format("{} bytes", now_.bytes);
    if (now_.has(Flag::kBounded))
      bytes = fmt::format("as many bytes as the bound says, at most {}", now_.bytes);
    if (now_.has(Flag::kSlotWord))
      bytes = fmt::format("{} bytes (fewer at the end of {})", now_.bytes, now_.store);
    add("copy", fmt::format("{} from {}", bytes, target_));
    put_out("what was copied");
  }

  void operand(const std::optional<Value>& pointer, std::string_view what) {
    if (!pointer) return;
    check_place(*pointer, now_.bytes, "read");
    add("load", fmt::format("{} bytes at {}: {}", now_.bytes, pointer->text(), what));
  }

  void write() {
    if (now_.has(Flag::kBounded)) add("check", "the bound is no shorter than the data; else too_large");
    operand(now_.from, "the data");
    if (!now_.address.is_scratch() || now_.has(Flag::kIndirect)) {
      add("check", fmt::format("the guard of {}, if it has one, allows it; else access_denied", now_.store));
    }
    add("store", fmt::format("{} bytes at {}", now_.bytes, target_));
  }

  void allocate() {
    add("check", fmt::format("the key of {} gives the right to allocate; else access_denied", now_.store));
    add("take",
        fmt::format("the first buffer of free list {}; too_large: it has less than {} bytes; no_space: "
                    "there is none",
                    now_.address.offset, now_.bytes));
    add("store", fmt::format("{} bytes of data into it", now_.bytes));
    put_out(now_.has(Flag::kSlotWord) ? "its slot word: place and stamp, and the template's bits"
                                      : "its pointer");
    if (now_.has(Flag::kOwned)) {
      add("end", "at the chain's end it goes back, unless it was swapped or written in from the scratch");
    }
  }

  void compare_swap() {
    operand(now_.compare.pointer, "what is compared");
    operand(now_.swap.pointer, "what is swapped in");
    add("load", fmt::format("the old {} bytes at {}", now_.bytes, target_));
    const std::string_view order = now_.comparison == Comparison::kEqual ? "equal"
                                   : now_.comparison == Comparison::kGreater
                                       ? "greater: supplied above stored"
                                       : "less: supplied below stored";
    add("compare", fmt::format("{}{}; else compare_failed, and the old bytes come all the same", order,
                               now_.compare_mask ? ", under the compare mask" : ""));
    if (now_.has(Flag::kRetire)) {
      add("check", "what the old word leads to is a buffer that is out, or nothing; else access_denied");
    }
    if (!now_.address.is_scratch() || now_.has(Flag::kIndirect)) {
      add("check", fmt::format("the guard of {}, if it has one, allows it; else access_denied", now_.store));
    }
    add("store", fmt::format("the new {} bytes at {}{}", now_.bytes, target_,
                             now_.swap_mask ? ", under the swap mask" : ""));
    if (now_.has(Flag::kRetire)) {
      add("end", "what the old word led to is retired: reused when no chain under way can still lead there");
    }
    add("output", "the old bytes into the reply");
  }

  void fetch_add() {
    add("load", fmt::format("the old word at {}", target_));
    add("store", fmt::format("the sum with {}, modulo 2^64", now_.number));
    add("output", "the old word into the reply");
  }

  const Statement& now_;
  std::string target_;
  std::vector<Step> steps_;
};

}  // namespace

std::string explain(const ParsedChain& chain) {
  std::string out;
  for (size_t i = 0; i < chain.statements.size(); ++i) {
    out +=
        fmt::format("{}{}  {}\n", i == 0 ? "" : "\n", i + 1, records::printable(chain.statements[i].source));
    for (const Step& step : Explainer(chain.statements[i]).run()) {
      out += fmt::format("     {:<8} {}\n", step.kind, step.text);
    }
  }
  return out;
}

std::string explain_json(const ParsedChain& chain) {
  documents::Value operations = documents::Value::array();
  for (const Statement& statement : chain.statements) {
    documents::Value steps = documents::Value::array();
    for (const Step& step : Explainer(statement).run()) {
      steps.push_back({{"kind", step.kind}, {"text", step.text}});
    }
    operations.push_back({{"source", statement.source}, {"steps", steps}});
  }
  return documents::to_json_row({{"operations", operations}});
}

}  // namespace refract::chains
