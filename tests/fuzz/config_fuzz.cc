// Any text as the configuration file, the environment and the flags: the settings are taken, or
// refused on one line; what --print-config prints is a file of the same settings.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/command_line.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

// A file without a disk, written anew for each input.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("config.yaml", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  void Write(std::string_view text) {
    Require(ftruncate(descriptor_, 0) == 0);
    Require(pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }

 private:
  const int descriptor_;
};

absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& arguments,
                                  const std::map<std::string, std::string>& environment) {
  std::vector<const char*> argv = {"memoryd"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  static CommandLineParser parser;
  return parser.Parse(static_cast<int>(argv.size()), argv.data(), environment);
}

// Without the origins, which are comments.
std::string Settings(const std::string& printed, const std::string& path) {
  std::string settings;
  for (std::size_t begin = 0; begin < printed.size();) {
    const std::size_t end = std::min(printed.find('\n', begin), printed.size());
    std::string line = printed.substr(begin, end - begin);
    if (line.ends_with("  # " + path)) line.resize(line.size() - path.size() - 4);
    settings += line + '\n';
    begin = end + 1;
  }
  return settings;
}

void RequireReadAgain(const CommandLine& line, MemoryFile& file) {
  file.Write(line.text);
  const auto again = Parse({"--config=" + file.path(), "--print-config"}, {});
  Require(again.ok());
  // But for what is masked.
  Require(again->config.listen == line.config.listen);
  Require(again->config.health_listen == line.config.health_listen);
  Require(again->config.metrics_listen == line.config.metrics_listen);
  Require(again->config.credentials == line.config.credentials);
  Require(again->config.vocabulary_dir == line.config.vocabulary_dir);
  Require(again->config.cache_mib == line.config.cache_mib);
  Require(again->config.models.size() == line.config.models.size());
  Require(again->config.tenants.exceptions.size() == line.config.tenants.exceptions.size());
  file.Write(again->text);
  const auto third = Parse({"--config=" + file.path(), "--print-config"}, {});
  Require(third.ok() && Settings(third->text, file.path()) == Settings(again->text, file.path()));
}

// Behind zeros come arguments and, where they begin with MEMORYD_, variables; before, the file.
void Run(std::string_view input) {
  static MemoryFile file;
  const std::size_t file_end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(0, file_end);
  std::vector<std::string> arguments = {"--config=" + file.path(), "--print-config"};
  std::map<std::string, std::string> environment;
  for (std::size_t begin = file_end + 1; begin < input.size() && arguments.size() < 10;) {
    const std::size_t end = std::min(input.find('\0', begin), input.size());
    const std::string word(input.substr(begin, end - begin));
    const std::size_t equals = word.find('=');
    if (word.starts_with("MEMORYD_") && equals != std::string::npos) {
      environment[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (!word.starts_with("--config")) {
      arguments.push_back(word);
    }
    begin = end + 1;
  }
  file.Write(text);
  const auto line = Parse(arguments, environment);
  if (!line.ok()) {
    Require(absl::IsInvalidArgument(line.status()));
    const auto message = line.status().message();
    Require(!message.empty());
    Require(std::none_of(message.begin(), message.end(), [](char c) { return c == '\n'; }));
    return;
  }
  if (line->command == Command::kPrintConfig) RequireReadAgain(*line, file);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memoryd::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
