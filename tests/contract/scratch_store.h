// Where the stores under test keep their data: temporary files and databases.
#ifndef MEMORYD_TESTS_CONTRACT_SCRATCH_STORE_H_
#define MEMORYD_TESTS_CONTRACT_SCRATCH_STORE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

// An empty place of one kind of store, removed when it goes.
class ScratchStore {
 public:
  virtual ~ScratchStore() = default;
  virtual std::string url() const = 0;
};

// `scheme` is that of a StoreKind; INVALID_ARGUMENT for one that this file has not been taught.
// For postgresql each process has a database of its own on the server of MEMORYD_TEST_POSTGRES,
// emptied for each scratch store: one at a time.
absl::StatusOr<std::unique_ptr<ScratchStore>> MakeScratchStore(std::string_view scheme);

// A store that is gone when it closes.
std::unique_ptr<ScratchStore> MakeMemoryStore();

}  // namespace memoryd

#endif  // MEMORYD_TESTS_CONTRACT_SCRATCH_STORE_H_
