// Program that mpirun starts for tests of communication between ranks.
//
//   ranks collectives|overlap|shards|exchange|parts|peers|large|speed
//         [--own-hosts] [--mpi-sums] [--piece BYTES]
//   ranks late|slow|stop|kill|stop_inside|kill_inside|throw|leave|abort|drop --rank R
//         [--deadline S] [--own-hosts]  the fault happens to rank R during reductions
//   ranks run [--deadline S]            endless reductions
//   ranks start|end --rank R            rank R stops before MPI has started, or before it ends
//   ranks why                           prints why there is no MPI, exit code 77
//
// Each rank prints "process R PID" first. Exit code 1 after a message of one rank.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "parallel/mpi/open.h"
#include "tests/ranks/checking.h"

namespace {

using namespace tandem;
using namespace tandem::test;

Arguments read(int count, char** words) {
  Arguments arguments;
  if (count > 1) arguments.mode = words[1];
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    const auto number = [&] {
      if (i + 1 >= count) throw std::runtime_error(word + " wants a number");
      return std::atof(words[++i]);
    };
    if (word == "--own-hosts") arguments.options.shared_memory = false;
    if (word == "--mpi-sums") arguments.options.host_sums = false;
    if (word == "--piece") arguments.options.piece_bytes = static_cast<std::size_t>(number());
    if (word == "--rank") arguments.rank = static_cast<int>(number());
    if (word == "--deadline") arguments.options.deadline_s = arguments.deadline_s = number();
  }
  return arguments;
}

void run(parallel::Communicator& ranks, const Arguments& arguments) {
  const std::string& mode = arguments.mode;
  if (mode == "collectives") return check_collectives(ranks);
  if (mode == "overlap") return check_overlap(ranks);
  if (mode == "shards") return check_shards(ranks);
  if (mode == "exchange") return check_exchange(ranks);
  if (mode == "parts") return check_parts(ranks);
  if (mode == "peers") return check_peers(ranks);
  if (mode == "large") return check_large(ranks);
  if (mode == "speed") return measure_speed(ranks);
  if (mode == "start") return;
  if (mode == "end") {
    if (ranks.rank() == arguments.rank) std::raise(SIGSTOP);
    return;
  }
  meet_a_fault(ranks, arguments);
}

int main_of(const Arguments& arguments) {
  if (arguments.mode == "why") {
    const std::string why = parallel::why_no_mpi();
    if (why.empty()) return 0;
    std::puts(("skipped: " + why).c_str());
    return 77;
  }
  const std::optional<parallel::Launch> launch = parallel::launch_from_environment();
  if (!launch) throw std::runtime_error("to be started by mpirun");
  std::printf("process %d %d\n", launch->rank, static_cast<int>(getpid()));
  std::fflush(stdout);
  if (arguments.mode == "start" && launch->rank == arguments.rank) std::raise(SIGSTOP);
  // Of one rank, too.
  const std::unique_ptr<parallel::Communicator> ranks = parallel::open_mpi(*launch, arguments.options);
  if (ranks->rank() == 0) std::puts(ranks->description().c_str());
  try {
    run(*ranks, arguments);
  } catch (const std::exception& error) {
    ranks->abort(error.what());
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return main_of(read(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
