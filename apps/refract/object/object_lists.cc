// SPDX-License-Identifier: Apache-2.0
// The actions of `refract object` that move no bytes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/records/shown_text.h"
#include "apps/refract/commands.h"
#include "apps/refract/object/object_commands.h"
#include "apps/refract/terminal.h"

#include "refract/base/units.h"
#include "refract/documents/json.h"

namespace refract::cli {
namespace {

struct Action {
  std::string_view name;
  int (*run)(const ObjectInvocation&, Objects&, Client&);
};

constexpr Action kActions[] = {{"put", put_object},
                               {"get", get_object},
                               {"ls", list_objects},
                               {"rm", remove_objects},
                               {"stat", stat_objects},
                               {"keep", keep_objects},
                               {"evict", evict_objects},
                               {"wait", wait_for_objects},
                               {"subscribe", follow_objects},
                               {"digest", digest_objects},
                               {"where", locate_objects},
                               {"prefetch", prefetch_objects},
                               {"copies", set_copies_of_objects},
                               {"paths", show_paths},
                               {"rank", rank_nodes},
                               {"broadcast", broadcast_object}};

// Does it with each id, says what is wrong with some, and returns the worst exit code.
template <typename Do>
int with_each(const ObjectInvocation& invocation, Do each) {
  int worst = kDone;
  for (const std::string& id : invocation.ids) worst = std::max(worst, each(id));
  return worst;
}

std::string row_text(const ObjectInvocation& invocation, const ListedObject& object) {
  const char kept = object.is_kept ? 'K' : '-';
  std::string marks(1, kept);
  if (invocation.all) marks += object.is_sealed ? '-' : 'C';
  std::string text = fmt::format("{:>14} {:>6} {}", object.body_bytes, object.metadata_bytes, marks);
  if (invocation.all) text += fmt::format(" {:>4}", object.holders.value_or(0));
  return text + fmt::format(" {}\n", id_text(invocation, object.id));
}

documents::Value row_of(const ObjectInvocation& invocation, const ListedObject& object) {
  documents::Value row;
  append_id(row, invocation, object.id);
  row.update({{"birth", object.birth},
              {"body_bytes", object.body_bytes},
              {"metadata_bytes", object.metadata_bytes},
              {"is_kept", object.is_kept},
              {"is_sealed", object.is_sealed}});
  if (object.holders) row.append_member("holders", *object.holders);
  return row;
}

std::string_view name_of(ObjectNotice::Kind kind) noexcept {
  switch (kind) {
    case ObjectNotice::Kind::kThere:
      return "there";
    case ObjectNotice::Kind::kSealed:
      return "sealed";
    case ObjectNotice::Kind::kRemoved:
      return "removed";
    case ObjectNotice::Kind::kMissed:
      break;
  }
  return "missed";
}

std::string notice_text(const ObjectInvocation& invocation, const ObjectNotice& notice) {
  const bool is_missed = notice.kind == ObjectNotice::Kind::kMissed;
  if (!invocation.base.json) {
    if (is_missed) return "missed\n";
    return fmt::format("{:<7} {:>14} {:>6} {}\n", name_of(notice.kind), notice.body_bytes,
                       notice.metadata_bytes, id_text(invocation, notice.id));
  }
  documents::Value row = {{"what", name_of(notice.kind)}};
  if (!is_missed) {
    append_id(row, invocation, notice.id);
    row.update({{"birth", notice.birth},
                {"body_bytes", notice.body_bytes},
                {"metadata_bytes", notice.metadata_bytes}});
  }
  return documents::to_json_row(row);
}

std::string share_text(std::string_view name, uint64_t bytes, uint64_t count, std::string_view what) {
  return fmt::format("{:<10} {:>12}  {} {}\n", name, progress::bytes_text(bytes), progress::count_text(count),
                     what);
}

}  // namespace

int run_object(const ObjectInvocation& invocation) {
  auto client = connect(invocation.base);
  if (!client) return complain(client.error());
  auto objects = client->objects();
  if (!objects) return complain(with_what_to_start(objects.error()));
  for (const Action& action : kActions) {
    if (action.name == invocation.action) return action.run(invocation, *objects, *client);
  }
  return kFailed;
}

Report explain_object(const Client& client, const Objects& objects, Code code, std::string_view what) {
  Report said{code, fmt::format("{}: {}", what, info(code).sentence), ""};
  const Report trouble = objects.trouble();
  switch (code) {
    case Code::kNotFound:
      said.what = fmt::format("{}: there is no such object", what);
      said.next = "refract object ls lists those that are there";
      break;
    case Code::kExists:
      said.what = fmt::format("{}: there is an object of this id, or one is being made", what);
      said.next = "choose another id, or remove that one first: refract object rm";
      break;
    case Code::kVersionMismatch:
      said.what = fmt::format("{}: the object of this id has another birth", what);
      said.next = "refract object ls --json names it";
      break;
    case Code::kTooLarge:
      if (trouble.code == code) return {code, fmt::format("{}: {}", what, trouble.what), trouble.next};
      said.what = fmt::format("{}: it is larger than all objects of the node may be together", what);
      said.next = "start the node with a larger --objects-limit";
      break;
    case Code::kIndeterminate:
      said.next = "the server or the connection broke meanwhile; look with refract object ls";
      break;
    case Code::kInvalidArgument:
    case Code::kNoSpace:
    case Code::kOverloaded:
    case Code::kUnsupported:
    case Code::kAway:
      if (trouble.code != code) return explain(client, code, what);
      said.what = fmt::format("{}: {}", what, trouble.what);
      said.next = trouble.next;
      break;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      if (!trouble.what.empty()) said.what = fmt::format("{}: {}", what, trouble.what);
      said.next = trouble.next.empty() ? "refract ping --why says what can be reached" : trouble.next;
      break;
    default:
      return explain(client, code, what);
  }
  return said;
}

std::string copies_text(uint32_t copies, uint32_t wanted) {
  return fmt::format("{} of {} cop{}", copies, wanted, wanted == 1 ? "y" : "ies");
}

std::string id_text(const ObjectInvocation& invocation, std::string_view id) {
  if (!invocation.hex) return printable(id);
  return records::hex_text(std::as_bytes(std::span(id)));
}

void append_id(documents::Value& row, const ObjectInvocation& invocation, std::string_view id) {
  if (invocation.hex) {
    row.append_member("id_hex", id_text(invocation, id));
  } else {
    records::append_bytes(row, "id", id);
  }
}

int list_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  uint64_t cursor = 0;
  uint64_t left = invocation.limit;
  do {
    const auto page = objects.list(cursor, invocation.all ? Listing::kAll : Listing::kSealed);
    if (!page) return complain(explain_object(client, objects, page.code(), "the list is not complete"));
    std::string out;
    for (const ListedObject& object : page->objects) {
      if (left == 0) break;
      if (!object.id.starts_with(invocation.prefix)) continue;
      out += invocation.base.json ? documents::to_json_row(row_of(invocation, object))
                                  : row_text(invocation, object);
      --left;
    }
    if (const int written = write_text(out); written != kDone) return written;
    cursor = page->next;
  } while (cursor != 0 && left > 0);
  return kDone;
}

