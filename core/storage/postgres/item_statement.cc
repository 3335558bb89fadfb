#include "core/storage/postgres/item_statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/items/item.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_rows.h"
#include "core/storage/postgres/batch_rows.h"
#include "core/storage/postgres/batch_statement.h"

namespace memoryd {
namespace {

// Indices of BatchShape::rows.
enum : std::size_t {
  kNamespaces,
  kPuts,
  kDeletes,
  kConditionalDeletes,
  kRequests,
  kConditions,  // 1 when a put has one.
  kSubjects,    // 1 when the namespaces have a column of subjects.
  kSeries,      // 1 when a batch with a request_id has more than one write, and all are puts.
  kShapeSize
};

using Type = ParameterType;

// Columns of the lists of rows, with their types; only the types of the first row are written out.
constexpr std::array kNamespaceTypes = {Type::kInt8, Type::kText, Type::kBytea,
                                        Type::kInt8, Type::kInt8, Type::kText};
constexpr std::array kPutTypes = {Type::kInt8,  Type::kText,  Type::kInt8, Type::kInt8, Type::kInt8,
                                  Type::kInt2,  Type::kBool,  Type::kInt8, Type::kText, Type::kText,
                                  Type::kBytea, Type::kBytea, Type::kBytea};
constexpr std::array kDeleteTypes = {Type::kInt8, Type::kText, Type::kInt8};
constexpr std::array kRequestTypes = {Type::kInt8, Type::kInt8, Type::kText, Type::kBytea};

// A write's place is the number of its namespace and, in the lowest bits, its rank there. Of a put
// it has 30 bits in the column `previous`.
constexpr int kRankBits = 20;
constexpr int kNamespaceBits = 10;
static_assert(ItemStatement::kMaxParameters / (kNamespaceTypes.size() - 1 + kPutTypes.size()) <
                  1 << kNamespaceBits,
              "so many namespaces of a statement may have puts");

std::string_view NameOf(Type type) {
  switch (type) {
    case Type::kBool:
      return "boolean";
    case Type::kBytea:
      return "bytea";
    case Type::kInt2:
      return "smallint";
    case Type::kText:
      return "text";
    default:
      return "bigint";
  }
}

// The columns of RowWriter have no names here.
template <std::size_t kColumns>
constexpr std::array<BatchColumn, kColumns> ColumnsOf(const std::array<Type, kColumns>& types) {
  std::array<BatchColumn, kColumns> columns{};
  for (std::size_t i = 0; i < kColumns; ++i) columns[i].type = types[i];
  return columns;
}
constexpr std::array kNamespaceColumns = ColumnsOf(kNamespaceTypes);
constexpr std::array kPutColumns = ColumnsOf(kPutTypes);
constexpr std::array kDeleteColumns = ColumnsOf(kDeleteTypes);
constexpr std::array kRequestColumns = ColumnsOf(kRequestTypes);

// Writes the text, and numbers the parameters, of which $1 is the time and $2 the tag.
class Text {
 public:
  explicit Text(bool arrays) : arrays_(arrays) {}

  void Append(std::string_view sql) { sql_ += sql; }

  // The rows stand where `clause` has `(VALUES {})`. Returns the number of their first parameter.
  std::size_t Append(std::string_view clause, std::size_t rows, std::span<const Type> types) {
    const std::size_t first = next_;
    const std::size_t place = clause.find(kRows);
    Append(clause.substr(0, place));
    arrays_ ? AppendArrays(types) : AppendRows(rows, types);
    Append(")");
    Append(clause.substr(place + kRows.size()));
    return first;
  }

  std::string Take() { return std::move(sql_); }

 private:
  static constexpr std::string_view kRows = "(VALUES {})";

  // `unnest($3::bigint[], $4::text[]`.
  void AppendArrays(std::span<const Type> types) {
    for (std::size_t column = 0; column < types.size(); ++column) {
      fmt::format_to(std::back_inserter(sql_), "{}${}::{}[]", column == 0 ? "unnest(" : ", ",
                     next_++, NameOf(types[column]));
    }
  }

