// SPDX-License-Identifier: Apache-2.0
// In the place of cuckoo_table.cc where libcuckoo is not installed.
#include "bench/load/byte_table.h"

namespace refract::bench {

Reported<std::unique_ptr<ByteTable>> make_cuckoo_table(const ByteTable::Sizes& /*sizes*/) {
  return report(Code::kUnsupported, "this program was built without libcuckoo to compare with",
                "install it and build again: 'scripts/setup bars' and 'make build' do (Debian: apt-get "
                "install libcuckoo-dev)");
}

}  // namespace refract::bench
