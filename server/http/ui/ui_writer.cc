// Writes the files of the inspector as the source file that the server links:
//   ui_writer FOLDER OUTPUT.cc PATH...
// The paths are relative to the folder. A file of a kind that no browser is to be sent fails the
// build.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
    {{".css", "text/css; charset=utf-8"},
     {".html", "text/html; charset=utf-8"},
     {".js", "text/javascript; charset=utf-8"},
     {".svg", "image/svg+xml"}}};

std::string_view TypeOf(std::string_view path) {
  for (const auto& [ending, type] : kTypes) {
    if (path.ends_with(ending)) return type;
  }
  return {};
}

// FNV-1a: the same in each build, and another when a byte is.
std::string EtagOf(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("\\\"{:016x}\\\"", hash);
}

// As adjacent literals, since compilers bound the length of one.
void WriteText(std::ostream& out, std::string_view text) {
  constexpr std::size_t kPiece = 8 << 10;
  for (std::size_t begin = 0; begin < text.size(); begin += kPiece) {
    out << "\n     R\"memoryd_ui(" << text.substr(begin, kPiece) << ")memoryd_ui\"";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: ui_writer FOLDER OUTPUT.cc PATH...\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::vector<std::string> paths(argv + 3, argv + argc);
  std::sort(paths.begin(), paths.end());
  std::ofstream out(argv[2], std::ios::binary);
  out << "#include \"server/http/ui/ui_files.h\"\n\n#include <array>\n\nnamespace memoryd {\n"
         "namespace {\n\nconstexpr std::array<UiFile, "
      << paths.size() << "> kFiles = {{";
  for (const std::string& path : paths) {
    std::ifstream in(folder / path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::string_view type = TypeOf(path);
    if (!in || text.empty() || type.empty()) {
      std::cerr << (folder / path).string() << ": must be a text of CSS, HTML, JavaScript or SVG\n";
      return 1;
    }
    out << "\n    {\"" << path << "\", \"" << type << "\", \"" << EtagOf(text) << "\",";
    WriteText(out, text);
    out << "},";
  }
  out << "\n}};\n\n}  // namespace\n\nconst std::span<const UiFile> kUiFiles = kFiles;\n\n"
         "}  // namespace memoryd\n";
  return out.flush() ? 0 : 1;
}
