// The files of ui/, the inspector, which the build packs into the server.
#ifndef MEMORYD_SERVER_HTTP_UI_UI_FILES_H_
#define MEMORYD_SERVER_HTTP_UI_UI_FILES_H_

#include <span>
#include <string_view>

namespace memoryd {

struct UiFile {
  std::string_view path;  // Within ui/, such as "views/session.js".
  std::string_view content_type;
  std::string_view etag;  // Quoted, as in the header. Another text has another.
  std::string_view text;
};

// By path, ascending.
extern const std::span<const UiFile> kUiFiles;

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_UI_UI_FILES_H_