  // `(VALUES ($3::bigint, $4::text), ($5, $6)`.
  void AppendRows(std::size_t rows, std::span<const Type> types) {
    sql_ += "(VALUES ";
    for (std::size_t row = 0; row < rows; ++row) {
      sql_ += row == 0 ? "(" : ", (";
      for (std::size_t column = 0; column < types.size(); ++column) {
        fmt::format_to(std::back_inserter(sql_), "{}${}", column == 0 ? "" : ", ", next_++);
        if (row == 0) sql_.append("::").append(NameOf(types[column]));
      }
      sql_ += ')';
    }
  }

  const bool arrays_;
  std::string sql_;
  std::size_t next_ = 3;
};

#define MEMORYD_RAISE_VERSIONS(MEMORYD_SUBJECT)                                                 \
  "WITH n AS (UPDATE memoryd_namespaces AS s SET version = s.version + v.writes, "              \
  "update_us = $1::bigint, commit_tag = $2::bigint, vector_size = CASE WHEN s.vector_size = 0 " \
  "THEN v.vector_size ELSE s.vector_size END FROM (VALUES {}) "                                 \
  "AS v (i, tenant, namespace, writes, vector_size" MEMORYD_SUBJECT                             \
  ") WHERE s.tenant = v.tenant AND s.namespace = v.namespace AND (v.vector_size = 0 "           \
  "OR (v.vector_size > 0 AND s.vector_size IN (0, v.vector_size)))"
constexpr char kRaiseVersions[] = MEMORYD_RAISE_VERSIONS("");
constexpr char kRaiseVersionsOfSubjects[] =
    MEMORYD_RAISE_VERSIONS(", subject") " AND (v.subject = '' OR s.subject = v.subject)";
#undef MEMORYD_RAISE_VERSIONS
constexpr char kUnchanged[] =
    " AND s.version = (SELECT b.version FROM memoryd_namespaces b WHERE b.tenant = v.tenant "
    "AND b.namespace = v.namespace)";
constexpr char kReturnNamespaces[] =
    " RETURNING v.i, s.tenant, s.namespace, s.generation, s.version - v.writes AS base, s.ttl_us)";

#define MEMORYD_LIVE "s.expire_us = 0 OR s.expire_us > excluded.update_us"

// A ttl below 0 is the namespace's. An expected version above 0 travels as the time of creation:
// where there is no item, one is stored that no time has, and kAllPut finds it.
constexpr char kPutItems[] =
    ", p AS (INSERT INTO memoryd_items AS s (tenant, namespace, generation, key, version, "
    "create_us, update_us, expire_us, ttl_us, bytes, kind, untrusted, checksum, mime_type, writer, "
    "search, vector, value, previous) SELECT n.tenant, n.namespace, n.generation, o.key, "
    "n.base + ((o.previous >> 1) & 1048575), CASE WHEN o.expected > 0 THEN -o.expected ELSE $1 "
    "END, "
    "$1, CASE WHEN o.ttl_us > 0 THEN $1 + o.ttl_us "
    "WHEN o.ttl_us = 0 OR n.ttl_us = 0 THEN 0 ELSE $1 + n.ttl_us END, "
    "CASE WHEN o.ttl_us < 0 THEN n.ttl_us ELSE o.ttl_us END, o.bytes, o.kind, o.untrusted, "
    "o.checksum, o.mime_type, o.writer, o.search, o.vector, o.value, o.previous FROM (VALUES {}"
    ") AS o (previous, key, expected, ttl_us, bytes, kind, untrusted, checksum, mime_type, writer, "
    "search, vector, value) JOIN n ON n.i = o.previous >> 21 "
    "ON CONFLICT (tenant, namespace, generation, key) DO UPDATE SET version = excluded.version, "
    "create_us = CASE WHEN " MEMORYD_LIVE
    " THEN s.create_us ELSE excluded.update_us END, "
    "update_us = excluded.update_us, expire_us = excluded.expire_us, ttl_us = excluded.ttl_us, "
    "bytes = excluded.bytes, kind = excluded.kind, untrusted = excluded.untrusted, "
    "checksum = excluded.checksum, mime_type = excluded.mime_type, writer = excluded.writer, "
    "search = excluded.search, vector = excluded.vector, value = excluded.value, "
    "previous = excluded.previous + ((2 * s.bytes + CASE WHEN " MEMORYD_LIVE
    " THEN 3 ELSE 2 END) << 31)";
constexpr char kWhereExpected[] =
    " WHERE excluded.previous & 1 = 0 OR CASE WHEN excluded.create_us < 0 "
    "THEN -excluded.create_us ELSE 0 END = CASE WHEN " MEMORYD_LIVE " THEN s.version ELSE 0 END";
constexpr char kReturnItems[] =
    " RETURNING s.tenant, s.namespace, s.generation, s.version, s.create_us, s.expire_us, s.bytes, "
    "s.previous)";
#undef MEMORYD_LIVE

// By OFFSET as the subselects of item_queries.h.
constexpr char kDeleteItems[] =
    ", d AS (DELETE FROM memoryd_items AS s USING (SELECT n.tenant, n.namespace, n.generation, v.* "
    "FROM (VALUES {}"
    ") AS v (place, key, expected) JOIN n ON n.i = v.place >> 20 OFFSET 0) AS o "
    "WHERE s.tenant = o.tenant AND s.namespace = o.namespace AND s.generation = o.generation "
    "AND s.key = o.key AND (o.expected < 0 OR o.expected = CASE WHEN s.expire_us = 0 "
    "OR s.expire_us > $1 THEN s.version ELSE 0 END) RETURNING s.tenant, s.namespace, s.generation, "
    "o.place, o.expected, s.bytes, s.create_us, s.expire_us = 0 OR s.expire_us > $1 AS live)";

// What was done, for each write.
constexpr char kPutsDone[] =
    "SELECT p.tenant, p.namespace, p.generation, (p.previous >> 1) & 1073741823 AS place, "
    "p.version, p.create_us, p.expire_us, (p.previous >> 31) & 1 AS existed, "
    "CASE WHEN p.previous >> 31 = 0 THEN 1 ELSE 0 END AS items, "
    "p.bytes - CASE WHEN p.previous >> 31 = 0 THEN 0 ELSE (p.previous >> 32) - 1 END AS bytes "
    "FROM p";
constexpr char kDeletesDone[] =
    "SELECT d.tenant, d.namespace, d.generation, d.place, 0::bigint AS version, "
    "CASE WHEN d.live THEN d.create_us ELSE 0 END AS create_us, 0::bigint AS expire_us, "
    "d.live::int::bigint AS existed, -1 AS items, -d.bytes AS bytes FROM d";

// In these clauses kDone is what was done, by the name of x.
constexpr std::string_view kDone = "<done>";
constexpr char kCountOne[] =
    ", c AS (INSERT INTO memoryd_item_counts AS s (tenant, namespace, generation, item_count, "
    "item_bytes) SELECT x.tenant, x.namespace, x.generation, x.items, x.bytes FROM <done> "
    "WHERE x.items <> 0 OR x.bytes <> 0";
constexpr char kCountSeveral[] =
    ", c AS (INSERT INTO memoryd_item_counts AS s (tenant, namespace, generation, item_count, "
    "item_bytes) SELECT x.tenant, x.namespace, x.generation, sum(x.items), sum(x.bytes)::bigint "
    "FROM <done> GROUP BY x.tenant, x.namespace, x.generation "
    "HAVING sum(x.items) <> 0 OR sum(x.bytes) <> 0";
constexpr char kAddCounts[] =
    " ON CONFLICT (tenant, namespace, generation) DO UPDATE SET "
    "item_count = s.item_count + excluded.item_count, "
    "item_bytes = s.item_bytes + excluded.item_bytes)";

// The text of EncodeItemResults().
#define MEMORYD_RESULT(MEMORYD_INDEX) \
  "concat_ws(' ', " MEMORYD_INDEX ", x.version, x.create_us, x.expire_us, x.existed)"
constexpr char kKeepResult[] =
    ", r AS (INSERT INTO memoryd_item_requests (tenant, namespace, request_id, fingerprint, "
    "results, create_us) SELECT x.tenant, x.namespace, q.request_id, q.fingerprint, "
    MEMORYD_RESULT("0") ", $1 FROM (VALUES {}"
    ") AS q (first, behind, request_id, fingerprint) JOIN <done> ON x.place = q.first)";
constexpr char kKeepResults[] =
    ", r AS (INSERT INTO memoryd_item_requests (tenant, namespace, request_id, fingerprint, "
    "results, create_us) SELECT n.tenant, n.namespace, q.request_id, q.fingerprint, "
    "(SELECT coalesce(string_agg(" MEMORYD_RESULT("x.place - q.first") ", ','), '') FROM <done> "
    "WHERE x.place >= q.first AND x.place < q.behind), $1 FROM (VALUES {}"
    ") AS q (first, behind, request_id, fingerprint) JOIN n ON n.i = q.first >> 20)";
#undef MEMORYD_RESULT

constexpr char kReturn[] =
    " SELECT 1::bigint, x.place, x.version, x.create_us, x.expire_us, x.existed FROM <done>";
constexpr char kReturnIfAll[] =
    " SELECT won.one, x.place, x.version, x.create_us, x.expire_us, x.existed "
    "FROM (SELECT (1 / (CASE WHEN (SELECT count(*) FROM n) = {}";
constexpr char kAllPut[] =
    " AND (SELECT count(*) FROM p WHERE previous >> 31 > 0 OR create_us >= 0) = {}";
constexpr char kAllDeleted[] = " AND (SELECT count(*) FROM d WHERE expected >= 0) = {}";
constexpr char kConditionsOf[] =
    "(SELECT count(*) FROM unnest(${}) AS given (expected) WHERE given.expected >= 0)";
constexpr char kReturnEnd[] =
    " THEN 1 ELSE 0 END))::bigint AS one) AS won LEFT JOIN <done> ON true";
constexpr std::size_t kReturnedColumns = 6;

// Below 0, which no namespace takes, for vectors of more than one size.
void AddVectorSizes(const ItemBatch& batch, std::int64_t& vector_size) {
  for (const ItemWrite& write : batch.writes) {
    if (!write.content.has_value() || write.content->vector.empty()) continue;
    const std::int64_t size = std::ssize(write.content->vector);
    vector_size = vector_size == 0 || vector_size == size ? size : -1;
  }
}

// The one that a batch wants of its namespace; one that no namespace has when batches want
// different ones. It lives as long as the batch.
void AddSubject(const ItemBatch& batch, const std::string*& subject) {
  static const std::string* const nobody = new std::string("\x01");
  if (batch.subject.empty() || batch.subject == *subject) return;
  subject = subject->empty() ? &batch.subject : nobody;
}

// The columns of the list of namespaces; the last is that of subjects.
template <typename Column>
std::span<const Column> Namespaces(std::span<const Column> columns, bool with_subjects) {
  return columns.first(columns.size() - (with_subjects ? 0 : 1));
}

void AddPut(const ItemWrite& write, std::int64_t place, RowWriter& row) {
  const ItemContent& content = *write.content;
  const auto& expected = write.expected_version;
  row.Int8("", 2 * place + (expected.has_value() ? 1 : 0));
  row.Text("", write.key);
  row.Int8("", expected.value_or(0));
  row.Int8("", write.ttl_us.value_or(-1));
  row.Int8("", CountedBytes(write.key, content));
  row.Int2("", static_cast<std::int16_t>(content.kind));
  row.Bool("", content.untrusted);
  row.Int8("", ItemChecksum(write.key, content));
  row.Text("", content.mime_type);
  row.Text("", content.writer);
  if (content.search.has_value()) {
    row.Bytes("", *content.search);
  } else {
    row.Null("");
  }
  if (content.vector.empty()) {
    row.Null("");
  } else {
    row.MadeBytes("", EncodeVector(content.vector));
  }
  row.Bytes("", content.value);
}

// The clause with what was done in it.
std::string Of(std::string_view done, std::string_view clause) {
  std::string text(clause);
  text.replace(text.find(kDone), kDone.size(), done);
  return text;
}

}  // namespace

std::size_t ItemStatement::ParameterCount(const ItemBatch& batch) {
  return kNamespaceTypes.size() + kRequestTypes.size() + batch.writes.size() * kPutTypes.size();
}

ItemStatement::ItemStatement(std::span<const ItemBatch* const> batches, std::int64_t now_us,
                             std::uint64_t tag, Texts texts)
    : batches_(batches.begin(), batches.end()), places_(batches.size()) {
  const ItemBatch& first = *batches.front();
  shape_.items = true;
  shape_.arrays = texts == Texts::kBounded
                      ? batches.size() > 1 || first.writes.size() > 1
                      : batches.size() == 1 && ParameterCount(first) > kMaxParameters;
  shape_.rows.assign(kShapeSize, 0);
  static constexpr std::array kHead = ColumnsOf(std::array{Type::kInt8, Type::kInt8});
  ListWriter head(kHead, parameters_);
  head.Int8("", now_us);
  head.Bits("", tag);
  AddNamespaces();
  AddPuts();
  AddDeletes();
  AddRequests();
}

template <typename Write>
std::size_t ItemStatement::AddRows(std::span<const BatchColumn> columns, const Write& write) {
  if (!shape_.arrays) {
    ListWriter rows(columns, parameters_);
    write(rows);
    return rows.rows();
  }
  ArrayWriter rows(columns);
  write(rows);
  rows.AddTo(parameters_);
  return std::min<std::size_t>(rows.rows(), 1);
}

void ItemStatement::AddNamespaces() {
  struct Namespace {
    const std::string* tenant = nullptr;
    std::int64_t writes = 0;
    std::int64_t vector_size = 0;
    const std::string* subject = nullptr;
  };
  // In the order of their keys every statement locks them in the same order as every other one.
  std::map<std::pair<std::string_view, std::string>, Namespace> namespaces;
  std::vector<std::string> digests;
  digests.reserve(batches_.size());
  for (const ItemBatch* batch : batches_) digests.push_back(NamespaceDigest(batch->key.path));
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    Namespace& name_space = namespaces[{batches_[i]->key.tenant, digests[i]}];
    name_space.tenant = &batches_[i]->key.tenant;
    if (name_space.subject == nullptr) name_space.subject = &batches_[i]->subject;
    places_[i] = name_space.writes + 1;
    name_space.writes += std::ssize(batches_[i]->writes);
    AddVectorSizes(*batches_[i], name_space.vector_size);
    AddSubject(*batches_[i], name_space.subject);
    if (!batches_[i]->subject.empty()) shape_.rows[kSubjects] = 1;
  }
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const auto found = namespaces.find({batches_[i]->key.tenant, digests[i]});
    places_[i] += (1 + std::distance(namespaces.begin(), found)) << kRankBits;
  }
  const bool with_subjects = shape_.rows[kSubjects] > 0;
  shape_.rows[kNamespaces] =
      AddRows(Namespaces<BatchColumn>(kNamespaceColumns, with_subjects), [&](RowWriter& row) {
        std::int64_t number = 0;
        for (const auto& [key, name_space] : namespaces) {
          row.Int8("", ++number);
          row.Text("", *name_space.tenant);
          row.MadeBytes("", key.second);
          row.Int8("", name_space.writes);
          row.Int8("", name_space.vector_size);
          if (with_subjects) row.Text("", *name_space.subject);
        }
      });
}

