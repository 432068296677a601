// SPDX-License-Identifier: Apache-2.0
// What an owner asks other nodes about transactions (docs/design/070): as a part's, what became of it; as a
// home, whether the parts of what it has decided are gone.
//
// Threads: the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class FarTalk final : public FarLooks {
 public:
  // Told behind each answer: parts may have ended, and reads need not wait any more.
  class Host {
   public:
    virtual void on_far_answer() noexcept = 0;

   protected:
    ~Host() = default;
  };
  struct Parts {
    Table::Parts& parts;
    HomeWords& words;
    runtime::Shard& shard;
    OtherNodes& nodes;
    Host& host;
  };
  struct Counts {
    uint64_t questions = 0;      // Names that homes were asked about,
    uint64_t unanswered = 0;     // and those without an answer;
    uint64_t confirmations = 0;  // names that shards with parts were asked about.
  };

  // All outlive it.
  explicit FarTalk(const Parts& parts) : parts_(parts) {}
  FarTalk(const FarTalk&) = delete;
  FarTalk& operator=(const FarTalk&) = delete;
  ~FarTalk() override = default;

  [[nodiscard]] OtherNodes& nodes() const noexcept { return parts_.nodes; }
  void stir() override;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  struct Home {
    wire::FarPlace place;
    uint64_t generation = 0;
    [[nodiscard]] auto operator<=>(const Home& other) const noexcept {
      return std::tie(place.member, place.shard, generation) <=>
             std::tie(other.place.member, other.place.shard, other.generation);
    }
    [[nodiscard]] bool operator==(const Home&) const noexcept = default;
  };
  static Home home_of(const Table::Parts::Question& question) noexcept;
  [[nodiscard]] std::vector<Table::Parts::Question> next_questions(const Home& home) const;
  // Both end when there is nothing to ask any more.
  [[nodiscard]] runtime::Task<> ask_home(Home home);
  [[nodiscard]] runtime::Task<> ask_member(wire::FarPlace place);
  void forget();

  [[nodiscard]] runtime::Task<bool> ask_fates(Home home, std::vector<Table::Parts::Question> questions);
  [[nodiscard]] runtime::Task<bool> ask_gone(HomeWords::Counted counted);
  [[nodiscard]] runtime::Task<Result<std::vector<std::byte>>> ask(wire::FarPlace place,
                                                                  wire::TransactionMethod method,
                                                                  wire::FatesRequest head,
                                                                  std::vector<TransactionName> names);

  const Parts parts_;
  std::map<Home, runtime::Task<>> homes_;
  std::map<wire::FarPlace, runtime::Task<>> members_;
  Counts counts_;
};

}  // namespace refract::kv
