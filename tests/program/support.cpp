#include "tests/program/support.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/support/paths.h"

namespace tandem::testing {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

[[noreturn]] void become_program(const Launch& launch, const std::string& out, const std::string& err) {
  const auto redirect = [](const std::string& path, int to) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, to);
    ::close(file);
  };
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  // Two threads that wait for each other are slow where the cores are busy with other tests.
  ::setenv("OMP_NUM_THREADS", "1", 1);
  for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(launch.directory.c_str()) != 0) ::_exit(126);
  std::vector<char*> arguments{const_cast<char*>(tandem::test::program_path())};
  for (const auto& argument : launch.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(tandem::test::program_path(), arguments.data());
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
