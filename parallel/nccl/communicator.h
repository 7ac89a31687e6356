// GPUs joined by NCCL.
//
// NCCL is asked for nothing that blocks: what it has begun it reports as being in progress, and it is looked
// after until that has ended or the deadline has passed. Collectives themselves are the GPU's; while the host
// waits for it, it looks at NCCL's state and at the clock, and shows the other ranks that it waits.
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
  // Waits for nobody where something has failed. Recordings of its calls are gone by then.
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

  // Puts collectives on the stream of communication, as one.
  void put(std::string_view what, const std::function<ncclResult_t(cudaStream_t)>& call);
  // Until NCCL has done what it was asked for.
  void settle(std::string_view what, ncclResult_t result);
  // While the host waits.
  void look(double waited_s);
  void require_whole() const;
  [[noreturn]] void fail(std::string_view what, ncclResult_t result);
  [[noreturn]] void give_up(double waited_s);
  void let_go() noexcept;

  Communicator& ranks_;
  DeviceLink& link_;
  const double deadline_s_;
  ncclComm_t communicator_ = nullptr;  // absent before `connect` and after an abort
  std::uint64_t step_ = 0;             // the number of what is waited for, among the calls of `ranks_`
  double looked_s_ = 0.0;              // of the wait under way, when the ranks were looked at last
  std::string broken_;                 // why it is of no more use
  bool by_rank_ = false;               // because a rank did not come
};

}  // namespace tandem::parallel
