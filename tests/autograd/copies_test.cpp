// Two copies of the library in one process, of which a scope affects only one.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"

using namespace tandem;

namespace {

// In a process of its own: a library with static data may stay until the end of the process.
template <class Work>
int exit_code_of(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Work>
bool refused(Work work) {
  try {
    work();
    return false;
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.find("copies of Tandem") != std::string::npos &&
           text.find("copies_plugin") != std::string::npos &&
           text.find("tests_autograd") != std::string::npos;
  }
}

}  // namespace

TEST_CASE("a second copy of the library is an error, not a scope without effect", "[autograd]") {
  CHECK_NOTHROW(GradMode::enabled());
  CHECK(exit_code_of([] {
          void* const plugin = ::dlopen(TANDEM_COPIES_PLUGIN, RTLD_NOW | RTLD_LOCAL);
          if (!plugin) return 1;
          const auto records = reinterpret_cast<bool (*)()>(::dlsym(plugin, "plugin_records"));
          if (!records) return 2;
          const NoGrad no_grad;
          if (!refused([&] { records(); })) return 3;
          if (!refused([] { add(Tensor::full({2}, 1.0), Tensor::full({2}, 1.0)); })) return 4;
          return 0;
        }) == 0);
}
