#include "parallel/launch.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "parallel/leftovers.h"
#include "parallel/mpi/open.h"
#include "parallel/one_process.h"

namespace tandem::parallel {

namespace {

std::optional<int> number_from_environment(const char* name, int lowest, int highest) {
  const char* const value = std::getenv(name);
  if (!value) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= lowest && number <= highest,
          name, "is \"{}\", expected a number from {} to {}: only mpirun should set it", text, lowest,
          highest);
  return number;
}

}  // namespace

std::optional<Launch> launch_from_environment() {
  constexpr int kMostRanks = 1 << 20;
  const std::optional<int> size = number_from_environment("OMPI_COMM_WORLD_SIZE", 1, kMostRanks);
  if (!size) return std::nullopt;
  Launch launch;
  launch.size = *size;
  const std::optional<int> rank = number_from_environment("OMPI_COMM_WORLD_RANK", 0, *size - 1);
  require(rank.has_value(), "OMPI_COMM_WORLD_RANK",
          "is not set, but OMPI_COMM_WORLD_SIZE is: mpirun sets both");
  launch.rank = *rank;
  launch.local_size = number_from_environment("OMPI_COMM_WORLD_LOCAL_SIZE", 1, *size).value_or(1);
  launch.local_rank =
      number_from_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0, launch.local_size - 1).value_or(0);
  if (const char* folder = std::getenv("PMIX_SERVER_TMPDIR")) launch.session_folder = folder;
  return launch;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

std::unique_ptr<Communicator> open_communicator(const CommunicatorOptions& options) {
  require(options.deadline_s > 0, "deadline", "must be a positive number of seconds, got {}",
          options.deadline_s);
  const std::optional<Launch> launch = launch_from_environment();
  if (!launch || launch->size == 1) return std::make_unique<OneProcess>();
  if (launch->local_rank == 0) remove_leftover_segments(launch->session_folder);
  CommunicatorOptions chosen = options;
  if (const char* asked = std::getenv("TANDEM_ALL_REDUCE")) {
    const std::string_view by = asked;
    require(by == "mpi" || by == "host" || by.empty(), "TANDEM_ALL_REDUCE",
            "is \"{}\", expected mpi or host: the implementation of all-reduce between ranks of one host",
            by);
    if (by == "mpi") chosen.host_sums = false;
  }
  return open_mpi(*launch, chosen);
}

}  // namespace tandem::parallel
