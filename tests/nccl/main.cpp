// Program that mpirun starts for tests of ranks on GPUs; a rank uses the GPU of its number on its host.
// Without mpirun there is one rank.
//
//   nccl_ranks collectives|recorded|steps|recorded_steps|reduce|different|measure [--deadline S]
//   nccl_ranks why                     prints why ranks on GPUs cannot be joined, exit code 77
//
// Exit code 1 after a message of one rank.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "core/backend.h"
#include "core/device_library.h"
#include "parallel/launch.h"
#include "parallel/mpi/open.h"
#include "parallel/nccl/open.h"
#include "parallel/one_process.h"
#include "tests/nccl/checking.h"

namespace {

using namespace tandem;
using namespace tandem::test;

std::string why_none() {
  if (cuda_devices().count == 0) return cuda_devices().why_none;
  return parallel::why_no_nccl();
}

void run(const std::string& mode, const Joined& joined) {
  if (mode == "collectives") return check_collectives(joined);
  if (mode == "recorded") return check_recorded_collectives(joined);
  if (mode == "steps") return check_steps(joined);
  if (mode == "recorded_steps") return check_recorded_steps(joined);
  if (mode == "reduce") return reduce_for_ever(joined);
  if (mode == "different") return do_different_things(joined);
  if (mode == "measure") return measure(joined);
  throw std::runtime_error("no such mode: " + mode);
}

int main_of(const std::string& mode, double deadline_s) {
  if (mode == "why") {
    const std::string why = why_none();
    if (why.empty()) return 0;
    std::puts(("skipped: " + why).c_str());
    return 77;
  }
  const std::optional<parallel::Launch> started = parallel::launch_from_environment();
  const parallel::Launch launch = started.value_or(parallel::Launch());
  std::printf("process %d %d\n", launch.rank, static_cast<int>(getpid()));
  std::fflush(stdout);
  std::unique_ptr<parallel::Communicator> ranks = std::make_unique<parallel::OneProcess>();
  if (started) ranks = parallel::open_mpi(launch, {.deadline_s = deadline_s});  // of one rank, too
  try {
    const Device device{DeviceType::cuda, static_cast<std::int8_t>(launch.local_rank % cuda_devices().count)};
    backend_for(device).set_rules({.allow_tf32 = false, .deterministic = true, .autotune = false});
    const auto devices = parallel::open_nccl(*ranks, device, deadline_s);
    devices->connect();
    if (ranks->rank() == 0) std::puts(devices->description().c_str());
    run(mode, {*ranks, *devices, deadline_s});
  } catch (const std::exception& error) {
    ranks->abort(error.what());
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    double deadline_s = 60;
    for (int i = 2; i + 1 < count; ++i)
      if (std::string(words[i]) == "--deadline") deadline_s = std::atof(words[i + 1]);
    return main_of(count > 1 ? words[1] : "", deadline_s);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
