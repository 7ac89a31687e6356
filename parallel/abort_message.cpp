#include "parallel/abort_message.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include "core/printable.h"

namespace tandem::parallel {

std::string words_of_rank(int rank, int size, std::string_view message) {
  if (size == 1) return printable(message);
  return fmt::format("rank {} of {}: {}", rank, size, printable(message));
}

void write_abort_message(const std::string& line) {
  constexpr int kPatienceMs = 500;
  const std::string text = line + "\n";
  // A full pipe without a reader must not block a process that is ending.
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (poll(&room, 1, kPatienceMs) <= 0) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace tandem::parallel
