#include "tests/program/support.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace tandem::testing {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

void lead(Sink sink, const std::string& kept, int to) {
  int file = -1;
  if (sink == Sink::unread) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::close(ends[0]);
    file = ends[1];
  } else if (sink != Sink::closed) {
    file = ::open(sink == Sink::full_disk ? "/dev/full" : kept.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  }
  if (file >= 0) ::dup2(file, to);
  ::close(file >= 0 ? file : to);
}

[[noreturn]] void become_program(const Launch& launch, const std::string& out, const std::string& err) {
  lead(launch.out, out, STDOUT_FILENO);
  lead(launch.err, err, STDERR_FILENO);
  const rlimit limit{launch.largest_file, launch.largest_file};
  if (launch.largest_file > 0) ::setrlimit(RLIMIT_FSIZE, &limit);
  // Two threads that wait for each other are slow where the cores are busy with other tests.
  ::setenv("OMP_NUM_THREADS", "1", 1);
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(launch.directory.c_str()) != 0) ::_exit(126);
  std::vector<char*> arguments{const_cast<char*>(launch.program)};
  for (const auto& argument : launch.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(launch.program, arguments.data());
  ::_exit(127);
}

}  // namespace

Outcome launch(const Launch& launch) {
  const TemporaryDirectory files;
  const std::string out = files.path() / "out", err = files.path() / "err";
  const pid_t child = ::fork();
  if (child == 0) become_program(launch, out, err);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (launch.watch) {
      if (const int signal = launch.watch()) ::kill(child, signal);
    }
    std::this_thread::sleep_for(kPoll);
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

}  // namespace tandem::testing
