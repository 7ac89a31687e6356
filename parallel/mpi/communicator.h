// MpiCommunicator: ranks joined by Open MPI.
//
// Nothing waits inside MPI except MPI_Init and MPI_Finalize, which an ExitWatch bounds: every call starts
// nonblocking operations and polls them until they finish or the deadline passes. MPI has no thread of its
// own and makes progress only while polled. The same holds for HostSums, which do without MPI. If a call of
// MPI blocks nevertheless, CallWatch ends the process. After a failure the process ends within 4.5 s.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/host/host_sums.h"
#include "parallel/launch.h"
#include "parallel/mpi/handshake.h"
#include "parallel/mpi/library.h"
#include "parallel/rank_status.h"
#include "parallel/watchdog.h"

namespace tandem::parallel {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiLibrary& mpi, const Launch& launch, const CommunicatorOptions& options);
  ~MpiCommunicator() override;

  std::string description() const override;
  std::uint64_t begin_elsewhere() override;
  void end_elsewhere(std::uint64_t number) override;
  void look() override;
  RankError absence_elsewhere(std::uint64_t number, double waited_s) override;
  [[noreturn]] void abort(std::string_view message, int exit_code = 1) override;

 private:
  // A started call: its pieces in MPI.
  struct Operation {
    Call call;
    std::uint64_t number;
    std::vector<MPI_Request> requests{};
    std::uint64_t ticket = 0;  // of HostSums; 0: none
  };
  class AllReduce;

  Pending do_start_all_reduce(Elements data, Reduction reduction) override;
  void do_reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                         Reduction reduction, double deadline_s) override;
  void do_all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all,
                     double deadline_s) override;
  void do_all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts, Elements incoming,
                     std::span<const std::size_t> incoming_counts, double deadline_s) override;
  void do_broadcast(Elements data, int root, double deadline_s) override;
  std::vector<std::vector<std::byte>> do_gather_bytes(std::span<const std::byte> own,
                                                      double deadline_s) override;
  void do_barrier(double deadline_s) override;

  void start(const Launch& launch);
  void find_hosts(const Launch& launch);
  void open_host_sums();

  // Throws when the communicator is broken.
  Operation begin(Call call);
  // Adds a piece: `post` receives the place for MPI's request.
  void add(Operation& operation, std::string_view what, const std::function<int(MPI_Request*)>& post);
  void broadcast_in_pieces(Operation& operation, void* data, std::size_t bytes, int root);
  void send_in_pieces(Operation& operation, const void* data, std::size_t bytes, int rank);
  void receive_in_pieces(Operation& operation, void* data, std::size_t bytes, int rank);
  bool test(Operation& operation);
  void wait(Operation& operation, double deadline_s);
  void give_up(Operation& operation, double waited_s);
  RankError absence_in(Call call, std::uint64_t number, double waited_s) const;
  void tell(std::string_view message);
  void end_all(std::string_view message);

  const MpiLibrary& mpi_;
  CommunicatorOptions options_;
  int exceptions_;  // in flight at construction
  RankStatusBoard board_;
  Handshake handshake_;
  std::vector<std::string> hosts_;  // of each rank
  std::size_t host_count_ = 1;
  std::unique_ptr<HostSums> host_sums_;  // if all ranks are on one host
  std::uint64_t last_ = 0;               // number of the last call
  std::set<std::uint64_t> open_;         // numbers of unfinished calls
  std::string broken_;                   // reason why it is unusable
  // Last members, so that their threads end first.
  CallWatch call_watch_;
  std::unique_ptr<ExitWatch> end_;  // after a rank was given up
};

}  // namespace tandem::parallel
