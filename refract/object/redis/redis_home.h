// SPDX-License-Identifier: Apache-2.0
// A home of all ids whose rows are in Redis (docs/design/056-directory-in-redis.md). The rules are those of
// HomeTable, which this member follows itself: it reads the rows that a change is about, changes them, and
// has them written if they are still the same.
//
// Threads: only the shard's.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/object/directory/outside_home.h"
#include "refract/object/redis/home_rows.h"
#include "refract/object/redis/redis_line.h"
#include "refract/runtime/shard.h"

namespace refract::object {

class RedisHome final : public OutsideHome, RedisLine::Watcher {
 public:
  // Ids in one step of the walk behind a report.
  static constexpr size_t kWalkedAtOnce = 512;
  // The directory's one key; what is behind it and a colon is about ids that are waited for.
  static constexpr std::string_view kKey = "refract:objects";

  struct Parts {
    RedisLine& line;  // Both outlive this.
    runtime::Shard& shard;
    uint64_t seed = 0;  // Of the numbers by which a directory is told from the one before it.
    // A stream of which Redis has heard nothing for so long has ended.
    uint64_t silent_after_ns = 5 * kSecond_ns;
    // Streams end by the shard's clock in place of Redis's: where time is virtual.
    bool by_shard_clock = false;
  };
  explicit RedisHome(const Parts& parts);
  RedisHome(const RedisHome&) = delete;
  RedisHome& operator=(const RedisHome&) = delete;
  ~RedisHome() override;

  void reach(const Speaker& speaker, OutsideHome::Watcher& watcher) override;
  [[nodiscard]] size_t page_bytes_max() const noexcept override;
  [[nodiscard]] uint64_t unseen_ns() const noexcept override;
  [[nodiscard]] runtime::Task<Code> hello() override;
  [[nodiscard]] runtime::Task<Code> changes(Page page, std::vector<Code>& codes) override;
  [[nodiscard]] runtime::Task<std::optional<HomeTable::Found>> look_up(std::string id, LookUp how) override;
  [[nodiscard]] runtime::Task<Buried> bury(std::string id, uint64_t birth) override;
  [[nodiscard]] runtime::Task<Copies> copies(std::string id, uint64_t birth, uint8_t wanted) override;
  [[nodiscard]] Counts counts() const noexcept override { return counts_; }
  [[nodiscard]] std::string name() const override { return parts_.line.place(); }
  [[nodiscard]] Report trouble() const override;

 private:
  struct Order {
    wire::DirectoryMethod method{};
    std::string id;
    uint64_t birth = 0;
  };
  // What is read, changed and written at once.
  struct Step {
    HomeRows rows;
    std::string stamp;                                     // Of the state that was read.
    std::vector<std::pair<std::string, std::string>> was;  // Id, row.
    bool changes_state = false;
    std::vector<std::string> news;                               // Messages,
    std::vector<std::pair<std::string, std::string>> published;  // ids, each with its message,
    std::vector<Order> own;                                      // and orders to this member alone.
    uint64_t conflicts = 0;
  };
  enum class Outcome : uint8_t { kDone, kAgain, kOver };

  void line_opened(const std::string& run) noexcept override;
  void line_closed() noexcept override;
  void line_news(std::string_view message) noexcept override;

  // The stream is over, in whose turn this is: the next hello begins another one.
  void end_stream(bool reopens);
  [[nodiscard]] runtime::Task<> reopen_later(uint64_t run_number);
  [[nodiscard]] bool is_live(uint64_t run_number) const noexcept {
    return stream_ != 0 && run_number_ == run_number;
  }

  // kOver: Redis cannot be asked, or has another directory than the one that this stream is in.
  [[nodiscard]] runtime::Task<Outcome> read(Step& step, const std::vector<std::string>& ids);
  [[nodiscard]] runtime::Task<Outcome> write(Step& step, bool is_hello = false, bool begins = false);
  [[nodiscard]] runtime::Task<Outcome> run_script(std::vector<std::string> arguments, RedisReply& reply);
  [[nodiscard]] runtime::Task<Outcome> say(std::vector<std::string> arguments, RedisReply& reply);
  [[nodiscard]] runtime::Task<> note_silent(uint64_t member);
  [[nodiscard]] HomeRows::Era era() const;
  // Says it to the log, once.
  void complain(Report why);
  void note_answer(const RedisReply& reply);
  [[nodiscard]] std::vector<std::string> arguments_of(const Step& step, bool is_hello, bool begins) const;
  [[nodiscard]] std::string now() const;

  [[nodiscard]] bool is_of_another_list(const HomeRows& rows);
  [[nodiscard]] runtime::Task<Code> say_page(Page page, std::vector<Code>& codes, std::vector<Order>& own);
  [[nodiscard]] Code apply(Step& step, const Change& change, bool is_report) const;
  void acknowledge(Step& step, const std::string& id, uint64_t birth, uint64_t holders) const;
  void bury_in(Step& step, const std::string& id, uint64_t birth) const;
  [[nodiscard]] runtime::Task<Code> end_report(std::vector<Order>& own);
  [[nodiscard]] runtime::Task<Code> walk(std::set<HomeTable::Named>& drops);
  [[nodiscard]] runtime::Task<Code> walk_over(std::vector<std::string> ids,
                                              std::set<HomeTable::Named>& drops);
  [[nodiscard]] runtime::Task<> settle_conflicts();
  [[nodiscard]] runtime::Task<> keep_alive(uint64_t run_number);

  const Parts parts_;
  Prng prng_;
  Speaker speaker_;
  OutsideHome::Watcher* watcher_ = nullptr;
  std::string channel_;
  std::string run_;          // Of Redis; empty: the line does not stand.
  uint32_t stream_ = 0;      // Ours; 0: there is none.
  uint64_t run_number_ = 0;  // Of our streams, all of them: what was begun in one of them ends with it.
  bool has_reported_ = false;
  bool must_begin_ = false;  // What is there cannot be read.
  std::string sha_;          // Of the script, as Redis told.
  std::set<std::string> conflicts_;
  Report trouble_;
  std::string told_;  // The last trouble in the log.
  Counts counts_;
  runtime::Task<> keeping_;
  std::vector<runtime::Task<>> tasks_;
};

// As arguments of a command. Not a list in braces, which g++ 12 does not take beside co_await.
template <typename... Words>
[[nodiscard]] std::vector<std::string> words(const Words&... each) {
  std::vector<std::string> all;
  all.reserve(sizeof...(each));
  (all.emplace_back(each), ...);
  return all;
}
[[nodiscard]] std::string news_of(wire::News news, std::string_view id);
// 0: it is none.
[[nodiscard]] uint64_t number_in(std::string_view text) noexcept;

}  // namespace refract::object
