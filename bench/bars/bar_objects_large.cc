// SPDX-License-Identifier: Apache-2.0
// How fast bytes become an object.
#include <fmt/core.h>

#include <cstring>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/object_node.h"

#include "refract/base/units.h"

namespace refract::bench::bar_objects_large {
namespace {

// What is copied a turn, however it is cut.
constexpr uint64_t kWalkBytes = 256 * kMiB;

struct Shape {
  uint64_t body_bytes;
  uint64_t count;
};
Shape shape_of(const BarRun& run, uint64_t body_bytes) {
  if (!run.options.judged) return {body_bytes / 16, 4};
  return {body_bytes, kWalkBytes / body_bytes};
}

// Bytes of this process to copy from and to, all touched before.
class Walk {
 public:
  explicit Walk(Shape shape)
      : shape_(shape), from_(shape.body_bytes * shape.count), to_(shape.body_bytes * shape.count) {
    for (uint64_t i = 0; i < shape.count; ++i) fill_body(body_of(from_, i), i);
  }
  [[nodiscard]] std::span<std::byte> source(uint64_t i) noexcept { return body_of(from_, i); }
  // GB/s.
  [[nodiscard]] double copied() {
    const uint64_t start_ns = now_ns();
    for (uint64_t i = 0; i < shape_.count; ++i) copy(source(i), i);
    return rate_of(now_ns() - start_ns);
  }
  // The same of bodies that were filled just before, which takes no part in the time.
  [[nodiscard]] double copied_of_filled(std::span<std::byte> filled) {
    uint64_t taken_ns = 0;
    for (uint64_t i = 0; i < shape_.count; ++i) {
      std::memcpy(filled.data(), source(i).data(), shape_.body_bytes);
      const uint64_t start_ns = now_ns();
      copy(filled, i);
      taken_ns += now_ns() - start_ns;
    }
    return rate_of(taken_ns);
  }
  [[nodiscard]] double rate_of(uint64_t taken_ns) const noexcept {
    return static_cast<double>(from_.size()) / static_cast<double>(taken_ns);
  }

