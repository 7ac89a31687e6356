#include "parallel/abort_message.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

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

void end_launcher_after(double seconds) {
  constexpr long kEveryMs = 50;
  const pid_t launcher = getppid();
  if (launcher <= 1) return;  // already gone
  const auto looks = static_cast<long>(seconds * 1000) / kEveryMs;
  // Bypasses fork's handlers: other threads may hold locks, which would stay locked in the copy. The copy
  // only makes system calls.
  if (syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) return;
  setsid();
  syscall(SYS_close_range, 0U, ~0U, 0U);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  const timespec pause{0, kEveryMs * 1'000'000};
  for (long look = 0; look < looks; ++look) {
    if (kill(launcher, 0) != 0 && errno == ESRCH) _exit(0);
    nanosleep(&pause, nullptr);
  }
  kill(launcher, SIGKILL);
  _exit(0);
}

}  // namespace tandem::parallel
