// SPDX-License-Identifier: Apache-2.0
// The claims of object_calls.h and object_wire.h, over every way of conformance_ways_test.cc.
#include "refract/object/testing/conformance.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "refract/kv/testing/test_service.h"

namespace refract::object {

using test::as_bytes;
using test::Lengths;

std::string ObjectConformance::content(uint64_t bytes, uint64_t number) {
  return kv::test::patterned(bytes, number);
}

void ObjectConformance::fill(const Made& made, uint64_t number) {
  const ObjectParts& parts = made.making.parts;
  if (parts.filled_bytes() == 0) return;
  const std::string body = content(parts.body_bytes, number);
  const std::string metadata = content(parts.metadata_bytes, number + 1);
  std::ranges::copy(as_bytes(body), made.making.bytes);
  std::ranges::copy(as_bytes(metadata), made.making.bytes + parts.metadata_at() - ObjectParts::body_at());
}

Code ObjectConformance::make(std::string_view id, const Lengths& lengths, uint64_t number) {
  const auto one = made(id, lengths);
  fill(*one, number);
  const Code code = create(*one);
  return code == Code::kOk ? seal(*one) : code;
}

std::string ObjectConformance::trouble_of(std::string_view id, const Lengths& lengths, uint64_t number) {
  const Result<ObjectWay::Got> got = way->get(id);
  if (!got) return std::string(text(got.code()));
  if (got->object.body_bytes != lengths.body || got->object.metadata_bytes != lengths.metadata) {
    return "other lengths";
  }
  const ObjectParts parts{.body_bytes = lengths.body,
                          .metadata_bytes = lengths.metadata,
                          .id_bytes = static_cast<uint16_t>(id.size())};
  if (got->bytes.size() != parts.filled_bytes()) return "another number of bytes";
  const auto same = [&](uint64_t at, const std::string& expected) {
    return std::memcmp(got->bytes.data() + at, expected.data(), expected.size()) == 0;
  };
  if (lengths.body > 0 && !same(0, content(lengths.body, number))) return "another body";
  const uint64_t metadata_at = parts.metadata_at() - ObjectParts::body_at();
  if (lengths.metadata > 0 && !same(metadata_at, content(lengths.metadata, number + 1))) {
    return "other metadata";
  }
  return {};
}

void ObjectConformance::expect_nothing_is_left() {
  // What a client is not told of, such as the end of a fetch, has come by then.
  EXPECT_TRUE(way->shard().run_until(
      [&] { return way->owner().fetches.count() == 0 && way->owner().windows.open_count() == 0; },
      way->shard().refresh_now() + OpenCalls::kPatience_ns));
  const Result<wire::StatReply> stat = run(way->calls().stat());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->objects, 0U);
  EXPECT_EQ(stat->creations, 0U);
  EXPECT_EQ(stat->sealed_bytes + stat->creation_bytes + stat->departed_bytes, 0U);
  EXPECT_TRUE(way->owner().is_sound());
}

