// SPDX-License-Identifier: Apache-2.0
// Any text as a list of nodes, as a setting and as a file: it is refused with a sentence that a terminal
// does not obey, or makes a sound list, whose own text makes the same list again.
#include <string>
#include <string_view>

#include "refract/base/check.h"
#include "refract/base/printable.h"
#include "refract/cluster/member_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract::cluster;  // NOLINT(google-build-using-namespace)
  // In memory of exactly its length, so that the sanitizer sees a read behind it.
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const ListForm form : {ListForm::kSetting, ListForm::kFile}) {
    const auto list = parse_member_list(text, form);
    if (!list) {
      REFRACT_CHECK(!list.error().what.empty());
      REFRACT_CHECK(refract::printable(list.error().what) == list.error().what);
      continue;
    }
    REFRACT_CHECK(check(*list).has_value());
    const auto again = parse_member_list(to_text(*list), form);
    REFRACT_CHECK(again && *again == *list);
    for (size_t i = 0; i < list->members.size(); ++i) {
      REFRACT_CHECK(list->index_of(list->members[i].name) == i);
    }
  }
  return 0;
}
