#include "core/blocks/media_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

struct FileType {
  std::string_view extension;
  std::string_view mime_type;
};

// The table of Python's `filetype` 1.2.
constexpr FileType kFileTypes[] = {
    {"dwg", "image/vnd.dwg"},
    {"xcf", "image/x-xcf"},
    {"jpg", "image/jpeg"},
    {"jpx", "image/jpx"},
    {"apng", "image/apng"},
    {"png", "image/png"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"tif", "image/tiff"},
    {"cr2", "image/x-canon-cr2"},
    {"bmp", "image/bmp"},
    {"jxr", "image/vnd.ms-photo"},
    {"psd", "image/vnd.adobe.photoshop"},
    {"ico", "image/x-icon"},
    {"heic", "image/heic"},
    {"dcm", "application/dicom"},
    {"avif", "image/avif"},
    {"aac", "audio/aac"},
    {"midi", "audio/midi"},
    {"mp3", "audio/mpeg"},
    {"m4a", "audio/mp4"},
    {"ogg", "audio/ogg"},
    {"flac", "audio/x-flac"},
    {"wav", "audio/x-wav"},
    {"amr", "audio/amr"},
    {"aiff", "audio/x-aiff"},
    {"3gp", "video/3gpp"},
    {"mp4", "video/mp4"},
    {"m4v", "video/x-m4v"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"avi", "video/x-msvideo"},
    {"wmv", "video/x-ms-wmv"},
    {"mpg", "video/mpeg"},
    {"webm", "video/webm"},
    {"flv", "video/x-flv"},
    {"woff", "application/font-woff"},
    {"woff2", "application/font-woff"},
    {"ttf", "application/font-sfnt"},
    {"otf", "application/font-sfnt"},
    {"epub", "application/epub+zip"},
    {"rar", "application/x-rar-compressed"},
    {"gz", "application/gzip"},
    {"bz2", "application/x-bzip2"},
    {"7z", "application/x-7z-compressed"},
    {"pdf", "application/pdf"},
    {"rtf", "application/rtf"},
    {"br", "application/x-brotli"},
    {"rpm", "application/x-rpm"},
    {"nes", "application/x-nintendo-nes-rom"},
    {"crx", "application/x-google-chrome-extension"},
    {"cab", "application/vnd.ms-cab-compressed"},
    {"eot", "application/octet-stream"},
    {"xz", "application/x-xz"},
    {"sqlite", "application/x-sqlite3"},
    {"deb", "application/x-deb"},
    {"ar", "application/x-unix-archive"},
    {"Z", "application/x-compress"},
    {"lzo", "application/x-lzop"},
    {"lz", "application/x-lzip"},
    {"elf", "application/x-executable"},
    {"lz4", "application/x-lz4"},
    {"zst", "application/zstd"},
};

// Suffixes that Python's `mimetypes` takes for something else than text, but for `.pdf`, `.js`,
// `.mjs` and `.json`.
constexpr std::string_view kNotText[] = {
    "3g2",    "3gp",  "3gpp",  "3gpp2", "7z",    "a",    "aac",  "adts",  "ai",
    "aif",    "aifc", "aiff",  "ass",   "au",    "avi",  "avif", "bcpio", "bin",
    "bmp",    "cdf",  "cpio",  "csh",   "dll",   "doc",  "docm", "docx",  "dot",
    "dotx",   "dvi",  "eml",   "eps",   "epub",  "exe",  "flac", "flv",   "gif",
    "gtar",   "h5",   "hdf",   "heic",  "heif",  "ico",  "ief",  "jar",   "jpe",
    "jpeg",   "jpg",  "latex", "loas",  "m1v",   "m3u",  "m3u8", "m4a",   "m4v",
    "man",    "me",   "mht",   "mhtml", "mif",   "mkv",  "mov",  "movie", "mp2",
    "mp3",    "mp4",  "mpa",   "mpe",   "mpeg",  "mpg",  "ms",   "nc",    "nq",
    "nt",     "nws",  "o",     "obj",   "oda",   "odg",  "odp",  "ods",   "odt",
    "ogg",    "ogv",  "opus",  "p12",   "p7c",   "pbm",  "pfx",  "pgm",   "png",
    "pnm",    "pot",  "ppa",   "ppm",   "pps",   "ppsx", "ppt",  "pptx",  "ps",
    "psd",    "pwz",  "pyc",   "pyo",   "qt",    "ra",   "ram",  "rar",   "ras",
    "rdf",    "rgb",  "roff",  "sh",    "shar",  "snd",  "so",   "src",   "sv4cpio",
    "sv4crc", "svg",  "swf",   "t",     "tar",   "tcl",  "tex",  "texi",  "texinfo",
    "tif",    "tiff", "tr",    "trig",  "ustar", "wasm", "wav",  "webm",  "webmanifest",
    "webp",   "wiz",  "wmv",   "wsdl",  "xbm",   "xlb",  "xls",  "xlsm",  "xlsx",
    "xpdl",   "xpm",  "xsl",   "xwd",   "zip",
};