int remove_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  return with_each(invocation, [&](const std::string& id) {
    const auto holders = objects.remove(id, invocation.birth);
    if (!holders) {
      return complain(
          explain_object(client, objects, holders.code(), fmt::format("cannot remove {}", in_quotes(id))));
    }
    const std::vector<std::string> missed = objects.missed();
    if (invocation.base.json) {
      documents::Value row;
      append_id(row, invocation, id);
      row.append_member("holders", *holders);
      if (!missed.empty()) row.append_member("missed", missed);
      return write_json(row);
    }
    if (!missed.empty()) {
      std::string text = fmt::format("{} is removed, but not yet from these nodes, which are away:",
                                     id_text(invocation, id));
      for (const std::string& name : missed) text += " " + name;
      if (const int written = write_text(text + "\n"); written != kDone) return written;
    }
    if (*holders == 0) return static_cast<int>(kDone);
    return write_text(fmt::format("{} is removed; {} reader{} hold{} it still\n", id_text(invocation, id),
                                  *holders, *holders == 1 ? "" : "s", *holders == 1 ? "s" : ""));
  });
}

int stat_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const auto stat = objects.stat();
  if (!stat) return complain(explain_object(client, objects, stat.code(), "the objects cannot be counted"));
  if (invocation.base.json) {
    return write_json({{"limit", stat->limit},
                       {"used", stat->used},
                       {"sealed_bytes", stat->sealed_bytes},
                       {"creation_bytes", stat->creation_bytes},
                       {"removed_bytes", stat->removed_bytes},
                       {"held_bytes", stat->held_bytes},
                       {"kept_bytes", stat->kept_bytes},
                       {"objects", stat->objects},
                       {"creations", stat->creations},
                       {"removed", stat->removed},
                       {"held", stat->held},
                       {"sealed_ever", stat->sealed_ever},
                       {"removed_ever", stat->removed_ever},
                       {"evicted_ever", stat->evicted_ever},
                       {"evicted_bytes_ever", stat->evicted_bytes_ever},
                       {"aborted_ever", stat->aborted_ever}});
  }
  std::string text = fmt::format("{:<10} {:>12}  of {}\n", "used", progress::bytes_text(stat->used),
                                 progress::bytes_text(stat->limit));
  text += share_text("sealed", stat->sealed_bytes, stat->objects, stat->objects == 1 ? "object" : "objects");
  text += share_text("held", stat->held_bytes, stat->held, "of them, by readers");
  text +=
      fmt::format("{:<10} {:>12}  of them, never evicted\n", "kept", progress::bytes_text(stat->kept_bytes));
  text += share_text("creations", stat->creation_bytes, stat->creations, "are being made");
  text += share_text("removed", stat->removed_bytes, stat->removed, "without an id, held by readers still");
  text +=
      fmt::format("{:<10} {} sealed, {} removed, {} evicted ({}), {} abandoned\n", "ever",
                  progress::count_text(stat->sealed_ever), progress::count_text(stat->removed_ever),
                  progress::count_text(stat->evicted_ever), progress::bytes_text(stat->evicted_bytes_ever),
                  progress::count_text(stat->aborted_ever));
  return write_text(text);
}

