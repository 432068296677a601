// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/crew.h"

#include <utility>

#include "refract/base/units.h"

namespace refract::doors::redis {

Crew::Crew(size_t threads) {
  seats_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) seats_.push_back(std::make_unique<Seat>());
}

void Crew::sit(size_t place, runtime::Shard& shard, Lines& lines) {
  Seat& seat = *seats_[place];
  seat.lines = &lines;
  const std::lock_guard lock(seat.mutex);
  seat.shard = &shard;
}

// What has come is over there; no coroutine of this thread runs any more.
void Crew::leave(size_t place) {
  Seat& seat = *seats_[place];
  std::vector<Errand*> left = std::move(seat.open);
  seat.open.clear();
  {
    const std::lock_guard lock(seat.mutex);
    seat.has_left = true;
    seat.shard = nullptr;
    left.insert(left.end(), seat.came.begin(), seat.came.end());
    seat.came.clear();
    seat.over.clear();
  }
  for (Errand* const errand : left) is_over(*errand);
}

size_t Crew::work(size_t place) {
  Seat& seat = *seats_[place];
  std::vector<runtime::Token> over;
  if (seat.has_work.exchange(false)) {
    const std::lock_guard lock(seat.mutex);
    over.swap(seat.over);
    seat.open.insert(seat.open.end(), seat.came.begin(), seat.came.end());
    seat.came.clear();
  }
  const size_t asked = seat.open.size();
  size_t done = over.size();
  if (seat.lines != nullptr) {
    std::erase_if(seat.open, [&](Errand* errand) {
      if (!errand->run(place, *seat.lines)) return false;
      is_over(*errand);
      return true;
    });
  }
  done += asked - seat.open.size();
  runtime::Shard* const shard = seat.shard;
  for (const runtime::Token token : over) {
    if (shard != nullptr) (void)shard->ops().complete(token, {});
  }
  return done;
}

void Crew::give(size_t place, Errand& errand) {
  Seat& seat = *seats_[place];
  {
    const std::lock_guard lock(seat.mutex);
    if (!seat.has_left) {
      seat.came.push_back(&errand);
      seat.has_work.store(true);
      if (seat.shard != nullptr) seat.shard->wake();
      return;
    }
  }
  is_over(errand);
}

// The last one tells the asker, behind which the errand may be gone.
void Crew::is_over(Errand& errand) {
  Seat& asker = *seats_[errand.asker_];
  const runtime::Token token = errand.token_;
  if (errand.left_.fetch_sub(1) != 1) return;
  const std::lock_guard lock(asker.mutex);
  if (asker.has_left) return;
  asker.over.push_back(token);
  asker.has_work.store(true);
  if (asker.shard != nullptr) asker.shard->wake();
}

runtime::Task<bool> Crew::run(size_t place, runtime::Shard& shard, Errand& errand) {
  // Awaiting changes it, which the check does not see.
  runtime::Pending under_way = shard.ops().begin(kForever_ns);  // NOLINT(misc-const-correctness)
  if (under_way.token() == 0) co_return false;
  errand.asker_ = place;
  errand.token_ = under_way.token();
  errand.left_ = seats_.size();
  for (size_t i = 0; i < seats_.size(); ++i) give(i, errand);
  (void)co_await under_way;
  co_return true;
}

}  // namespace refract::doors::redis