// Around what fits a put, an answer, a message, what a channel calls long, one piece of a window, two of
// them.
TEST_P(ObjectConformance, of_every_length_are_made_and_got_as_they_were_filled) {
  const uint64_t body = way->calls().session().payload_bytes_max();
  std::set<uint64_t> lengths = {0, 1, 63, 64, 65, 4'095, 4'096, 4'097, 4 * kMiB};
  for (const uint64_t border : {body, body - sizeof(wire::FetchReply), body - sizeof(wire::PutRequest) - 6,
                                body - sizeof(wire::PutRequest) - sizeof(wire::CountRequest) - 6,
                                way->message_bytes_max(), 64 * kKiB, kMiB, 2 * kMiB}) {
    lengths.insert({border - 1, border, border + 1});
  }
  uint64_t number = 0;
  int puts = 0;
  for (const uint64_t bytes : lengths) {
    for (const uint32_t metadata : {0U, 77U}) {
      const Lengths all{.body = bytes, .metadata = metadata};
      number += 2;
      ASSERT_EQ(make("object", all, number), Code::kOk) << bytes << " and " << metadata;
      ASSERT_EQ(trouble_of("object", all, number), "") << bytes << " and " << metadata;
      ASSERT_EQ(remove("object"), Code::kOk);
      ASSERT_EQ(way->get("object").code(), Code::kNotFound);
      const std::string content_of_body = content(bytes, number);
      const std::string content_of_metadata = content(metadata, number + 1);
      const ObjectCalls::Put whole = put_of("object", content_of_body, content_of_metadata);
      if (!way->calls().fits_message(whole)) continue;
      ++puts;
      ASSERT_EQ(run(way->calls().put(whole, 0)), Code::kOk) << bytes << " and " << metadata;
      ASSERT_EQ(trouble_of("object", all, number), "") << bytes << " and " << metadata << ", put";
      ASSERT_EQ(remove("object", whole.birth()), Code::kOk);
    }
  }
  EXPECT_GT(puts, 12) << "else puts show nothing";
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, may_be_metadata_alone_of_any_length_that_is_allowed) {
  for (const uint32_t metadata : {1U, 63U, 64U, 65U, 4'096U, kMetadataBytesMax - 1, kMetadataBytesMax}) {
    for (const uint64_t body : {0U, 1U, 64U}) {
      const Lengths lengths{.body = body, .metadata = metadata};
      ASSERT_EQ(make("object", lengths, metadata), Code::kOk) << metadata;
      EXPECT_EQ(trouble_of("object", lengths, metadata), "") << metadata;
      ASSERT_EQ(remove("object"), Code::kOk);
    }
  }
  EXPECT_NE(make("object", {.body = 0, .metadata = kMetadataBytesMax + 1}, 1), Code::kOk);
  EXPECT_NE(make("object", {.body = ObjectWay::kLimit + 1, .metadata = 0}, 1), Code::kOk);
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, are_kept_apart_by_ids_of_every_length) {
  const auto id_of = [](size_t bytes) { return content(bytes, 3); };
  for (const size_t bytes : {1U, 2U, 7U, 8U, 20U, 254U, 255U}) {
    ASSERT_EQ(put(id_of(bytes), std::to_string(bytes)), Code::kOk) << bytes;
    ASSERT_EQ(make(id_of(bytes) + "!", {.body = 5'000, .metadata = 1}, bytes),
              bytes < 255 ? Code::kOk : Code::kInvalidArgument)
        << bytes;
  }
  EXPECT_EQ(put("", "body"), Code::kInvalidArgument);
  EXPECT_EQ(put(id_of(256), "body"), Code::kInvalidArgument);
  for (const size_t bytes : {1U, 2U, 7U, 8U, 20U, 254U, 255U}) {
    const Result<ObjectWay::Got> got = way->get(id_of(bytes));
    ASSERT_TRUE(got) << bytes;
    EXPECT_EQ(got->object.body_bytes, std::to_string(bytes).size());
    EXPECT_EQ(remove(id_of(bytes)), Code::kOk);
    EXPECT_EQ(remove(id_of(bytes)), Code::kNotFound);
    if (bytes == 255) continue;
    EXPECT_EQ(trouble_of(id_of(bytes) + "!", {.body = 5'000, .metadata = 1}, bytes), "");
    EXPECT_EQ(remove(id_of(bytes) + "!"), Code::kOk);
  }
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, that_are_filled_step_by_step_are_whole) {
  for (const uint64_t bytes : {uint64_t{1'000}, 100 * kKiB, 3 * kMiB + 5}) {
    const Lengths lengths{.body = bytes, .metadata = 9};
    const auto one = made("object", lengths);
    ASSERT_EQ(create(*one), Code::kOk);
    EXPECT_EQ(way->get("object").code(), Code::kNotFound) << "it is not sealed";
    fill(*one, bytes);
    // Told more than there is, less than before, the same again.
    for (const uint64_t told : {bytes / 3, bytes / 4, bytes / 3, bytes, bytes + 1}) {
      EXPECT_EQ(run(way->calls().filled(one->making, told)), Code::kOk) << told;
    }
    ASSERT_EQ(seal(*one), Code::kOk);
    EXPECT_EQ(trouble_of("object", lengths, bytes), "") << bytes;
    ASSERT_EQ(remove("object"), Code::kOk);
  }
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, have_one_creator_whose_id_is_free_when_it_gives_up) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{10}, 2 * kMiB}) {
    const Lengths lengths{.body = bytes, .metadata = 0};
    const auto first = made("object", lengths);
    const auto second = made("object", lengths);
    fill(*first, 1);
    fill(*second, 2);
    ASSERT_EQ(create(*first), Code::kOk);
    EXPECT_EQ(create(*second), Code::kExists);
    EXPECT_EQ(put("object", "whole"), Code::kExists);
    EXPECT_EQ(run(way->calls().end_creation(second->making)), Code::kExists) << "of the first one";
    EXPECT_EQ(run(way->calls().filled(first->making, bytes / 2)), Code::kOk);
    ASSERT_EQ(run(way->calls().end_creation(first->making)), Code::kOk);
    EXPECT_EQ(run(way->calls().end_creation(first->making)), Code::kNotFound) << "twice";
    EXPECT_NE(seal(*first), Code::kOk) << "it has ended";
    const auto third = made("object", lengths);
    fill(*third, 3);
    ASSERT_EQ(create(*third), Code::kOk) << bytes;
    ASSERT_EQ(seal(*third), Code::kOk);
    EXPECT_EQ(create(*made("object", lengths)), Code::kExists);
    EXPECT_EQ(create(*second), Code::kNotFound) << "it gave up before";
    EXPECT_EQ(trouble_of("object", lengths, 3), "");
    EXPECT_EQ(remove("object", third->making.birth() + 1), Code::kVersionMismatch);
    EXPECT_EQ(remove("object", third->making.birth()), Code::kOk);
  }
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, whose_seal_is_sent_again_get_the_true_answer) {
  for (const uint64_t bytes : {uint64_t{10}, 2 * kMiB}) {
    const Lengths lengths{.body = bytes, .metadata = 0};
    const auto one = made("object", lengths);
    fill(*one, 1);
    ASSERT_EQ(create(*one), Code::kOk);
    ASSERT_EQ(seal(*one), Code::kOk);
    const uint64_t object_at = one->making.object_at;
    // As it is when the answer was lost.
    one->making.is_sealed = false;
    one->making.maybe_sealed = true;
    ASSERT_EQ(seal(*one), Code::kOk);
    EXPECT_EQ(one->making.object_at, object_at);
    EXPECT_EQ(trouble_of("object", lengths, 1), "");
    ASSERT_EQ(remove("object"), Code::kOk);
    one->making.is_sealed = false;
    one->making.maybe_sealed = true;
    EXPECT_EQ(seal(*one), Code::kIndeterminate) << "it has gone since, and does not come back";
    EXPECT_EQ(way->get("object").code(), Code::kNotFound);
  }
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, that_are_put_together_have_an_outcome_each) {
  ASSERT_EQ(put("id7", "taken"), Code::kOk);
  std::vector<std::string> ids;
  std::vector<std::string> bodies;
  for (uint64_t i = 0; i < 300; ++i) {
    ids.push_back("id" + std::to_string(i));
    bodies.push_back(content(i * 3, i));
  }
  std::vector<ObjectCalls::Put> puts;
  for (size_t i = 0; i < ids.size(); ++i) puts.push_back(put_of(ids[i], bodies[i], i % 3 == 0 ? "m" : ""));
  const std::string twice = "id9";
  puts.push_back(put_of(twice, "second"));
  runtime::block_on(way->shard(), way->calls().put_many(puts));
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(puts[i].code, i == 7 ? Code::kExists : Code::kOk) << i;
    const Result<ObjectWay::Got> got = way->get(ids[i]);
    ASSERT_TRUE(got) << i;
    EXPECT_EQ(got->object.body_bytes, i == 7 ? 5 : bodies[i].size()) << i;
    EXPECT_EQ(got->object.birth == puts[i].birth(), i != 7);
    EXPECT_EQ(remove(ids[i]), Code::kOk);
  }
  EXPECT_EQ(puts[300].code, Code::kExists);
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, that_are_waited_for_come_with_their_seal) {
  EXPECT_EQ(run(way->calls().await(as_bytes("object"), kMillisecond_ns)).code(), Code::kNotFound);
  std::optional<Result<wire::ObjectReply>> awaited;
  const auto wait = [](ObjectCalls& calls,
                       std::optional<Result<wire::ObjectReply>>& into) -> runtime::Task<> {
    into = co_await calls.await(as_bytes("object"), 30 * kSecond_ns);
  };
  way->shard().spawn(wait(way->calls(), awaited));
  const auto one = made("object", {.body = 100, .metadata = 0});
  fill(*one, 1);
  ASSERT_EQ(create(*one), Code::kOk);
  EXPECT_FALSE(awaited) << "it is not sealed";
  ASSERT_EQ(seal(*one), Code::kOk);
  ASSERT_TRUE(way->shard().run_until([&] { return awaited.has_value(); },
                                     way->shard().refresh_now() + OpenCalls::kPatience_ns));
  ASSERT_TRUE(*awaited);
  EXPECT_EQ((*awaited)->birth, one->making.birth());
  ASSERT_EQ(remove("object"), Code::kOk);
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, are_all_listed_and_each_seal_and_removal_is_told_once_in_order) {
  constexpr int kObjects = 200;
  std::map<std::string, uint64_t> births;
  Result<ObjectCalls::Notices> told = run(way->calls().notices(0, 0));
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->notices.empty());
  std::vector<std::string> expected;
  for (int i = 0; i < kObjects; ++i) {
    const std::string id = "object" + std::to_string(i) + std::string(static_cast<size_t>(i), 'x');
    const ObjectCalls::Put whole = put_of(id, "body");
    ASSERT_EQ(run(way->calls().put(whole, 0)), Code::kOk);
    births[id] = whole.birth();
    expected.push_back("+" + id);
  }
  std::map<std::string, uint64_t> listed;
  uint64_t cursor = 0;
  do {
    const Result<ObjectCalls::Page> page = run(way->calls().list(cursor));
    ASSERT_TRUE(page);
    for (const ObjectCalls::Listed& one : page->objects) listed[one.id] = one.object.birth;
    cursor = page->next;
  } while (cursor != 0);
  EXPECT_EQ(listed, births);
  for (const auto& [id, birth] : births) {
    ASSERT_EQ(remove(id, birth), Code::kOk);
    expected.push_back("-" + id);
  }
  std::vector<std::string> notices;
  while (notices.size() < expected.size()) {
    told = run(way->calls().notices(told->next, 0));
    ASSERT_TRUE(told);
    ASSERT_FALSE(told->is_lost);
    ASSERT_FALSE(told->notices.empty());
    for (const ObjectCalls::Noticed& one : told->notices) {
      const bool is_seal = one.notice.kind == wire::NoticeKind::kSealed;
      notices.push_back((is_seal ? "+" : "-") + one.id);
    }
  }
  EXPECT_EQ(notices, expected);
  expect_nothing_is_left();
}

TEST_P(ObjectConformance, of_a_full_store_go_unless_they_are_kept_and_what_takes_the_room_is_told) {
  const Lengths large{.body = 5 * kMiB, .metadata = 0};
  for (const char* const id : {"kept", "one", "two", "three"}) ASSERT_EQ(make(id, large, 1), Code::kOk) << id;
  ASSERT_EQ(run(way->calls().keep(as_bytes("kept"), true)), Code::kOk);
  const auto making = made("making", large);
  ASSERT_EQ(create(*making), Code::kOk);
  EXPECT_EQ(way->get("one").code(), Code::kNotFound) << "used least";
  const auto too_large = made("too large", {.body = 15 * kMiB, .metadata = 0});
  ASSERT_EQ(create(*too_large), Code::kNoSpace);
  const auto& said = way->calls().no_space();
  ASSERT_TRUE(said);
  EXPECT_EQ(said->limit, ObjectWay::kLimit);
  EXPECT_EQ(said->kept, 5 * kMiB);
  EXPECT_EQ(said->in_creation, 5 * kMiB);
  EXPECT_EQ(trouble_of("two", large, 1), "") << "what would not help stays";
  const Result<uint64_t> evicted = run(way->calls().evict(kMiB));
  EXPECT_EQ(evicted.value_or(0), 5 * kMiB) << "one of them, whole";
  EXPECT_EQ(run(way->calls().evict(UINT64_MAX)).value_or(0), 5 * kMiB);
  EXPECT_EQ(trouble_of("kept", large, 1), "");
  ASSERT_EQ(run(way->calls().end_creation(making->making)), Code::kOk);
  ASSERT_EQ(run(way->calls().keep(as_bytes("kept"), false)), Code::kOk);
  EXPECT_EQ(run(way->calls().keep(as_bytes("three"), false)), Code::kNotFound);
  EXPECT_EQ(run(way->calls().evict(UINT64_MAX)).value_or(0), 5 * kMiB);
  expect_nothing_is_left();
}

}  // namespace refract::object
