// The one statement that writes batches of items (docs/adr/0063-items.md).
//
// It is all or nothing, as that of sessions (batch_statement.h): the last SELECT divides by zero
// (SQLSTATE 22012) unless every namespace, and every item that is conditional, was as it must be. A
// namespace must be there, of the vectors' size, and of the subject that its batches want.
// What can be said of each write comes back as rows of bigint.
//
//   n  raises the version of each namespace, which locks its row: whoever writes the namespace
//   comes
//      one after the other, and versions rise in the order of commits
//   p  stores items. ON CONFLICT looks at the newest row, also at one that came after the statement
//      began. The column `previous` carries the condition in, 0 for none and -1 - the expected
//      version else, and what was replaced out, twice its bytes, and 2, and 1 if it had not expired
//   d  deletes items. It finds what was there when the statement began, so n checks that nothing
//      was written since
//   c  counts
//   r  keeps the results under request_ids
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_statement.h"

namespace memoryd {

inline constexpr std::string_view kItemRequestConstraint = "memoryd_item_requests_pkey";

class ItemStatement final : public ShapedStatement {
 public:
  // The most parameters of a statement, of which PostgreSQL takes 65,535. A batch that has more by
  // itself sends its items as arrays.
  static constexpr std::size_t kMaxParameters = 16'000;

  // Parameters that `batch` takes without arrays, at most.
  static std::size_t ParameterCount(const ItemBatch& batch);

  // At least one batch, with a write each; they outlive the statement. Batches of a namespace may
  // stand anywhere among them.
  ItemStatement(std::span<const ItemBatch* const> batches, std::int64_t now_us, std::uint64_t tag);

  std::string Sql() const override;

  // What the rows that the statement returned say of each batch, in order. `numbers` are the
  // reply's.
  std::vector<std::vector<ItemWriteResult>> Results(std::span<const std::int64_t> numbers) const;

 private:
  // Where the writes of a batch stand: in which namespace, and from which rank on. Both from 1.
  struct Place {
    std::int64_t name_space = 0;
    std::int64_t rank = 0;
  };

  void AddNamespaces();
  void AddWrites();
  void AddRequests();

  const std::vector<const ItemBatch*> batches_;
  std::vector<Place> places_;  // Of each batch.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_