 private:
  void copy(std::span<std::byte> from, uint64_t to) {
    std::memcpy(body_of(to_, to).data(), from.data(), shape_.body_bytes);
    keep(to_);
  }
  [[nodiscard]] std::span<std::byte> body_of(std::vector<std::byte>& of, uint64_t i) const noexcept {
    return std::span(of).subspan(i * shape_.body_bytes, shape_.body_bytes);
  }
  Shape shape_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

Reported<> check_and_remove(Objects& objects, Walk& walk, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (const Reported<> right = check_object(objects, i, Bytes(walk.source(i))); !right) return right;
  }
  return remove_objects(objects, count);
}

// The time of seals alone, of bodies that were filled just before.
Reported<double> seal_rate(Objects& objects, Walk& walk, const Shape& shape) {
  uint64_t taken_ns = 0;
  for (uint64_t i = 0; i < shape.count; ++i) {
    Result<NewObject> made = objects.create(object_id(i), shape.body_bytes);
    if (!made) return failed("create", made.code());
    std::memcpy(made->body().data(), walk.source(i).data(), shape.body_bytes);
    const uint64_t start_ns = now_ns();
    const Result<Object> sealed = made->seal();
    taken_ns += now_ns() - start_ns;
    if (!sealed) return failed("seal", sealed.code());
  }
  return walk.rate_of(taken_ns);
}

Reported<double> put_rate(Objects& objects, Walk& walk, const Shape& shape) {
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < shape.count; ++i) {
    if (const auto put = objects.put(object_id(i), Bytes(std::span<const std::byte>(walk.source(i)))); !put)
      return failed("put of an object", put.code());
  }
  return walk.rate_of(now_ns() - start_ns);
}

using Make = Reported<double> (*)(Objects&, Walk&, const Shape&);

Reported<Outcome> measure(BarRun& run, uint64_t body_bytes, const char* what, Make make) {
  const Shape shape = shape_of(run, body_bytes);
  Reported<ObjectNode> started = start_object_node(run, 1000, 2 * shape.body_bytes * shape.count + 16 * kMiB);
  if (!started) return report(started.error());
  Walk walk(shape);
  std::vector<std::byte> filled(shape.body_bytes);
  return in_turns(
      run,
      fmt::format("{} objects of {} KiB, one after the other, each removed before the next turn", shape.count,
                  shape.body_bytes / kKiB),
      [&](uint64_t) -> Reported<Turn> {
        const Reported<double> ours = make(started->objects, walk, shape);
        if (!ours) return report(ours.error());
        if (const Reported<> gone = check_and_remove(started->objects, walk, shape.count); !gone)
          return report(gone.error());
        Reported<Turn> found =
            ratio_of({.ours = {what, ours}, .theirs = {"memcpy", walk.copied()}, .unit = "GB/s"});
        if (!found) return found;
        found->details.push_back({"memcpy of what was just filled", walk.copied_of_filled(filled), "GB/s"});
        return found;
      });
}

constexpr uint64_t kPieceBytes = 4 * kMiB;

// ms from its creation to its end, filled piece by piece.
Reported<double> fill_and_seal(Objects& objects, Walk& piece, uint64_t body_bytes, bool tells) {
  const uint64_t start_ns = now_ns();
  Result<NewObject> made = objects.create(object_id(0), body_bytes);
  if (!made) return failed("create", made.code());
  for (uint64_t at = 0; at < body_bytes; at += kPieceBytes) {
    std::memcpy(made->body().data() + at, piece.source(0).data(), kPieceBytes);
    if (!tells || at + kPieceBytes == body_bytes) continue;
    if (const Code code = made->filled(at + kPieceBytes); code != Code::kOk) return failed("filled", code);
  }
  const Result<Object> sealed = made->seal();
  const uint64_t taken_ns = now_ns() - start_ns;
  if (!sealed) return failed("seal", sealed.code());
  if (sealed->body().size() != body_bytes) return report(Code::kCorrupt, "an object has another length");
  for (uint64_t at = 0; at < body_bytes; at += kPieceBytes) {
    if (std::memcmp(sealed->body().data() + at, piece.source(0).data(), kPieceBytes) != 0)
      return report(Code::kCorrupt, "an object is not what it was filled with");
  }
  return static_cast<double>(taken_ns) / 1e6;
}

Reported<Outcome> measure_filled(BarRun& run) {
  const uint64_t body_bytes = run.options.judged ? kGiB : 32 * kMiB;
  Reported<ObjectNode> started = start_object_node(run, 1000, body_bytes + 64 * kMiB);
  if (!started) return report(started.error());
  Walk piece({kPieceBytes, 1});
  const auto turn_of = [&](bool tells) -> Reported<double> {
    const Reported<double> taken = fill_and_seal(started->objects, piece, body_bytes, tells);
    if (!taken) return taken;
    if (const Reported<> gone = remove_objects(started->objects, 1); !gone) return report(gone.error());
    return taken;
  };
  return in_turns(
      run, fmt::format("{} MiB, made in pieces of 4 MiB from memory that caches have", body_bytes / kMiB),
      [&](uint64_t) {
        const Reported<double> told = turn_of(true);
        return ratio_of({.ours = {"filled() after each piece", told},
                         .theirs = {"filled, then sealed", turn_of(false)},
                         .unit = "ms"});
      });
}

const BarRows kRows = {
    {"object-seal-4m", "seal of 4 MiB just filled / memcpy, same walk", "at least 1.70", Sense::kAtLeast, 1.7,
     "x", [](BarRun& run) { return measure(run, 4 * kMiB, "seal", seal_rate); }},
    {"object-seal-64m", "the same of 64 MiB", "at least 1.30", Sense::kAtLeast, 1.3, "x",
     [](BarRun& run) { return measure(run, 64 * kMiB, "seal", seal_rate); }},
    {"object-put-large", "put of an object of 4 MiB / memcpy, same walk", "at least 0.90", Sense::kAtLeast,
     0.9, "x", [](BarRun& run) { return measure(run, 4 * kMiB, "put", put_rate); }},
    {"object-filled", "1 GiB to sealed, told every 4 MiB / filled, then sealed", "at most 0.90",
     Sense::kAtMost, 0.9, "x", measure_filled},
};

}  // namespace
}  // namespace refract::bench::bar_objects_large
