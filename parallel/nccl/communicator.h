// NcclCommunicator: GPUs joined by NCCL.
//
// All calls of NCCL are nonblocking: operations in progress are polled until they finish or the deadline
// passes. The GPU runs the collectives; while the host waits for it, it polls NCCL's state and the clock, and
// shows the other ranks that it waits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/device_link.h"
#include "parallel/device_communicator.h"
#include "parallel/nccl/library.h"

namespace tandem::parallel {

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& ranks, Device device, double deadline_s);
  // Does not wait after a failure. Recordings of its calls must be gone.
  ~NcclCommunicator() override;

  std::string description() const override;
  void connect() override;
  void join() override;
  void begin_step() override;
  void abandon() noexcept override;

 private:
  void do_all_reduce(std::span<const ReducedElements> values) override;
  void do_reduce_scatter(ConstElements all, Elements own, Reduction reduction) override;
  void do_all_gather(ConstElements own, Elements all) override;
  void do_broadcast(Elements data, int root) override;

  const NcclLibrary& nccl() const { return *opened_nccl().library; }
  ncclUniqueId agreed_id();
  void require_own_device(const std::string& identity);

  // Enqueues collectives on the communication stream as one group.
  void put(std::string_view what, const std::function<ncclResult_t(cudaStream_t)>& call);
  // Polls until NCCL has finished.
  void settle(std::string_view what, ncclResult_t result);
  // Called while the host waits.
  void look(double waited_s);
  void require_whole() const;
  [[noreturn]] void fail(std::string_view what, ncclResult_t result);
  [[noreturn]] void give_up(double waited_s);
  void let_go() noexcept;

  Communicator& ranks_;
  DeviceLink& link_;
  const double deadline_s_;
  ncclComm_t communicator_ = nullptr;  // absent before `connect` and after an abort
  std::uint64_t step_ = 0;             // number of the awaited call among those of `ranks_`
  double looked_s_ = 0.0;              // within the current wait, time of the last look at the ranks
  std::string broken_;                 // reason why it is unusable
  bool by_rank_ = false;               // caused by a missing rank
};

}  // namespace tandem::parallel
