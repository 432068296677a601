// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/transactions/far_talk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace refract::kv {

using Question = Table::Parts::Question;
using runtime::Task;
using wire::TransactionMethod;

namespace {

constexpr uint64_t kAnswer_ns = kSecond_ns;
constexpr uint64_t kAwayAfter_ns = kSecond_ns;
constexpr uint64_t kPauseFirst_ns = 2 * kMillisecond_ns;
constexpr uint64_t kPauseLongest_ns = 100 * kMillisecond_ns;
// So that many names are asked about at once.
constexpr uint64_t kGather_ns = 20 * kMillisecond_ns;
constexpr uint64_t kGatherLongest_ns = kSecond_ns;

}  // namespace

FarTalk::Home FarTalk::home_of(const Question& question) noexcept {
  const DecisionPlace place = question.name.place;
  return {.place = {.member = static_cast<uint16_t>(place.member()),
                    .shard = static_cast<uint16_t>(place.shard())},
          .generation = question.generation};
}

void FarTalk::stir() {
  forget();
  if (parts_.parts.has_far()) {
    for (const Question& question : parts_.parts.questions()) {
      Task<>& task = homes_[home_of(question)];
      if (task.valid() && !task.done()) continue;
      task = ask_home(home_of(question));
      task.start();
    }
  }
  std::erase_if(homes_, [](const auto& one) { return one.second.done(); });
  for (const wire::FarPlace place : parts_.words.far_places()) {
    Task<>& task = members_[place];
    if (task.valid() && !task.done()) continue;
    task = ask_member(place);
    task.start();
  }
  std::erase_if(members_, [](const auto& one) { return one.second.done(); });
}

// Those that some read waits for before those whose end is demanded.
std::vector<Question> FarTalk::next_questions(const Home& home) const {
  std::vector<Question> questions = parts_.parts.questions();
  std::erase_if(questions, [&](const Question& one) { return home_of(one) != home; });
  std::ranges::sort(questions, {}, &Question::is_demanded);
  const auto other = std::ranges::find_if(
      questions, [&](const Question& one) { return one.is_demanded != questions.front().is_demanded; });
  questions.erase(other, questions.end());
  questions.resize(std::min(questions.size(), wire::kFatesPerCall));
  return questions;
}

Task<> FarTalk::ask_home(Home home) {
  // Behind what its caller is in the middle of.
  co_await parts_.shard.sleep_for(0);
  uint64_t pause_ns = kPauseFirst_ns;
  uint64_t silent_since_ns = 0;  // 0: it has answered.
  for (;;) {
    std::vector<Question> questions = next_questions(home);
    if (questions.empty()) break;
    const bool is_demanded = questions.front().is_demanded;
    const uint64_t ended = parts_.parts.ended();
    if (silent_since_ns == 0) silent_since_ns = parts_.shard.refresh_now();
    const bool is_answered = co_await ask_fates(home, std::move(questions));
    if (is_answered) silent_since_ns = 0;
    const bool is_away =
        silent_since_ns != 0 && parts_.shard.refresh_now() - silent_since_ns >= kAwayAfter_ns;
    parts_.parts.note_away(home.place.member, is_away ? silent_since_ns : 0);
    if (is_answered && (!is_demanded || parts_.parts.ended() != ended)) {
      pause_ns = kPauseFirst_ns;
      continue;
    }
    co_await parts_.shard.sleep_for(pause_ns);
    pause_ns = std::min(2 * pause_ns, kPauseLongest_ns);
    // Reads and writes that have waited for too long.
    parts_.host.on_far_answer();
  }
  parts_.parts.note_away(home.place.member, 0);
}

Task<bool> FarTalk::ask_fates(Home home, std::vector<Question> questions) {
  const uint64_t left = parts_.parts.far_tick();
  std::vector<TransactionName> names;
  names.reserve(questions.size());
  for (const Question& question : questions) names.push_back(question.name);
  counts_.questions += names.size();
  const wire::FatesRequest head{.placement = parts_.nodes.placement_of(home.place.member),
                                .generation = home.generation,
                                .names = static_cast<uint32_t>(names.size()),
                                .is_demanded = questions.front().is_demanded ? 1U : 0U};
  const Result<std::vector<std::byte>> answer =
      co_await ask(home.place, TransactionMethod::kFates, head, std::move(names));
  if (!answer) {
    counts_.unanswered += questions.size();
    co_return false;
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto fate = static_cast<wire::Fate>((*answer)[i]);
    if (fate <= wire::Fate::kUnconfirmed) parts_.parts.take_fate(questions[i], fate, left);
  }
  parts_.host.on_far_answer();
  co_return true;
}

