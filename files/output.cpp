#include "files/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace tandem::output {

namespace {

int result_error = 0;  // errno of the first failed write, after which nothing is written

void on_failed_write(int) {}

// Writes to a closed pipe or beyond the file size limit fail with EPIPE or EFBIG instead of a signal.
void survive_failed_writes() {
  // A handler instead of SIG_IGN, which child processes would inherit.
  struct sigaction action {};
  action.sa_handler = on_failed_write;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaction(signal, &action, nullptr);
}

}  // namespace

void prepare_output() {
  // Each call returns the lowest free number, which is the wanted one in this order.
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  survive_failed_writes();
}

void write_result(std::string_view text) {
  if (result_error == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    result_error = errno;
}

void write_remark(std::string_view text) {
  // stderr is unbuffered: the remark is complete when this returns.
  [[maybe_unused]] const auto written = std::fwrite(text.data(), 1, text.size(), stderr);
}

void flush_result() {
  if (result_error == 0 && std::fflush(stdout) != 0) result_error = errno;
}

std::optional<std::string> output_error() {
  flush_result();
  if (result_error == 0 || result_error == EPIPE) return {};
  return fmt::format("the result cannot be written to stdout: {}", std::strerror(result_error));
}

}  // namespace tandem::output
