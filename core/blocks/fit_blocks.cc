#include "core/blocks/fit_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/known_tokens.h"
#include "core/blocks/memory_text.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// How often a block of profile `default` is asked to shorten itself.
constexpr int kTries = 2;

class Fit : public std::enable_shared_from_this<Fit> {
 public:
  using Done = std::function<void(absl::StatusOr<FitResult>)>;

  Fit(FitRequest request, Done done)
      : request_(std::move(request)),
        counter_(request_.counter == nullptr ? ByteTokenCounter() : *request_.counter),
        llama_(request_.counting.profile == Profile::kLlamaIndex),
        done_(std::move(done)) {}

  void Start() {
    for (std::size_t i = 0; i < request_.blocks.size(); ++i) {
      const Block& block = *request_.blocks[i];
      sections_.push_back({block.name(), block.section(), std::move(request_.contents[i])});
      said_.push_back(!sections_.back().content.empty());
      if (block.priority() > 0) order_.push_back(i);
    }
    cut_.resize(sections_.size(), false);
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      const std::int32_t left = request_.blocks[a]->priority();
      const std::int32_t right = request_.blocks[b]->priority();
      if (left != right) return request_.highest_first ? left > right : left < right;
      return llama_ ? a < b : a > b;
    });
    if (const absl::Status counted = CountAll(); !counted.ok()) {
      done_(counted);
      return;
    }
    Next();
  }

 private:
  absl::Status CountAll() {
    tokens_.clear();
    KnownTokens::Conditions conditions{request_.counting, request_.counter, {}};
    for (const MemorySection& section : sections_) conditions.sections.push_back(section.name);
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      KnownTokens* const known =
          sections_[i].content.empty() ? nullptr : request_.blocks[i]->known_tokens();
      std::optional<std::int64_t> tokens;
      if (known != nullptr) tokens = known->Find(conditions);
      if (!tokens.has_value()) {
        MEMORYD_ASSIGN_OR_RETURN(tokens, SectionTokens(request_.counting, counter_, sections_, i));
        if (known != nullptr) known->Keep(conditions, *tokens);
      }
      tokens_.push_back(*tokens);
    }
    return absl::OkStatus();
  }

  std::int64_t Total() const {
    std::int64_t total = FrameTokens(request_.counting, counter_, sections_);
    for (const std::int64_t tokens : tokens_) total += tokens;
    return total;
  }

  std::int64_t Over() const { return Total() + request_.message_tokens - request_.token_limit; }

  // Cuts the next block, if there is a need. A truncation may end on this thread or another.
  void Next() {
    while (at_ < order_.size() && Over() > 0) {
      const std::size_t i = order_[at_];
      // The library asks those that say nothing too; nothing comes of it but what they make up.
      if (!llama_ && sections_[i].content.empty()) {
        ++at_;
        continue;
      }
      if (uncut_tokens_.empty()) uncut_tokens_ = tokens_;
      request_.blocks[i]->Truncate(request_.session, sections_[i].content, Over(), counter_,
                                   request_.deadline,
                                   [self = shared_from_this(), i](absl::StatusOr<BlockContent> c) {
                                     self->Cut(i, std::move(c));
                                   });
      return;
    }
    Finish();
  }

  void Cut(std::size_t i, absl::StatusOr<BlockContent> content) {
    cut_[i] = true;
    sections_[i].content = content.ok() ? *std::move(content) : BlockContent();
    const auto tokens = SectionTokens(request_.counting, counter_, sections_, i);
    if (!tokens.ok()) {
      done_(tokens.status());
      return;
    }
    tokens_[i] = *tokens;
    const bool try_again = !llama_ && Over() > 0 && !sections_[i].content.empty();
    if (try_again && ++tries_ >= kTries) Remove(i);
    if (!try_again || sections_[i].content.empty()) {
      tries_ = 0;
      ++at_;
    }
    Next();
  }

  void Remove(std::size_t i) {
    cut_[i] = true;
    sections_[i].content = BlockContent();
    tokens_[i] = 0;
  }

  void Finish() {
    for (std::size_t at = 0; llama_ && at < order_.size() && Over() > 0; ++at) Remove(order_[at]);
    FitResult result;
    result.tokens = Total();
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (!cut_[i] || !said_[i]) continue;
      (sections_[i].content.empty() ? result.dropped : result.truncated)
          .push_back(sections_[i].name);
    }
    result.sections = std::move(sections_);
    result.section_tokens = std::move(tokens_);
    result.uncut_tokens = uncut_tokens_.empty() ? result.section_tokens : std::move(uncut_tokens_);
    done_(std::move(result));
  }

  FitRequest request_;
  const TokenCounter& counter_;
  const bool llama_;
  const Done done_;
  std::vector<MemorySection> sections_;
  std::vector<std::int64_t> tokens_;        // Of each section.
  std::vector<std::int64_t> uncut_tokens_;  // Empty: none was cut.
  std::vector<std::size_t> order_;          // In which blocks are cut.
  std::vector<bool> said_, cut_;
  std::size_t at_ = 0;  // In order_.
  int tries_ = 0;
};

}  // namespace

void FitBlocks(FitRequest request, std::function<void(absl::StatusOr<FitResult>)> done) {
  std::make_shared<Fit>(std::move(request), std::move(done))->Start();
}

}  // namespace memoryd
