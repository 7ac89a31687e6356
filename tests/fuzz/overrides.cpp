// Overrides of the command line, one a line, on a shipped configuration that the first byte picks.
#include "config/compose.h"
#include "core/error.h"
#include "tests/fuzz/configuration.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

constexpr std::size_t kMaxArguments = 16;

std::vector<std::string> lines_of(Bytes input) {
  std::vector<std::string> lines(1);
  for (const std::byte byte : input) {
    if (byte != std::byte{'\n'}) {
      lines.back() += static_cast<char>(byte);
    } else if (lines.size() < kMaxArguments) {
      lines.emplace_back();
    } else {
      break;
    }
  }
  return lines;
}

void run(Bytes input) {
  static const std::vector<std::string> names = config::shipped_names();
  require(!input.empty(), "input", "is empty");
  const std::string& name = names[static_cast<std::size_t>(input[0]) % names.size()];
  const config::Loaded loaded = config::load(name, lines_of(input.subspan(1)));
  config::with_origins(loaded);
  check_round_trip(loaded);
  build(loaded);
}

}  // namespace

TANDEM_FUZZ_TARGET("overrides", run)

}  // namespace tandem::fuzz