// As many bytes as names, or a failure.
Task<Result<std::vector<std::byte>>> FarTalk::ask(wire::FarPlace place, TransactionMethod method,
                                                  wire::FatesRequest head,
                                                  std::vector<TransactionName> names) {
  std::vector<std::byte> body(sizeof(head) + names.size() * sizeof(wire::NameRequest));
  std::memcpy(body.data(), &head, sizeof(head));
  for (size_t i = 0; i < names.size(); ++i) {
    const wire::NameRequest name{.place = names[i].place.bits, .number = names[i].number};
    std::memcpy(body.data() + sizeof(head) + i * sizeof(name), &name, sizeof(name));
  }
  // Clients name shards, and may make them up: then the first one says that it has nothing of that name.
  const std::optional<uint32_t> shards =
      co_await parts_.nodes.shards_of(place.member, parts_.shard.refresh_now() + kAnswer_ns);
  if (!shards) co_return fail(Code::kUnavailable);
  if (place.shard >= *shards) place.shard = 0;
  Result<std::vector<std::byte>> answer =
      co_await parts_.nodes.ask(place, method, body, parts_.shard.refresh_now() + kAnswer_ns);
  if (answer && answer->size() != names.size()) co_return fail(Code::kMalformed);
  co_return answer;
}

Task<> FarTalk::ask_member(wire::FarPlace place) {
  uint64_t pause_ns = kGather_ns;
  for (;;) {
    co_await parts_.shard.sleep_for(pause_ns);
    HomeWords::Counted counted = parts_.words.counted_on(place);
    if (counted.names.empty()) co_return;
    const bool is_gone = co_await ask_gone(std::move(counted));
    forget();
    pause_ns = is_gone ? kGather_ns : std::min(2 * pause_ns, kGatherLongest_ns);
  }
}

// The log is told before the word is given out again. Where it cannot be told, another round tries it.
void FarTalk::forget() {
  for (const TransactionName& name : parts_.words.uncounted()) {
    const TransactionName known{.place = name.place.at_home().seen_from_afar(parts_.nodes.self()),
                                .number = name.number};
    if (!parts_.parts.forget_far(known)) return;
    parts_.words.forgotten(name);
  }
}

// False: some are not gone yet, or it cannot be reached.
Task<bool> FarTalk::ask_gone(HomeWords::Counted counted) {
  wire::FarPlace place = counted.place;
  uint32_t end = uint32_t{place.shard} + 1;
  if (place.shard == HomeWords::kAnyShard) {
    const std::optional<uint32_t> shards =
        co_await parts_.nodes.shards_of(place.member, parts_.shard.refresh_now() + kAnswer_ns);
    if (!shards) co_return false;
    place.shard = 0;
    end = *shards;
  }
  const uint32_t self = parts_.nodes.self();
  bool is_all = true;
  for (size_t begin = 0; begin < counted.names.size(); begin += wire::kFatesPerCall) {
    std::vector<TransactionName> names;
    for (size_t i = begin; i < std::min(begin + wire::kFatesPerCall, counted.names.size()); ++i) {
      names.push_back({.place = counted.names[i].place.at_home().seen_from_afar(self),
                       .number = counted.names[i].number});
    }
    std::vector<bool> are_gone(names.size(), true);
    for (uint32_t shard = place.shard; shard < end; ++shard) {
      counts_.confirmations += names.size();
      const wire::FatesRequest head{.placement = parts_.nodes.placement_of(place.member),
                                    .generation = 0,
                                    .names = static_cast<uint32_t>(names.size()),
                                    .is_demanded = 0};
      const Result<std::vector<std::byte>> answer =
          co_await ask({.member = place.member, .shard = static_cast<uint16_t>(shard)},
                       TransactionMethod::kGone, head, names);
      if (!answer) co_return false;
      for (size_t i = 0; i < names.size(); ++i) {
        are_gone[i] = are_gone[i] && (*answer)[i] == std::byte{1};
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (are_gone[i]) parts_.words.is_gone(counted.names[begin + i], counted.place);
    }
    // One that stays does not keep those behind it.
    is_all = is_all && std::ranges::all_of(are_gone, [](bool is_gone) { return is_gone; });
  }
  co_return is_all;
}

}  // namespace refract::kv
