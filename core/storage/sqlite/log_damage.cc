#include "core/storage/sqlite/log_damage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/sqlite/descriptor.h"

namespace memoryd::sqlite {
namespace {

// https://www.sqlite.org/fileformat2.html#the_write_ahead_log
constexpr std::uint32_t kMagic = 0x377f0682;  // Its lowest bit: checksums of big-endian words.
constexpr std::uint32_t kVersion = 3007000;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMinPage = 512;
constexpr std::uint32_t kMaxPage = 65536;
// What a disk writes whole or not at all.
constexpr std::int64_t kSector = 512;

using Sum = std::array<std::uint32_t, 2>;

std::uint32_t BigEndian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::uint32_t LittleEndian(const unsigned char* bytes) {
  return std::uint32_t{bytes[3]} << 24 | std::uint32_t{bytes[2]} << 16 |
         std::uint32_t{bytes[1]} << 8 | bytes[0];
}

Sum SumAt(const unsigned char* bytes) { return {BigEndian(bytes), BigEndian(bytes + 4)}; }

// `size` is a multiple of 8.
void Add(const unsigned char* bytes, std::size_t size, bool big_endian, Sum& sum) {
  const auto word = big_endian ? &BigEndian : &LittleEndian;
  for (std::size_t i = 0; i < size; i += 8) {
    sum[0] += word(bytes + i) + sum[1];
    sum[1] += word(bytes + i + 4) + sum[0];
  }
}

// False at the end of the file.
absl::StatusOr<bool> ReadAll(int file, const std::string& path, std::int64_t offset,
                             std::vector<unsigned char>& out) {
  for (std::size_t done = 0; done < out.size();) {
    const ssize_t count =
        ::pread(file, out.data() + done, out.size() - done, offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          fmt::format("{}: {}", path, std::generic_category().message(errno)));
    }
    if (count == 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

struct Header {
  bool whole = false;  // Its checksum fits.
  bool big_endian = false;
  std::uint32_t page = 0;
  Sum salt{};
  Sum sum{};
};

Header ParseHeader(const std::vector<unsigned char>& bytes) {
  Header header;
  const std::uint32_t magic = BigEndian(bytes.data());
  Sum sum{};
  header.big_endian = (magic & 1U) != 0;
  Add(bytes.data(), kFrameHeaderBytes, header.big_endian, sum);
  header.page = BigEndian(bytes.data() + 8);
  header.salt = SumAt(bytes.data() + 16);
  header.sum = SumAt(bytes.data() + 24);
  const bool is_page =
      header.page >= kMinPage && header.page <= kMaxPage && (header.page & (header.page - 1)) == 0;
  header.whole = (magic & ~1U) == kMagic && BigEndian(bytes.data() + 4) == kVersion && is_page &&
                 sum == header.sum;
  return header;
}

struct Frame {
  std::int64_t offset = 0;
  bool ours = false;       // Of this log, by its salts; else left from before it was restarted.
  bool linked = false;     // Its checksum follows from that of the frame before.
  bool is_commit = false;  // It says so, if it is a frame at all.
};

class Reader {
 public:
  Reader(int file, const std::string& path, const Header& header)
      : file_(file),
        path_(path),
        header_(header),
        sum_(header.sum),
        bytes_(kFrameHeaderBytes + header.page) {}

  // nullopt at the end of the log.
  absl::StatusOr<std::optional<Frame>> Next() {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, ReadAll(file_, path_, offset_, bytes_));
    if (!found) return std::nullopt;
    Frame frame;
    frame.offset = offset_;
    offset_ += static_cast<std::int64_t>(bytes_.size());
    const unsigned char* const head = bytes_.data();
    const Sum stored = SumAt(head + 16);
    frame.ours = SumAt(head + 8) == header_.salt;
    frame.is_commit = BigEndian(head + 4) != 0;
    const auto follows = [&](Sum& sum) {
      Add(head, 8, header_.big_endian, sum);
      Add(head + kFrameHeaderBytes, header_.page, header_.big_endian, sum);
      return sum == stored;
    };
    const bool is_frame = frame.ours && BigEndian(head) != 0;
    // Where what the frame before says of its checksum is what is damaged, its bytes tell.
    Sum after = sum_;
    frame.linked = (follows(after) || follows(computed_)) && is_frame;
    sum_ = stored;
    computed_ = after;
    return frame;
  }

 private:
  const int file_;
  const std::string& path_;
  const Header header_;
  Sum sum_;            // What the frame before says.
  Sum computed_ = {};  // What it should have said.
  std::int64_t offset_ = kHeaderBytes;
  std::vector<unsigned char> bytes_;
};

// A torn write may leave an old frame's word for a commit before the new checksum, where a sector
// ends between the two. Salts that are ours tell that the word is as new as they are, if they are
// in one sector with it.
bool MayMixWrites(const Frame& frame) {
  const std::int64_t rest = kSector - frame.offset % kSector;
  return rest == 8 || (rest == 16 && !frame.ours);
}

// From `bad` on, which is the first frame that is not linked.
absl::StatusOr<std::optional<LogDamage>> Judge(Reader& reader, const Frame& bad) {
  LogDamage damage;
  damage.offset = bad.offset;
  bool proven = false;
  Frame before = bad;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<Frame> frame, reader.Next());
    const bool follows = frame.has_value() && frame->linked;
    if (before.is_commit && (before.linked || (follows && !MayMixWrites(before)))) {
      ++damage.commits;
      // A frame is chained to a commit frame only once that commit was synced.
      if (follows) proven = true;
    }
    if (!frame.has_value()) break;
    before = *frame;
  }
  if (!proven) return std::nullopt;
  return damage;
}

// How many commits of a log follow from `header`, of which some field may be wrong. None where no
// frame follows from it at all.
absl::StatusOr<std::int64_t> CountCommits(int file, const std::string& path, Header header) {
  const Sum salt = header.salt;
  std::vector<unsigned char> first(kFrameHeaderBytes);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, ReadAll(file, path, kHeaderBytes, first));
  if (!found) return 0;
  header.salt = SumAt(first.data() + 8);
  Reader reader(file, path, header);
  std::int64_t commits = 0;
  bool follows = false;
  for (bool is_first = true;; is_first = false) {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<Frame> frame, reader.Next());
    if (!frame.has_value()) break;
    // Where the header's checksum is what is wrong, the first frame follows from nothing.
    if (!frame->linked && (!is_first || salt != header.salt)) break;
    follows = follows || frame->linked;
    if (frame->is_commit) ++commits;
  }
  return follows ? commits : 0;
}

