// Ranks: the processes that train one run together, and what of each batch is whose.
//
// A batch is divided into shards, which ranks own in blocks; without mpirun one process owns them all. Every
// rank goes through the same loop and takes the same decisions, from figures that are the same everywhere;
// the first one alone writes, and speaks for all. A call here is one of all ranks, in the same order, unless
// it says otherwise.
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
  // `communicator`: absent, or of one process: this one is alone. It is kept by reference. `batch_size`: of
  // the samples of a step's batch. Throws UserError, naming the key, when ranks or samples are fewer than
  // shards want, and for keys that contradict each other. Does not communicate.
  ProcessGroup(parallel::Communicator* communicator, const config::ParallelConfig& options, Index batch_size);

  // None of these communicates.
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  bool several() const { return size() > 1; }
  bool first() const { return rank() == 0; }
  int shards() const { return shards_; }
  bool divided() const { return shards_ > 1; }
  // The shards of this rank, and the parts of batches that they are.
  Index own() const { return static_cast<Index>(own_.count()); }
  datasets::ShardSpec division() const;
  double deadline_s() const { return options_.deadline_s; }
  parallel::Communicator& communicator() { return communicator_; }
  // "", "4 ranks", "4 ranks, 8 shards added reproducibly": for people.
  std::string text() const;
  // What a step adds its shards with where it computes on `device`; absent where the batch is not divided.
  // Throws UserError, naming the key, for a division that a GPU does not compute.
  std::unique_ptr<optim::ShardExchange> exchange(double usual_samples, Device device);
  // Joins the devices of ranks that exchange() was asked for; before the first step. Throws AgreedError.
  void join_devices();
  // Before a failure that is not that of all ranks is passed on: nothing waits for their devices any more.
  void abandon_devices() noexcept {
    if (devices_) devices_->abandon();
  }
  // Of these; absent where ranks compute on CPUs.
  parallel::DeviceCommunicator* devices() { return devices_.get(); }
  // With whom batch norm takes its statistics: all ranks, or absent where each shard has its own.
  std::unique_ptr<parallel::RankPeers> batch_norm_peers();
  bool syncs_batch_norm() const { return options_.sync_batch_norm && divided(); }
  // Ranks that divide the update among them; 1: each makes all of it.
  int update_parts() const { return options_.shard_optimizer ? size() : 1; }
  // What sending gradients in 16 bits made of the sums of the first step, where they are.
  const std::optional<parallel::WireError>& wire_error() const { return wire_error_; }

  // Whether any rank says so.
  bool any(bool here);
  // The same of several ranks that train, in the messages of their steps: said with those from now on, and
  // whether any rank said so in the last one. Does not communicate.
  void say_in_step(bool here) { flag_.own = here; }
  bool said_in_step() const { return flag_.any; }
  // What the first rank has, on every rank. `value` is asked for on the first only.
  template <class Work>
  std::string text_of_first(Work&& value) {
    if (!several()) return value();
    return broadcast(first() ? value() : std::string());
  }
  // See parallel::together.
  template <class Work>
  auto together(Work&& work) {
    return parallel::together(communicator_, options_.deadline_s, std::forward<Work>(work));
  }
  // Texts of all ranks, on every rank.
  std::vector<std::string> texts(std::string_view own);
  // Of the first rank: its bytes, or its values in the place of those of the others.
  std::vector<std::byte> from_first(std::span<const std::byte> bytes);
  void take_from_first(const Tensor& tensor);
  // The weights and the running statistics of the first rank.
  void take_from_first(nn::Module& module);

  // Of these tensors, named alike, the first that has not the same bits on all ranks, and whose it is;
  // nothing where all have.
  std::optional<std::string> difference(const std::vector<optim::NamedTensor>& tensors);
  // Throws parallel::AgreedError where they differ though they should not. `when`: "after step 100:".
  void require_same(const std::vector<optim::NamedTensor>& tensors, std::string_view when);

  // What the own shards carry, as one of the whole batch: on the first rank; nothing on the others.
  tasks::CarriedState whole(const std::vector<tasks::CarriedState>& own);
  // The inverse, for each own shard, of a whole one that every rank has. Does not communicate.
  std::vector<tasks::CarriedState> parts(const tasks::CarriedState& whole) const;

 private:
  std::string broadcast(const std::string& text);

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
