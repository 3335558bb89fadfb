// The one statement that writes batches of items (docs/adr/0063-items.md).
//
// Puts without a condition are stored in every namespace that is there, of the vectors' size and of
// the subject that its batches want; what returns no row was not stored. With a condition or a
// deletion the statement is all or nothing, as that of sessions (batch_statement.h): the last
// SELECT divides by zero (SQLSTATE 22012) unless every namespace, and every item that is
// conditional, was as it must be. What can be said of each write comes back as rows of bigint.
//
//   n  raises the version of each namespace, which locks its row: those who write the namespace
//      come one after the other, and versions rise in the order of commits
//   p  stores items. ON CONFLICT looks at the newest row, also at one that came after the statement
//      began. Since RETURNING knows nothing but the row, its column `previous` carries in where the
//      write stands, and whether it has a condition in the lowest bit. It carries out the same, and
//      above it twice the bytes of what was replaced, and 2, and 1 if that had not expired
//   d  deletes items. It finds what was there when the statement began, so n checks that nothing
//      was written since
//   c  counts
//   r  keeps the results under request_ids
//
// Every step costs as much as it has nodes to plan, since most statements have few rows. So what
// the steps read is sent with them, and none looks up again what another has found.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/postgres/batch_statement.h"

namespace memoryd {

inline constexpr std::string_view kItemRequestConstraint = "memoryd_item_requests_pkey";

class ItemStatement final : public ShapedStatement {
 public:
  // The most parameters of a statement, of which PostgreSQL takes 65,535. A batch that has more by
  // itself sends its rows as arrays.
  static constexpr std::size_t kMaxParameters = 16'000;

  // Where texts are bounded a single write comes as lists, all else as arrays. A write is a put or
  // a deletion, has a condition or none, a request or none, a subject or none. Of arrays there are
  // puts with a condition or without one, or none, and deletions or none, at least one of the two;
  // requests or none, subjects or none.
  static constexpr std::size_t kBoundedTexts = 2 * 2 * 2 * 2 + (3 * 2 - 1) * 2 * 2;

  // Parameters that `batch` takes without arrays, at most.
  static std::size_t ParameterCount(const ItemBatch& batch);

  // At least one batch, with a write each; they outlive the statement. Batches of a namespace may
  // stand anywhere among them.
  ItemStatement(std::span<const ItemBatch* const> batches, std::int64_t now_us, std::uint64_t tag,
                Texts texts = Texts::kExact);

  std::string Sql() const override;

  // What the rows that the statement returned say of each batch, in order. `numbers` are the
  // reply's. Empty for a batch that was not stored.
  std::vector<std::vector<ItemWriteResult>> Results(std::span<const std::int64_t> numbers) const;

 private:
  void AddNamespaces();
  void AddPuts();
  void AddDeletes();
  void AddRequests();
  // Makes parameters of the rows that `write` writes; how many there were, for the shape.
  template <typename Write>
  std::size_t AddRows(std::span<const BatchColumn> columns, const Write& write);

  // Whether it is all or nothing.
  bool IsWhole() const;

  const std::vector<const ItemBatch*> batches_;
  // Of each batch's first write; that of the next one is greater by 1.
  std::vector<std::int64_t> places_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_ITEM_STATEMENT_H_