int keep_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  return with_each(invocation, [&](const std::string& id) {
    const Code code = objects.keep(id, !invocation.is_off);
    if (code != Code::kOk) {
      return complain(explain_object(client, objects, code, fmt::format("cannot keep {}", in_quotes(id))));
    }
    if (!invocation.base.json) return static_cast<int>(kDone);
    documents::Value row;
    append_id(row, invocation, id);
    row.append_member("is_kept", !invocation.is_off);
    return write_json(row);
  });
}

int evict_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const auto bytes = objects.evict(invocation.bytes);
  if (!bytes)
    return complain(explain_object(client, objects, bytes.code(), "nothing is known to be evicted"));
  if (invocation.base.json) return write_json({{"bytes", *bytes}});
  return write_text(fmt::format("{} bytes were given back\n", *bytes));
}

int wait_for_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const std::vector<Bytes> ids(invocation.ids.begin(), invocation.ids.end());
  const auto all = objects.get(ids, invocation.wait_ms.value_or(Objects::kForever));
  int worst = kDone;
  for (size_t i = 0; i < all.size(); ++i) {
    const Code code = all[i].code();
    int one = kDone;
    if (code != Code::kOk && code != Code::kNotFound) {
      one = complain(explain_object(client, objects, code,
                                    fmt::format("cannot wait for {}", in_quotes(invocation.ids[i]))));
    } else if (invocation.base.json) {
      documents::Value row;
      append_id(row, invocation, invocation.ids[i]);
      row.append_member("is_there", code == Code::kOk);
      one = write_json(row);
    } else if (code != Code::kOk) {
      one = complain(kNotDone, fmt::format("{} did not come in time", in_quotes(invocation.ids[i])),
                     "wait longer with --for, or look with refract object ls --all");
    }
    worst = std::max({worst, one, code == Code::kNotFound ? static_cast<int>(kNotDone) : 0});
  }
  return worst;
}