// Of a path, as Python's pathlib sees it: "" when there is none.
std::string_view Suffix(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 || dot + 1 == name.size() ? ""
                                                                             : name.substr(dot + 1);
}

const FileType* FindType(std::string_view url) {
  const std::string_view suffix = Suffix(url);
  const auto* found =
      std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                   [suffix](const FileType& type) { return type.extension == suffix; });
  if (found == std::end(kFileTypes) && url.starts_with("data:")) {
    const std::string_view mime_type = url.substr(5, url.find(";base64,") - 5);
    found = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                         [mime_type](const FileType& type) { return type.mime_type == mime_type; });
  }
  return found == std::end(kFileTypes) ? nullptr : found;
}

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Whether Python's urlparse sees a scheme, and a host or inline data.
bool IsUrl(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const bool scheme =
      std::all_of(url.begin(), url.begin() + static_cast<std::ptrdiff_t>(colon), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '+' || c == '-' || c == '.';
      });
  if (!scheme) return false;
  const std::string_view rest = url.substr(colon + 1);
  if (Lowercase(url.substr(0, colon)) == "data") {
    return rest.find(";base64,") != std::string_view::npos;
  }
  return rest.starts_with("//") && rest.size() > 2 && rest[2] != '/';
}

std::string_view UrlPath(std::string_view url) {
  std::string_view rest = url.substr(url.find(':') + 1);
  if (rest.starts_with("//")) {
    const std::size_t slash = rest.find_first_of("/?#", 2);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  }
  return rest.substr(0, rest.find_first_of("?#;"));
}

absl::Status CheckDocument(std::string_view url) {
  if (url.starts_with("data:")) return absl::OkStatus();
  const std::string path = Lowercase(UrlPath(url));
  const std::string_view suffix = Suffix(path);
  if (std::find(std::begin(kNotText), std::end(kNotText), suffix) == std::end(kNotText)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("Unsupported document format: {}", path));
}

}  // namespace

absl::StatusOr<BlockPart> MediaOfUrl(StoredPart::Kind kind, std::string_view url) {
  if (!IsUrl(url)) {
    return absl::InvalidArgumentError(
        "a block's content has media whose url is none; local files are not read");
  }
  BlockPart part;
  part.kind = kind;
  part.url = url;
  const FileType* const type = FindType(url);
  const std::string_view mime_type = type == nullptr ? std::string_view() : type->mime_type;
  switch (kind) {
    case StoredPart::Kind::kImage:
      if (mime_type.starts_with("image/")) part.mime_type = mime_type;
      break;
    case StoredPart::Kind::kAudio:
      if (mime_type.starts_with("audio/")) part.format = type->extension;
      break;
    case StoredPart::Kind::kVideo:
      if (mime_type.starts_with("video/")) part.mime_type = mime_type;
      break;
    default:
      if (absl::Status checked = CheckDocument(url); !checked.ok()) return checked;
      part.mime_type = url.starts_with("data:") ? std::string_view() : mime_type;
      part.title = "input_document";
  }
  return part;
}

}  // namespace memoryd
