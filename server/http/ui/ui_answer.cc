#include "server/http/ui/ui_answer.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/accepted.h"
#include "server/http/gzip.h"
#include "server/http/http_reply.h"
#include "server/http/request_parser.h"
#include "server/http/ui/ui_files.h"

namespace memoryd {
namespace {

constexpr std::string_view kFolder = "/ui/";

// The page runs its own files alone, calls this port alone, and no site may frame it. Texts of
// users that were taken for code would not run: there is neither inline code nor a way to make
// some.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

struct Served {
  const UiFile* file;
  std::string gzipped;
};

using ServedFiles = std::map<std::string, Served, std::less<>>;

// Compressed with the first request, which takes some milliseconds.
const ServedFiles& Files() {
  static const ServedFiles* const files = [] {
    auto* const made = new ServedFiles;
    for (const UiFile& file : kUiFiles) {
      made->emplace(std::string(kFolder).append(file.path), Served{&file, Gzip(file.text)});
    }
    return made;
  }();
  return *files;
}

// Relative, so that it holds behind a proxy that serves the port under a path of its own.
HttpReply Redirect(std::string_view location) {
  HttpReply answer(307);
  answer.Header("Location", location);
  return answer;
}

}  // namespace

std::optional<HttpReply> AnswerUi(const ConnectRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  const std::string_view target = request.target;
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/" || path == "/ui") return Redirect("ui/");
  if (!path.starts_with(kFolder)) return std::nullopt;
  const auto found = Files().find(path == kFolder ? std::string_view("/ui/index.html") : path);
  if (found == Files().end()) return std::nullopt;
  const auto& [file, gzipped] = found->second;
  const bool is_known = request.if_none_match == file->etag;
  HttpReply answer(is_known ? 304 : 200, "no-cache");
  answer.Header("Content-Type", file->content_type)
      .Header("ETag", file->etag)
      .Header("Vary", "Accept-Encoding")
      .Header("Content-Security-Policy", kPolicy)
      .Header("Cross-Origin-Opener-Policy", "same-origin")
      .Header("Cross-Origin-Resource-Policy", "same-origin")
      .Header("Referrer-Policy", "no-referrer");
  if (is_known) return answer;
  if (!Accepts(request.accept_encoding, "gzip")) {
    answer.FixedBody(file->text);
  } else {
    answer.Header("Content-Encoding", "gzip").FixedBody(gzipped);
  }
  return answer;
}

}  // namespace memoryd
