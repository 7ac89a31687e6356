// Reduction of a step's shards (optim/step/shards.h) on devices: one shard per rank, in the fast mode.
#pragma once

#include <memory>
#include <optional>

#include "parallel/device_communicator.h"
#include "parallel/shard_exchange.h"

namespace tandem::parallel {

// Gradients are reduced between devices in buckets, in the type options.wire; weights between hosts. Keeps
// references to `ranks` and `devices`, which must be connected before the first step. Throws UserError,
// naming the key, unless every rank has one shard and the mode is fast: a device has no memory for other
// shards, and adds in NCCL's order. `error`: see make_shard_exchange; the host then waits for the device in
// the first step.
std::unique_ptr<optim::ShardExchange> make_device_exchange(Communicator& ranks, DeviceCommunicator& devices,
                                                           const ShardExchangeOptions& options,
                                                           std::optional<WireError>* error = nullptr);

// Throws that UserError.
void require_device_shards(const ShardExchangeOptions& options, int ranks);

}  // namespace tandem::parallel
