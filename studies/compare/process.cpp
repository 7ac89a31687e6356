#include "studies/compare/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace tandem::compare {

namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr int kPollMs = 100;

void close_if_open(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

// Code between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char** arguments, pid_t parent, int in, int out, int err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv(kSelf, arguments);
  ::_exit(127);
}

}  // namespace

std::string Exit::last_line() const {
  const std::string& text = err.find_first_not_of(" \n") == std::string::npos ? out : err;
  const std::size_t last = text.find_last_not_of(" \n");
  if (last == std::string::npos) return fmt::format("exit code {}", code);
  const std::size_t before = text.rfind('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  return text.substr(first, last + 1 - first);
}

Process::Process(const std::vector<std::string>& arguments, const train::StopRequest& stop) : stop_(stop) {
  std::vector<char*> words{const_cast<char*>("tandem")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  std::array<int, 2> in{-1, -1}, out{-1, -1}, err{-1, -1};
  const pid_t parent = ::getpid();
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) == 0 &&
      ::pipe2(out.data(), O_CLOEXEC) == 0 && ::pipe2(err.data(), O_CLOEXEC) == 0)
    pid_ = ::fork();
  const int reason = errno;
  if (pid_ == 0) become(words.data(), parent, in[1], out[1], err[1]);
  close_if_open(in[1]);
  close_if_open(out[1]);
  close_if_open(err[1]);
  in_ = in[0];
  out_ = out[0];
  err_ = err[0];
  if (pid_ > 0) return;
  for (int* file : {&in_, &out_, &err_}) close_if_open(*file);
  throw VendorError("", fmt::format("a child process cannot be started: {}", std::strerror(reason)));
}

Process::~Process() {
  for (int* file : {&in_, &out_, &err_}) close_if_open(*file);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Process::send(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t now = ::send(in_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return;
    sent += static_cast<std::size_t>(now);
  }
}

bool Process::pump() {
  if (out_ < 0 && err_ < 0) return false;
  if (stop_.asked() && !interrupt_sent_) {
    ::kill(pid_, SIGINT);
    interrupt_sent_ = true;
  }
  std::array<pollfd, 2> files{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (::poll(files.data(), files.size(), kPollMs) <= 0) return true;
  const auto take = [](const pollfd& file, int& from, std::string& to) {
    if (file.revents == 0) return;
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(from, bytes.data(), bytes.size());
    if (count > 0) to.append(bytes.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) close_if_open(from);
  };
  take(files[0], out_, exit_.out);
  take(files[1], err_, exit_.err);
  return true;
}

std::optional<std::string> Process::read_line() {
  std::size_t end = exit_.out.find('\n');
  while (end == std::string::npos && out_ >= 0) {
    pump();
    end = exit_.out.find('\n');
  }
  if (end == std::string::npos) return {};
  std::string line = exit_.out.substr(0, end);
  exit_.out.erase(0, end + 1);
  return line;
}

Exit Process::finish() {
  close_if_open(in_);
  while (pump()) continue;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  exit_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return std::move(exit_);
}

Exit run_program(const std::vector<std::string>& arguments, const train::StopRequest& stop) {
  return Process(arguments, stop).finish();
}

}  // namespace tandem::compare