// A header is within one sector and synced before the first frame is written. So no loss of power
// leaves a bad one with frames that follow from it.
absl::StatusOr<std::optional<LogDamage>> JudgeHeader(int file, const std::string& path,
                                                     Header header) {
  LogDamage damage;
  for (header.page = kMinPage; header.page <= kMaxPage; header.page *= 2) {
    for (const bool big_endian : {false, true}) {
      header.big_endian = big_endian;
      MEMORYD_ASSIGN_OR_RETURN(damage.commits, CountCommits(file, path, header));
      if (damage.commits > 0) return damage;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string LogDamage::Name() const { return fmt::format("{}@{}", commits, offset); }

absl::StatusOr<std::optional<LogDamage>> FindLogDamage(const std::string& log_path) {
  const Descriptor file(::open(log_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    return absl::UnavailableError(
        fmt::format("{}: {}", log_path, std::generic_category().message(errno)));
  }
  std::vector<unsigned char> head(kHeaderBytes);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, ReadAll(file.get(), log_path, 0, head));
  if (!found) return std::nullopt;
  const Header header = ParseHeader(head);
  if (!header.whole) return JudgeHeader(file.get(), log_path, header);
  Reader reader(file.get(), log_path, header);
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<Frame> frame, reader.Next());
    if (!frame.has_value()) return std::nullopt;
    if (!frame->linked) return Judge(reader, *frame);
  }
}

}  // namespace memoryd::sqlite