int follow_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  auto subscription = objects.subscribe();
  if (!subscription) {
    return complain(explain_object(client, objects, subscription.code(), "cannot follow the objects"));
  }
  for (uint64_t left = invocation.limit; left > 0; --left) {
    const auto notice = subscription->next(invocation.wait_ms.value_or(Objects::kForever));
    if (notice.code() == Code::kNotFound) return kDone;
    if (!notice) {
      return complain(
          explain_object(client, objects, notice.code(), "the objects are not followed any more"));
    }
    if (const int written = write_text(notice_text(invocation, *notice)); written != kDone) return written;
  }
  return kDone;
}

int digest_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  return with_each(invocation, [&](const std::string& id) {
    const auto digest = objects.digest(id);
    if (!digest) {
      return complain(
          explain_object(client, objects, digest.code(), fmt::format("cannot read {}", in_quotes(id))));
    }
    const std::string text = fmt::format("{:016x}{:016x}", digest->high, digest->low);
    if (!invocation.base.json) return write_text(fmt::format("{}  {}\n", text, id_text(invocation, id)));
    documents::Value row;
    append_id(row, invocation, id);
    row.append_member("digest", text);
    return write_json(row);
  });
}

int locate_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  return with_each(invocation, [&](const std::string& id) {
    const auto places = objects.where(id);
    if (!places) {
      return complain(
          explain_object(client, objects, places.code(), fmt::format("cannot locate {}", in_quotes(id))));
    }
    if (invocation.base.json) {
      documents::Value row;
      append_id(row, invocation, id);
      row.update({{"birth", places->birth},
                  {"body_bytes", places->body_bytes},
                  {"metadata_bytes", places->metadata_bytes},
                  {"nodes", places->nodes},
                  {"copies_wanted", places->copies_wanted},
                  {"copies", places->copies}});
      return write_json(row);
    }
    std::string text = id_text(invocation, id) + ":";
    for (const std::string& node : places->nodes) text += " " + node;
    if (places->copies_wanted > 0) text += "  " + copies_text(places->copies, places->copies_wanted);
    return write_text(text + "\n");
  });
}

int set_copies_of_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  return with_each(invocation, [&](const std::string& id) {
    const auto made = objects.set_copies(id, *invocation.copies, invocation.wait_ms.value_or(5'000));
    if (!made) {
      return complain(explain_object(client, objects, made.code(),
                                     fmt::format("cannot set the copies of {}", in_quotes(id))));
    }
    int written = kDone;
    if (invocation.base.json) {
      documents::Value row;
      append_id(row, invocation, id);
      row.update({{"birth", made->birth}, {"copies_wanted", made->wanted}, {"copies", made->copies}});
      written = write_json(row);
    } else {
      written = write_text(
          fmt::format("{}: {}\n", id_text(invocation, id), copies_text(made->copies, made->wanted)));
    }
    return written == kDone && made->copies < made->wanted ? static_cast<int>(kNotDone) : written;
  });
}

int prefetch_objects(const ObjectInvocation& invocation, Objects& objects, Client& client) {
  const std::vector<Bytes> ids(invocation.ids.begin(), invocation.ids.end());
  const auto codes = objects.prefetch(ids, invocation.wait_ms.value_or(0),
                                      {.transfer = invocation.transfer, .is_checked = invocation.is_checked});
  int worst = kDone;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == Code::kOk) continue;
    const std::string what = fmt::format("cannot bring {} here", in_quotes(invocation.ids[i]));
    worst = std::max(worst, complain(explain_object(client, objects, codes[i], what)));
  }
  return worst;
}

}  // namespace refract::cli