void ItemStatement::AddPuts() {
  shape_.rows[kPuts] = AddRows(kPutColumns, [&](RowWriter& puts) {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      std::int64_t place = places_[i];
      for (const ItemWrite& write : batches_[i]->writes) {
        const std::int64_t own_place = place++;
        if (!write.content.has_value()) continue;
        AddPut(write, own_place, puts);
        if (write.expected_version.has_value()) shape_.rows[kConditions] = 1;
      }
    }
  });
}

void ItemStatement::AddDeletes() {
  std::size_t conditional = 0;
  shape_.rows[kDeletes] = AddRows(kDeleteColumns, [&](RowWriter& deletes) {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      std::int64_t place = places_[i];
      for (const ItemWrite& write : batches_[i]->writes) {
        const std::int64_t own_place = place++;
        if (write.content.has_value()) continue;
        deletes.Int8("", own_place);
        deletes.Text("", write.key);
        deletes.Int8("", write.expected_version.value_or(-1));
        if (write.expected_version.has_value()) ++conditional;
      }
    }
  });
  // PostgreSQL counts those of an array.
  if (!shape_.arrays) shape_.rows[kConditionalDeletes] = conditional;
}

void ItemStatement::AddRequests() {
  bool series = false;
  shape_.rows[kRequests] = AddRows(kRequestColumns, [&](RowWriter& row) {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      if (batches_[i]->request_id.empty()) continue;
      row.Int8("", places_[i]);
      row.Int8("", places_[i] + std::ssize(batches_[i]->writes));
      row.Text("", batches_[i]->request_id);
      row.Bytes("", batches_[i]->fingerprint);
      series |= batches_[i]->writes.size() > 1;
    }
  });
  // Where there are deletions, and of arrays, the text is that of series.
  if (series && shape_.rows[kDeletes] == 0 && !shape_.arrays) shape_.rows[kSeries] = 1;
}

