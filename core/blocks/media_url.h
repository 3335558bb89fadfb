// What the Python libraries tell of media by their URL.
#ifndef MEMORYD_CORE_BLOCKS_MEDIA_URL_H_
#define MEMORYD_CORE_BLOCKS_MEDIA_URL_H_

#include <string_view>

#include "absl/status/status.h"
#include "core/blocks/block.h"

namespace memoryd {

// The part that llama-index-core 0.14.25 makes of a URL alone: MIME type or format by the URL's
// suffix, as its `filetype` library knows them, and the title of a document. INVALID_ARGUMENT for
// what it refuses, see MemoryParts().
absl::StatusOr<BlockPart> MediaOfUrl(StoredPart::Kind kind, std::string_view url);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MEDIA_URL_H_
