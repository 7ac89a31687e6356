// How ranks on devices add up the shards of a step (optim/step/shards.h): one shard a rank, in the fast mode.
#pragma once

#include <memory>
#include <optional>

#include "parallel/device_communicator.h"
#include "parallel/shard_exchange.h"

namespace tandem::parallel {

// Gradients go from device to device, in ranges, on the wire in options.wire; weights from host to host.
// `ranks` and `devices`, connected before the first step, are kept by reference. Throws UserError, naming the
// key, unless every rank has one shard and the mode is the fast one: a device has no memory to put other
// shards aside in, and adds in NCCL's order. `error`: as make_shard_exchange has it; the host waits for the
// device in the first step then.
std::unique_ptr<optim::ShardExchange> make_device_exchange(Communicator& ranks, DeviceCommunicator& devices,
                                                           const ShardExchangeOptions& options,
                                                           std::optional<WireError>* error = nullptr);

// Throws that UserError.
void require_device_shards(const ShardExchangeOptions& options, int ranks);

}  // namespace tandem::parallel