std::string ItemStatement::Sql() const {
  const std::vector<std::size_t>& rows = shape_.rows;
  const bool arrays = shape_.arrays;
  Text text(arrays);
  const bool with_subjects = rows[kSubjects] > 0;
  const std::size_t first_namespace =
      text.Append(with_subjects ? kRaiseVersionsOfSubjects : kRaiseVersions, rows[kNamespaces],
                  Namespaces<Type>(kNamespaceTypes, with_subjects));
  if (rows[kDeletes] > 0) text.Append(kUnchanged);
  text.Append(kReturnNamespaces);
  std::size_t first_put = 0, first_delete = 0;
  if (rows[kPuts] > 0) {
    first_put = text.Append(kPutItems, rows[kPuts], kPutTypes);
    if (rows[kConditions] > 0) text.Append(kWhereExpected);
    text.Append(kReturnItems);
  }
  // Once for all that read it, and where it is of puts alone a part of each, which costs less.
  std::string done = fmt::format("({}) AS x", kPutsDone);
  if (rows[kDeletes] > 0) {
    first_delete = text.Append(kDeleteItems, rows[kDeletes], kDeleteTypes);
    text.Append(fmt::format(", x AS ({}{}{})", rows[kPuts] > 0 ? kPutsDone : "",
                            rows[kPuts] > 0 ? " UNION ALL " : "", kDeletesDone));
    done = "x";
  }
  const bool one_of_each = !arrays && rows[kDeletes] == 0 && rows[kPuts] == rows[kNamespaces];
  text.Append(Of(done, one_of_each ? kCountOne : kCountSeveral));
  text.Append(kAddCounts);
  if (rows[kRequests] > 0) {
    const bool one = !arrays && rows[kDeletes] == 0 && rows[kSeries] == 0;
    text.Append(Of(done, one ? kKeepResult : kKeepResults), rows[kRequests], kRequestTypes);
  }
  if (!IsWhole()) {
    text.Append(Of(done, kReturn));
    return text.Take();
  }
  const auto count = [&](std::size_t listed, std::size_t first) {
    return arrays ? fmt::format("cardinality(${})", first) : fmt::format("{}", listed);
  };
  text.Append(fmt::format(kReturnIfAll, count(rows[kNamespaces], first_namespace)));
  if (rows[kPuts] > 0) text.Append(fmt::format(kAllPut, count(rows[kPuts], first_put)));
  if (arrays && rows[kDeletes] > 0) {
    constexpr std::size_t kExpected = kDeleteTypes.size() - 1;
    text.Append(fmt::format(kAllDeleted, fmt::format(kConditionsOf, first_delete + kExpected)));
  } else if (rows[kConditionalDeletes] > 0) {
    text.Append(fmt::format(kAllDeleted, rows[kConditionalDeletes]));
  }
  text.Append(Of(done, kReturnEnd));
  return text.Take();
}

