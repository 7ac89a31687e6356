// ProcessGroup: the processes (ranks) that train one run together, and the shards of a batch that each owns.
//
// A batch is divided into shards; each rank owns a block of them, and a single process owns all. All ranks
// run the same loop and take the same decisions from the same values. Only the first rank writes files and
// prints. Unless a comment says otherwise, functions are collective: all ranks call them in the same order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "data/shard_spec.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "parallel/agreement.h"
#include "parallel/communicator.h"
#include "parallel/device_communicator.h"
#include "parallel/rank_peers.h"
#include "parallel/shard_exchange.h"
#include "tasks/carried_state.h"

namespace tandem::train {

class ProcessGroup {
 public:
  // `communicator` is kept by reference; null or of one process for a single process. `batch_size`: samples
  // in the batch of a step. Throws UserError that names the key if there are too few shards for the ranks or
  // too few samples for the shards, and for contradicting keys. Not collective.
  ProcessGroup(parallel::Communicator* communicator, const config::ParallelConfig& options, Index batch_size);

  // Not collective:
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  bool several() const { return size() > 1; }
  bool first() const { return rank() == 0; }
  int shards() const { return shards_; }
  bool divided() const { return shards_ > 1; }
  // Number of this rank's shards, and their place in a batch.
  Index own() const { return static_cast<Index>(own_.count()); }
  datasets::ShardSpec division() const;
  double deadline_s() const { return options_.deadline_s; }
  parallel::Communicator& communicator() { return communicator_; }
  // For people: "", "4 ranks", "4 ranks, 8 shards added reproducibly".
  std::string text() const;
  // The reduction over shards for a step on `device`; null if batches are not divided. Throws UserError that
  // names the key if a GPU does not support the division.
  std::unique_ptr<optim::ShardExchange> exchange(double usual_samples, Device device);
  // Connects the devices of the ranks after exchange(); call it before the first step. Throws AgreedError.
  void join_devices();
  // Call it before a failure of this rank alone propagates: no rank waits for the devices any more.
  void abandon_devices() noexcept {
    if (devices_) devices_->abandon();
  }
  // Null if ranks compute on CPUs.
  parallel::DeviceCommunicator* devices() { return devices_.get(); }
  // Ranks of synchronised batch norm; null if each shard has its own statistics.
  std::unique_ptr<parallel::RankPeers> batch_norm_peers();
  bool syncs_batch_norm() const { return options_.sync_batch_norm && divided(); }
  // Number of ranks that divide the update; 1: each rank computes the whole update.
  int update_parts() const { return options_.shard_optimizer ? size() : 1; }
  // Rounding error of the gradient sums in the first step; absent unless gradients are sent in 16 bits.
  const std::optional<parallel::WireError>& wire_error() const { return wire_error_; }

  // Logical or over ranks.
  bool any(bool here);
  // Logical or over ranks that travels with the messages of training steps: sets this rank's value from now
  // on, and returns the result of the last step. Not collective.
  void say_in_step(bool here) { flag_.own = here; }
  bool said_in_step() const { return flag_.any; }
  // Value of the first rank, on every rank. `value` is called on the first rank only.
  template <class Work>
  std::string text_of_first(Work&& value) {
    if (!several()) return value();
    return communicator_.broadcast_text(first() ? value() : std::string(), 0, deadline_s());
  }
  // See parallel::together.
  template <class Work>
  auto together(Work&& work) {
    return parallel::together(communicator_, options_.deadline_s, std::forward<Work>(work));
  }
  // Texts of all ranks, on every rank (all-gather).
  std::vector<std::string> texts(std::string_view own);
  // Broadcasts from the first rank: bytes, or the values of a tensor.
  std::vector<std::byte> from_first(std::span<const std::byte> bytes);
  void take_from_first(const Tensor& tensor);
  // Broadcasts weights and running statistics.
  void take_from_first(nn::Module& module);

  // The first tensor whose bits differ between ranks, with these ranks; absent if all are equal. Every rank
  // passes the same names.
  std::optional<std::string> difference(const std::vector<optim::NamedTensor>& tensors);
  // Throws parallel::AgreedError if they differ. `when`: "after step 100:".
  void require_same(const std::vector<optim::NamedTensor>& tensors, std::string_view when);

  // Joins the carried states of all shards into that of the whole batch on the first rank; empty on other
  // ranks.
  tasks::CarriedState whole(const std::vector<tasks::CarriedState>& own);
  // The inverse: the states of this rank's shards, from the whole state. Not collective.
  std::vector<tasks::CarriedState> parts(const tasks::CarriedState& whole) const;

 private:
  std::unique_ptr<parallel::Communicator> alone_;
  parallel::Communicator& communicator_;
  const config::ParallelConfig options_;
  int shards_;
  Range own_;
  std::unique_ptr<parallel::DeviceCommunicator> devices_;
  std::optional<parallel::WireError> wire_error_;
  parallel::SharedFlag flag_;
};

}  // namespace tandem::train
