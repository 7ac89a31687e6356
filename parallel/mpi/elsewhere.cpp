// Calls of all ranks outside of MPI: status of each rank meanwhile.
#include "parallel/mpi/communicator.h"
#include "parallel/timeout_report.h"

namespace tandem::parallel {

namespace {
constexpr double kRollCallElsewhere = 2;  // seconds for other hosts to answer
}

std::uint64_t MpiCommunicator::begin_elsewhere() { return begin(Call::all_reduce).number; }

void MpiCommunicator::end_elsewhere(std::uint64_t number) {
  open_.erase(number);
  board_.ended_below(open_.empty() ? last_ + 1 : *open_.begin());
}

void MpiCommunicator::look() {
  board_.looked();
  handshake_.serve();
}

RankError MpiCommunicator::absence_elsewhere(std::uint64_t number, double waited_s) {
  const Waiting waiting{rank(), size(), Call::all_reduce, number, waited_s};
  return absence(handshake_.call(kRollCallElsewhere), waiting, hosts_);
}

}  // namespace tandem::parallel