bool ItemStatement::IsWhole() const {
  return shape_.rows[kConditions] > 0 || shape_.rows[kDeletes] > 0;
}

std::vector<std::vector<ItemWriteResult>> ItemStatement::Results(
    std::span<const std::int64_t> numbers) const {
  // A deletion that found nothing returns no row.
  std::vector<std::vector<ItemWriteResult>> results;
  std::map<std::int64_t, ItemWriteResult*> result_at;
  results.reserve(batches_.size());
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    std::int64_t place = places_[i];
    for (ItemWriteResult& result : results.emplace_back(batches_[i]->writes.size())) {
      result_at.emplace(place++, &result);
    }
  }
  for (; numbers.size() >= kReturnedColumns; numbers = numbers.subspan(kReturnedColumns)) {
    const auto found = result_at.find(numbers[1]);
    if (found == result_at.end()) continue;
    *found->second = {.version = numbers[2],
                      .create_us = numbers[3],
                      .expire_us = numbers[4],
                      .existed = numbers[5] != 0};
  }
  if (IsWhole()) return results;
  for (std::vector<ItemWriteResult>& of_batch : results) {
    // Every put returns its row, or none of its namespace does.
    if (of_batch.front().version == 0) of_batch.clear();
  }
  return results;
}

}  // namespace memoryd
